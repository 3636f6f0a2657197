//! Ceilings of this machine: the instruction each kind of product is made of, on registers alone, and reading memory.
#![allow(unsafe_code)]

use std::time::Instant;

use rayon::prelude::*;

use super::Isa;

/// Operations of one call of a loop for each of its rounds.
struct Loop {
    run: fn(rounds: usize),
    operations: usize,
}

/// The most operations of f32 products a second on all threads of the pool, in units of 10⁹, with an instruction set.
pub(crate) fn ceiling_f32(isa: Isa) -> f64 {
    measure(&f32_loop(isa))
}

/// As [`ceiling_f32`], for bf16.
pub(crate) fn ceiling_bf16(isa: Isa) -> f64 {
    measure(&bf16_loop(isa))
}

/// As [`ceiling_f32`], for int8.
pub(crate) fn ceiling_i8(isa: Isa) -> f64 {
    measure(&i8_loop(isa))
}

/// The most bytes a second that all threads of the pool read from memory, in units of 10⁹.
pub(crate) fn memory_bandwidth() -> f64 {
    /// Bytes in all: more than caches hold.
    const BYTES: usize = 512 << 20;
    /// Words that a thread reads at a time.
    const STRETCH: usize = 1 << 16;
    const ATTEMPTS: usize = 3;
    let memory = vec![1u64; BYTES / size_of::<u64>()];
    let attempt = || {
        let start = Instant::now();
        let sum = memory.par_chunks(STRETCH).map(|words| words.iter().fold(0, |sum, word| sum ^ word)).sum::<u64>();
        std::hint::black_box(sum);
        BYTES as f64 / start.elapsed().as_secs_f64()
    };
    (0..ATTEMPTS).map(|_| attempt()).fold(0.0, f64::max) * 1e-9
}

/// The bf16 dot product of AVX-512 does fewer operations a second than multiplying and adding in f32, as on Intel's chips:
/// measured on this thread, in a fraction of a millisecond.
pub(super) fn dot_is_slow() -> bool {
    const ROUNDS: usize = 1 << 10;
    const ATTEMPTS: usize = 16;
    let rate = |measured: Loop| {
        let attempt = |_| {
            let start = Instant::now();
            (measured.run)(ROUNDS);
            measured.operations as f64 / start.elapsed().as_secs_f64()
        };
        (0..ATTEMPTS).map(attempt).fold(0.0, f64::max)
    };
    rate(bf16_loop(Isa::Avx512Bf16)) < rate(f32_loop(Isa::Avx512))
}

fn measure(measured: &Loop) -> f64 {
    const ROUNDS: usize = 1 << 18;
    const ATTEMPTS: usize = 32;
    let attempt = || -> f64 {
        let rates = rayon::broadcast(|_| {
            let start = Instant::now();
            (measured.run)(ROUNDS);
            (ROUNDS * measured.operations) as f64 / start.elapsed().as_secs_f64()
        });
        rates.into_iter().sum()
    };
    (0..ATTEMPTS).map(|_| attempt()).fold(0.0, f64::max) * 1e-9
}

#[cfg(not(target_arch = "x86_64"))]
fn f32_loop(_: Isa) -> Loop {
    scalar_loop()
}

#[cfg(not(target_arch = "x86_64"))]
fn bf16_loop(_: Isa) -> Loop {
    scalar_loop()
}

#[cfg(not(target_arch = "x86_64"))]
fn i8_loop(_: Isa) -> Loop {
    scalar_loop()
}

/// Left to the compiler, which knows the machine's baseline.
fn scalar_loop() -> Loop {
    fn run(rounds: usize) {
        let factor = std::hint::black_box([0.5f32; 64]);
        let mut sums = [0.0; 64];
        for _ in 0..rounds {
            for (sum, factor) in sums.iter_mut().zip(factor) {
                *sum += *sum * factor;
            }
        }
        std::hint::black_box(sums);
    }
    Loop { run, operations: 2 * 64 }
}

#[cfg(target_arch = "x86_64")]
use x86::{bf16_loop, f32_loop, i8_loop};

#[cfg(target_arch = "x86_64")]
mod x86 {
    use std::arch::x86_64::*;
    use std::hint::black_box;

    use super::{Isa, Loop, scalar_loop};
    use crate::cpu::kernel::amx;

    /// Enough independent sums to hide the latency of any of the instructions.
    const SUMS: usize = 12;

    macro_rules! register_loop {
        ($name:ident, $features:literal, $zero:expr, $one:expr, |$sum:ident, $value:ident| $step:expr) => {
            fn $name(rounds: usize) {
                #[target_feature(enable = $features)]
                fn body(rounds: usize) {
                    let $value = black_box($one);
                    let mut sums = [$zero; SUMS];
                    for _ in 0..rounds {
                        for $sum in &mut sums {
                            *$sum = $step;
                        }
                    }
                    black_box(sums);
                }
                // SAFETY: a loop is only picked for an instruction set that this machine has.
                unsafe { body(rounds) }
            }
        };
    }

    register_loop!(fma_256, "avx2,fma", _mm256_setzero_ps(), _mm256_set1_ps(0.5), |sum, value| {
        _mm256_fmadd_ps(value, value, *sum)
    });
    register_loop!(fma_512, "avx512f", _mm512_setzero_ps(), _mm512_set1_ps(0.5), |sum, value| {
        _mm512_fmadd_ps(value, value, *sum)
    });
    register_loop!(
        dot_bf16,
        "avx512f,avx512bf16",
        _mm512_setzero_ps(),
        _mm512_cvtne2ps_pbh(_mm512_set1_ps(0.5), _mm512_set1_ps(0.5)),
        |sum, value| _mm512_dpbf16_ps(*sum, value, value)
    );

    register_loop!(dot_i8, "avx512f,avx512vnni", _mm512_setzero_si512(), _mm512_set1_epi8(1), |sum, value| {
        _mm512_dpbusd_epi32(*sum, value, value)
    });

    register_loop!(dot_i8_256, "avx2,avxvnni", _mm256_setzero_si256(), _mm256_set1_epi8(1), |sum, value| {
        _mm256_dpbusd_avx_epi32(*sum, value, value)
    });

    pub(super) fn f32_loop(isa: Isa) -> Loop {
        match isa {
            Isa::Scalar => scalar_loop(),
            Isa::Avx2 | Isa::AvxVnni => Loop { run: fma_256, operations: SUMS * 16 },
            _ => Loop { run: fma_512, operations: SUMS * 32 },
        }
    }

    register_loop!(madd_256, "avx2", _mm256_setzero_si256(), _mm256_set1_epi16(1), |sum, value| {
        _mm256_add_epi32(*sum, _mm256_madd_epi16(value, *sum))
    });
    register_loop!(madd_512, "avx512f,avx512bw", _mm512_setzero_si512(), _mm512_set1_epi16(1), |sum, value| {
        _mm512_add_epi32(*sum, _mm512_madd_epi16(value, *sum))
    });

    pub(super) fn bf16_loop(isa: Isa) -> Loop {
        match isa {
            Isa::Amx => Loop { run: amx::dot_bf16, operations: amx::DOTS * 16 * 16 * 64 },
            Isa::Avx512Bf16 => Loop { run: dot_bf16, operations: SUMS * 64 },
            _ => f32_loop(isa),
        }
    }

    pub(super) fn i8_loop(isa: Isa) -> Loop {
        match isa {
            Isa::Amx => Loop { run: amx::dot_i8, operations: amx::DOTS * 16 * 16 * 128 },
            Isa::Avx512Bf16 => Loop { run: dot_i8, operations: SUMS * 128 },
            Isa::Avx512 => Loop { run: madd_512, operations: SUMS * 64 },
            Isa::AvxVnni => Loop { run: dot_i8_256, operations: SUMS * 64 },
            Isa::Avx2 => Loop { run: madd_256, operations: SUMS * 32 },
            Isa::Scalar => scalar_loop(),
        }
    }
}
