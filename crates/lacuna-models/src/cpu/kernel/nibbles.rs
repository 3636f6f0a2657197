//! The right operand of a product, in four bits.
#![allow(unsafe_code, reason = "bytes as pairs of bytes")]

use std::cell::RefCell;

use rayon::prelude::*;

use super::element::MOST_COLUMNS;
use super::panels::{Columns, Source};
use super::{Element, Kernel, Lines, for_each_isa};
use crate::int4::{self, GROUP, Group};

/// Pairs of values that are widened at a time: four values of 16 columns.
const STRIP: usize = 32;

/// A matrix of `n` columns and inner dimension `k` in four bits. A run is widened to int8 just before it is multiplied, for
/// the kernel of int8.
///
/// A run of a panel, `k` padded to whole groups and steps:
///
/// | part | layout |
/// |---|---|
/// | values | for every eight of `k` four bytes a column: the first four of `k` in the lower halves, the others in the upper |
/// | groups | group after group, and in each column after column |
/// | trailer | as in int8 |
pub(crate) struct Nibbles {
    kernel: &'static Kernel<i8>,
    bytes: Lines<u8>,
    n: usize,
    k: usize,
    /// Bytes of a panel.
    panel: usize,
}

thread_local! {
    /// A run in int8.
    static WIDE: RefCell<Lines<i8>> = RefCell::default();
}

impl Nibbles {
    /// Packs a matrix for the kernel in use. Columns are read in parallel; the error of the lowest panel wins.
    pub(crate) fn pack<S: Source>(n: usize, k: usize, source: S) -> Result<Self, S::Error> {
        Self::pack_for(i8::kernel(), n, k, source)
    }

    /// Packs a matrix.
    pub(super) fn pack_for<S: Source>(
        kernel: &'static Kernel<i8>,
        n: usize,
        k: usize,
        source: S,
    ) -> Result<Self, S::Error> {
        let columns = kernel.columns;
        assert!(columns.is_multiple_of(STRIP / 2), "a panel is whole strips");
        let panel = (0..k.div_ceil(kernel.depth)).map(|run| run_bytes(kernel, run_depth(kernel, k, run))).sum();
        let mut bytes = Lines::new(n.div_ceil(columns) * panel);
        let pack = |scratch: &mut Scratch, (index, panel): (usize, &mut [u8])| {
            scratch.read(k, index * columns..n.min((index + 1) * columns), &source)?;
            scratch.write(kernel, panel);
            Ok(())
        };
        let panels = bytes.par_chunks_exact_mut(panel).enumerate();
        let packed: Vec<Result<(), S::Error>> = panels.map_init(Scratch::default, pack).collect();
        packed.into_iter().collect::<Result<(), S::Error>>()?;
        Ok(Self { kernel, bytes, n, k, panel })
    }

    /// Bytes held.
    pub(crate) fn bytes(&self) -> usize {
        self.bytes.bytes()
    }
}

impl Columns<i8> for Nibbles {
    fn kernel(&self) -> &'static Kernel<i8> {
        self.kernel
    }

    fn n(&self) -> usize {
        self.n
    }

    fn k(&self) -> usize {
        self.k
    }

    fn kept(&self, panel: usize, run: usize) -> &[u8] {
        let start = panel * self.panel + run * run_bytes(self.kernel, self.kernel.depth);
        &self.bytes[start..][..run_bytes(self.kernel, run_depth(self.kernel, self.k, run))]
    }

    fn with_run(&self, panel: usize, run: usize, work: impl FnOnce(&[i8], usize)) {
        let (kernel, depth) = (self.kernel, run_depth(self.kernel, self.k, run));
        WIDE.with_borrow_mut(|wide| {
            wide.resize(kernel.columns * kernel.depth + kernel.column_trailer());
            let wide = &mut wide[..kernel.columns * depth + kernel.column_trailer()];
            widen_run(self.kept(panel, run), kernel.columns, depth, wide);
            work(wide, depth);
        });
    }
}

/// Depth of a run, padded.
fn run_depth(kernel: &Kernel<i8>, k: usize, run: usize) -> usize {
    (k - run * kernel.depth).min(kernel.depth).next_multiple_of(kernel.step.max(GROUP))
}

/// Bytes of a run of a padded depth.
fn run_bytes(kernel: &Kernel<i8>, depth: usize) -> usize {
    kernel.columns * (depth / 2 + depth / GROUP) + kernel.column_trailer()
}

/// The columns of a panel on their way into it.
#[derive(Default)]
struct Scratch {
    row: Vec<f32>,
    /// Values of 0 to 15, whole groups of each column.
    values: Vec<u8>,
    groups: Vec<Group>,
    units: [f32; MOST_COLUMNS],
}

impl Scratch {
    /// Rounds some columns. What is not there counts for nothing: a value of 0 and a zero point of 0.
    fn read<S: Source>(&mut self, k: usize, columns: std::ops::Range<usize>, source: &S) -> Result<(), S::Error> {
        let groups = int4::groups(k);
        self.row.resize(k, 0.0);
        self.values.clear();
        self.values.resize(MOST_COLUMNS * groups * GROUP, 0);
        self.groups.clear();
        self.groups.resize(MOST_COLUMNS * groups, Group::default());
        self.units = [0.0; MOST_COLUMNS];
        for (index, column) in columns.enumerate() {
            let (values, chosen) =
                (&mut self.values[index * groups * GROUP..], &mut self.groups[index * groups..][..groups]);
            source.read(column, 0, &mut self.row)?;
            let unit = source.groups(column, chosen).unwrap_or_else(|| int4::choose(&self.row, chosen));
            int4::round(&self.row, unit, chosen, &mut values[..k]);
            // Behind the last one there is nothing.
            if let Some(last) = chosen.last() {
                values[k..groups * GROUP].fill(last.zero());
            }
            self.units[index] = unit;
        }
        Ok(())
    }

    /// Writes all runs of a panel.
    fn write(&self, kernel: &Kernel<i8>, panel: &mut [u8]) {
        let (width, groups) = (kernel.columns, self.values.len() / (MOST_COLUMNS * GROUP));
        let value = |column: usize, k: usize| match k < groups * GROUP {
            true => self.values[column * groups * GROUP + k],
            false => 0,
        };
        let mut wide = Lines::new(0);
        for (index, run) in panel.chunks_mut(run_bytes(kernel, kernel.depth)).enumerate() {
            let first = index * kernel.depth;
            let depth = (run.len() - kernel.column_trailer()) / width * GROUP / (GROUP / 2 + 1);
            let (values, rest) = run.split_at_mut(width * depth / 2);
            let (scales, _) = rest.split_at_mut(width * depth / GROUP);
            for (eight, values) in values.chunks_exact_mut(4 * width).enumerate() {
                for (at, byte) in values.iter_mut().enumerate() {
                    let (column, k) = (at / 4, first + 8 * eight + at % 4);
                    *byte = value(column, k) | value(column, k + 4) << 4;
                }
            }
            for (group, scales) in scales.chunks_exact_mut(width).enumerate() {
                let group = first / GROUP + group;
                let of = |column: usize| if group < groups { self.groups[column * groups + group].byte() } else { 0 };
                scales.iter_mut().enumerate().for_each(|(column, scale)| *scale = of(column));
            }
            wide.resize(width * depth + kernel.column_trailer());
            widen_run(run, width, depth, &mut wide);
            let (wide, trailer) = wide.split_at_mut(width * depth);
            i8::put_column_scales(trailer, wide, &self.units[..width]);
            let start = run.len() - trailer.len();
            run[start..].iter_mut().zip(trailer).for_each(|(byte, value)| *byte = *value as u8);
        }
    }
}

for_each_isa! {
    /// Widens a run of `columns` columns to int8, with its trailer.
    fn widen_run(run: &[u8], columns: usize, depth: usize, output: &mut [i8]) {
        let (values, rest) = run.split_at(columns * depth / 2);
        let (groups, trailer) = rest.split_at(columns * depth / GROUP);
        let (wide, end) = output.split_at_mut(columns * depth);
        end.iter_mut().zip(trailer).for_each(|(value, byte)| *value = *byte as i8);
        let (values, wide) = (pairs(values), pairs_mut(wide));
        let row = 2 * columns;
        let groups = groups.chunks_exact(columns);
        for ((values, wide), groups) in values.chunks_exact(4 * row).zip(wide.chunks_exact_mut(8 * row)).zip(groups) {
            for (strip, groups) in groups.as_chunks().0.iter().enumerate() {
                let (strip, scales) = (strip * STRIP..(strip + 1) * STRIP, Scales::of(groups));
                for (values, wide) in values.chunks_exact(row).zip(wide.chunks_exact_mut(2 * row)) {
                    let (low, high) = wide.split_at_mut(row);
                    scales.widen(&values[strip.clone()], &mut low[strip.clone()], 0);
                    scales.widen(&values[strip.clone()], &mut high[strip.clone()], 4);
                }
            }
        }
    }
}

/// The upper bit of both bytes.
const TOPS: u16 = 0x8080;

/// Scales and zeros of a strip, a pair of bytes for each pair of values.
struct Scales {
    scales: [u16; STRIP],
    /// Scale times zero point in both bytes, without their upper bits.
    zeros: [u16; STRIP],
    /// Those bits, inverted.
    tops: [u16; STRIP],
}

impl Scales {
    #[inline(always)]
    fn of(groups: &[u8; STRIP / 2]) -> Self {
        let mut of = Self { scales: [0; STRIP], zeros: [0; STRIP], tops: [0; STRIP] };
        for pair in 0..STRIP {
            let group = groups[pair / 2];
            let scale = u16::from(group & 15) + 1;
            let zero = (scale * u16::from(group >> 4)).wrapping_mul(0x0101);
            (of.scales[pair], of.zeros[pair], of.tops[pair]) = (scale, zero & !TOPS, !zero & TOPS);
        }
        of
    }

    /// Widens four bits of each byte. A product of four bits and at most 16 fits into a byte, so two are made at once, and two are
    /// subtracted from at once, modulo 256 each. The loop is one that the compiler makes vectors of.
    #[inline(always)]
    fn widen(&self, values: &[u16], output: &mut [u16], shift: u32) {
        let each = output.iter_mut().zip(values).zip(&self.scales).zip(&self.zeros).zip(&self.tops);
        for ((((output, value), scale), zero), top) in each {
            let product = (value >> shift & 0x0F0F).wrapping_mul(*scale);
            *output = (product | TOPS).wrapping_sub(*zero) ^ ((product ^ top) & TOPS);
        }
    }
}

/// Bytes two by two.
#[inline(always)]
fn pairs(bytes: &[u8]) -> &[u16] {
    // SAFETY: any bits make a number.
    let (before, pairs, after) = unsafe { bytes.align_to() };
    assert!(before.is_empty() && after.is_empty(), "runs are aligned and whole");
    pairs
}

/// Bytes two by two.
#[inline(always)]
fn pairs_mut(bytes: &mut [i8]) -> &mut [u16] {
    // SAFETY: any bits make a number, of either kind.
    let (before, pairs, after) = unsafe { bytes.align_to_mut() };
    assert!(before.is_empty() && after.is_empty(), "runs are aligned and whole");
    pairs
}
