//! The keys and values that attention looks at: those of the pass, and those of earlier passes, run by run.

use std::collections::HashMap;

use half::bf16;
use lacuna::{Borders, Token};

use super::attention::Shape;
use super::heads::{HeadRows, HeadTransform};
use super::kernel::{TOUCH_COST, WORTH_A_THREAD};
use super::key_values::{Head, KeyValues};
use super::scratch::{Scratch, Scratched};
use crate::ActivationFormat;
use crate::layout::{Caching, Layout, Span};
use crate::prompts::Prompts;

/// Keys and values, in the format that attention is computed in.
pub(crate) enum KvStore {
    F32(Texts<f32>),
    Bf16(Texts<bf16>),
}

/// Calls a method of the texts, whatever their format.
macro_rules! texts {
    ($store:expr, $texts:ident => $call:expr) => {
        match $store {
            KvStore::F32($texts) => $call,
            KvStore::Bf16($texts) => $call,
        }
    };
}

impl KvStore {
    pub(crate) fn new(shape: Shape, format: ActivationFormat) -> Self {
        match format {
            ActivationFormat::F32 => Self::F32(Texts::new(shape)),
            ActivationFormat::Bf16 => Self::Bf16(Texts::new(shape)),
            ActivationFormat::Int8 | ActivationFormat::Fp8 => unreachable!("attention has at least 16 bits"),
        }
    }

    /// Takes the keys and values of a pass in block `layer`, the heads of keys first. Keys are transformed on the way.
    pub(crate) fn fill(&mut self, layout: &Layout, layer: usize, transform: HeadTransform<'_>, computed: HeadRows<'_>) {
        texts!(self, texts => texts.fill(layout, layer, transform, computed));
    }

    /// Bytes that `rows` rows of a pass take.
    pub(crate) fn pass_bytes(&self, rows: usize) -> usize {
        match self {
            Self::F32(texts) => texts.shape.key_value_bytes::<f32>(rows),
            Self::Bf16(texts) => texts.shape.key_value_bytes::<bf16>(rows),
        }
    }

    /// Number of leading positions stored for a run.
    pub(crate) fn length(&self, run: u64) -> Option<usize> {
        texts!(self, texts => texts.runs.get(&run).map(|run| run.length))
    }

    /// Stores the keys and values of a run's leading blocks for reuse by other runs.
    pub(crate) fn store_prefix(&mut self, run: u64, tokens: &[Token], blocks: Borders) {
        texts!(self, texts => texts.store_prefix(run, tokens, blocks));
    }

    /// Copies the longest stored prefix of a text to a run. Returns its length.
    pub(crate) fn reuse_prefix(&mut self, run: u64, tokens: &[Token], blocks: Borders) -> usize {
        texts!(self, texts => texts.reuse_prefix(run, tokens, blocks))
    }

    pub(crate) fn forget(&mut self, run: u64) {
        texts!(self, texts => texts.forget(run));
    }

    /// Sets how many bytes the stored prefixes may take.
    pub(crate) fn limit_prompts(&mut self, bytes: usize) {
        texts!(self, texts => texts.prompts.limit(bytes));
    }

    /// Bytes that they take.
    pub(crate) fn prompt_bytes(&self) -> usize {
        texts!(self, texts => texts.prompts.bytes())
    }
}

/// Keys and values of texts.
pub(crate) struct Texts<E> {
    shape: Shape,
    /// Those of each view of the pass, in the block that was computed last.
    seen: Vec<Seen<E>>,
    runs: HashMap<u64, Run<E>>,
    /// Those that finished runs leave for reuse, block by block.
    prompts: Prompts<Vec<KeyValues<E>>>,
}

#[derive(Default)]
struct Seen<E> {
    key_values: KeyValues<E>,
    /// The run and block that they are stored for. What stands there meanwhile belongs here.
    home: Option<(u64, usize)>,
}

struct Run<E> {
    /// Number of leading positions.
    length: usize,
    layers: Vec<KeyValues<E>>,
}

impl<E> Default for Run<E> {
    fn default() -> Self {
        Self { length: 0, layers: Vec::new() }
    }
}

impl<E: Scratched> Run<E> {
    fn layer(&mut self, layer: usize) -> &mut KeyValues<E> {
        if self.layers.len() <= layer {
            self.layers.resize_with(layer + 1, KeyValues::default);
        }
        &mut self.layers[layer]
    }
}

impl<E: Scratched> Texts<E> {
    fn new(shape: Shape) -> Self {
        Self { shape, seen: Vec::new(), runs: HashMap::new(), prompts: Prompts::default() }
    }

    /// A head of a view in the block that was computed last.
    pub(super) fn head(&self, view: usize, head: usize) -> Head<&[E]> {
        self.seen[view].key_values.head(self.shape, head)
    }

    fn fill(&mut self, layout: &Layout, layer: usize, transform: HeadTransform<'_>, computed: HeadRows<'_>) {
        self.put_back();
        let Self { shape, seen, runs, .. } = self;
        if seen.len() < layout.spans.len() {
            seen.resize_with(layout.spans.len(), Seen::default);
        }
        for (span, seen) in layout.spans.iter().zip(&mut *seen) {
            if span.caching != Caching::Off {
                let run = runs.entry(span.run).or_default();
                run.length = if span.caching == Caching::Store { span.length } else { run.length.max(span.length) };
                std::mem::swap(&mut seen.key_values, run.layer(layer));
                seen.home = Some((span.run, layer));
            }
            seen.key_values.reserve(*shape, span.keys());
        }
        let width = 2 * shape.key_value_heads * shape.head_size;
        let parallel = layout.rows() * width * TOUCH_COST >= WORTH_A_THREAD;
        Fill { shape: *shape, layout, transform, computed, parallel }.views(&layout.spans, seen);
    }

    /// Puts what the views see where it is stored.
    fn put_back(&mut self) {
        let Self { seen, runs, .. } = self;
        for Seen { key_values, home } in seen {
            if let Some((run, layer)) = home.take() {
                std::mem::swap(key_values, runs.entry(run).or_default().layer(layer));
            }
        }
    }

    fn store_prefix(&mut self, run: u64, tokens: &[Token], blocks: Borders) {
        let Self { shape, seen, runs, prompts } = self;
        let Some(Run { layers, .. }) = runs.get(&run) else { return };
        let copy = |(layer, stored): (usize, &KeyValues<E>)| {
            let stored = holder(seen, run, layer).map_or(stored, |view| &seen[view].key_values);
            let mut copy = KeyValues::default();
            copy.reserve(*shape, tokens.len());
            copy.copy(*shape, stored, tokens.len());
            copy
        };
        let bytes = layers.len() * shape.key_value_bytes::<E>(tokens.len());
        prompts.store(tokens, blocks, bytes, || Some(layers.iter().enumerate().map(copy).collect()));
    }

    fn reuse_prefix(&mut self, run: u64, tokens: &[Token], blocks: Borders) -> usize {
        let Self { shape, seen, runs, prompts } = self;
        let Some((length, _, stored)) = prompts.find(tokens, blocks) else { return 0 };
        let target = runs.entry(run).or_default();
        target.length = target.length.max(length);
        for (layer, stored) in stored.iter().enumerate() {
            let target = match holder(seen, run, layer) {
                Some(view) => &mut seen[view].key_values,
                None => target.layer(layer),
            };
            target.reserve(*shape, length);
            target.copy(*shape, stored, length);
        }
        length
    }

    /// The keys and values of views stay with them until the next pass.
    fn forget(&mut self, run: u64) {
        self.seen.iter_mut().for_each(|seen| _ = seen.home.take_if(|(its, _)| *its == run));
        self.runs.remove(&run);
    }
}

/// The view that has what is stored for a run in a block.
fn holder<E>(seen: &[Seen<E>], run: u64, layer: usize) -> Option<usize> {
    seen.iter().position(|seen| seen.home == Some((run, layer)))
}

/// Laying out the keys and values of a pass.
struct Fill<'a> {
    shape: Shape,
    layout: &'a Layout,
    transform: HeadTransform<'a>,
    computed: HeadRows<'a>,
    parallel: bool,
}

impl Fill<'_> {
    /// Some views.
    fn views<E: Scratched>(&self, spans: &[Span], seen: &mut [Seen<E>]) {
        if let [span] = spans {
            let write =
                |number, head: Head<&mut [E]>| E::with_scratch(|scratch| self.head(span, number, head, scratch));
            seen[0].key_values.write(self.shape, self.parallel, write);
        } else if !spans.is_empty() {
            let middle = spans.len() / 2;
            let ((first, rest), (first_seen, rest_seen)) = (spans.split_at(middle), seen.split_at_mut(middle));
            if self.parallel {
                rayon::join(|| self.views(first, first_seen), || self.views(rest, rest_seen));
            } else {
                self.views(first, first_seen);
                self.views(rest, rest_seen);
            }
        }
    }

    /// One head of one view.
    fn head<E: Scratched>(&self, span: &Span, number: usize, mut head: Head<&mut [E]>, scratch: &mut Scratch<E>) {
        let Shape { key_value_heads: heads, head_size: size, .. } = self.shape;
        let columns = E::kernel().columns;
        let Scratch { normed, rotated, keys, values, .. } = scratch;
        normed.resize(size);
        rotated.resize(size);
        keys.resize(columns * size);
        values.resize(columns * size);
        let positions = &self.layout.positions[span.start..span.end()];
        // The key of a row.
        let key = |row: usize| if span.caching == Caching::Update { positions[row] } else { row };
        let mut row = 0;
        while row < positions.len() {
            // Rows whose keys stand side by side in a panel.
            let first = key(row);
            let most = (columns - first % columns).min(positions.len() - row);
            let count = (0..most).take_while(|index| key(row + index) == first + index).count();
            for index in 0..count {
                let part = |head: usize| self.computed.get(span.start + row + index, head);
                self.transform.apply(part(number), positions[row + index], 1.0, normed, rotated);
                E::narrow(rotated, 1.0, &mut keys[index * size..][..size]);
                E::narrow(part(heads + number), 1.0, &mut values[index * size..][..size]);
            }
            E::put(&mut head, size, first, &keys[..count * size], &values[..count * size]);
            row += count;
        }
        if span.caching != Caching::Update {
            head.clear_behind(span.keys());
        }
    }
}
