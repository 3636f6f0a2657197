//! Reading beliefs: the vocabulary projection, and what is made of it before anything leaves the GPU.

use std::sync::Arc;

use lacuna::{Belief, Draw, RankByAttention, Row, Sampling, Target, View};

use super::ask::{Ask, Line, Scores};
use super::believe::{believe, log_total};
use super::buffer::Buffer;
use super::foreseen::Foreseen;
use super::forward::{Forward, Sizes, filled_up};
use super::gpu::Gpu;
use super::kernel::{self, Choosing, Going, Look, NOBODY, NONE, Reading, STRETCH, Summary};
use super::plan::{Chunk, Cut, Lists, Plan};
use super::remember::Remembered;
use super::staging::{Landing, Offset, Staging};
use crate::Result;
use crate::layout::{Layout, Selection};

/// Bytes of logits, or of what is found in them, that exist at the same time, more or less.
const AT_ONCE: usize = 256 << 20;
/// Rows that may be read without being asked for: they are on the tiles of those that are, and cost next to nothing.
const UNASKED: usize = 64;
/// Operations that this may take where rows are cheap.
const UNASKED_OPERATIONS: f64 = 4e9;

/// What reading computes in, and what it remembers from step to step.
pub(crate) struct Reader {
    gpu: Arc<Gpu>,
    staging: Staging,
    landing: Landing,
    selection: Selection,
    finished: Buffer<f32>,
    logits: Buffer<f32>,
    parts: Buffer<Summary>,
    outcomes: Buffer<Summary>,
    /// For each ask of a line that goes by scores, the number of the candidate that was chosen, and its score.
    chosen: Buffer<u32>,
    values: Buffer<f64>,
    remembered: Remembered,
    foreseen: Foreseen,
    /// Rows that may be read without being asked for.
    pub(crate) unasked: usize,
}

/// Beliefs on their way from the GPU.
pub(crate) struct Pending<'a> {
    asks: Vec<Ask<'a>>,
    lines: Vec<Line<'a>>,
    /// For each ask that is compared with what was remembered, the logarithm of the sum of exponentials of that.
    compared: Vec<Option<f64>>,
    outcomes: Offset,
    chosen: Offset,
    /// What became of the lines.
    went: Offset,
}

impl<'a> Pending<'a> {
    /// What became of the asks, now that everything is here.
    fn conclude(
        self,
        landing: &Landing,
        remembered: &mut Remembered,
    ) -> impl Iterator<Item = (Ask<'a>, lacuna::Result<Belief>)> {
        let Self { mut asks, lines, compared, outcomes, chosen, went } = self;
        let mut is_read = vec![true; asks.len()];
        let chosen = landing.get::<u32>(chosen, asks.len());
        for (line, went) in lines.iter().zip(landing.get::<kernel::Line>(went, lines.len())) {
            let (read, unread) = line.asks.split_at(line.end(went.rounds));
            unread.iter().for_each(|&ask| is_read[ask as usize] = false);
            for &ask in read.iter().filter(|_| line.scores.is_some()) {
                asks[ask as usize] = line.candidates[chosen[ask as usize] as usize];
            }
        }
        let outcomes = landing.get::<Summary>(outcomes, asks.len());
        asks.into_iter().zip(outcomes).zip(compared).zip(is_read).filter(|(_, is_read)| *is_read).map(
            |(((ask, outcome), before), _)| {
                let Row { target, scored_token, .. } = ask.asked;
                if let Some(key) = ask.key {
                    remembered.replaced(key, log_total(outcome));
                }
                (ask, believe(outcome, target.position(), scored_token.is_some(), before))
            },
        )
    }
}

impl Reader {
    pub(crate) fn new(gpu: &Arc<Gpu>, sizes: Sizes) -> Result<Self> {
        Ok(Self {
            gpu: gpu.clone(),
            staging: Staging::new(gpu)?,
            landing: Landing::new(gpu)?,
            selection: Selection::default(),
            finished: Buffer::new(gpu, 0)?,
            logits: Buffer::new(gpu, 0)?,
            parts: Buffer::new(gpu, 0)?,
            outcomes: Buffer::new(gpu, 0)?,
            chosen: Buffer::new(gpu, 0)?,
            values: Buffer::new(gpu, 0)?,
            remembered: Remembered::new(gpu, sizes.vocabulary),
            foreseen: Foreseen::default(),
            unasked: unasked_rows(sizes),
        })
    }

    /// Launches what is foretold of `views`, with as much more as costs next to nothing.
    pub(crate) fn foresee<'a>(
        &mut self,
        forward: &mut Forward,
        layout: &Layout,
        views: &[View<'a>],
    ) -> Result<Option<Pending<'a>>> {
        self.foreseen.clear(layout);
        let unsure = views.iter().filter(|view| view.plan.expected < view.plan.most).count();
        let spare = self.unasked.div_ceil(unsure.max(1));
        let (mut asks, mut lines, mut begin) = (Vec::new(), Vec::new(), 0);
        for View { plan, tokens, attention, .. } in views {
            let (tokens, rank) = (tokens.len(), plan.rank);
            let scores =
                rank.map(|RankByAttention { sources, temperature }| Scores { begin, tokens, sources, temperature });
            begin += attention.len() * tokens;
            asks.extend(Ask::all(layout, plan.certain)?);
            lines.push(Line::new(layout, plan, scores, spare)?);
        }
        let mut rounds = vec![0];
        for round in 1.. {
            for (number, line) in lines.iter_mut().enumerate() {
                let first = asks.len();
                asks.extend(line.round(round, number, first));
            }
            if rounds.last() == Some(&asks.len()) {
                break;
            }
            rounds.push(asks.len());
        }
        if asks.is_empty() {
            return Ok(None);
        }
        self.launch(forward, layout, asks, lines, &rounds).map(Some)
    }

    /// Takes in what was launched, now that it is here.
    pub(crate) fn arrive(&mut self, layout: &Layout, pending: Option<Pending<'_>>) -> Result<()> {
        let Self { landing, remembered, foreseen, .. } = self;
        for (ask, belief) in pending.map(|pending| pending.conclude(landing, remembered)).into_iter().flatten() {
            foreseen.insert(layout.key(ask.asked.view, ask.asked.target)?, belief);
        }
        Ok(())
    }

    /// The beliefs at `rows`.
    pub(crate) fn read(
        &mut self,
        forward: &mut Forward,
        layout: &Layout,
        rows: &[Row<'_>],
    ) -> lacuna::Result<Vec<Belief>> {
        let (mut beliefs, mut unread) = (Vec::with_capacity(rows.len()), Vec::new());
        for row in rows {
            let foreseen = self.foreseen.take(layout.key(row.view, row.target)?);
            if foreseen.is_none() {
                unread.push(Ask::new(layout, row)?);
            }
            beliefs.push(foreseen);
        }
        let mut pending = None;
        if !unread.is_empty() {
            let rounds = [0, unread.len()];
            pending = Some(self.launch(forward, layout, unread, Vec::new(), &rounds)?);
            self.gpu.wait()?;
        }
        let Self { landing, remembered, .. } = self;
        let mut read = pending.map(|pending| pending.conclude(landing, remembered)).into_iter().flatten();
        let mut next = || read.next().expect("what was not foreseen was read").1;
        beliefs.into_iter().map(|foreseen| foreseen.unwrap_or_else(&mut next)).collect()
    }

    /// Launches everything for `asks`, which are cut into `rounds`. Which rows those of the `lines` are, and how far each of these is
    /// read, is found out on the way.
    fn launch<'a>(
        &mut self,
        forward: &mut Forward,
        layout: &Layout,
        asks: Vec<Ask<'a>>,
        lines: Vec<Line<'a>>,
        rounds: &[usize],
    ) -> Result<Pending<'a>> {
        let plan = self.place(forward, layout, &asks, &lines, rounds)?;
        let scored = lines.iter().filter(|line| line.scores.is_some());
        if let Some(most) = scored.clone().map(|line| line.candidates.len()).max() {
            let arguments = Choosing {
                choices: plan.choices,
                candidates: plan.candidates,
                scores: forward.scores.at(0),
                lines: plan.lines,
                asks: plan.line_asks,
                rows: plan.rows.0,
                draws: plan.draws,
                chosen: self.chosen.at(0),
                values: self.values.at(0),
            };
            let (gpu, kernels) = (&forward.machine.gpu, &forward.machine.kernels);
            gpu.launch(&kernels.choose, [scored.count(), 1], 512, most * size_of::<f64>(), &arguments)?;
        }
        forward.finish(plan.rows, plan.tiles, self.finished.at(0))?;
        self.landing.begin(Staging::room(&[
            asks.len() * size_of::<Summary>(),
            asks.len() * size_of::<u32>(),
            lines.len() * size_of::<kernel::Line>(),
        ]))?;
        let mut round = 1;
        for chunk in &plan.chunks {
            if chunk.cut.round > round {
                round = chunk.cut.round;
                self.go_on(forward, &plan, lines.len(), round)?;
            }
            self.believe(forward, &plan, chunk)?;
        }
        let outcomes = self.landing.fetch::<Summary>(self.outcomes.at(0), asks.len())?;
        let chosen = self.landing.fetch::<u32>(self.chosen.at(0), asks.len())?;
        let went = self.landing.fetch::<kernel::Line>(plan.lines, lines.len())?;
        Ok(Pending { asks, lines, compared: plan.compared, outcomes, chosen, went })
    }

    /// Launches the decision which lines go on into a round.
    fn go_on(&self, forward: &Forward, plan: &Plan, lines: usize, round: u32) -> Result<()> {
        let (outcomes, values) = (self.outcomes.at(0), self.values.at(0));
        let arguments = Going { lines: plan.lines, asks: plan.line_asks, outcomes, values, round };
        forward.machine.gpu.launch(&forward.machine.kernels.go_on, [lines, 1], 32, 0, &arguments)
    }

    /// Makes room, and sends what the GPU must know.
    fn place(
        &mut self,
        forward: &Forward,
        layout: &Layout,
        asks: &[Ask<'_>],
        lines: &[Line<'_>],
        rounds: &[usize],
    ) -> Result<Plan> {
        let Sizes { hidden, vocabulary, .. } = forward.sizes;
        let mut needed: Vec<usize> = asks.iter().flat_map(|ask| [Some(ask.row), ask.guide]).flatten().collect();
        needed.sort_unstable();
        needed.dedup();
        self.selection.select(layout, needed.into_iter(), forward.shape.tile());
        let mut slots = vec![0u32; layout.rows()];
        self.selection.rows.iter().zip(0..).for_each(|(&row, slot)| slots[row] = slot);

        let at_once = asks_at_once(layout, vocabulary, asks);
        let mut chunks: Vec<(u32, usize, &[Ask<'_>])> = Vec::new();
        for (round, bounds) in (1..).zip(rounds.windows(2)) {
            let firsts = (bounds[0]..bounds[1]).step_by(at_once);
            chunks.extend(firsts.map(|first| (round, first, &asks[first..bounds[1].min(first + at_once)])));
        }
        let rows = filled_up(self.selection.len());
        let most = chunks.iter().map(|(_, _, chunk)| chunk.iter().map(Ask::projected).sum()).max().unwrap_or(0);
        let most_written =
            chunks.iter().map(|(_, _, chunk)| chunk.iter().map(Ask::written).sum::<usize>()).max().unwrap_or(0);
        self.finished.reserve(rows * hidden)?;
        self.logits.reserve(most_written * vocabulary)?;
        self.parts.reserve(most * vocabulary.div_ceil(STRETCH))?;
        self.outcomes.reserve(asks.len())?;
        self.chosen.reserve(asks.len())?;
        self.values.reserve(asks.len())?;

        let draws: Vec<u64> = asks.iter().map(|ask| ask.asked.draw.key()).collect();
        let mut lists = Lists::default();
        let mut cuts = Vec::with_capacity(chunks.len());
        for (round, first, chunk) in chunks {
            cuts.push(Cut { round, ..self.cut(&mut lists, &slots, first, chunk)? });
        }
        lists.tell(lines, &slots);
        let mut selected: Vec<u32> = self.selection.rows.iter().map(|&row| row as u32).collect();
        selected.resize(rows, selected[0]);
        let tiles = forward.shape.tiles(layout, &self.selection, &forward.kept);

        let Lists { sources, looks, tokens, lines, line_asks, choices, candidates, compared, .. } = lists;
        let addresses = self.staging.send_all([
            &selected,
            &tiles,
            &sources,
            &looks,
            &draws,
            &tokens,
            &lines,
            &line_asks,
            &choices,
            &candidates,
        ])?;
        let [selected, tile_list, sources, looks, draws, tokens, lines, line_asks, choices, candidates] = addresses;
        let chunk = |cut: Cut| Chunk {
            sources: (sources + (cut.start * size_of::<u32>()) as u64, cut.rows),
            looks: looks + (cut.start * size_of::<Look>()) as u64,
            cut,
        };
        Ok(Plan {
            rows: (selected, rows),
            tiles: (tile_list, tiles.len()),
            draws,
            tokens,
            lines,
            line_asks,
            choices,
            candidates,
            chunks: cuts.into_iter().map(chunk).collect(),
            compared,
        })
    }

    /// Lists the rows of a chunk that begins with ask number `first`, and how they are looked at: those asked for, then those
    /// that guide.
    fn cut<'a>(&mut self, lists: &mut Lists<'a>, slots: &[u32], first: usize, asks: &[Ask<'a>]) -> Result<Cut> {
        let mut cut = Cut { first, asks: asks.len(), start: lists.sources.len(), ..Cut::default() };
        let mut guides: Vec<(u32, usize, u32)> = Vec::new();
        let mut written = 0..;
        let mut next_written = || written.next().expect("numbers do not end");
        let vocabulary = self.remembered.vocabulary();
        for ask in asks {
            lists.sources.push(slots[ask.row]);
            let witness = ask.asked.scored_token.unwrap_or(NOBODY);
            let mut look = Look { witness, line: ask.line, ..lists.look(ask.asked.sampling) };
            let own = (ask.written() > 0).then(&mut next_written);
            look.logits = own.map_or(NONE, |index| self.logits.at(index * vocabulary));
            if let (Some(row), Some(guide)) = (ask.guide, ask.asked.guide) {
                (look.guide, look.scale) = ((asks.len() + guides.len()) as u32, guide.scale);
                guides.push((slots[row], next_written(), ask.line));
            }
            cut.guided |= ask.guide.is_some();
            cut.again |= look.again > 0;
            let mut compared = None;
            if let Some(key) = ask.key {
                let kept = self.remembered.place(key)?;
                compared = kept.log_total;
                look.kept = kept.address;
                look.kept_total = compared.unwrap_or(0.0);
                look.compare = u32::from(compared.is_some());
                if own.is_none() {
                    look.logits = kept.address;
                }
            }
            lists.compared.push(compared);
            lists.looks.push(look);
        }
        for (slot, written, line) in guides {
            lists.sources.push(slot);
            let logits = self.logits.at(written * vocabulary);
            lists.looks.push(Look { logits, guide: NOBODY, witness: NOBODY, line, silent: 1, ..Look::default() });
        }
        cut.rows = lists.sources.len() - cut.start;
        Ok(cut)
    }

    /// Launches the beliefs of a chunk.
    fn believe(&self, forward: &Forward, plan: &Plan, chunk: &Chunk) -> Result<()> {
        let vocabulary = forward.sizes.vocabulary;
        let stretches = vocabulary.div_ceil(STRETCH);
        let Cut { round, first, asks, guided, again, .. } = chunk.cut;
        let reading = Reading {
            looks: chunk.looks,
            draws: plan.draws + (first * size_of::<u64>()) as u64,
            tokens: plan.tokens,
            parts: self.parts.at(0),
            outcomes: self.outcomes.at(first),
            lines: plan.lines,
            vocabulary: vocabulary as u32,
            stretches: stretches as u32,
            rows: chunk.sources.1 as u32,
            round,
        };
        forward.project(self.finished.at(0), chunk.sources, reading)?;
        let (gpu, kernels) = (&forward.machine.gpu, &forward.machine.kernels);
        let reading = Reading { rows: asks as u32, ..reading };
        if guided {
            gpu.launch(&kernels.guide, [stretches, asks], STRETCH, 0, &reading)?;
        }
        gpu.launch(&kernels.conclude, [asks, 1], 128, 0, &reading)?;
        if again {
            let threads = (vocabulary / 32).next_power_of_two().clamp(32, 512);
            gpu.launch(&kernels.look_again, [asks, 1], threads, 0, &reading)?;
        }
        Ok(())
    }

    /// The logits of all tokens of a view, row by row, as the model gives them.
    pub(crate) fn logits(&mut self, forward: &mut Forward, layout: &Layout, view: usize) -> Result<Vec<Vec<f32>>> {
        let vocabulary = forward.sizes.vocabulary;
        let first = layout.row(view, Target::Position(0))?;
        let sampling = Sampling::default();
        let asked = Row::new(view, Target::Position(0), &sampling, Draw::new(0, 0, 0));
        let ask = |row| Ask { asked, row, guide: None, key: None, line: NOBODY, verbatim: true };
        let asks: Vec<Ask<'_>> = (first..first + layout.spans[view].tokens).map(ask).collect();
        let mut logits = Vec::with_capacity(asks.len());
        for asks in asks.chunks(asks_at_once(layout, vocabulary, &asks)) {
            self.launch(forward, layout, asks.to_vec(), Vec::new(), &[0, asks.len()])?;
            let numbers = asks.len() * vocabulary;
            self.landing.begin(numbers * size_of::<f32>())?;
            let fetched = self.landing.fetch::<f32>(self.logits.at(0), numbers)?;
            self.gpu.wait()?;
            logits.extend(self.landing.get::<f32>(fetched, numbers).chunks(vocabulary).map(<[f32]>::to_vec));
        }
        Ok(logits)
    }

    /// Drops what is remembered for a run.
    pub(crate) fn forget(&mut self, run: u64) {
        self.remembered.forget(|(remembered, _)| *remembered == run);
    }

    /// Bytes that reading `rows` rows at once needs.
    pub(crate) fn buffer_bytes(sizes: Sizes, rows: usize) -> usize {
        let parts = sizes.vocabulary.div_ceil(STRETCH) * size_of::<Summary>();
        rows.min(AT_ONCE / parts) * parts + filled_up(rows) * sizes.hidden * size_of::<f32>()
    }
}

/// Rows that may be read without being asked for.
fn unasked_rows(sizes: Sizes) -> usize {
    let Sizes { hidden, mlp, vocabulary, .. } = sizes;
    let each = 2.0 * (2 * hidden * hidden + 3 * hidden * mlp + hidden * vocabulary) as f64;
    UNASKED.max((UNASKED_OPERATIONS / each) as usize)
}

/// Asks that are projected together.
fn asks_at_once(layout: &Layout, vocabulary: usize, asks: &[Ask<'_>]) -> usize {
    let bytes_each = if asks.iter().any(|ask| ask.written() > 0) {
        vocabulary * size_of::<f32>()
    } else {
        vocabulary.div_ceil(STRETCH) * size_of::<Summary>()
    };
    // On their way into the projection rows lie where there is room for all rows of the layout.
    let room = layout.rows() / if asks.iter().any(|ask| ask.guide.is_some()) { 2 } else { 1 };
    (AT_ONCE / bytes_each).clamp(16, 1 << 14).min(room)
}
