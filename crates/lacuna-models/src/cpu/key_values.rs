//! The keys and values that attention looks at.

use half::bf16;
use rayon::prelude::*;

use super::attention::Shape;
use super::heads::HeadTransform;
use super::kernel::{Lines, TOUCH_COST, WORTH_A_THREAD};
use super::scratch::{Scratch, Scratched};
use crate::ActivationFormat;
use crate::layout::{Layout, Span};

/// Keys and values, in the format that attention is computed in.
pub(crate) enum Context {
    F32(KeyValues<f32>),
    Bf16(KeyValues<bf16>),
}

impl Context {
    pub(crate) fn new(format: ActivationFormat) -> Self {
        match format {
            ActivationFormat::F32 => Self::F32(KeyValues::new()),
            ActivationFormat::Bf16 => Self::Bf16(KeyValues::new()),
            ActivationFormat::Int8 | ActivationFormat::Fp8 => unreachable!("attention has at least 16 bits"),
        }
    }

    /// Takes rows of keys and then values, `rows(view)` for each view; the keys are transformed on the way.
    pub(crate) fn fill<'a>(
        &mut self,
        shape: Shape,
        layout: &Layout,
        transform: HeadTransform<'_>,
        rows: impl Fn(&Span) -> &'a [f32] + Sync,
    ) {
        match self {
            Self::F32(key_values) => key_values.fill(shape, layout, transform, rows),
            Self::Bf16(key_values) => key_values.fill(shape, layout, transform, rows),
        }
    }

    /// Bytes that `rows` rows take.
    pub(crate) fn bytes(&self, shape: Shape, rows: usize) -> usize {
        match self {
            Self::F32(_) => shape.key_value_bytes::<f32>(rows),
            Self::Bf16(_) => shape.key_value_bytes::<bf16>(rows),
        }
    }
}

/// The keys and values of one block for all views, laid out for the kernels.
pub(crate) struct KeyValues<E> {
    keys: Lines<E>,
    values: Lines<E>,
    /// Start of each view in both.
    starts: Vec<(usize, usize)>,
}

impl<E: Scratched> KeyValues<E> {
    fn new() -> Self {
        Self { keys: Lines::new(0), values: Lines::new(0), starts: Vec::new() }
    }

    fn fill<'a>(
        &mut self,
        shape: Shape,
        layout: &Layout,
        transform: HeadTransform<'_>,
        rows: impl Fn(&Span) -> &'a [f32] + Sync,
    ) {
        let heads = shape.key_value_heads;
        self.starts.clear();
        let mut end = (0, 0);
        for span in &layout.spans {
            self.starts.push(end);
            end = (end.0 + heads * shape.keys::<E>(span.keys()), end.1 + heads * shape.values::<E>(span.keys()));
        }
        self.keys.resize(end.0);
        self.values.resize(end.1);
        let parallel = 2 * layout.keys() * heads * shape.head_size * TOUCH_COST >= WORTH_A_THREAD;
        let fill = Fill { shape, layout, transform, rows, parallel };
        fill.spans(&layout.spans, &mut self.keys, &mut self.values);
    }

    pub(crate) fn keys_of(&self, shape: Shape, view: usize, rows: usize, head: usize) -> &[E] {
        &self.keys[self.starts[view].0 + head * shape.keys::<E>(rows)..][..shape.keys::<E>(rows)]
    }

    pub(crate) fn values_of(&self, shape: Shape, view: usize, rows: usize, head: usize) -> &[E] {
        let length = shape.values::<E>(rows);
        &self.values[self.starts[view].1 + head * length..][..length]
    }
}

/// Laying out keys and values.
struct Fill<'a, F> {
    shape: Shape,
    layout: &'a Layout,
    transform: HeadTransform<'a>,
    rows: F,
    parallel: bool,
}

impl<'r, F: Fn(&Span) -> &'r [f32] + Sync> Fill<'_, F> {
    /// Some views, whose keys and values are these.
    fn spans<E: Scratched>(&self, spans: &[Span], keys: &mut [E], values: &mut [E]) {
        let (shape, heads) = (self.shape, self.shape.key_value_heads);
        if let [span] = spans {
            let (key_length, value_length) = (shape.keys::<E>(span.keys()), shape.values::<E>(span.keys()));
            let fill = |(head, (keys, values)): (usize, (&mut [E], &mut [E]))| self.head(span, head, keys, values);
            if self.parallel {
                let tasks = keys.par_chunks_exact_mut(key_length).zip(values.par_chunks_exact_mut(value_length));
                tasks.enumerate().for_each(fill);
            } else {
                keys.chunks_exact_mut(key_length).zip(values.chunks_exact_mut(value_length)).enumerate().for_each(fill);
            }
        } else if !spans.is_empty() {
            let (first, rest) = spans.split_at(spans.len() / 2);
            let (key_count, value_count) = first.iter().fold((0, 0), |(keys, values), span| {
                (keys + heads * shape.keys::<E>(span.keys()), values + heads * shape.values::<E>(span.keys()))
            });
            let (first_keys, rest_keys) = keys.split_at_mut(key_count);
            let (first_values, rest_values) = values.split_at_mut(value_count);
            let mut do_first = || self.spans(first, first_keys, first_values);
            let mut do_rest = || self.spans(rest, rest_keys, rest_values);
            if self.parallel {
                rayon::join(do_first, do_rest);
            } else {
                do_first();
                do_rest();
            }
        }
    }

    /// One head of one view.
    fn head<E: Scratched>(&self, span: &Span, head: usize, keys: &mut [E], values: &mut [E]) {
        let Shape { key_value_heads: heads, head_size: size, .. } = self.shape;
        let (count, width) = (span.keys(), 2 * heads * size);
        let columns = E::kernel().columns;
        let (key_panel, value_panel) = (self.shape.key_panel::<E>(), self.shape.value_panel::<E>(count));
        // What fills the last step up is multiplied by zero, and must be a number for that.
        for panel in keys.chunks_exact_mut(key_panel) {
            panel[size * columns..].fill(E::default());
        }
        for panel in values.chunks_exact_mut(value_panel) {
            panel[count / E::GROUP * E::GROUP * columns..].fill(E::default());
        }
        E::with_scratch(|scratch| {
            let Scratch { normed, rotated, narrow, .. } = scratch;
            normed.resize(size);
            rotated.resize(size);
            narrow.resize(size);
            for (index, row) in (self.rows)(span).chunks_exact(width).enumerate() {
                let position = self.layout.key_positions[span.key_start + index];
                self.transform.apply(&row[head * size..][..size], position, 1.0, normed, rotated);
                E::narrow(rotated, 1.0, narrow);
                let panel = &mut keys[index / columns * key_panel..][..key_panel];
                let column = index % columns * E::GROUP;
                let groups = panel.chunks_exact_mut(columns * E::GROUP);
                // A head's size is even, so it is whole groups.
                for (groups, values) in groups.zip(narrow.chunks_exact(E::GROUP)) {
                    groups[column..column + E::GROUP].copy_from_slice(values);
                }
                E::narrow(&row[(heads + head) * size..][..size], 1.0, narrow);
                for (panel, value) in values.chunks_exact_mut(value_panel).zip(narrow.chunks(columns)) {
                    let start = index / E::GROUP * E::GROUP * columns;
                    let groups = panel[start..][..columns * E::GROUP].chunks_exact_mut(E::GROUP);
                    groups.zip(value).for_each(|(group, value)| group[index % E::GROUP] = *value);
                }
            }
        });
    }
}
