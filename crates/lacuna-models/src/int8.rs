//! Weights of eight bits: a row has a scale (f32), and a weight is `value · scale`, with a value of −127 to 127.

use rayon::prelude::*;

use crate::Result;
use crate::checkpoint::Tensor;
use crate::cpu::kernel::{Element, magnitude};

/// Rounds a row, with the scale it was stored with or one of its own, and returns the scale.
pub(crate) fn round(row: &[f32], stored: Option<f32>, output: &mut [i8]) -> f32 {
    let scale = stored.unwrap_or_else(|| i8::scale(magnitude(row)));
    i8::narrow(row, scale, output);
    scale
}

/// Rows of one length, one after the other.
pub(crate) struct Rows {
    pub(crate) values: Vec<i8>,
    pub(crate) scales: Vec<f32>,
}

impl Rows {
    /// Rounds rows of `columns` values.
    #[cfg(feature = "cuda")]
    pub(crate) fn of(values: &[f32], columns: usize) -> Self {
        let (mut rounded, mut scales) = (vec![0; values.len()], Vec::new());
        for (row, rounded) in values.chunks_exact(columns).zip(rounded.chunks_exact_mut(columns)) {
            scales.push(round(row, None, rounded));
        }
        Self { values: rounded, scales }
    }

    /// Rounds the rows of a tensor, or takes them as they are stored.
    pub(crate) fn load(tensor: &Tensor<'_>) -> Result<Self> {
        let columns = tensor.columns();
        let (mut values, mut scales) = (vec![0; tensor.length()], vec![0.0; tensor.rows()]);
        let row = |scratch: &mut Vec<f32>, (row, (values, scale)): (usize, (&mut [i8], &mut f32))| {
            scratch.resize(columns, 0.0);
            tensor.read(row * columns, scratch)?;
            *scale = round(scratch, tensor.row_scale(row), values);
            Ok(())
        };
        let rows = values.par_chunks_exact_mut(columns).zip(&mut scales).enumerate();
        let rounded: Vec<Result<()>> = rows.map_init(Vec::new, row).collect();
        rounded.into_iter().collect::<Result<()>>()?;
        tensor.release();
        Ok(Self { values, scales })
    }

    /// Length of a row.
    pub(crate) fn columns(&self) -> usize {
        self.values.len() / self.scales.len()
    }

    /// Bytes held.
    pub(crate) fn bytes(&self) -> usize {
        size_of_val(&self.values[..]) + size_of_val(&self.scales[..])
    }
}
