//! Structs that kernels and the host share, declared once: here in Rust, from which their CUDA text is made.
#![allow(unsafe_code, reason = "a promise about the layout of structs")]

use std::hash::{Hash, Hasher};
use std::marker::PhantomData;

use super::super::buffer::{DeviceSlice, Plain};

/// The index of no row, token or read.
pub(crate) const ABSENT: u32 = u32::MAX;

/// A size as kernels count it.
pub(crate) fn to_u32(size: usize) -> u32 {
    u32::try_from(size).expect("a size exceeds 32 bits, which is what kernels count with")
}

/// A value of the dtype that attention and products are computed in: bf16 or f32, as the kernels were compiled.
pub(crate) enum Element {}

/// Memory whose type another argument tells.
pub(crate) enum Untyped {}

/// A type with a name in CUDA.
pub(crate) trait CType {
    fn name() -> String;
}

/// A struct with a declaration in CUDA.
pub(crate) trait CStruct: Plain + CType {
    /// The declaration, and assertions that the compiler lays it out as Rust does.
    fn declaration() -> String;
}

macro_rules! c_types {
    ($($kind:ty: $name:literal),* $(,)?) => {
        $(impl CType for $kind {
            fn name() -> String {
                $name.to_string()
            }
        })*
    };
}
c_types! { u8: "u8", u32: "u32", u64: "u64", f32: "float", f64: "double", Element: "element", Untyped: "void" }

macro_rules! pointers {
    ($($(#[$meta:meta])* $name:ident: $prefix:literal),*) => {$(
        $(#[$meta])*
        #[repr(transparent)]
        pub(crate) struct $name<T> {
            address: u64,
            kind: PhantomData<fn() -> T>,
        }

        impl<T> $name<T> {
            /// The null pointer.
            pub(crate) const NULL: Self = Self { address: 0, kind: PhantomData };

            pub(crate) fn at(address: u64) -> Self {
                Self { address, kind: PhantomData }
            }
        }

        impl<T> Clone for $name<T> {
            fn clone(&self) -> Self {
                *self
            }
        }

        impl<T> Copy for $name<T> {}

        impl<T> Default for $name<T> {
            fn default() -> Self {
                Self::NULL
            }
        }

        impl<T> PartialEq for $name<T> {
            fn eq(&self, other: &Self) -> bool {
                self.address == other.address
            }
        }

        impl<T> Eq for $name<T> {}

        impl<T> Hash for $name<T> {
            fn hash<H: Hasher>(&self, state: &mut H) {
                self.address.hash(state);
            }
        }

        // SAFETY: it is a number; the host never follows it.
        unsafe impl<T: 'static> Plain for $name<T> {}

        impl<T: CType> CType for $name<T> {
            fn name() -> String {
                format!("{}{}*", $prefix, T::name())
            }
        }

        impl<T> From<DeviceSlice<'_, T>> for $name<T> {
            fn from(slice: DeviceSlice<'_, T>) -> Self {
                Self::at(slice.address())
            }
        }

        impl<T> From<Option<DeviceSlice<'_, T>>> for $name<T> {
            fn from(slice: Option<DeviceSlice<'_, T>>) -> Self {
                slice.map_or(Self::NULL, Self::from)
            }
        }
    )*};
}
pointers! {
    /// An address that kernels read from. How long the memory behind it lives is the business of whoever launches.
    In: "const ",
    /// An address that kernels write to. How long the memory behind it lives is the business of whoever launches.
    Out: ""
}

/// Declares structs that kernels take, or find in memory: for Rust, and as text for CUDA.
macro_rules! c_structs {
    ($($(#[$meta:meta])* struct $name:ident {
        $($(#[$field_meta:meta])* $field:ident: $kind:ty,)*
    })*) => {
        $(
            $(#[$meta])*
            #[repr(C)]
            #[derive(Clone, Copy, Default)]
            pub(crate) struct $name {
                $($(#[$field_meta])* pub(crate) $field: $kind,)*
            }

            const _: () = {
                const fn is_plain<T: $crate::cuda::buffer::Plain>() {}
                $(is_plain::<$kind>();)*
            };

            // SAFETY: all fields are plain, which the lines above make sure of.
            unsafe impl $crate::cuda::buffer::Plain for $name {}

            impl $crate::cuda::kernel::structs::CType for $name {
                fn name() -> String {
                    stringify!($name).to_string()
                }
            }

            impl $crate::cuda::kernel::structs::CStruct for $name {
                fn declaration() -> String {
                    use $crate::cuda::kernel::structs::CType;
                    let fields = [$(format!("    {} {};\n", <$kind as CType>::name(), stringify!($field)),)*].concat();
                    let offsets = [$(
                        format!(
                            "static_assert(OFFSET_OF({}, {field}) == {}, \"{field} lies elsewhere in Rust\");\n",
                            stringify!($name),
                            std::mem::offset_of!($name, $field),
                            field = stringify!($field),
                        ),
                    )*].concat();
                    format!(
                        "struct {name} {{\n{fields}}};\nstatic_assert(sizeof({name}) == {}, \"{name} has another size in Rust\");\n\
                         {offsets}\n",
                        size_of::<$name>(),
                        name = stringify!($name),
                    )
                }
            }
        )*

        /// CUDA text of the structs of this file.
        pub(super) fn declarations() -> String {
            [$(<$name as $crate::cuda::kernel::structs::CStruct>::declaration(),)*].concat()
        }
    };
}
pub(super) use c_structs;

#[cfg(test)]
mod tests {
    use super::super::attention::Tile;
    use super::super::source::source;
    use super::*;

    #[test]
    fn the_cuda_text_of_a_struct_spells_out_its_layout() {
        let text = Tile::declaration();
        assert!(text.starts_with("struct Tile {\n    u32 first;\n    u32 count;\n"), "{text}");
        assert!(text.contains("    const element* cached;\n};\n"), "{text}");
        assert!(text.contains("static_assert(sizeof(Tile) == 48,"), "{text}");
        assert!(text.contains("static_assert(OFFSET_OF(Tile, cached) == 40,"), "{text}");
        assert!(source().contains("KERNEL attention(Attention);\n"));
    }
}
