//! Instruction sets: which ones this machine has, and which one each kind of product uses.

use std::fmt;
use std::str::FromStr;
use std::sync::OnceLock;

use crate::cpu::NO_FP8;
use crate::{Error, Precision, Result};

/// An instruction set that matrix products are written for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Isa {
    /// Plain Rust.
    Scalar,
    /// AVX2 and FMA.
    Avx2,
    /// AVX2 with a dot product of int8 (AVX-VNNI), as laptops have it.
    AvxVnni,
    /// AVX-512 without dot products.
    Avx512,
    /// AVX-512 with dot products of bf16 and of int8 (VNNI).
    Avx512Bf16,
    /// Intel's matrix unit, in bf16 and int8. f32 products use AVX-512.
    Amx,
}

/// The environment variable that names an instruction set.
const VARIABLE: &str = "LACUNA_ISA";

/// The instruction set asked for, if one is.
static ASKED: OnceLock<Option<Isa>> = OnceLock::new();

impl Isa {
    /// All of them, the simplest first.
    pub const ALL: [Self; 6] = [Self::Scalar, Self::Avx2, Self::AvxVnni, Self::Avx512, Self::Avx512Bf16, Self::Amx];

    /// Its name.
    pub fn name(self) -> &'static str {
        match self {
            Self::Scalar => "scalar",
            Self::Avx2 => "avx2",
            Self::AvxVnni => "avxvnni",
            Self::Avx512 => "avx512",
            Self::Avx512Bf16 => "avx512bf16",
            Self::Amx => "amx",
        }
    }

    /// Those that this machine has.
    pub fn available() -> impl Iterator<Item = Self> {
        Self::ALL.into_iter().filter(|&isa| isa.is_available())
    }

    /// This machine has it.
    pub fn is_available(self) -> bool {
        match self {
            Self::Amx => amx(),
            Self::AvxVnni => avx_vnni(),
            _ => self <= vectors(),
        }
    }

    /// Uses one instruction set for all products of this process, or with `None` the one that `LACUNA_ISA` names, or if that is
    /// not set the fastest for each precision. It is to be called before the first model is loaded.
    pub fn choose(asked: Option<Self>) -> Result<()> {
        let asked = match asked {
            Some(isa) => Some(isa),
            None => named_in_environment()?,
        };
        if let Some(isa) = asked.filter(|isa| !isa.is_available()) {
            let available: Vec<&str> = Self::available().map(Self::name).collect();
            return Err(Error::Request(format!(
                "this machine does not have the instruction set {isa}: it has {}",
                available.join(", ")
            )));
        }
        let used = *ASKED.get_or_init(|| asked);
        if asked.is_some() && used != asked {
            let used = used.map_or("auto", Self::name);
            return Err(Error::Request(format!(
                "the instruction set is already {used}: choose another one before the first model is loaded"
            )));
        }
        Ok(())
    }

    /// The one that products of a precision use.
    ///
    /// # Panics
    /// For fp8, which the CPU does not have.
    pub fn in_use(precision: Precision) -> Self {
        Choice::made().of(precision)
    }

    /// The fastest one for products of a precision, whatever was asked for.
    ///
    /// # Panics
    /// For fp8, which the CPU does not have.
    pub fn fastest(precision: Precision) -> Self {
        Choice::fastest().of(precision)
    }

    /// Instruction set for vectors that functions on rows are compiled for.
    pub(crate) fn of_rows() -> Self {
        static ROWS: OnceLock<Isa> = OnceLock::new();
        *ROWS.get_or_init(|| asked().unwrap_or(Self::Amx).min(vectors()))
    }
}

impl fmt::Display for Isa {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(self.name())
    }
}

impl FromStr for Isa {
    type Err = Error;

    fn from_str(name: &str) -> Result<Self> {
        Self::ALL.into_iter().find(|isa| isa.name() == name).ok_or_else(|| {
            let names: Vec<&str> = Self::ALL.iter().rev().map(|isa| isa.name()).collect();
            Error::Request(format!("there is no instruction set {name}: use auto, {}", names.join(", ")))
        })
    }
}

/// The instruction set that the environment names; `auto` and nothing name none.
fn named_in_environment() -> Result<Option<Isa>> {
    match std::env::var(VARIABLE) {
        Ok(name) if !name.is_empty() && name != "auto" => {
            name.parse().map(Some).map_err(|error| Error::Request(format!("{VARIABLE}: {error}")))
        }
        _ => Ok(None),
    }
}

/// The instruction set asked for. A wrong one in the environment counts for nothing here: loading a model reports it.
fn asked() -> Option<Isa> {
    let available = |isa: &Isa| isa.is_available();
    *ASKED.get_or_init(|| named_in_environment().ok().flatten().filter(available))
}

/// The instruction set of each kind of product.
pub(crate) struct Choice {
    pub(crate) f32: Isa,
    pub(crate) bf16: Isa,
    pub(crate) i8: Isa,
}

impl Choice {
    /// The choice for this process: what was asked for, or the fastest.
    pub(crate) fn made() -> &'static Self {
        static CHOICE: OnceLock<Choice> = OnceLock::new();
        CHOICE.get_or_init(|| match asked() {
            Some(isa) => Self { f32: isa.min(vectors()), bf16: isa, i8: isa },
            None => Self::fastest(),
        })
    }

    fn of(&self, precision: Precision) -> Isa {
        match precision {
            Precision::F32 => self.f32,
            Precision::Bf16 => self.bf16,
            Precision::Int8 | Precision::Int4 => self.i8,
            Precision::Fp8 => unreachable!("{NO_FP8}"),
        }
    }

    /// The fastest instruction set for each kind of product.
    fn fastest() -> Self {
        let vectors = vectors();
        let (bf16, i8) = if amx() {
            (Isa::Amx, Isa::Amx)
        } else if vectors == Isa::Avx512Bf16 && super::ceiling::dot_is_slow() {
            (Isa::Avx512, vectors)
        } else {
            (vectors, vectors)
        };
        Self { f32: vectors, bf16, i8 }
    }
}

/// The best instruction set for vectors that this machine has.
#[cfg(target_arch = "x86_64")]
fn vectors() -> Isa {
    static VECTORS: OnceLock<Isa> = OnceLock::new();
    *VECTORS.get_or_init(|| {
        let avx2 = is_x86_feature_detected!("avx2") && is_x86_feature_detected!("fma");
        let avx512 = avx2
            && is_x86_feature_detected!("avx512f")
            && is_x86_feature_detected!("avx512bw")
            && is_x86_feature_detected!("avx512dq")
            && is_x86_feature_detected!("avx512vl");
        let dot = is_x86_feature_detected!("avx512bf16") && is_x86_feature_detected!("avx512vnni");
        match (avx2, avx512, dot) {
            (_, true, true) => Isa::Avx512Bf16,
            (_, true, false) => Isa::Avx512,
            (true, false, _) if avx_vnni() => Isa::AvxVnni,
            (true, false, _) => Isa::Avx2,
            _ => Isa::Scalar,
        }
    })
}

/// AVX2 has a dot product of int8. Some chips have it beside AVX-512, and some with AVX-512 do not.
#[cfg(target_arch = "x86_64")]
fn avx_vnni() -> bool {
    is_x86_feature_detected!("avx2") && is_x86_feature_detected!("fma") && is_x86_feature_detected!("avxvnni")
}

#[cfg(not(target_arch = "x86_64"))]
fn avx_vnni() -> bool {
    false
}

#[cfg(not(target_arch = "x86_64"))]
fn vectors() -> Isa {
    Isa::Scalar
}

/// The matrix unit can be used. Its epilogues are written in AVX-512.
#[cfg(target_arch = "x86_64")]
fn amx() -> bool {
    static AMX: OnceLock<bool> = OnceLock::new();
    *AMX.get_or_init(|| vectors() >= Isa::Avx512 && super::amx::usable())
}

#[cfg(not(target_arch = "x86_64"))]
fn amx() -> bool {
    false
}

/// Compiles a function on rows once for each instruction set and picks at run time.
///
/// The body is plain Rust that the compiler vectorizes. It fuses a multiplication with an addition only where `mul_add` says so, so
/// every version gives the same bits.
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
                #[target_feature(enable = "avx2,fma")]
                fn avx2($($argument: $type),*) $(-> $result)? {
                    body($($argument),*)
                }
                match $crate::cpu::kernel::Isa::of_rows() {
                    $crate::cpu::kernel::Isa::Scalar => body($($argument),*),
                    // SAFETY: `Isa::of_rows` found these instructions on this machine.
                    $crate::cpu::kernel::Isa::Avx2 | $crate::cpu::kernel::Isa::AvxVnni => unsafe {
                        avx2($($argument),*)
                    },
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
