//! The transformer blocks of a forward pass, launch by launch.
#![allow(unsafe_code, reason = "launches of kernels")]

use super::activations::Activations;
use super::attention::Shape;
use super::buffer::DeviceSlice;
use super::experts::RoutedRows;
use super::forward::Machine;
use super::graphs::Pass;
use super::inputs::DeviceInputs;
use super::kernel::{Attend, CacheCall, Factors, MatricesCall, NormCall, Output, Reading, RotateCall, Rows, Tile};
use super::matrix::{ElementSlice, Operand, Part};
use super::rope::Rope;
use super::staging::Indices;
use super::weights::{Block, Network, Weights};
use crate::Result;
use crate::weight::Sizes;

/// All that a forward pass computes with.
pub(crate) struct Computation<'a> {
    pub(crate) weights: &'a Weights,
    pub(crate) shape: Shape,
    pub(crate) sizes: Sizes,
    pub(crate) activations: &'a Activations,
    pub(crate) inputs: DeviceInputs<'a>,
    pub(crate) rope: &'a Rope,
    pub(crate) machine: &'a mut Machine,
}

impl<'a> Computation<'a> {
    /// Everything that all rows need: all blocks but the last, and its keys and values.
    pub(crate) fn run(&mut self, pass: &Pass) -> Result<()> {
        let (rows, Sizes { hidden: width, query, key, .. }, activations) = (pass.rows, self.sizes, self.activations);
        let stride = query + 2 * key;
        self.machine.kernels.embed(
            self.weights.embedding.table(),
            self.inputs.tokens,
            width,
            activations.hidden.all(),
        )?;
        let last = self.weights.blocks.len() - 1;
        for (layer, block) in self.weights.blocks.iter().enumerate() {
            let size = rows * self.shape.heads;
            let mass = pass.mass_layers.binary_search(&layer).ok();
            let mass = mass.map(|index| activations.mass.slice(index * size..(index + 1) * size));
            let hidden = activations.hidden.all();
            self.norm(hidden, Rows::First(rows), block.attention_norm.all(), None, activations.block_input())?;
            if layer < last {
                self.query_key_values(block, rows, layer)?;
                let context = Attend {
                    queries: activations.query_key_value.all(),
                    query_stride: stride,
                    keys: activations.query_key_value.from(query),
                    values: activations.query_key_value.from(query + key),
                    key_stride: stride,
                    output: Some(activations.input.all()),
                    mass,
                    ..self.last_context(layer, self.inputs.tiles, Rows::First(rows))
                };
                self.attend(context)?;
                self.add_attention(pass, layer, context)?;
                self.finish_block(block, RoutedRows { count: rows, present: self.inputs.present, hidden })?;
                continue;
            }
            self.key_values(block, rows, layer)?;
            let shows_matrix = pass.matrix_layers.iter().any(|(shown, _)| *shown == layer);
            if mass.is_some() || shows_matrix {
                self.queries(block, Rows::First(rows))?;
                let context = self.last_context(layer, self.inputs.tiles, Rows::First(rows));
                if mass.is_some() {
                    self.attend(Attend { mass, ..context })?;
                }
                self.add_attention(pass, layer, context)?;
            }
        }
        Ok(())
    }

    /// The output of the last block for selected rows, written to `output`.
    ///
    /// # Safety
    /// The tiles lie within `rows`, of which `present` are there, and their keys within those of the last pass; what they say is
    /// cached is.
    pub(crate) unsafe fn finish(
        &mut self,
        rows: Indices<'_>,
        present: DeviceSlice<'_, u32>,
        tiles: DeviceSlice<'_, Tile>,
        output: DeviceSlice<'_, f32>,
    ) -> Result<()> {
        let layer = self.weights.blocks.len() - 1;
        let (block, activations) = (&self.weights.blocks[layer], self.activations);
        let selected = Rows::Selected(rows);
        let input = activations.block_input();
        self.norm(activations.hidden.all(), selected, block.attention_norm.all(), Some(output), input)?;
        self.queries(block, selected)?;
        let context = self.last_context(layer, tiles, selected);
        // SAFETY: the caller's promise.
        unsafe {
            self.machine.kernels.attention(Attend { output: Some(activations.input.all()), ..context })?;
        }
        self.finish_block(block, RoutedRows { count: rows.len(), present, hidden: output })
    }

    /// The vocabulary projection of rows of `finished`, and what `reading` makes of it.
    ///
    /// # Safety
    /// As for [`Kernels::project`](super::kernel::Kernels::project).
    pub(crate) unsafe fn project(
        &mut self,
        finished: DeviceSlice<'_, f32>,
        rows: Rows<'_>,
        reading: &Reading,
    ) -> Result<()> {
        let input = self.activations.input.all();
        self.norm(finished, rows, self.weights.final_norm.all(), None, Operand::Elements(input))?;
        // SAFETY: the caller's promise.
        unsafe { self.machine.kernels.project(input, self.weights.head.all(), self.sizes.hidden, reading) }
    }

    /// Operands of the last block's attention, without outputs.
    fn last_context<'b>(&self, layer: usize, tiles: DeviceSlice<'b, Tile>, rows: Rows<'b>) -> Attend<'b>
    where
        'a: 'b,
    {
        let Sizes { query, key, .. } = self.sizes;
        let key_value = &self.activations.query_key_value;
        Attend {
            heads: self.shape.heads,
            key_value_heads: self.shape.key_value_heads,
            queries: self.activations.query.all(),
            query_stride: query,
            keys: key_value.all(),
            values: key_value.from(key),
            key_stride: 2 * key,
            output: None,
            mass: None,
            tiles,
            rows,
            positions: self.inputs.positions,
            open: self.inputs.open,
            layer,
        }
    }

    /// Attention of all rows.
    fn attend(&self, call: Attend<'_>) -> Result<()> {
        // SAFETY: the tiles of a pass lie within its rows and keys, and are made of the same layout as `open`. What they say
        // is cached belongs to the KV store, which frees nothing before all work launched so far is done.
        unsafe { self.machine.kernels.attention(call) }
    }

    /// Adds the attention of a layer to the matrices that it was asked for.
    fn add_attention(&self, pass: &Pass, layer: usize, context: Attend<'_>) -> Result<()> {
        let Some((_, tasks)) = pass.matrix_layers.iter().find(|(shown, _)| *shown == layer) else { return Ok(()) };
        let Attend { heads, key_value_heads, queries, query_stride, keys, key_stride, .. } = context;
        let call = MatricesCall {
            heads,
            key_value_heads,
            queries,
            query_stride,
            keys,
            key_stride,
            positions: self.inputs.positions.list(),
            tasks: self.inputs.matrix_tasks.slice(tasks.clone()),
            output: self.activations.matrices.all(),
            longest: pass.longest_matrix,
            layer,
        };
        // SAFETY: `MatrixTasks` names views of the layout, whose positions are computed or cached, and entries that there is room for.
        unsafe { self.machine.kernels.add_attention(call) }
    }

    /// Everything after attention, whose output is in `input`: the residual stream becomes the block's output.
    fn finish_block(&mut self, block: &Block, rows: RoutedRows<'_>) -> Result<()> {
        let (Sizes { hidden: width, query, .. }, activations) = (self.sizes, self.activations);
        let RoutedRows { count, hidden, .. } = rows;
        self.quantize_input(count, query)?;
        let residual = Output::F32 { values: hidden, add: true };
        let input = activations.block_input();
        self.multiply(count, block.output.all(), residual)?;
        if let Some(bias) = &block.output_bias {
            self.machine.kernels.add_bias(hidden, count, bias.all())?;
        }
        // Routers and experts take elements whatever the precision of the other products.
        let normalized = if block.experts.is_some() { Operand::Elements(activations.input.all()) } else { input };
        self.norm(hidden, Rows::First(count), block.feed_forward_norm.all(), None, normalized)?;
        if let (Some(experts), Some(routed)) = (&block.experts, &activations.routed) {
            // SAFETY: whoever made the rows has told how many of them are there.
            unsafe { self.machine.kernels.experts(routed.call(experts, rows, &activations.input))? };
            if block.network.is_some() {
                self.quantize_input(count, width)?;
            }
        }
        if let Some(Network { gate_up, down }) = &block.network {
            self.multiply(count, gate_up.all(), Output::Elements(activations.gate_up.all()))?;
            self.machine.kernels.silu_times(activations.gate_up.all(), count, down.k, input)?;
            self.multiply(count, down.all(), residual)?;
        }
        Ok(())
    }

    /// Brings rows of `width` values in `input` to fp8, if that is what products of a block take.
    fn quantize_input(&self, rows: usize, width: usize) -> Result<()> {
        let Some(quantized) = &self.activations.fp8_input else { return Ok(()) };
        self.machine.kernels.quantize(self.activations.input.all(), width, quantized.rows(0..rows, width))
    }

    /// Normalizes rows; `copy` gets them as they were.
    fn norm(
        &self,
        input: DeviceSlice<'_, f32>,
        rows: Rows<'_>,
        weight: DeviceSlice<'_, f32>,
        copy: Option<DeviceSlice<'_, f32>>,
        output: Operand<'_>,
    ) -> Result<()> {
        let epsilon = self.sizes.epsilon;
        self.machine.kernels.rms_norm(NormCall { input, rows, weight, epsilon, copy, output })
    }

    /// `output (+)= block_input · part` for `m` rows.
    fn multiply(&mut self, m: usize, part: Part<'_>, output: Output<'_>) -> Result<()> {
        let Part { rows: weights, n, k } = part;
        let input = match weights {
            Operand::Elements(_) | Operand::Int4(_) => Operand::Elements(self.activations.input.all()),
            Operand::Fp8(_) => self.activations.block_input(),
        };
        let Machine { kernels, products } = &mut *self.machine;
        products.multiply(kernels, Factors { m, n, k, input, weights, output })
    }

    /// Queries, keys and values of a layer's block for all rows.
    fn query_key_values(&mut self, block: &Block, rows: usize, layer: usize) -> Result<()> {
        let output = self.activations.query_key_value.all();
        self.multiply(rows, block.query_key_value.all(), Output::Elements(output))?;
        let Shape { heads, key_value_heads, .. } = self.shape;
        let counts = [heads + 2 * key_value_heads, heads + key_value_heads, heads];
        self.rotate(block, Rows::First(rows), output, 0, counts, Some(layer))
    }

    /// Keys and values of the last block for all rows.
    fn key_values(&mut self, block: &Block, rows: usize, layer: usize) -> Result<()> {
        let (output, Sizes { query, key, .. }) = (self.activations.query_key_value.all(), self.sizes);
        self.multiply(rows, block.query_key_value.part(query, 2 * key), Output::Elements(output))?;
        let heads = self.shape.key_value_heads;
        self.rotate(block, Rows::First(rows), output, query, [2 * heads, heads, 0], Some(layer))
    }

    /// Queries of the last block for some rows.
    fn queries(&mut self, block: &Block, rows: Rows<'_>) -> Result<()> {
        let (output, Sizes { query, .. }) = (self.activations.query.all(), self.sizes);
        self.multiply(rows.count(), block.query_key_value.part(0, query), Output::Elements(output))?;
        self.rotate(block, rows, output, 0, [self.shape.heads; 3], None)
    }

    /// Adds the bias from value `first` on to rows of heads, and normalizes and rotates the first of them, of which some are queries. Those behind
    /// the queries are cached as those of a layer, if it is given, for other passes.
    fn rotate(
        &self,
        block: &Block,
        rows: Rows<'_>,
        data: ElementSlice<'_>,
        first: usize,
        [heads, rotated, queries]: [usize; 3],
        layer: Option<usize>,
    ) -> Result<()> {
        let slots = self.inputs.cache_slots;
        let call = RotateCall {
            data,
            bias: block.bias.as_ref().map(|bias| bias.all().from(first)),
            rows,
            positions: self.inputs.positions,
            cosines: self.rope.cosines.all(),
            sines: self.rope.sines.all(),
            norms: block.head_norms.as_ref().map(|norms| norms.all()),
            epsilon: self.sizes.epsilon,
            rotary: self.shape.rotary,
            heads,
            rotated,
            queries,
            cache: layer.filter(|_| slots.len() > 0).map(|layer| CacheCall { slots, layer }),
        };
        // SAFETY: the KV store made each slot for a position of a cache with all layers, which it keeps until all work
        // launched so far is done.
        unsafe { self.machine.kernels.rotate(call) }
    }
}
