//! A thread's buffers for attention.

use std::cell::RefCell;

use half::bf16;

use super::kernel::{Activations, Element, Lines};
use super::key_values::Head;

/// Buffers of one attention task.
pub(crate) struct Scratch<E: 'static> {
    /// One query or key, normalised.
    pub(crate) normed: Lines<f32>,
    /// One query or key, rotated.
    pub(crate) rotated: Lines<f32>,
    /// Keys of a panel, narrowed, and the values of the same rows.
    pub(crate) keys: Lines<E>,
    pub(crate) values: Lines<E>,
    /// A tile's queries.
    pub(crate) queries: Activations<E>,
    /// A tile's scores and then their exponentials.
    pub(crate) scores: Lines<f32>,
    /// The exponentials on their way into the next product.
    pub(crate) probabilities: Activations<E>,
}

impl<E: Element> Default for Scratch<E> {
    fn default() -> Self {
        Self {
            normed: Lines::new(0),
            rotated: Lines::new(0),
            keys: Lines::new(0),
            values: Lines::new(0),
            queries: Activations::new(),
            scores: Lines::new(0),
            probabilities: Activations::new(),
        }
    }
}

/// A number that attention can be computed in: every thread has buffers for it.
pub(crate) trait Scratched: Element {
    /// Gives the thread's buffers to `work`.
    fn with_scratch<R>(work: impl FnOnce(&mut Scratch<Self>) -> R) -> R;

    /// [`Head::put`].
    fn put(head: &mut Head<&mut [Self]>, size: usize, first: usize, keys: &[Self], values: &[Self]);
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

            fn put(head: &mut Head<&mut [Self]>, size: usize, first: usize, keys: &[Self], values: &[Self]) {
                head.put::<{ <$element>::GROUP }>(size, first, keys, values);
            }
        }
    };
}

scratched!(f32);
scratched!(bf16);
