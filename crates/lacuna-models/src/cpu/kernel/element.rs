//! What the products are made of: f32 or bf16 operands, always summed in f32.

use half::bf16;

use super::isa::for_each_isa;
use super::{Isa, scalar};
#[cfg(target_arch = "x86_64")]
use super::{avx2, avx512};

/// Where a tile goes.
#[derive(Clone, Copy)]
pub(crate) struct Output {
    pub(crate) start: *mut f32,
    /// From one row to the next.
    pub(crate) stride: usize,
    /// At most [`super::ROWS`].
    pub(crate) rows: usize,
    /// At most [`super::COLUMNS`].
    pub(crate) columns: usize,
    /// Whether to add to what stands there.
    pub(crate) add: bool,
}

/// `output[r][c] (+)= Σ activations[r][k] · weights[k][c]` over `depth` values of `k`.
///
/// # Safety
/// `activations` holds `output.rows` rows, [`super::DEPTH`] apart, of at least `depth` values; `weights` holds
/// `depth` × [`super::COLUMNS`] values in panel order; `output` can be written and is nobody else's; the machine has
/// the instructions. `depth` is a multiple of [`Element::PAIR`].
pub(crate) type Tile<E> = unsafe fn(activations: *const E, weights: *const E, depth: usize, output: Output);

/// A number that products are made of.
pub(crate) trait Element: Copy + Default + Send + Sync + 'static {
    /// How many values of `k` stand side by side in a column of a weight panel.
    const PAIR: usize;

    /// The kernel for an instruction set.
    fn tile(isa: Isa) -> Tile<Self>;

    /// Rounds a row to the nearest representable values.
    fn narrow_row(row: &[f32], output: &mut [Self]);
}

impl Element for f32 {
    const PAIR: usize = 1;

    #[cfg(target_arch = "x86_64")]
    fn tile(isa: Isa) -> Tile<Self> {
        match isa {
            Isa::Scalar => scalar::tile_f32,
            Isa::Avx2 => avx2::tile_f32,
            Isa::Avx512 | Isa::Avx512Bf16 => avx512::tile_f32,
        }
    }

    #[cfg(not(target_arch = "x86_64"))]
    fn tile(_: Isa) -> Tile<Self> {
        scalar::tile_f32
    }

    fn narrow_row(row: &[f32], output: &mut [Self]) {
        output.copy_from_slice(row);
    }
}

impl Element for bf16 {
    const PAIR: usize = 2;

    #[cfg(target_arch = "x86_64")]
    fn tile(isa: Isa) -> Tile<Self> {
        match isa {
            Isa::Scalar => scalar::tile_bf16,
            Isa::Avx2 => avx2::tile_bf16,
            Isa::Avx512 => avx512::tile_bf16_widened,
            Isa::Avx512Bf16 => avx512::tile_bf16,
        }
    }

    #[cfg(not(target_arch = "x86_64"))]
    fn tile(_: Isa) -> Tile<Self> {
        scalar::tile_bf16
    }

    fn narrow_row(row: &[f32], output: &mut [Self]) {
        narrow_to_bf16(row, output);
    }
}

for_each_isa! {
    /// `bf16::from_f32` on a row, without its branch.
    fn narrow_to_bf16(row: &[f32], output: &mut [bf16]) {
        for (value, output) in row.iter().zip(output) {
            let bits = value.to_bits();
            let rounded = bits.wrapping_add(0x7FFF + ((bits >> 16) & 1)) >> 16;
            let quiet = (bits >> 16) | 0x40;
            *output = bf16::from_bits(if value.is_nan() { quiet } else { rounded } as u16);
        }
    }
}
