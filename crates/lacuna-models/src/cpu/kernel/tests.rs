//! Every kernel against a plain sum, on odd sizes.

use half::bf16;
use proptest::prelude::*;

use super::*;
use crate::cpu::kernel::isa::for_each_isa;
use crate::int4::{self, Group};

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

    fn operands<E: Element>(&self, kernel: &'static Kernel<E>) -> (Activations<E>, Panels<E>) {
        let mut activations = Activations::with(kernel);
        activations.fill(self.m, self.k, |row, values| {
            values.iter_mut().enumerate().for_each(|(k, value)| *value = self.activation(row, k));
        });
        (activations, Panels::pack_for(kernel, self.n, self.k, self.source()).expect("nothing fails"))
    }

    fn nibbles(&self, kernel: &'static Kernel<i8>) -> Nibbles {
        Nibbles::pack_for(kernel, self.n, self.k, self.source()).expect("nothing fails")
    }

    fn source(&self) -> impl Source<Error = ()> {
        |column: usize, from: usize, values: &mut [f32]| {
            (from..).zip(values).for_each(|(k, value)| *value = self.weight(column, k));
            Ok(())
        }
    }

    fn product<E: Element>(&self, kernel: &'static Kernel<E>, add: bool) -> Vec<f32> {
        let (activations, weights) = self.operands(kernel);
        let mut output: Vec<f32> = (0..self.m * self.n).map(|i| noise(3, i)).collect();
        multiply(&activations, &weights, &mut output, self.n, add);
        output
    }

    /// In blocks of `width` columns a product is the same.
    fn is_the_same_in_blocks<E: Element>(&self, kernel: &'static Kernel<E>, width: usize, add: bool) -> bool {
        let (activations, weights) = self.operands(kernel);
        let place = |index: usize| {
            let (row, column) = (index / self.n, index % self.n);
            (column / width * self.m + row) * width + column % width
        };
        let mut blocks = vec![0.0; self.m * self.n.next_multiple_of(width)];
        (0..self.m * self.n).for_each(|index| blocks[place(index)] = noise(3, index));
        multiply(&activations, &weights, &mut blocks, width, add);
        // What stands there may be added first or last.
        let same = |found: f32, value: f32| if add { (found - value).abs() < 1e-3 } else { found == value };
        self.product(kernel, add).iter().enumerate().all(|(index, &value)| same(blocks[place(index)], value))
    }

    fn row_is_the_same_alone<E: Element>(&self, kernel: &'static Kernel<E>, row: usize) -> bool {
        let (mut activations, weights) = self.operands(kernel);
        let mut together = vec![0.0; self.m * self.n];
        multiply(&activations, &weights, &mut together, self.n, false);
        activations.fill(1, self.k, |_, values| {
            values.iter_mut().enumerate().for_each(|(k, value)| *value = self.activation(row, k));
        });
        let mut alone = vec![0.0; self.n];
        multiply(&activations, &weights, &mut alone, self.n, false);
        together[row * self.n..(row + 1) * self.n] == alone[..]
    }

    /// A row is the same if its columns are multiplied in pieces, packed for attention.
    fn small_is_the_same<E: Element>(&self, kernel: &'static Kernel<E>) -> bool {
        let whole = self.product(kernel, false);
        let mut activations = Activations::with(kernel);
        activations.resize(self.m, self.k);
        for row in 0..self.m {
            let values: Vec<f32> = (0..self.k).map(|k| self.activation(row, k)).collect();
            for (piece, values) in values.chunks(Activations::<E>::PIECE).enumerate() {
                activations.put(row, piece * Activations::<E>::PIECE, values);
            }
        }
        // Panels with room for more than k values.
        let panel = (self.k.next_multiple_of(kernel.step) + 2 * kernel.step) * kernel.columns;
        let mut weights = vec![E::default(); self.n.div_ceil(kernel.columns) * panel];
        for (column, k) in (0..self.n).flat_map(|column| (0..self.k).map(move |k| (column, k))) {
            let (columns, group) = (kernel.columns, E::GROUP);
            let index = column / columns * panel + (k / group * columns + column % columns) * group + k % group;
            E::narrow(&[self.weight(column, k)], 1.0, &mut weights[index..=index]);
        }
        let small = Small { activations: &activations, weights: &weights, panel, n: self.n };
        let stride = self.n + 5;
        let mut rows = vec![0.0; self.m * stride];
        small.multiply(&mut rows, stride);
        rows.chunks_exact(stride).zip(whole.chunks_exact(self.n)).all(|(row, whole)| row[..self.n] == *whole)
    }

    /// A gated product is the same as silu and product of the two halves, bit for bit.
    fn gated_is_the_same<E: Element>(&self, kernel: &'static Kernel<E>) -> bool {
        let (activations, halves) = self.operands(kernel);
        assert!(can_gate(&halves), "whole panels");
        let width = self.n / 2;
        let mut gated = vec![0.0; self.m * width];
        multiply_gated(&activations, &halves, &mut gated);
        let both = self.product(kernel, false);
        // As the input of another product, whose kernel may take it so.
        let same = bf16_kernels().into_iter().all(|(_, kernel)| {
            let next = Self { m: self.m, n: 40, k: width };
            let (mut rows, weights) = next.operands(kernel);
            rows.fill(self.m, width, |row, values| values.copy_from_slice(&gated[row * width..][..width]));
            let mut pieces = Activations::with(kernel);
            if !multiply_gated_into(&activations, &halves, &mut pieces) {
                return !pieces.takes_pieces(halves.kernel().columns);
            }
            let product = |activations: &Activations<bf16>| {
                let mut product = vec![0.0; next.m * next.n];
                multiply(activations, &weights, &mut product, next.n, false);
                product
            };
            product(&rows) == product(&pieces)
        });
        same && gated.chunks_exact(width).zip(both.chunks_exact(self.n)).all(|(gated, both)| {
            let mut expected = both[..width].to_vec();
            silu_times(&mut expected, &both[width..]);
            gated == expected
        })
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

/// The kernels that this machine can run, and those in plain Rust that have the layouts of others.
fn kernels<E: Element>(twins: &[&'static Kernel<E>]) -> Vec<(String, &'static Kernel<E>)> {
    let own = Isa::available().map(|isa| (isa.to_string(), E::kernel_for(isa)));
    own.chain(twins.iter().map(|&twin| ("amx's twin".to_owned(), twin))).collect()
}

fn f32_kernels() -> Vec<(String, &'static Kernel<f32>)> {
    kernels(&[])
}

#[cfg(target_arch = "x86_64")]
fn bf16_kernels() -> Vec<(String, &'static Kernel<bf16>)> {
    kernels(&[&amx::BF16_TWIN])
}

#[cfg(not(target_arch = "x86_64"))]
fn bf16_kernels() -> Vec<(String, &'static Kernel<bf16>)> {
    kernels(&[])
}

#[cfg(target_arch = "x86_64")]
fn i8_kernels() -> Vec<(String, &'static Kernel<i8>)> {
    kernels(&[&amx::I8_TWIN])
}

#[cfg(not(target_arch = "x86_64"))]
fn i8_kernels() -> Vec<(String, &'static Kernel<i8>)> {
    kernels(&[])
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    #[test]
    fn a_gated_product_is_that_of_both_halves(m in 1usize..300, panels in 1usize..12, k in 1usize..200) {
        let case = |columns: usize| Case { m, n: 2 * panels * columns, k };
        for (name, kernel) in f32_kernels() {
            prop_assert!(case(kernel.columns).gated_is_the_same(kernel), "f32 with {name}");
        }
        for (name, kernel) in bf16_kernels() {
            prop_assert!(case(kernel.columns).gated_is_the_same(kernel), "bf16 with {name}");
        }
        for (name, kernel) in i8_kernels() {
            prop_assert!(case(kernel.columns).gated_is_the_same(kernel), "int8 with {name}");
        }
    }

    #[test]
    fn a_product_in_blocks_is_that_of_rows(
        m in 1usize..80, n in 1usize..200, k in 1usize..1200, width in 1usize..150, add: bool
    ) {
        let case = Case { m, n, k };
        for (name, kernel) in f32_kernels() {
            prop_assert!(case.is_the_same_in_blocks(kernel, width, add), "f32 with {name}");
        }
        for (name, kernel) in bf16_kernels() {
            prop_assert!(case.is_the_same_in_blocks(kernel, width, add), "bf16 with {name}");
            prop_assert!(case.is_the_same_in_blocks(kernel, 2 * kernel.columns, add), "bf16 with {name}");
        }
        for (name, kernel) in i8_kernels() {
            prop_assert!(case.is_the_same_in_blocks(kernel, width, add), "int8 with {name}");
        }
    }

    #[test]
    fn every_kernel_gives_the_exact_product(m in 1usize..80, n in 1usize..100, k in 1usize..1200, add: bool) {
        let case = Case { m, n, k };
        let exact = case.exact(f64::from, add);
        let exact_bf16 = case.exact(|x| bf16::from_f32(x).to_f64(), add);
        let tolerance = 1e-5 * (k as f64).sqrt();
        for (name, kernel) in f32_kernels() {
            let error = worst(&case.product(kernel, add), &exact);
            prop_assert!(error < tolerance, "{name} f32 is off by {error:e}");
        }
        for (name, kernel) in bf16_kernels() {
            let error = worst(&case.product(kernel, add), &exact_bf16);
            prop_assert!(error < tolerance, "{name} bf16 is off by {error:e}");
        }
    }

    #[test]
    fn every_int8_kernel_gives_the_same_bits_and_nearly_the_product(m in 1usize..80, n in 1usize..100, k in 1usize..1200) {
        let case = Case { m, n, k };
        let plain = case.product(&scalar::I8, true);
        // Each factor is off by at most half of 1/127.
        let error = worst(&plain, &case.exact(f64::from, true));
        prop_assert!(error < 0.02 * (k as f64).sqrt() + 0.01, "int8 is off by {error:e}");
        for (name, kernel) in i8_kernels() {
            prop_assert_eq!(&case.product(kernel, true), &plain, "{}", name);
        }
    }

    #[test]
    fn int4_is_int8_with_weights_of_whole_units(m in 1usize..40, n in 1usize..70, k in 1usize..1200) {
        let case = Case { m, n, k };
        let mut groups = vec![Group::default(); int4::groups(k)];
        let mut rounded = vec![0.0; n * k];
        let mut row_scales = vec![0.0; n];
        for (column, row_scale) in row_scales.iter_mut().enumerate() {
            let row: Vec<f32> = (0..k).map(|k| case.weight(column, k)).collect();
            *row_scale = int4::choose(&row, &mut groups);
            let mut values = vec![0; k];
            int4::round(&row, *row_scale, &groups, &mut values);
            for (k, value) in values.iter().enumerate() {
                rounded[column * case.k + k] = f32::from(groups[k / int4::GROUP].int8(*value)) * *row_scale;
            }
        }
        struct Rounded<'a>(&'a [f32], &'a [f32], usize);
        impl Source for Rounded<'_> {
            type Error = ();
            fn read(&self, column: usize, from: usize, values: &mut [f32]) -> Result<(), ()> {
                values.copy_from_slice(&self.0[column * self.2 + from..][..values.len()]);
                Ok(())
            }
            fn scale(&self, column: usize) -> Option<f32> {
                Some(self.1[column])
            }
        }
        for (name, kernel) in i8_kernels() {
            let (activations, _) = case.operands(kernel);
            let [mut four, mut eight] = [vec![0.0; m * n], vec![0.0; m * n]];
            multiply(&activations, &case.nibbles(kernel), &mut four, n, false);
            let weights = Panels::pack_for(kernel, n, k, Rounded(&rounded, &row_scales, k)).unwrap();
            multiply(&activations, &weights, &mut eight, n, false);
            prop_assert_eq!(&four, &eight, "{}", name);
            let (plain, _) = case.operands(&scalar::I8);
            multiply(&plain, &case.nibbles(&scalar::I8), &mut eight, n, false);
            prop_assert_eq!(&four, &eight, "{}", name);
        }
    }

    #[test]
    fn a_row_does_not_depend_on_its_company(m in 2usize..80, n in 1usize..100, k in 1usize..600, pick in 0usize..80) {
        let case = Case { m, n, k };
        for (name, kernel) in f32_kernels() {
            prop_assert!(case.row_is_the_same_alone(kernel, pick % m), "{name} f32");
        }
        for (name, kernel) in bf16_kernels() {
            prop_assert!(case.row_is_the_same_alone(kernel, pick % m), "{name} bf16");
        }
        for (name, kernel) in i8_kernels() {
            prop_assert!(case.row_is_the_same_alone(kernel, pick % m), "{name} int8");
        }
    }

    #[test]
    fn small_products_are_the_same_as_large_ones(m in 1usize..50, n in 1usize..300, k in 1usize..1100) {
        let case = Case { m, n, k };
        for (name, kernel) in f32_kernels() {
            prop_assert!(case.small_is_the_same(kernel), "{name} f32");
        }
        for (name, kernel) in bf16_kernels() {
            prop_assert!(case.small_is_the_same(kernel), "{name} bf16");
        }
    }

    #[test]
    fn narrowing_a_row_is_rounding_each_value(bits in prop::collection::vec(any::<u32>(), 1..70)) {
        let row: Vec<f32> = bits.into_iter().map(f32::from_bits).collect();
        let mut narrow = vec![bf16::ZERO; row.len()];
        bf16::narrow(&row, 1.0, &mut narrow);
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
fn row_functions_fuse_only_what_says_so() {
    let (x, y) = (1.0 + f32::EPSILON, 1.0 - f32::EPSILON);
    assert_eq!(unfused(x, y, -1.0), 0.0);
}

#[test]
fn the_depth_of_every_kernel_is_whole_pieces_and_steps() {
    fn check<E: Element>(name: &str, kernel: &Kernel<E>) {
        assert!(kernel.depth.is_multiple_of(Activations::<E>::PIECE), "{name}");
        assert!(kernel.depth.is_multiple_of(kernel.block) && kernel.block.is_multiple_of(E::GROUP), "{name}");
        assert!(kernel.depth.is_multiple_of(kernel.step) && kernel.step.is_multiple_of(E::GROUP), "{name}");
        assert!(kernel.task_rows.is_multiple_of(kernel.rows), "{name}");
    }
    f32_kernels().iter().for_each(|(name, kernel)| check(name, kernel));
    bf16_kernels().iter().for_each(|(name, kernel)| check(name, kernel));
    i8_kernels().iter().for_each(|(name, kernel)| check(name, kernel));
}

#[test]
fn instruction_sets_have_names_and_wrong_ones_are_told() {
    for isa in Isa::ALL {
        assert_eq!(isa.name().parse::<Isa>().unwrap(), isa);
    }
    let error = "sse9".parse::<Isa>().unwrap_err().to_string();
    assert_eq!(error, "there is no instruction set sse9: use auto, amx, avx512bf16, avx512, avxvnni, avx2, scalar");
    assert!(Isa::Scalar.is_available());
}
