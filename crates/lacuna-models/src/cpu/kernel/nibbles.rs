//! The right operand of a product, in four bits.
#![allow(unsafe_code)]

#[cfg(target_arch = "x86_64")]
use std::arch::x86_64::*;
use std::cell::RefCell;

use rayon::prelude::*;

use super::element::MAX_COLUMNS;
use super::panels::{Columns, Source};
#[cfg(target_arch = "x86_64")]
use super::tile::{Ahead, Output};
use super::{Element, Kernel, Lines};
#[cfg(target_arch = "x86_64")]
use super::{Isa, amx, avx512};
use crate::int4::{self, GROUP, Group};

/// Columns that are widened at a time.
const STRIP: usize = 8;

/// A matrix of `n` columns and inner dimension `k` in four bits. A run is widened to int8 just before it is multiplied, for
/// the kernel of int8; for few rows on the way into a tile, where there is a kernel for that.
///
/// A run of a panel, `k` padded to whole groups and steps:
///
/// | part | layout |
/// |---|---|
/// | groups | group after group, and in each column after column |
/// | values | for every eight of `k` four bytes a column: the first four of `k` in the lower halves, the others in the upper |
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
        assert!(columns.is_multiple_of(STRIP), "a panel is whole strips");
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

    fn stored_run(&self, panel: usize, run: usize) -> &[u8] {
        let start = panel * self.panel + run * run_bytes(self.kernel, self.kernel.depth);
        &self.bytes[start..][..run_bytes(self.kernel, run_depth(self.kernel, self.k, run))]
    }

    fn with_run(&self, panel: usize, run: usize, work: impl FnOnce(&[i8], usize)) {
        let (kernel, depth) = (self.kernel, run_depth(self.kernel, self.k, run));
        WIDE.with_borrow_mut(|wide| {
            wide.resize(kernel.columns * kernel.depth + kernel.column_trailer());
            let wide = &mut wide[..kernel.columns * depth + kernel.column_trailer()];
            widen_run(self.stored_run(panel, run), kernel.columns, depth, wide);
            work(wide, depth);
        });
    }

    #[cfg(target_arch = "x86_64")]
    unsafe fn tile_as_stored(
        &self,
        panel: usize,
        run: usize,
        activations: *const u8,
        output: Output,
        ahead: Ahead,
    ) -> bool {
        let (kernel, depth) = (self.kernel, run_depth(self.kernel, self.k, run));
        let run = parts(self.stored_run(panel, run), kernel.columns, depth);
        let same_layout = kernel.size == 1 && kernel.columns == MAX_COLUMNS;
        if output.rows <= avx512::NIBBLE_ROWS && same_layout && Isa::of_rows() >= Isa::Avx512Bf16 {
            // SAFETY: the caller's promise; the machine has the instructions.
            unsafe { avx512::tile_nibbles(kernel, activations, run, output, ahead) };
            return true;
        }
        if std::ptr::eq(kernel, &amx::I8) {
            // SAFETY: the caller's promise.
            unsafe { amx::tile_nibbles(activations, run, output, ahead) };
            return true;
        }
        false
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
    row_scales: [f32; MAX_COLUMNS],
}

impl Scratch {
    /// Rounds some columns. What is not there counts for nothing: a value of 0 and a zero point of 0.
    fn read<S: Source>(&mut self, k: usize, columns: std::ops::Range<usize>, source: &S) -> Result<(), S::Error> {
        let groups = int4::groups(k);
        self.row.resize(k, 0.0);
        self.values.clear();
        self.values.resize(MAX_COLUMNS * groups * GROUP, 0);
        self.groups.clear();
        self.groups.resize(MAX_COLUMNS * groups, Group::default());
        self.row_scales = [0.0; MAX_COLUMNS];
        for (index, column) in columns.enumerate() {
            let (values, chosen) =
                (&mut self.values[index * groups * GROUP..], &mut self.groups[index * groups..][..groups]);
            source.read(column, 0, &mut self.row)?;
            let row_scale = source.groups(column, chosen).unwrap_or_else(|| int4::choose(&self.row, chosen));
            int4::round(&self.row, row_scale, chosen, &mut values[..k]);
            // Behind the last one there is nothing.
            if let Some(last) = chosen.last() {
                values[k..groups * GROUP].fill(last.zero());
            }
            self.row_scales[index] = row_scale;
        }
        Ok(())
    }

    /// Writes all runs of a panel.
    fn write(&self, kernel: &Kernel<i8>, panel: &mut [u8]) {
        let (width, groups) = (kernel.columns, self.values.len() / (MAX_COLUMNS * GROUP));
        let value = |column: usize, k: usize| match k < groups * GROUP {
            true => self.values[column * groups * GROUP + k],
            false => 0,
        };
        let mut wide = Lines::new(0);
        for (index, run) in panel.chunks_mut(run_bytes(kernel, kernel.depth)).enumerate() {
            let first = index * kernel.depth;
            let depth = (run.len() - kernel.column_trailer()) / width * GROUP / (GROUP / 2 + 1);
            let (scales, rest) = run.split_at_mut(width * depth / GROUP);
            let (values, _) = rest.split_at_mut(width * depth / 2);
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
            i8::put_column_scales(trailer, wide, &self.row_scales[..width]);
            let start = run.len() - trailer.len();
            run[start..].iter_mut().zip(trailer).for_each(|(byte, value)| *byte = *value as u8);
        }
    }
}

/// Groups, values and trailer of a run.
fn parts(run: &[u8], columns: usize, depth: usize) -> [&[u8]; 3] {
    let (groups, rest) = run.split_at(columns * depth / GROUP);
    let (values, trailer) = rest.split_at(columns * depth / 2);
    [groups, values, trailer]
}

/// Widens a run of `columns` columns to int8, with its trailer.
fn widen_run(run: &[u8], columns: usize, depth: usize, output: &mut [i8]) {
    let [groups, values, trailer] = parts(run, columns, depth);
    let (wide, end) = output.split_at_mut(columns * depth);
    #[cfg(target_arch = "x86_64")]
    match Isa::of_rows() {
        Isa::Scalar => widen(groups, values, columns, wide),
        // SAFETY: `Isa::of_rows` found these instructions on this machine.
        _ => unsafe { widen_avx2(groups, values, columns, wide) },
    }
    #[cfg(not(target_arch = "x86_64"))]
    widen(groups, values, columns, wide);
    // SAFETY: any byte is an `i8`.
    end.copy_from_slice(unsafe { trailer.align_to().1 });
}

/// Widens the values of a run: `value · scale − zero · scale`, modulo 256. Both products fit into a byte.
fn widen(groups: &[u8], values: &[u8], columns: usize, output: &mut [i8]) {
    let eights = values.chunks_exact(4 * columns).zip(output.chunks_exact_mut(8 * columns));
    for (index, (values, wide)) in eights.enumerate() {
        let (low, high) = wide.split_at_mut(4 * columns);
        let groups = &groups[8 * index / GROUP * columns..][..columns];
        let halves = low.as_chunks_mut::<4>().0.iter_mut().zip(high.as_chunks_mut::<4>().0);
        for ((values, (low, high)), group) in values.as_chunks::<4>().0.iter().zip(halves).zip(groups) {
            let scale = (group & 15) + 1;
            let zero = scale * (group >> 4);
            *low = values.map(|value| ((value & 15) * scale).wrapping_sub(zero) as i8);
            *high = values.map(|value| ((value >> 4) * scale).wrapping_sub(zero) as i8);
        }
    }
}

/// The same with AVX2. A product fits into a byte, so a multiplication of 16 bits makes two. With AVX-512 it is hardly faster.
#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2")]
fn widen_avx2(groups: &[u8], values: &[u8], columns: usize, output: &mut [i8]) {
    /// Bytes to prefetch ahead: some kernels prefetch no run while they multiply the one before, and the others not all of it.
    const AHEAD: usize = 2048;
    let depth = groups.len() / columns;
    assert!(columns.is_multiple_of(STRIP) && groups.len() == depth * columns, "a panel is whole strips");
    assert!(values.len() == groups.len() * GROUP / 2 && output.len() == groups.len() * GROUP, "groups are whole");
    let four_bits = _mm256_set1_epi8(15);
    let lowest_byte =
        _mm256_set_epi64x(0x0C0C_0C0C_0808_0808, 0x0404_0404_0000_0000, 0x0C0C_0C0C_0808_0808, 0x0404_0404_0000_0000);
    for group in 0..depth {
        let first = group * columns;
        for strip in 0..columns / STRIP {
            let groups = groups.as_ptr().wrapping_add(first + strip * STRIP);
            let values = values.as_ptr().wrapping_add(first * GROUP / 2);
            let ahead = values.wrapping_add(strip * STRIP * GROUP / 2 + AHEAD);
            let values = values.wrapping_add(strip * STRIP * 4);
            let output = output.as_mut_ptr().wrapping_add(first * GROUP + strip * STRIP * 4);
            // SAFETY: the assertions made all three slices long enough; anything may be prefetched.
            unsafe {
                _mm_prefetch::<_MM_HINT_T0>(ahead.cast());
                _mm_prefetch::<_MM_HINT_T0>(ahead.wrapping_add(64).cast());
                let groups = _mm256_cvtepu8_epi32(_mm_loadl_epi64(groups.cast()));
                let scales = _mm256_add_epi32(_mm256_and_si256(groups, _mm256_set1_epi32(15)), _mm256_set1_epi32(1));
                let zeros = _mm256_mullo_epi16(scales, _mm256_srli_epi32::<4>(groups));
                let zeros = _mm256_shuffle_epi8(zeros, lowest_byte);
                let scales = _mm256_or_si256(scales, _mm256_slli_epi32::<16>(scales));
                for eight in 0..GROUP / 8 {
                    let mut bytes = _mm256_loadu_si256(values.wrapping_add(eight * 4 * columns).cast());
                    for half in 0..2 {
                        let products = _mm256_mullo_epi16(_mm256_and_si256(bytes, four_bits), scales);
                        let target = output.wrapping_add((2 * eight + half) * 4 * columns);
                        _mm256_storeu_si256(target.cast(), _mm256_sub_epi8(products, zeros));
                        bytes = _mm256_srli_epi16::<4>(bytes);
                    }
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Groups of 32 columns and their values.
    fn runs() -> impl Strategy<Value = (Vec<u8>, Vec<u8>)> {
        let group = any::<u8>().prop_filter("it fits into int8", |&byte| Group::from_byte(byte).is_some());
        (1usize..5).prop_flat_map(move |depth| {
            let groups = prop::collection::vec(group.clone(), 32 * depth);
            (groups, prop::collection::vec(any::<u8>(), 32 * depth * GROUP / 2))
        })
    }

    proptest! {
        #[test]
        fn every_version_widens_to_units((groups, values) in runs(), columns in prop::sample::select(vec![16usize, 32])) {
            let mut plain = vec![0; 2 * values.len()];
            widen(&groups, &values, columns, &mut plain);
            for (index, found) in plain.iter().enumerate() {
                let (column, k) = (index / 4 % columns, index / (4 * columns) * 4 + index % 4);
                let value = values[(k / 8 * columns + column) * 4 + k % 4] >> (k / 4 % 2 * 4) & 15;
                let group = Group::from_byte(groups[k / GROUP * columns + column]).unwrap();
                prop_assert_eq!(i16::from(*found), group.int8(value));
            }
            #[cfg(target_arch = "x86_64")]
            if Isa::Avx2.is_available() {
                let mut fast = vec![0; plain.len()];
                // SAFETY: the instructions are there.
                unsafe { widen_avx2(&groups, &values, columns, &mut fast) };
                prop_assert_eq!(plain, fast);
            }
        }
    }
}
