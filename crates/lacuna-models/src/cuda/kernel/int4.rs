//! Products with weights of four bits.
#![allow(unsafe_code, reason = "launches of kernels")]

use std::sync::Arc;

use super::super::buffer::Buffer;
use super::super::compile::{HOPPER, Variant};
use super::super::gpu::Gpu;
use super::super::int4::{Int4Slice, TILE, TILE_BYTES};
use super::super::matrix::Operand;
use super::product::Factors;
use super::structs::{Element, In, Out, Untyped, c_structs, to_u32};
use super::table::{Grid, Kernels};
use crate::Result;

/// Threads of a block: four teams of four warps.
const THREADS: usize = 512;
/// Stages of rows and weights that a team copies to shared memory.
pub(super) const STAGES: usize = 4;

c_structs! {
    struct Int4Product {
        /// `[m][k]`.
        input: In<Element>,
        /// Tiles.
        weights: In<u8>,
        /// Scale of each row of weights.
        row_scales: In<f32>,
        /// `[m][n]`, f32 if `output_is_f32`, else elements.
        output: Out<Untyped>,
        /// `[split][m][n]`, if several blocks of threads share a sum.
        parts: Out<f32>,
        /// The number of these that are done, for each set of blocks; zero before and after.
        arrived: Out<u32>,
        m: u32,
        n: u32,
        k: u32,
        /// The first of the `n` rows of weights in its tile.
        first: u32,
        /// Rows and tiles of a block of threads.
        rows: u32,
        tiles: u32,
        /// Blocks of threads that share a sum.
        splits: u32,
        /// Adds to an f32 output instead of replacing it.
        add: u32,
        output_is_f32: u32,
    }
}

/// Memory that blocks of threads share sums in.
pub(crate) struct SharedSums {
    parts: Buffer<f32>,
    arrived: Buffer<u32>,
}

impl SharedSums {
    pub(crate) fn new(gpu: &Arc<Gpu>) -> Result<Self> {
        Ok(Self { parts: Buffer::new(gpu, 0)?, arrived: Buffer::new(gpu, 0)? })
    }

    /// The places of both.
    pub(crate) fn addresses(&self) -> [u64; 2] {
        [self.parts.all().address(), self.arrived.all().address()]
    }
}

/// Blocks of threads of a product.
struct Blocks {
    rows: usize,
    tiles: usize,
    splits: usize,
    /// Sets of tiles, and of rows.
    sets: [usize; 2],
}

impl Blocks {
    fn of(variant: Variant, multiprocessors: usize, m: usize, n: usize) -> Self {
        // Sums depend on this alone: not on the rows, nor on the GPU.
        let splits = [1, 2, 4].into_iter().rev().find(|splits| n * splits <= 384 * TILE).unwrap_or(1);
        let blocks = |rows: usize, tiles: usize| {
            let sets = [n.div_ceil(TILE).div_ceil(tiles), m.div_ceil(rows)];
            Self { rows, tiles, splits, sets }
        };
        let hopper = variant.architecture == HOPPER;
        let rows = match m {
            0..=16 => 16,
            33.. if hopper => 64,
            _ => 32,
        };
        let most = match rows {
            _ if !hopper => 1,
            64 => 2,
            _ => 3,
        };
        // Copying the rows takes time of its own.
        let time = |blocks: &Self| {
            let waves = (blocks.sets.iter().product::<usize>() * splits).div_ceil(multiprocessors);
            waves * (2 * blocks.tiles + 1)
        };
        (1..=most).map(|tiles| blocks(rows, tiles)).min_by_key(time).expect("there is one tile at least")
    }

    /// Bytes of shared memory of a block: stages of rows and weights, which begin at a multiple of 1024 on Hopper.
    fn shared(&self, variant: Variant) -> usize {
        let stages = 4 * STAGES * (self.rows * 128 + self.tiles * TILE_BYTES);
        stages + if variant.architecture == HOPPER { 1024 } else { 0 }
    }
}

/// The most shared memory that a block takes.
pub(super) fn shared(variant: Variant) -> usize {
    let blocks = |rows, tiles| Blocks { rows, tiles, splits: 1, sets: [1, 1] };
    match variant {
        Variant { bf16: false, .. } => 0,
        Variant { architecture: 90, .. } => blocks(32, 3).shared(variant).max(blocks(64, 2).shared(variant)),
        _ => blocks(32, 1).shared(variant),
    }
}

impl Kernels {
    /// Computes a product with weights of four bits.
    pub(crate) fn product_int4(&self, factors: Factors<'_>, sums: &mut SharedSums) -> Result<()> {
        let Factors { m, n, k, input, weights, output } = factors;
        assert!(factors.fit());
        let (Operand::Elements(input), Operand::Int4(Int4Slice { tiles, first, row_scales })) = (input, weights) else {
            unreachable!("weights in int4 are multiplied with elements")
        };
        let blocks = Blocks::of(self.variant, self.gpu.multiprocessors(), m, first + n);
        if blocks.splits > 1 {
            sums.parts.reserve(blocks.splits * m * n)?;
            sums.arrived.reserve(blocks.sets.iter().product())?;
        }
        let argument = Int4Product {
            input: input.input(),
            weights: tiles.into(),
            row_scales: row_scales.into(),
            output: Out::at(output.address()),
            parts: sums.parts.all().into(),
            arrived: sums.arrived.all().into(),
            m: to_u32(m),
            n: to_u32(n),
            k: to_u32(k),
            first: to_u32(first),
            rows: to_u32(blocks.rows),
            tiles: to_u32(blocks.tiles),
            splits: to_u32(blocks.splits),
            add: u32::from(output.adds()),
            output_is_f32: u32::from(output.is_f32()),
        };
        let grid = match self.variant.bf16 {
            true => {
                let [columns, rows] = blocks.sets;
                Grid { blocks: [columns * blocks.splits, rows], threads: THREADS, shared: blocks.shared(self.variant) }
            }
            false => Grid { blocks: [n.div_ceil(THREADS), m], threads: THREADS, shared: 0 },
        };
        // SAFETY: the matrices are as large as said.
        unsafe { self.functions.product_int4.launch(&self.gpu, grid, &argument) }
    }
}
