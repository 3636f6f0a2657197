//! What the products are made of: f32, bf16 or int8 operands, always summed up in f32.

use half::bf16;

use super::isa::for_each_isa;
use super::{COLUMNS, Isa, ROWS, scalar};
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
/// `activations` is a run of a panel of rows: `output.rows` rows, [`Element::DEPTH`] apart, of at least `depth` values, and
/// behind [`super::ROWS`] such rows the trailer. `weights` is a run of a panel of columns: `depth` × [`super::COLUMNS`] values
/// in panel order, and behind them the trailer. `output` can be written and is nobody else's; the machine has the
/// instructions. `depth` is a multiple of [`Element::PAIR`].
pub(crate) type Tile<E> = unsafe fn(activations: *const E, weights: *const E, depth: usize, output: Output);

/// A number that products are made of.
pub(crate) trait Element: Copy + Default + Send + Sync + 'static {
    /// How many values of `k` stand side by side in a column of a weight panel.
    const PAIR: usize;

    /// How many of `k` are summed in registers at a time, so that a run of a weight panel stays in the first cache.
    const DEPTH: usize;

    /// Whether values are counted in units that each row of activations and each column of weights has for itself.
    /// The units stand in the trailers.
    const SCALED: bool = false;

    /// Elements behind each run of a panel of rows.
    const ROW_TRAILER: usize = 0;

    /// Elements behind each run of a panel of columns.
    const COLUMN_TRAILER: usize = 0;

    /// The kernel for an instruction set.
    fn tile(isa: Isa) -> Tile<Self>;

    /// The unit for values whose largest magnitude is `largest`.
    fn unit(_largest: f32) -> f32 {
        1.0
    }

    /// Rounds activations to the nearest representable multiples of `unit`.
    fn narrow_row(row: &[f32], unit: f32, output: &mut [Self]);

    /// Rounds weights to the nearest representable multiples of `unit`.
    fn narrow_column(column: &[f32], unit: f32, output: &mut [Self]) {
        Self::narrow_row(column, unit, output);
    }

    /// Writes the unit of a row behind a run.
    fn put_row_unit(_trailer: &mut [Self], _row: usize, _unit: f32) {}

    /// Writes the units of the columns behind a run.
    fn put_column_units(_trailer: &mut [Self], _run: &[Self], _units: &[f32; COLUMNS]) {}
}

/// Picks the kernel for an instruction set; machines that are not x86 have the scalar one.
macro_rules! tiles {
    ($scalar:ident, $avx2:ident, $avx512:ident, $newest:ident) => {
        #[cfg(target_arch = "x86_64")]
        fn tile(isa: Isa) -> Tile<Self> {
            match isa {
                Isa::Scalar => scalar::$scalar,
                Isa::Avx2 => avx2::$avx2,
                Isa::Avx512 => avx512::$avx512,
                Isa::Avx512Dot => avx512::$newest,
            }
        }

        #[cfg(not(target_arch = "x86_64"))]
        fn tile(_: Isa) -> Tile<Self> {
            scalar::$scalar
        }
    };
}

impl Element for f32 {
    const PAIR: usize = 1;
    const DEPTH: usize = 256;

    tiles!(tile_f32, tile_f32, tile_f32, tile_f32);

    fn narrow_row(row: &[f32], _: f32, output: &mut [Self]) {
        output.copy_from_slice(row);
    }
}

impl Element for bf16 {
    const PAIR: usize = 2;
    const DEPTH: usize = 1024;

    tiles!(tile_bf16, tile_bf16, tile_bf16_widened, tile_bf16);

    fn narrow_row(row: &[f32], _: f32, output: &mut [Self]) {
        narrow_to_bf16(row, output);
    }
}

/// Weights are −127 to 127. Activations are too, but stand 128 higher, as `vpdpbusd` wants one operand without a sign; what
/// that adds to a sum, 128 times the sum of a column's run, is subtracted beforehand: the column's trailer has its negative.
impl Element for i8 {
    const PAIR: usize = 4;
    const DEPTH: usize = 1024;
    const SCALED: bool = true;
    /// A unit for each row, and room up to the next cache line.
    const ROW_TRAILER: usize = (ROWS * 4).next_multiple_of(64);
    /// Where each column's sum starts from, and its unit.
    const COLUMN_TRAILER: usize = COLUMNS * 8;

    tiles!(tile_i8, tile_i8, tile_i8_widened, tile_i8);

    fn unit(largest: f32) -> f32 {
        largest / 127.0
    }

    fn narrow_row(row: &[f32], unit: f32, output: &mut [Self]) {
        narrow_to_i8(row, inverse(unit), output);
        output.iter_mut().for_each(|value| *value = value.wrapping_add(-128));
    }

    fn narrow_column(column: &[f32], unit: f32, output: &mut [Self]) {
        narrow_to_i8(column, inverse(unit), output);
    }

    fn put_row_unit(trailer: &mut [Self], row: usize, unit: f32) {
        put(&mut trailer[row * 4..], unit.to_ne_bytes());
    }

    fn put_column_units(trailer: &mut [Self], run: &[Self], units: &[f32; COLUMNS]) {
        let mut sums = [0i32; COLUMNS];
        for quads in run.chunks_exact(COLUMNS * Self::PAIR) {
            for (sum, quad) in sums.iter_mut().zip(quads.chunks_exact(Self::PAIR)) {
                *sum += quad.iter().map(|&value| i32::from(value)).sum::<i32>();
            }
        }
        for (column, (sum, unit)) in sums.into_iter().zip(units).enumerate() {
            put(&mut trailer[column * 4..], (-128 * sum).to_ne_bytes());
            put(&mut trailer[(COLUMNS + column) * 4..], unit.to_ne_bytes());
        }
    }
}

fn inverse(unit: f32) -> f32 {
    if unit > 0.0 { 1.0 / unit } else { 0.0 }
}

fn put(target: &mut [i8], bytes: [u8; 4]) {
    target.iter_mut().zip(bytes).for_each(|(target, byte)| *target = byte as i8);
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

for_each_isa! {
    /// `row · factor`, rounded to the nearest whole number.
    fn narrow_to_i8(row: &[f32], factor: f32, output: &mut [i8]) {
        // Adding 1.5 · 2²³ rounds to the nearest whole number, which then stands in the low bits.
        const ROUND: f32 = 12_582_912.0;
        for (value, output) in row.iter().zip(output) {
            *output = (value * factor + ROUND).to_bits() as i8;
        }
    }
}
