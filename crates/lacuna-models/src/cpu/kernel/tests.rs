//! Every kernel against a plain sum, on odd sizes.

use half::bf16;
use proptest::prelude::*;

use super::multiply::multiply_with;
use super::*;
use crate::cpu::kernel::isa::for_each_isa;

/// Numbers in [−1, 1) that look random.
fn noise(seed: u64, index: usize) -> f32 {
    let mut x = seed ^ (index as u64).wrapping_mul(0x9E37_79B9_7F4A_7C15);
    x = (x ^ (x >> 31)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    ((x ^ (x >> 29)) >> 40) as f32 / (1 << 23) as f32 - 1.0
}

struct Case {
    m: usize,
    n: usize,
    k: usize,
}

impl Case {
    fn activation(&self, row: usize, k: usize) -> f32 {
        noise(1, row * self.k + k)
    }

    fn weight(&self, column: usize, k: usize) -> f32 {
        noise(2, column * self.k + k)
    }

    fn operands<E: Element>(&self) -> (Activations<E>, Panels<E>) {
        let mut activations = Activations::new();
        activations.fill(self.m, self.k, |row, values| {
            values.iter_mut().enumerate().for_each(|(k, value)| *value = self.activation(row, k));
        });
        let weights = Panels::pack::<()>(self.n, self.k, |column, from, values| {
            (from..).zip(values).for_each(|(k, value)| *value = self.weight(column, k));
            Ok(())
        });
        (activations, weights.expect("nothing fails"))
    }

    fn product<E: Element>(&self, isa: Isa, add: bool) -> Vec<f32> {
        let (activations, weights) = self.operands::<E>();
        let mut output: Vec<f32> = (0..self.m * self.n).map(|i| noise(3, i)).collect();
        multiply_with(isa, &activations, &weights, &mut output, self.n, add);
        output
    }

    fn row_is_the_same_alone<E: Element>(&self, isa: Isa, row: usize) -> bool {
        let (mut activations, weights) = self.operands::<E>();
        let mut together = vec![0.0; self.m * self.n];
        multiply_with(isa, &activations, &weights, &mut together, self.n, false);
        activations.fill(1, self.k, |_, values| {
            values.iter_mut().enumerate().for_each(|(k, value)| *value = self.activation(row, k));
        });
        let mut alone = vec![0.0; self.n];
        multiply_with(isa, &activations, &weights, &mut alone, self.n, false);
        together[row * self.n..(row + 1) * self.n] == alone[..]
    }

    fn exact(&self, narrow: fn(f32) -> f64, add: bool) -> Vec<f64> {
        let sum = |row, column| -> f64 {
            (0..self.k).map(|k| narrow(self.activation(row, k)) * narrow(self.weight(column, k))).sum()
        };
        (0..self.m * self.n)
            .map(|i| sum(i / self.n, i % self.n) + if add { f64::from(noise(3, i)) } else { 0.0 })
            .collect()
    }
}

fn worst(found: &[f32], exact: &[f64]) -> f64 {
    found.iter().zip(exact).map(|(&found, exact)| (f64::from(found) - exact).abs()).fold(0.0, f64::max)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    #[test]
    fn every_kernel_gives_the_exact_product(m in 1usize..40, n in 1usize..100, k in 1usize..600, add: bool) {
        let case = Case { m, n, k };
        let exact = case.exact(f64::from, add);
        let exact_bf16 = case.exact(|x| bf16::from_f32(x).to_f64(), add);
        let tolerance = 1e-5 * (k as f64).sqrt();
        for isa in Isa::available() {
            let error = worst(&case.product::<f32>(isa, add), &exact);
            prop_assert!(error < tolerance, "{isa:?} f32 is off by {error:e}");
            let error = worst(&case.product::<bf16>(isa, add), &exact_bf16);
            prop_assert!(error < tolerance, "{isa:?} bf16 is off by {error:e}");
        }
    }

    #[test]
    fn every_int8_kernel_gives_the_same_bits_and_nearly_the_product(m in 1usize..40, n in 1usize..100, k in 1usize..1200) {
        let case = Case { m, n, k };
        let plain = case.product::<i8>(Isa::Scalar, true);
        // Each factor is off by at most half of 1/127.
        let error = worst(&plain, &case.exact(f64::from, true));
        prop_assert!(error < 0.02 * (k as f64).sqrt() + 0.01, "int8 is off by {error:e}");
        for isa in Isa::available() {
            prop_assert_eq!(&case.product::<i8>(isa, true), &plain, "{:?}", isa);
        }
    }

    #[test]
    fn a_row_does_not_depend_on_its_company(m in 2usize..60, n in 1usize..100, k in 1usize..600, pick in 0usize..60) {
        let case = Case { m, n, k };
        for isa in Isa::available() {
            prop_assert!(case.row_is_the_same_alone::<f32>(isa, pick % m));
            prop_assert!(case.row_is_the_same_alone::<bf16>(isa, pick % m));
            prop_assert!(case.row_is_the_same_alone::<i8>(isa, pick % m));
        }
    }

    #[test]
    fn small_products_are_the_same_as_large_ones(m in 1usize..50, n in 1usize..600, k in 1usize..600) {
        let case = Case { m, n, k };
        let whole = case.product::<f32>(Isa::best(), false);
        let mut activations = vec![0.0; layout_length::<f32>(m, k)];
        for (row, index) in (0..m).flat_map(|row| (0..k).map(move |index| (row, index))) {
            activations[run_offset::<f32>(k, row, index / f32::DEPTH) + index % f32::DEPTH] = case.activation(row, index);
        }
        // Panels with room for more than k values.
        let panel = (k + 3) * COLUMNS;
        let mut weights = vec![0.0; n.div_ceil(COLUMNS) * panel];
        for (column, index) in (0..n).flat_map(|column| (0..k).map(move |index| (column, index))) {
            weights[column / COLUMNS * panel + panel_index::<f32>(index, column % COLUMNS)] = case.weight(column, index);
        }
        let small = Small { activations: &activations, rows: m, k, weights: &weights, panel, n };
        let mut rows = vec![0.0; m * n];
        small.multiply(&mut rows, Target::Rows { stride: n });
        prop_assert_eq!(&rows, &whole);
        let mut laid_out = vec![0.0; layout_length::<f32>(m, n)];
        small.multiply(&mut laid_out, Target::Activations);
        for (index, &value) in whole.iter().enumerate() {
            let (row, column) = (index / n, index % n);
            prop_assert_eq!(laid_out[run_offset::<f32>(n, row, column / f32::DEPTH) + column % f32::DEPTH], value);
        }
    }

    #[test]
    fn narrowing_a_row_is_rounding_each_value(bits in prop::collection::vec(any::<u32>(), 1..70)) {
        let row: Vec<f32> = bits.into_iter().map(f32::from_bits).collect();
        let mut narrow = vec![bf16::ZERO; row.len()];
        bf16::narrow_row(&row, 1.0, &mut narrow);
        for (value, narrow) in row.iter().zip(narrow) {
            prop_assert_eq!(narrow.to_bits(), bf16::from_f32(*value).to_bits());
        }
    }
}

for_each_isa! {
    /// A body that shows whether it was compiled with fused operations.
    fn unfused(x: f32, y: f32, z: f32) -> f32 {
        x * y + z
    }
}

#[test]
fn row_functions_never_fuse() {
    let (x, y) = (1.0 + f32::EPSILON, 1.0 - f32::EPSILON);
    assert_eq!(unfused(x, y, -1.0), 0.0);
}
