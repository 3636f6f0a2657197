//! Transformation of a query or key head before attention.

use super::kernel::{rms_norm, rotate, scale};
use crate::rope::Rope;

/// An RMS norm, for models that have one, then the rotary embedding of the leading dimensions.
#[derive(Clone, Copy)]
pub(crate) struct HeadTransform<'a> {
    /// Weights of the norm.
    pub(crate) norm: Option<&'a [f32]>,
    pub(crate) epsilon: f32,
    pub(crate) rope: &'a Rope,
}

/// Rows of several heads in memory, in any order.
#[derive(Clone, Copy)]
pub(crate) struct HeadRows<'a> {
    values: &'a [f32],
    size: usize,
    /// From one row to the next.
    row: usize,
    /// From one head to the next.
    head: usize,
}

impl<'a> HeadRows<'a> {
    /// Of each head of `size` values row after row.
    pub(crate) fn by_heads(values: &'a [f32], rows: usize, size: usize) -> Self {
        Self { values, size, row: size, head: rows * size }
    }

    /// Row after row, of each head after head.
    pub(crate) fn by_rows(values: &'a [f32], rows: usize, size: usize) -> Self {
        Self { values, size, row: values.len().checked_div(rows).unwrap_or_default(), head: size }
    }

    pub(crate) fn get(&self, row: usize, head: usize) -> &'a [f32] {
        &self.values[row * self.row + head * self.head..][..self.size]
    }
}

impl HeadTransform<'_> {
    /// `output = rotate(norm(head)) · factor` for a head at `position`; `normed` is scratch as long as a head.
    pub(crate) fn apply(&self, head: &[f32], position: usize, factor: f32, normed: &mut [f32], output: &mut [f32]) {
        let head = match self.norm {
            Some(weights) => {
                rms_norm(head, weights, self.epsilon, normed);
                &*normed
            }
            None => head,
        };
        let (cosines, sines) = self.rope.at(position);
        let (turned, rest) = head.split_at(2 * cosines.len());
        let (turned_output, rest_output) = output.split_at_mut(turned.len());
        rotate(turned, cosines, sines, factor, turned_output);
        if !rest.is_empty() {
            rest_output.copy_from_slice(rest);
            scale(rest_output, factor);
        }
    }
}
