//! Which instructions this machine has.

use std::sync::OnceLock;

/// An instruction set the kernels are written for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[cfg_attr(not(target_arch = "x86_64"), allow(dead_code, reason = "one enum for all machines"))]
pub(crate) enum Isa {
    Scalar,
    Avx2,
    Avx512,
    /// AVX-512 with dot products of bf16 and of int8.
    Avx512Dot,
}

impl Isa {
    /// The best one this machine has.
    pub(crate) fn best() -> Self {
        static BEST: OnceLock<Isa> = OnceLock::new();
        *BEST.get_or_init(detect)
    }

    /// All that this machine has.
    #[cfg(test)]
    pub(crate) fn available() -> impl Iterator<Item = Self> {
        [Isa::Scalar, Isa::Avx2, Isa::Avx512, Isa::Avx512Dot].into_iter().filter(|&isa| isa <= Isa::best())
    }
}

#[cfg(target_arch = "x86_64")]
fn detect() -> Isa {
    let avx2 = is_x86_feature_detected!("avx2") && is_x86_feature_detected!("fma");
    let avx512 = avx2
        && is_x86_feature_detected!("avx512f")
        && is_x86_feature_detected!("avx512bw")
        && is_x86_feature_detected!("avx512dq")
        && is_x86_feature_detected!("avx512vl");
    let dot = is_x86_feature_detected!("avx512bf16") && is_x86_feature_detected!("avx512vnni");
    match (avx2, avx512, dot) {
        (_, true, true) => Isa::Avx512Dot,
        (_, true, false) => Isa::Avx512,
        (true, false, _) => Isa::Avx2,
        _ => Isa::Scalar,
    }
}

#[cfg(not(target_arch = "x86_64"))]
fn detect() -> Isa {
    Isa::Scalar
}

/// Compiles a function on rows once for each instruction set and picks at run time.
///
/// The body is plain Rust that the compiler vectorizes. It never fuses a multiplication with an addition by itself, so every
/// version gives the same bits.
macro_rules! for_each_isa {
    ($(#[$doc:meta])* fn $name:ident($($argument:ident: $type:ty),* $(,)?) $(-> $result:ty)? $body:block) => {
        $(#[$doc])*
        #[allow(unsafe_code)]
        pub(crate) fn $name($($argument: $type),*) $(-> $result)? {
            #[inline(always)]
            fn body($($argument: $type),*) $(-> $result)? $body

            #[cfg(target_arch = "x86_64")]
            {
                #[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl")]
                fn avx512($($argument: $type),*) $(-> $result)? {
                    body($($argument),*)
                }
                #[target_feature(enable = "avx2")]
                fn avx2($($argument: $type),*) $(-> $result)? {
                    body($($argument),*)
                }
                match $crate::cpu::kernel::Isa::best() {
                    $crate::cpu::kernel::Isa::Scalar => body($($argument),*),
                    // SAFETY: `Isa::best` found these instructions on this machine.
                    $crate::cpu::kernel::Isa::Avx2 => unsafe { avx2($($argument),*) },
                    // SAFETY: as above.
                    _ => unsafe { avx512($($argument),*) },
                }
            }
            #[cfg(not(target_arch = "x86_64"))]
            body($($argument),*)
        }
    };
}

pub(crate) use for_each_isa;
