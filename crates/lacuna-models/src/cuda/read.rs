//! Reading beliefs: the vocabulary projection, and what is made of it before anything leaves the GPU.

use std::collections::HashMap;
use std::sync::Arc;

use lacuna::{Belief, Lens, Place, Previous, Row};

use super::believe::believe;
use super::buffer::Buffer;
use super::forward::{Forward, Sizes, filled_up};
use super::gpu::Gpu;
use super::kernel::{Look, NOBODY, NONE, Outcome, Reading, STRETCH, Summary};
use super::remember::Remembered;
use super::staging::Staging;
use crate::Result;
use crate::ask::takes_the_largest;
use crate::layout::{Layout, Selection};

/// Bytes of logits that exist at the same time, more or less.
const LOGITS: usize = 256 << 20;
/// Operations that are done ahead of being asked: they take hardly longer than what was asked for.
const AHEAD: f64 = 2e9;
/// The same for the second read of an observation and later: whoever reads on will read on again.
const FAR_AHEAD: f64 = 5e10;

/// What reading computes in, and what it remembers from step to step.
pub(crate) struct Reader {
    staging: Staging,
    selection: Selection,
    finished: Buffer<f32>,
    logits: Buffer<f32>,
    parts: Buffer<Summary>,
    divergences: Buffer<f64>,
    outcomes: Buffer<Outcome>,
    remembered: Remembered,
    /// For rows whose beliefs are made on the host.
    remembered_here: HashMap<(u64, usize), Previous>,
    ahead: Option<Ahead>,
    /// How often the views observed last have been read.
    reads: usize,
}

/// What was read before it was asked for, all through one lens.
struct Ahead {
    lens: Lens,
    /// The rows, ascending, and what was found there.
    rows: Vec<usize>,
    outcomes: Vec<Outcome>,
}

/// A row to read, found in the layout.
#[derive(Clone, Copy)]
struct Ask<'a> {
    row: usize,
    position: usize,
    /// The row to push away from, and how far.
    guide: Option<(usize, f32)>,
    lens: &'a Lens,
    witness: Option<u32>,
    /// What it is remembered under.
    key: Option<(u64, usize)>,
    /// Set if the belief is made here: a draw, or a truncated distribution.
    here: Option<&'a Row<'a>>,
}

impl<'a> Ask<'a> {
    fn new(layout: &Layout, row: &'a Row<'a>) -> Result<Self> {
        let guide = row.guide.map(|guide| Ok::<_, crate::Error>((layout.row(guide.view, row.place)?, guide.scale)));
        let position = row.place.position();
        Ok(Self {
            row: layout.row(row.view, row.place)?,
            position,
            guide: guide.transpose()?,
            lens: row.lens,
            witness: row.witness,
            key: row.remember.then(|| (layout.spans[row.view].run, position)),
            here: (!takes_the_largest(row.lens)).then_some(row),
        })
    }

    /// The belief that an outcome holds.
    fn believe(&self, outcome: &Outcome, compared: bool) -> lacuna::Result<Belief> {
        believe(outcome, self.position, self.witness.is_some(), compared)
    }

    /// Whether it is about the row and the lens alone.
    fn is_plain(&self) -> bool {
        self.guide.is_none() && self.witness.is_none() && self.key.is_none() && self.here.is_none()
    }
}

impl Reader {
    pub(crate) fn new(gpu: &Arc<Gpu>, vocabulary: usize) -> Result<Self> {
        Ok(Self {
            staging: Staging::new(gpu)?,
            selection: Selection::default(),
            finished: Buffer::new(gpu, 0)?,
            logits: Buffer::new(gpu, 0)?,
            parts: Buffer::new(gpu, 0)?,
            divergences: Buffer::new(gpu, 0)?,
            outcomes: Buffer::new(gpu, 0)?,
            remembered: Remembered::new(gpu, vocabulary),
            remembered_here: HashMap::new(),
            ahead: None,
            reads: 0,
        })
    }

    /// Forgets what was read of the views observed before.
    pub(crate) fn renew(&mut self) {
        self.ahead = None;
        self.reads = 0;
    }

    /// The beliefs at `rows`.
    pub(crate) fn read(
        &mut self,
        forward: &mut Forward,
        layout: &Layout,
        rows: &[Row<'_>],
    ) -> lacuna::Result<Vec<Belief>> {
        let asks = rows.iter().map(|row| Ask::new(layout, row)).collect::<Result<Vec<_>>>()?;
        let Some(first) = asks.first() else { return Ok(Vec::new()) };
        let lens = first.lens;
        self.reads += 1;
        let plain = asks.iter().all(|ask| ask.is_plain() && (std::ptr::eq(ask.lens, lens) || ask.lens == lens));
        if plain {
            if self.ahead.is_none() {
                self.read_ahead(forward, layout, &asks)?;
            }
            if let Some(ahead) = self.ahead.as_ref().filter(|ahead| ahead.lens == *lens) {
                let known: Option<Vec<usize>> =
                    asks.iter().map(|ask| ahead.rows.binary_search(&ask.row).ok()).collect();
                if let Some(known) = known {
                    let belief = |(ask, &index): (&Ask<'_>, &usize)| ask.believe(&ahead.outcomes[index], false);
                    return asks.iter().zip(&known).map(belief).collect();
                }
            }
        }
        self.answer(forward, layout, &asks)
    }

    /// Reads all rows that might be asked for, if that is quickly done. Many runs in one forward pass, or one that reads on
    /// and on, then wait for the GPU once.
    fn read_ahead(&mut self, forward: &mut Forward, layout: &Layout, asks: &[Ask<'_>]) -> lacuna::Result<()> {
        let Sizes { hidden, mlp, vocabulary, .. } = forward.sizes;
        let mut rows = layout.predicting_rows();
        let limit = if self.reads > 1 { FAR_AHEAD } else { AHEAD };
        let each = 2.0 * (2 * hidden * hidden + 3 * hidden * mlp + hidden * vocabulary) as f64;
        if rows.len() <= asks.len() || rows.len() as f64 * each > limit {
            return Ok(());
        }
        rows.extend(asks.iter().map(|ask| ask.row));
        rows.sort_unstable();
        rows.dedup();
        let all: Vec<Ask<'_>> = rows.iter().map(|&row| Ask { row, ..asks[0] }).collect();
        let plan = self.place(forward, layout, &all)?;
        let outcomes = self.compute(forward, &plan, &all, &mut HashMap::new())?;
        self.ahead = Some(Ahead { lens: asks[0].lens.clone(), rows, outcomes });
        Ok(())
    }

    /// The belief of each ask.
    fn answer(&mut self, forward: &mut Forward, layout: &Layout, asks: &[Ask<'_>]) -> lacuna::Result<Vec<Belief>> {
        let plan = self.place(forward, layout, asks)?;
        let mut drawn = HashMap::new();
        let outcomes = self.compute(forward, &plan, asks, &mut drawn)?;
        let mut beliefs = Vec::with_capacity(asks.len());
        for (index, (ask, outcome)) in asks.iter().zip(&outcomes).enumerate() {
            beliefs.push(match drawn.remove(&index) {
                Some(belief) => belief,
                None => {
                    if let Some(key) = ask.key {
                        self.remembered.replaced(key, outcome.log_total);
                    }
                    ask.believe(outcome, plan.compared[index])
                }
            }?);
        }
        Ok(beliefs)
    }

    /// What the kernels find for each ask; `drawn` gets the beliefs that are made here, by the number of the ask.
    fn compute(
        &mut self,
        forward: &mut Forward,
        plan: &Plan,
        asks: &[Ask<'_>],
        drawn: &mut HashMap<usize, lacuna::Result<Belief>>,
    ) -> Result<Vec<Outcome>> {
        forward.finish(plan.rows, plan.tiles, self.finished.at(0))?;
        for chunk in &plan.chunks {
            forward.project(self.finished.at(0), chunk.sources, self.logits.at(0))?;
            self.draw(forward, asks, chunk, drawn)?;
            self.reduce(forward, plan, chunk)?;
        }
        let mut outcomes = vec![Outcome::default(); asks.len()];
        self.outcomes.read(0, &mut outcomes)?;
        Ok(outcomes)
    }

    /// Makes room, and sends what the GPU must know.
    fn place(&mut self, forward: &Forward, layout: &Layout, asks: &[Ask<'_>]) -> Result<Plan> {
        let Sizes { hidden, vocabulary, .. } = forward.sizes;
        let mut needed: Vec<usize> =
            asks.iter().flat_map(|ask| [Some(ask.row), ask.guide.map(|(row, _)| row)]).flatten().collect();
        needed.sort_unstable();
        needed.dedup();
        self.selection.select(layout, needed.into_iter(), forward.shape.tile());
        let selection = &self.selection;
        let mut indices = vec![0; layout.rows()];
        selection.rows.iter().zip(0..).for_each(|(&row, index)| indices[row] = index);
        let index = |row: usize| -> u32 { indices[row] };

        let (mut tokens, mut looks, mut compared): (Vec<u32>, Vec<Look>, Vec<bool>) = Default::default();
        let (mut sources, mut cuts): (Vec<u32>, Vec<Cut>) = Default::default();
        let mut suppressed: Option<(&Lens, u32)> = None;
        for (number, chunk) in asks.chunks(rows_at_once(vocabulary)).enumerate() {
            let start = sources.len();
            sources.extend(chunk.iter().map(|ask| index(ask.row)));
            for ask in chunk {
                let list = match suppressed {
                    Some((lens, list)) if std::ptr::eq(lens, ask.lens) => list,
                    _ => {
                        tokens.extend(&ask.lens.suppressed);
                        (tokens.len() - ask.lens.suppressed.len()) as u32
                    }
                };
                suppressed = Some((ask.lens, list));
                let mut look = Look {
                    guide: NOBODY,
                    suppressed: list,
                    suppressed_count: ask.lens.suppressed.len() as u32,
                    witness: ask.witness.unwrap_or(NOBODY),
                    ..Look::default()
                };
                if let Some((row, scale)) = ask.guide {
                    look.guide = (sources.len() - start) as u32;
                    look.scale = scale;
                    sources.push(index(row));
                }
                if let Some(key) = ask.key.filter(|_| ask.here.is_none()) {
                    let kept = self.remembered.place(key)?;
                    look.previous = kept.address;
                    look.previous_total = kept.log_total.unwrap_or(0.0);
                    look.compare = u32::from(kept.log_total.is_some());
                }
                compared.push(look.compare == 1);
                looks.push(look);
            }
            let filled = filled_up(sources.len() - start);
            sources.resize(start + filled, 0);
            let first = number * rows_at_once(vocabulary);
            cuts.push(Cut { first, asks: chunk.len(), start, rows: filled });
        }

        let rows = filled_up(selection.len());
        let mut selected: Vec<u32> = selection.rows.iter().map(|&row| row as u32).collect();
        selected.resize(rows, selected[0]);
        let tiles = forward.shape.tiles(layout, selection);
        let most = cuts.iter().map(|cut| cut.rows).max().unwrap_or(0);
        let stretches = vocabulary.div_ceil(STRETCH);
        self.finished.reserve(rows * hidden)?;
        self.logits.reserve(most * vocabulary)?;
        self.parts.reserve(most * stretches)?;
        self.divergences.reserve(most * stretches)?;
        self.outcomes.reserve(asks.len())?;
        self.staging.begin(Staging::room(&[
            rows * 4,
            size_of_val(&tiles[..]),
            size_of_val(&sources[..]),
            size_of_val(&looks[..]),
            size_of_val(&tokens[..]),
        ]))?;
        let staging = &mut self.staging;
        let selected = staging.push(&selected);
        let tile_list = staging.push(&tiles);
        let source_list = staging.push(&sources);
        let look_list = staging.push(&looks);
        let token_list = staging.push(&tokens);
        staging.send()?;
        let chunk = |cut: Cut| Chunk {
            first: cut.first,
            asks: cut.asks,
            sources: (staging.at(source_list) + 4 * cut.start as u64, cut.rows),
            looks: staging.at(look_list) + (cut.first * size_of::<Look>()) as u64,
            guides: looks[cut.first..cut.first + cut.asks].iter().map(|look| look.guide).collect(),
            remembers: looks[cut.first..cut.first + cut.asks].iter().any(|look| look.previous != NONE),
        };
        Ok(Plan {
            rows: (staging.at(selected), rows),
            tiles: (staging.at(tile_list), tiles.len()),
            tokens: staging.at(token_list),
            chunks: cuts.into_iter().map(chunk).collect(),
            compared,
        })
    }

    /// Makes the beliefs of a chunk that are made here, from logits as they come from the projection.
    fn draw(
        &mut self,
        forward: &Forward,
        asks: &[Ask<'_>],
        chunk: &Chunk,
        drawn: &mut HashMap<usize, lacuna::Result<Belief>>,
    ) -> Result<()> {
        let vocabulary = forward.sizes.vocabulary;
        let row_of = |index: usize| -> Result<Vec<f32>> {
            let mut logits = vec![0.0; vocabulary];
            self.logits.read(index * vocabulary, &mut logits)?;
            Ok(logits)
        };
        for (index, ask) in asks[chunk.first..chunk.first + chunk.asks].iter().enumerate() {
            let Some(row) = ask.here else { continue };
            let mut logits = row_of(index)?;
            if let Some((_, scale)) = ask.guide {
                let unguided = row_of(chunk.guides[index] as usize)?;
                for (logit, unguided) in logits.iter_mut().zip(unguided) {
                    *logit = unguided + (scale + 1.0) * (*logit - unguided);
                }
            }
            let mut previous = ask.key.and_then(|key| self.remembered_here.remove(&key));
            drawn.insert(chunk.first + index, row.believe(&mut logits, &mut previous));
            if let (Some(key), Some(previous)) = (ask.key, previous) {
                self.remembered_here.insert(key, previous);
            }
        }
        Ok(())
    }

    /// Sums up the logits of a chunk.
    fn reduce(&self, forward: &Forward, plan: &Plan, chunk: &Chunk) -> Result<()> {
        let vocabulary = forward.sizes.vocabulary;
        let stretches = vocabulary.div_ceil(STRETCH);
        let arguments = Reading {
            logits: self.logits.at(0),
            looks: chunk.looks,
            tokens: plan.tokens,
            parts: self.parts.at(0),
            divergences: self.divergences.at(0),
            outcomes: self.outcomes.at(chunk.first),
            vocabulary: vocabulary as u32,
            stretches: stretches as u32,
            rows: chunk.asks as u32,
        };
        let (gpu, kernels) = (&forward.machine.gpu, &forward.machine.kernels);
        let each_row = [chunk.asks.div_ceil(32), 1];
        gpu.launch(&kernels.summarize, [stretches, chunk.asks], 256, 0, &arguments)?;
        gpu.launch(&kernels.conclude, each_row, 32, 0, &arguments)?;
        if chunk.remembers {
            gpu.launch(&kernels.diverge, [stretches, chunk.asks], 256, 0, &arguments)?;
            gpu.launch(&kernels.conclude_divergence, each_row, 32, 0, &arguments)?;
        }
        Ok(())
    }

    /// The logits of all tokens of a view, row by row, as the model gives them.
    pub(crate) fn logits(&mut self, forward: &mut Forward, layout: &Layout, view: usize) -> Result<Vec<Vec<f32>>> {
        let vocabulary = forward.sizes.vocabulary;
        let first = layout.row(view, Place::At(0))?;
        let lens = Lens::default();
        let ask = |row| Ask { row, position: 0, guide: None, lens: &lens, witness: None, key: None, here: None };
        let asks: Vec<Ask<'_>> = (first..first + layout.spans[view].tokens).map(ask).collect();
        let plan = self.place(forward, layout, &asks)?;
        forward.finish(plan.rows, plan.tiles, self.finished.at(0))?;
        let mut all = Vec::with_capacity(asks.len());
        for chunk in &plan.chunks {
            forward.project(self.finished.at(0), chunk.sources, self.logits.at(0))?;
            let mut logits = vec![0.0; chunk.asks * vocabulary];
            self.logits.read(0, &mut logits)?;
            all.extend(logits.chunks_exact(vocabulary).map(<[f32]>::to_vec));
        }
        Ok(all)
    }

    /// Drops what is remembered for a run.
    pub(crate) fn forget(&mut self, run: u64) {
        self.remembered.forget(|(remembered, _)| *remembered == run);
        self.remembered_here.retain(|(remembered, _), _| *remembered != run);
    }

    /// Bytes that reading `rows` rows at once needs.
    pub(crate) fn buffer_bytes(sizes: Sizes, rows: usize) -> usize {
        let at_once = filled_up(rows.min(rows_at_once(sizes.vocabulary)));
        (at_once * sizes.vocabulary + filled_up(rows) * sizes.hidden) * size_of::<f32>()
    }
}

/// Asks whose logits exist at the same time.
fn rows_at_once(vocabulary: usize) -> usize {
    (LOGITS / (vocabulary * size_of::<f32>())).clamp(16, 1 << 14)
}

/// How a set of asks is read.
struct Plan {
    /// The selected rows and how many, filled up.
    rows: (u64, usize),
    tiles: (u64, usize),
    /// Suppressed tokens.
    tokens: u64,
    chunks: Vec<Chunk>,
    /// For each ask, whether it is compared with what was remembered.
    compared: Vec<bool>,
}

/// Asks that are projected together.
struct Chunk {
    /// The first ask, and how many.
    first: usize,
    asks: usize,
    /// Which of the finished rows are projected, filled up: those asked for, then those that guide.
    sources: (u64, usize),
    looks: u64,
    /// For each ask the projected row that guides it.
    guides: Vec<u32>,
    remembers: bool,
}

/// A chunk, before it is on the GPU.
struct Cut {
    first: usize,
    asks: usize,
    start: usize,
    rows: usize,
}
