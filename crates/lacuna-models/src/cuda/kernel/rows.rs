//! Kernels that work on single rows between matrix products.
#![allow(unsafe_code, reason = "launches of kernels")]

use super::super::buffer::DeviceSlice;
use super::super::fp8::{Fp8Slice, THREADS};
use super::super::matrix::{ElementSlice, Operand};
use super::super::staging::Indices;
use super::structs::{Element, In, Out, Untyped, c_structs, to_u32};
use super::table::{Grid, Kernels};
use crate::Result;

/// The reason that no row is written in int4.
const NO_INT4: &str = "weights alone are in int4";

c_structs! {
    /// Place of a row's keys and values in a KV cache.
    struct CacheSlot {
        /// Those of the first layer; null if the row is not cached.
        first: Out<Element>,
        /// Elements from one layer to the next.
        layer_stride: u64,
    }

    struct Embedding {
        /// `[token][width]`, f32, bf16 or int8.
        table: In<Untyped>,
        /// Scale of each token in int8.
        row_scales: In<f32>,
        tokens: In<u32>,
        hidden: Out<f32>,
        width: u32,
        /// Bits of a value.
        bits: u32,
    }

    struct Norm {
        input: In<f32>,
        /// Rows of the input; null for all.
        rows: In<u32>,
        weight: In<f32>,
        /// Elements, or fp8.
        output: Out<Untyped>,
        /// A scale for each row in fp8.
        scales: Out<f32>,
        /// The rows before normalization; null if they are not wanted.
        copy: Out<f32>,
        width: u32,
        epsilon: f32,
    }

    struct Rotation {
        /// Rows of heads.
        data: Out<Element>,
        /// Bias of a row; null if there is none.
        bias: In<f32>,
        /// The rows of the layout that these are; null for all.
        rows: In<u32>,
        positions: In<u32>,
        /// `[position][half]`.
        cosines: In<f32>,
        sines: In<f32>,
        /// Weights of the norm of query heads, and behind them of key heads; null if heads are not normalised.
        norms: In<f32>,
        /// A slot for each row, that its heads behind the queries are cached in; null if they are not.
        slots: In<CacheSlot>,
        layer: u32,
        /// Heads of a row.
        heads: u32,
        /// The first heads of a row, which are rotated; the others only get the bias.
        rotated: u32,
        /// Those of them that are queries.
        queries: u32,
        /// Half of the leading values of a head that are turned.
        half: u32,
        epsilon: f32,
    }

    struct Bias {
        hidden: Out<f32>,
        /// As long as a row.
        bias: In<f32>,
        width: u32,
    }

    struct Gate {
        /// Rows of gates, each followed by as many values.
        gate_up: In<Element>,
        /// Elements, or fp8.
        output: Out<Untyped>,
        /// A scale for each row in fp8.
        scales: Out<f32>,
        width: u32,
    }
}

/// Threads of a block that works on a row of `width` values, four at a time each.
fn threads(width: usize) -> usize {
    width.div_ceil(4).next_multiple_of(32).min(256)
}

/// Heads of a row that a block rotates, each with a warp.
const HEADS: usize = 8;

/// An embedding table, a row for each token.
#[derive(Clone, Copy)]
pub(crate) struct Table<'a> {
    pub(crate) bytes: DeviceSlice<'a, u8>,
    /// Bits of a value: 32, 16, or 8 with row scales.
    pub(crate) bits: u32,
    pub(crate) row_scales: Option<DeviceSlice<'a, f32>>,
}

/// Rows that a kernel takes of a larger set.
#[derive(Clone, Copy)]
pub(crate) enum Rows<'a> {
    /// The first so many.
    First(usize),
    /// These.
    Selected(Indices<'a>),
}

impl Rows<'_> {
    pub(crate) fn count(self) -> usize {
        match self {
            Self::First(count) => count,
            Self::Selected(indices) => indices.len(),
        }
    }

    /// The least size of the set.
    pub(super) fn bound(self) -> usize {
        match self {
            Self::First(count) => count,
            Self::Selected(indices) => indices.below(),
        }
    }

    pub(super) fn list(self) -> In<u32> {
        match self {
            Self::First(_) => In::NULL,
            Self::Selected(indices) => indices.list().into(),
        }
    }
}

/// An RMS norm.
#[derive(Clone, Copy)]
pub(crate) struct NormCall<'a> {
    pub(crate) input: DeviceSlice<'a, f32>,
    pub(crate) rows: Rows<'a>,
    pub(crate) weight: DeviceSlice<'a, f32>,
    pub(crate) epsilon: f32,
    /// Gets the rows as they were.
    pub(crate) copy: Option<DeviceSlice<'a, f32>>,
    pub(crate) output: Operand<'a>,
}

/// A place for keys and values.
#[derive(Clone, Copy)]
pub(crate) struct CacheCall<'a> {
    /// One for each row.
    pub(crate) slots: DeviceSlice<'a, CacheSlot>,
    pub(crate) layer: usize,
}

/// A bias, a norm of each head, and a rotary embedding; then keys and values are cached.
#[derive(Clone, Copy)]
pub(crate) struct RotateCall<'a> {
    pub(crate) data: ElementSlice<'a>,
    pub(crate) bias: Option<DeviceSlice<'a, f32>>,
    /// The rows of the layout that these are.
    pub(crate) rows: Rows<'a>,
    /// Of all rows of the layout.
    pub(crate) positions: Indices<'a>,
    pub(crate) cosines: DeviceSlice<'a, f32>,
    pub(crate) sines: DeviceSlice<'a, f32>,
    /// Weights of the norm of query heads, and behind them of key heads.
    pub(crate) norms: Option<DeviceSlice<'a, f32>>,
    pub(crate) epsilon: f32,
    /// Leading values of a head that are turned.
    pub(crate) rotary: usize,
    /// Heads of a row, how many of them are rotated, and how many of these are queries.
    pub(crate) heads: usize,
    pub(crate) rotated: usize,
    pub(crate) queries: usize,
    /// For the heads behind the queries.
    pub(crate) cache: Option<CacheCall<'a>>,
}

impl Kernels {
    /// `hidden[i] = table[tokens[i]]`.
    pub(crate) fn embed(
        &self,
        table: Table<'_>,
        tokens: Indices<'_>,
        width: usize,
        hidden: DeviceSlice<'_, f32>,
    ) -> Result<()> {
        let Table { bytes, bits, row_scales } = table;
        assert!(tokens.below() * width * bits as usize / 8 <= bytes.len() && tokens.len() * width <= hidden.len());
        assert!(bits != 8 || row_scales.is_some_and(|scales| tokens.below() <= scales.len()));
        let argument = Embedding {
            table: In::at(bytes.address()),
            row_scales: row_scales.into(),
            tokens: tokens.list().into(),
            hidden: hidden.into(),
            width: to_u32(width),
            bits,
        };
        // SAFETY: a block reads the row of its token and writes its own, which the assertion made sure of.
        unsafe { self.functions.embed.launch(&self.gpu, Grid::of(tokens.len(), threads(width)), &argument) }
    }

    /// `output = row / sqrt(mean(row²) + epsilon) · weight`.
    pub(crate) fn rms_norm(&self, call: NormCall<'_>) -> Result<()> {
        let NormCall { input, rows, weight, epsilon, copy, output } = call;
        let (width, count) = (weight.len(), rows.count());
        assert!(rows.bound() * width <= input.len() && copy.is_none_or(|copy| count * width <= copy.len()));
        assert!(output.holds(count, width));
        let (kernel, threads, output, scales) = match output {
            Operand::Elements(output) => (&self.functions.rms_norm, threads(width), output.untyped_out(), Out::NULL),
            Operand::Fp8(Fp8Slice { values, scales }) => {
                assert!(width.is_multiple_of(4), "rows in fp8 are written four values at a time");
                (&self.functions.rms_norm_fp8, THREADS, Out::at(values.address()), scales.into())
            }
            Operand::Int4(_) => unreachable!("{NO_INT4}"),
        };
        let argument = Norm {
            input: input.into(),
            rows: rows.list(),
            weight: weight.into(),
            output,
            scales,
            copy: copy.into(),
            width: to_u32(width),
            epsilon,
        };
        // SAFETY: a block reads one row of the input and writes one of the others, which the assertions made sure of.
        unsafe { kernel.launch(&self.gpu, Grid::of(count, threads), &argument) }
    }

    /// Adds the bias, normalizes each head, then rotates ("rotate half" convention) and caches.
    ///
    /// # Safety
    /// Every slot that is not null begins a buffer that is alive, with room for the heads behind the queries in the layer.
    pub(crate) unsafe fn rotate(&self, call: RotateCall<'_>) -> Result<()> {
        let RotateCall { data, bias, rows, positions, cosines, sines, norms, .. } = call;
        let RotateCall { epsilon, rotary, heads, rotated, queries, cache, .. } = call;
        let (head_size, count) = (self.variant.head_size, rows.count());
        assert!(queries <= rotated && rotated <= heads && rotary <= head_size);
        assert!(count * heads * head_size <= data.len() && rows.bound() <= positions.len());
        assert!(positions.below() * (rotary / 2) <= cosines.len().min(sines.len()));
        assert!(bias.is_none_or(|bias| heads * head_size <= bias.len()));
        assert!(norms.is_none_or(|norms| 2 * head_size <= norms.len()));
        assert!(cache.is_none_or(|cache| count <= cache.slots.len()));
        let argument = Rotation {
            data: data.output(),
            bias: bias.into(),
            rows: rows.list(),
            positions: positions.list().into(),
            cosines: cosines.into(),
            sines: sines.into(),
            norms: norms.into(),
            slots: cache.map(|cache| cache.slots).into(),
            layer: to_u32(cache.map_or(0, |cache| cache.layer)),
            heads: to_u32(heads),
            rotated: to_u32(rotated),
            queries: to_u32(queries),
            half: to_u32(rotary / 2),
            epsilon,
        };
        let touched = if bias.is_some() || cache.is_some() { heads } else { rotated };
        let grid = Grid { blocks: [count, touched.div_ceil(HEADS)], threads: 32 * HEADS, shared: 0 };
        // SAFETY: a warp changes its own head, with the angles of its position, which the assertions made sure of, and writes it to
        // its slot, where the caller promises room.
        unsafe { self.functions.rotate.launch(&self.gpu, grid, &argument) }
    }

    /// Adds a bias to `rows` rows.
    pub(crate) fn add_bias(&self, hidden: DeviceSlice<'_, f32>, rows: usize, bias: DeviceSlice<'_, f32>) -> Result<()> {
        let width = bias.len();
        assert!(rows * width <= hidden.len());
        let argument = Bias { hidden: hidden.into(), bias: bias.into(), width: to_u32(width) };
        // SAFETY: a block changes its own row, which the assertion made sure of.
        unsafe { self.functions.add_bias.launch(&self.gpu, Grid::of(rows, threads(width)), &argument) }
    }

    /// `output = silu(gate) · up` for rows of `width` gates and as many values.
    pub(crate) fn silu_times(
        &self,
        gate_up: ElementSlice<'_>,
        rows: usize,
        width: usize,
        output: Operand<'_>,
    ) -> Result<()> {
        assert!(rows * 2 * width <= gate_up.len() && output.holds(rows, width));
        let gate_up = gate_up.input();
        let (kernel, grid, output, scales) = match output {
            Operand::Elements(output) => {
                let grid = Grid { blocks: [rows, width.div_ceil(2048)], threads: threads(width), shared: 0 };
                (&self.functions.silu_times, grid, output.untyped_out(), Out::NULL)
            }
            Operand::Fp8(Fp8Slice { values, scales }) => {
                assert!(width.is_multiple_of(4), "rows in fp8 are written four values at a time");
                (&self.functions.silu_times_fp8, Grid::of(rows, THREADS), Out::at(values.address()), scales.into())
            }
            Operand::Int4(_) => unreachable!("{NO_INT4}"),
        };
        // SAFETY: a block reads and writes its own row, which the assertion made sure of.
        unsafe { kernel.launch(&self.gpu, grid, &Gate { gate_up, output, scales, width: to_u32(width) }) }
    }
}
