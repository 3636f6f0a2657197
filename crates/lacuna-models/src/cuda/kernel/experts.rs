//! Mixtures of experts: their products.
#![allow(unsafe_code, reason = "launches of kernels")]

use super::super::buffer::DeviceSlice;
use super::super::int4::{TILE, TILE_BYTES};
use super::super::matrix::{ElementSlice, Operand};
use super::belief::STRETCH;
use super::projection;
use super::routing::ExpertTile;
use super::structs::{Element, In, Out, Untyped, c_structs, to_u32};
use super::table::{Functions, Grid, Kernel, Kernels};
use crate::Result;
use crate::architecture::Experts;

/// Rows of an expert in a tile at most.
pub(super) const ROWS: usize = 32;
/// The same in f32.
const ROWS_F32: usize = projection::TILE;
/// Bytes of shared memory of a block, with weights in 16 bits, in fp8 and in int4: stages of a slice of the weights and of the rows.
pub(super) const SHARED: [usize; 3] = [
    3 * (STRETCH * 128 + ROWS * 128),
    3 * (STRETCH * 128 + ROWS * 256),
    3 * (STRETCH / TILE * 2 * TILE_BYTES + ROWS * 256),
];
/// Threads of a block of the experts' products.
const THREADS: usize = 256;
/// Blocks of these that a multiprocessor should hold at once, so that some compute while others wait.
pub(super) const BLOCKS: usize = 3;

c_structs! {
    struct ExpertProduct {
        input: In<Element>,
        /// `[expert][n][k]`, in a format that the kernel knows.
        weights: In<u8>,
        /// Scale of each row of weights; null in 16 bits or more.
        scales: In<f32>,
        output: Out<Untyped>,
        tiles: In<ExpertTile>,
        tile_count: In<u32>,
        order: In<u32>,
        n: u32,
        k: u32,
        slots: u32,
    }

    struct Combination {
        hidden: Out<f32>,
        /// `[row][slot][width]`.
        outputs: In<f32>,
        /// `[row][slot]`.
        weights: In<f32>,
        present: In<u32>,
        width: u32,
        slots: u32,
    }
}

/// A layer's experts, and the buffers that they compute in, for up to `rows` rows.
#[derive(Clone, Copy)]
pub(crate) struct ExpertsCall<'a> {
    pub(crate) experts: &'a Experts,
    pub(crate) rows: usize,
    /// Hidden size.
    pub(crate) width: usize,
    /// One number: how many of the rows are there.
    pub(crate) present: DeviceSlice<'a, u32>,
    /// The rows that enter, normalised.
    pub(crate) input: ElementSlice<'a>,
    /// The residual stream.
    pub(crate) hidden: DeviceSlice<'a, f32>,
    pub(crate) router: DeviceSlice<'a, f32>,
    pub(crate) bias: Option<DeviceSlice<'a, f32>>,
    /// `[expert][gates, then values][width]`; the shared one is the last.
    pub(crate) gate_up: Operand<'a>,
    /// `[expert][width][inner width]`.
    pub(crate) down: Operand<'a>,
    /// [`arrivals`](super::routing::arrivals), all zero.
    pub(crate) arrived: DeviceSlice<'a, u32>,
    pub(crate) scores: DeviceSlice<'a, f32>,
    pub(crate) chosen: DeviceSlice<'a, u32>,
    pub(crate) weights: DeviceSlice<'a, f32>,
    pub(crate) order: DeviceSlice<'a, u32>,
    pub(crate) tiles: DeviceSlice<'a, ExpertTile>,
    /// One number.
    pub(crate) tile_count: DeviceSlice<'a, u32>,
    /// One number: experts that got rows, counted on.
    pub(crate) used: DeviceSlice<'a, u32>,
    pub(crate) inner: ElementSlice<'a>,
    pub(crate) outputs: DeviceSlice<'a, f32>,
}

/// The experts of a layer, and of a row: those that are chosen from, and the shared one if it is as wide as they are.
#[derive(Clone, Copy)]
pub(crate) struct Slots {
    pub(crate) experts: usize,
    pub(crate) of_a_row: usize,
}

impl Slots {
    pub(crate) fn of(experts: &Experts) -> Self {
        let shared = usize::from(Self::hold_shared(experts));
        Self { experts: experts.count + shared, of_a_row: experts.active + shared }
    }

    /// True if the shared expert is among them.
    pub(crate) fn hold_shared(experts: &Experts) -> bool {
        experts.shared == Some(experts.width)
    }
}

/// Rows of an expert's matrix in the order in which kernels take weights of four bits, a stretch after the other; none where a stretch has no more.
/// Of gates and values each 16 lines are eight gates and their values.
pub(crate) fn expert_lines(rows: usize, gated: bool) -> Vec<Option<usize>> {
    let row = |line: usize| {
        if !gated {
            return Some(line).filter(|row| *row < rows);
        }
        let (width, column) = (rows / 2, line / 16 * 8 + line % 8);
        (column < width).then_some(line / 8 % 2 * width + column)
    };
    (0..rows.next_multiple_of(STRETCH)).map(row).collect()
}

/// Tiles that the rows of all experts make at most.
pub(crate) fn most_tiles(experts: &Experts, rows: usize) -> usize {
    let Slots { experts, of_a_row } = Slots::of(experts);
    experts.min(rows * of_a_row) + rows * of_a_row / ROWS
}

/// The format of weights, counted as in [`SHARED`].
fn format(weights: Operand<'_>) -> usize {
    match weights {
        Operand::Elements(_) => 0,
        Operand::Fp8(_) => 1,
        Operand::Int4(_) => 2,
    }
}

impl Functions {
    /// The experts' products for each format of weights.
    fn expert_products(&self) -> [[&Kernel<ExpertProduct>; 2]; 3] {
        [
            [&self.expert_gate_up, &self.expert_down],
            [&self.expert_gate_up_fp8, &self.expert_down_fp8],
            [&self.expert_gate_up_int4, &self.expert_down_int4],
        ]
    }
}

impl Kernels {
    /// Allows the experts' products the shared memory they take.
    pub(super) fn allow_experts(&self) -> Result<()> {
        for (kernels, format) in self.functions.expert_products().into_iter().zip(0..) {
            kernels.into_iter().try_for_each(|kernel| kernel.allow_shared(self.expert_shared(format)))?;
        }
        Ok(())
    }

    /// Rows of an expert in a tile at most.
    pub(crate) fn expert_rows(&self) -> usize {
        if self.variant.bf16 { ROWS } else { ROWS_F32 }
    }

    fn expert_shared(&self, format: usize) -> usize {
        if self.variant.bf16 { SHARED[format] } else { projection::shared(false) }
    }

    /// Adds to each row of the residual stream what its experts make of the same row of the input; a shared one that is wider than the others is left
    /// out.
    ///
    /// # Safety
    /// `present` is at most `rows`, and nobody has arrived.
    pub(crate) unsafe fn experts(&self, call: ExpertsCall<'_>) -> Result<()> {
        // SAFETY: the caller's promise; each kernel is given what the one before has made.
        unsafe {
            self.route(call)?;
            self.expert_gate_up(call)?;
            self.expert_down(call)?;
            self.combine(call)
        }
    }

    /// # Safety
    /// `order` and `tiles` are what [`route`](Self::route) made for these rows.
    pub(crate) unsafe fn expert_gate_up(&self, call: ExpertsCall<'_>) -> Result<()> {
        let ExpertsCall { experts, rows, width, input, gate_up, inner, .. } = call;
        assert!(rows * width <= input.len() && rows * Slots::of(experts).of_a_row * experts.width <= inner.len());
        // SAFETY: the caller's promise, and rows and slots are inside by the assertion.
        unsafe { self.expert_product(call, 0, input, gate_up, inner.untyped_out(), [2 * experts.width, width]) }
    }

    /// # Safety
    /// As for [`expert_gate_up`](Self::expert_gate_up).
    pub(crate) unsafe fn expert_down(&self, call: ExpertsCall<'_>) -> Result<()> {
        let ExpertsCall { experts, rows, width, down, inner, outputs, .. } = call;
        let assigned = rows * Slots::of(experts).of_a_row;
        assert!(assigned * experts.width <= inner.len() && assigned * width <= outputs.len());
        let output = Out::at(outputs.address());
        // SAFETY: the caller's promise, and slots are inside by the assertion.
        unsafe { self.expert_product(call, 1, inner, down, output, [width, experts.width]) }
    }

    /// The product with gates and values (0), or with the other matrix (1), of `n` rows of `k` weights for each expert.
    ///
    /// # Safety
    /// As for [`expert_gate_up`](Self::expert_gate_up), and input and output have room for what the rows make.
    unsafe fn expert_product(
        &self,
        call: ExpertsCall<'_>,
        which: usize,
        input: ElementSlice<'_>,
        weights: Operand<'_>,
        output: Out<Untyped>,
        [n, k]: [usize; 2],
    ) -> Result<()> {
        let slots = Slots::of(call.experts);
        let (bytes, scales, lines) = match weights {
            Operand::Elements(elements) => (In::at(elements.address()), In::NULL, n),
            Operand::Fp8(rows) => (rows.values.into(), rows.scales.into(), n),
            Operand::Int4(rows) => (rows.tiles.into(), rows.row_scales.into(), n.next_multiple_of(STRETCH)),
        };
        assert!(weights.holds(slots.experts * lines, k));
        let argument = ExpertProduct {
            input: input.input(),
            weights: bytes,
            scales,
            output,
            tiles: call.tiles.into(),
            tile_count: call.tile_count.into(),
            order: call.order.into(),
            n: to_u32(n),
            k: to_u32(k),
            slots: to_u32(slots.of_a_row),
        };
        let work = most_tiles(call.experts, call.rows) * n.div_ceil(STRETCH);
        let blocks = [work.min(BLOCKS * self.gpu.multiprocessors()), 1];
        let format = format(weights);
        let grid = Grid { blocks, threads: THREADS, shared: self.expert_shared(format) };
        // SAFETY: the caller's promise, and experts are inside by the assertion.
        unsafe { self.functions.expert_products()[format][which].launch(&self.gpu, grid, &argument) }
    }

    /// # Safety
    /// `present` is at most `rows`.
    pub(crate) unsafe fn combine(&self, call: ExpertsCall<'_>) -> Result<()> {
        let ExpertsCall { experts, rows, width, present, hidden, weights, outputs, .. } = call;
        let slots = Slots::of(experts).of_a_row;
        assert!(rows * width <= hidden.len() && rows * slots * width <= outputs.len() && rows * slots <= weights.len());
        let argument = Combination {
            hidden: hidden.into(),
            outputs: outputs.into(),
            weights: weights.into(),
            present: present.into(),
            width: to_u32(width),
            slots: to_u32(slots),
        };
        let grid = Grid { blocks: [rows, width.div_ceil(256)], threads: 256, shared: 0 };
        // SAFETY: a block reads and writes its own row, which the assertions made sure of.
        unsafe { self.functions.combine.launch(&self.gpu, grid, &argument) }
    }
}
