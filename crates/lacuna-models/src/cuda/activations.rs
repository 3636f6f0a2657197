//! The buffers that a forward pass computes in.

use std::sync::Arc;

use super::buffer::Buffer;
use super::experts::Routed;
use super::forward::padded;
use super::fp8::Fp8Rows;
use super::gpu::Gpu;
use super::matrix::{Elements, Operand, element_size};
use crate::weight::Sizes;
use crate::{Architecture, Precision, Result};

/// Activations of all rows of a pass. They grow when a pass needs more, and never shrink.
pub(crate) struct Activations {
    sizes: Sizes,
    /// The residual stream before the last block.
    pub(crate) hidden: Buffer<f32>,
    /// Queries, keys and values of a block; after a forward pass, keys and values of the last.
    pub(crate) query_key_value: Elements,
    /// Queries of the last block.
    pub(crate) query: Elements,
    /// Rows on their way into a product.
    pub(crate) input: Elements,
    /// The same for products of the blocks in fp8.
    pub(crate) fp8_input: Option<Fp8Rows>,
    /// Gates and values of the MLP.
    pub(crate) gate_up: Elements,
    /// Buffers of the experts, if there are some.
    pub(crate) routed: Option<Routed>,
    /// Attention to unmasked positions, `[layer asked for][row][head]`.
    pub(crate) mass: Buffer<f32>,
    /// Dependency scores of all views.
    pub(crate) scores: Buffer<f32>,
    /// Attention matrices of all views.
    pub(crate) matrices: Buffer<f32>,
}

impl Activations {
    pub(crate) fn new(gpu: &Arc<Gpu>, architecture: &Architecture, precision: Precision) -> Result<Self> {
        let elements = || Elements::new(gpu, precision, 0);
        Ok(Self {
            sizes: architecture.sizes(),
            hidden: Buffer::new(gpu, 0)?,
            query_key_value: elements()?,
            query: elements()?,
            input: elements()?,
            fp8_input: (precision == Precision::Fp8).then(|| Fp8Rows::new(gpu, 0, 0)).transpose()?,
            gate_up: elements()?,
            routed: Routed::new(gpu, architecture, precision)?,
            mass: Buffer::new(gpu, 0)?,
            scores: Buffer::new(gpu, 0)?,
            matrices: Buffer::new(gpu, 0)?,
        })
    }

    /// Makes room for `rows` rows, of which the mass of `mass` heads and layers is kept each, and for `scores` scores.
    pub(crate) fn reserve(&mut self, rows: usize, mass: usize, scores: usize) -> Result<()> {
        let Sizes { hidden, query, key, mlp, input, .. } = self.sizes;
        self.hidden.reserve(rows * hidden)?;
        self.query_key_value.reserve(rows * (query + 2 * key))?;
        self.query.reserve(rows * query)?;
        self.input.reserve(rows * input)?;
        if let Some(fp8_input) = &mut self.fp8_input {
            fp8_input.reserve(rows, input)?;
        }
        self.gate_up.reserve(rows * 2 * mlp)?;
        if let Some(routed) = &mut self.routed {
            routed.reserve(rows)?;
        }
        self.mass.reserve(rows * mass)?;
        self.scores.reserve(scores)
    }

    /// Rows on their way into a product of a block.
    pub(crate) fn block_input(&self) -> Operand<'_> {
        match &self.fp8_input {
            Some(rows) => Operand::Fp8(rows.all()),
            None => Operand::Elements(self.input.all()),
        }
    }

    /// Addresses of all buffers, which recorded passes depend on.
    pub(crate) fn addresses(&self) -> Vec<u64> {
        let (fp8_values, fp8_scales) = match &self.fp8_input {
            Some(rows) => (rows.all().values.address(), rows.all().scales.address()),
            None => (0, 0),
        };
        let mut all = vec![
            self.hidden.all().address(),
            self.query_key_value.all().address(),
            self.query.all().address(),
            self.input.all().address(),
            fp8_values,
            fp8_scales,
            self.gate_up.all().address(),
            self.mass.all().address(),
            self.matrices.all().address(),
        ];
        all.extend(self.routed.iter().flat_map(Routed::addresses));
        all
    }

    /// Bytes that `rows` rows take.
    pub(crate) fn bytes(architecture: &Architecture, precision: Precision, rows: usize) -> usize {
        let Sizes { hidden, query, key, mlp, input, .. } = architecture.sizes();
        let elements = (query + 2 * key) + query + input + 2 * mlp;
        let fp8 = if precision == Precision::Fp8 { Fp8Rows::row_bytes(input) } else { 0 };
        let routed = Routed::row_bytes(architecture, precision);
        padded(rows) * (hidden * size_of::<f32>() + elements * element_size(precision) + fp8 + routed)
    }
}
