//! A thread's buffers for attention.

use std::cell::RefCell;

use half::bf16;

use super::kernel::{Element, Lines};

/// What one task of attention computes in.
pub(crate) struct Scratch<E> {
    /// One query or key, normalised.
    pub(crate) normed: Lines<f32>,
    /// One query or key, rotated.
    pub(crate) rotated: Lines<f32>,
    /// One key or value, narrowed.
    pub(crate) narrow: Lines<E>,
    /// A tile's queries, laid out as activations.
    pub(crate) queries: Lines<E>,
    /// A tile's scores and then their exponentials, laid out as activations.
    pub(crate) scores: Lines<f32>,
    /// The same, narrowed.
    pub(crate) probabilities: Lines<E>,
}

impl<E: Element> Default for Scratch<E> {
    fn default() -> Self {
        let (normed, rotated, scores) = (Lines::new(0), Lines::new(0), Lines::new(0));
        Self { normed, rotated, narrow: Lines::new(0), queries: Lines::new(0), scores, probabilities: Lines::new(0) }
    }
}

/// A number that attention can be computed in: every thread has buffers for it.
pub(crate) trait Scratched: Element {
    /// Gives the thread's buffers to `work`.
    fn with_scratch<R>(work: impl FnOnce(&mut Scratch<Self>) -> R) -> R;
}

macro_rules! scratched {
    ($element:ty) => {
        impl Scratched for $element {
            fn with_scratch<R>(work: impl FnOnce(&mut Scratch<Self>) -> R) -> R {
                thread_local! {
                    static SCRATCH: RefCell<Scratch<$element>> = RefCell::default();
                }
                SCRATCH.with_borrow_mut(work)
            }
        }
    };
}

scratched!(f32);
scratched!(bf16);
