//! Operands on the GPU.

use std::rc::Rc;
use std::sync::Arc;

use half::bf16;

use crate::Result;
use crate::cuda::buffer::{Buffer, Plain};
use crate::cuda::compile::Variant;
use crate::cuda::gpu::Gpu;
use crate::cuda::kernel::Kernels;
use crate::cuda::matrix::ElementSlice;
use crate::cuda::staging::{Indices, SentIndices, Staging};

/// A GPU with the kernels of a variant.
pub(super) struct Lab {
    pub(super) gpu: Arc<Gpu>,
    pub(super) kernels: Kernels,
    pub(super) variant: Variant,
}

/// Elements on the GPU.
pub(super) struct Values {
    bytes: Buffer<u8>,
    bf16: bool,
}

/// Indices on the GPU.
pub(super) struct IndexList {
    staging: Staging,
    sent: SentIndices,
}

impl Lab {
    pub(super) fn new(gpu: &Arc<Gpu>, variant: Variant) -> Result<Rc<Self>> {
        Ok(Rc::new(Self { gpu: gpu.clone(), kernels: Kernels::load(gpu, variant)?, variant }))
    }

    pub(super) fn buffer<T: Plain>(&self, values: &[T]) -> Result<Buffer<T>> {
        Buffer::of(&self.gpu, values)
    }

    pub(super) fn zeros<T: Plain>(&self, length: usize) -> Result<Buffer<T>> {
        Buffer::new(&self.gpu, length)
    }

    pub(super) fn read<T: Plain + Default>(&self, buffer: &Buffer<T>) -> Result<Vec<T>> {
        let mut values = vec![T::default(); buffer.len()];
        buffer.read(0, &mut values)?;
        Ok(values)
    }

    /// Bytes of an element.
    pub(super) fn size(&self) -> usize {
        if self.variant.bf16 { 2 } else { 4 }
    }

    /// A tolerance for outputs in elements.
    pub(super) fn tolerance(&self, f32: f64) -> f64 {
        if self.variant.bf16 { 8e-3 } else { f32 }
    }

    /// Elements with these values, rounded, and the values as they are then.
    pub(super) fn elements(&self, values: &[f32]) -> Result<(Values, Vec<f64>)> {
        let bf16 = self.variant.bf16;
        let rounded: Vec<f32> = values.iter().map(|&x| if bf16 { bf16::from_f32(x).to_f32() } else { x }).collect();
        let bytes: Vec<u8> = match bf16 {
            true => values.iter().flat_map(|&x| bf16::from_f32(x).to_bits().to_ne_bytes()).collect(),
            false => values.iter().flat_map(|x| x.to_ne_bytes()).collect(),
        };
        Ok((Values { bytes: self.buffer(&bytes)?, bf16 }, rounded.into_iter().map(f64::from).collect()))
    }

    /// Room for elements.
    pub(super) fn element_room(&self, length: usize) -> Result<Values> {
        Ok(Values { bytes: self.zeros(length * self.size())?, bf16: self.variant.bf16 })
    }

    pub(super) fn read_elements(&self, values: &Values) -> Result<Vec<f64>> {
        let bytes = self.read(&values.bytes)?;
        Ok(match values.bf16 {
            true => bytes.as_chunks::<2>().0.iter().map(|&x| bf16::from_ne_bytes(x).to_f64()).collect(),
            false => bytes.as_chunks::<4>().0.iter().map(|&x| f64::from(f32::from_ne_bytes(x))).collect(),
        })
    }

    pub(super) fn indices(&self, indices: &[u32], below: usize) -> Result<IndexList> {
        let mut staging = Staging::new(&self.gpu)?;
        let mut batch = staging.begin()?;
        let sent = batch.push_indices(indices, below)?;
        batch.send()?;
        Ok(IndexList { staging, sent })
    }
}

impl Values {
    pub(super) fn all(&self) -> ElementSlice<'_> {
        ElementSlice::new(self.bytes.all(), self.bf16)
    }
}

impl IndexList {
    pub(super) fn all(&self) -> Indices<'_> {
        self.staging.indices(self.sent)
    }
}

pub(super) fn wide(values: &[f32]) -> Vec<f64> {
    values.iter().map(|&value| f64::from(value)).collect()
}
