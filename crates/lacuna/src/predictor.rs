//! The model, as decoding sees it.

use crate::{Belief, Draw, Lens, Result, Token};

/// A model that can be asked in two phases: what does it make of these canvases, and what does it believe at these
/// positions?
///
/// [`observe`](Predictor::observe) is the forward pass. It returns only dependency scores; the hidden states stay inside.
/// [`read`](Predictor::read) then computes beliefs for the rows asked for and no others, so that a strategy that can choose
/// its positions before it knows any distribution, such as DOS, pays for the vocabulary projection of those it commits alone.
pub trait Predictor {
    /// What the model is like.
    fn description(&self) -> &Description;

    /// One forward pass over all `views`, which may differ in length. Returns one observation for each.
    fn observe(&mut self, views: &[View<'_>]) -> Result<Vec<Observation>>;

    /// The beliefs at `rows` of the views observed last, in the order of `rows`.
    ///
    /// A belief does not depend on what else is read or observed with it, bit for bit.
    fn read(&mut self, rows: &[Row<'_>]) -> Result<Vec<Belief>>;

    /// Drops what is remembered for a run ([`Row::remember`], [`Scope::Keep`]).
    fn forget(&mut self, run: u64);
}

/// What a caller must know of a model before asking it anything.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Description {
    /// How many token ids there are.
    pub vocabulary: usize,
    /// The id of the mask token.
    pub mask: Token,
    /// How many layers can be asked for dependency scores; 0 if the model shows no attention.
    pub layers: usize,
    /// How many attention heads each layer has.
    pub heads: usize,
    /// How many positions a canvas may have.
    pub context: usize,
    /// Whether it can predict a position from everything but itself ([`View::shadows`]).
    pub shadows: bool,
    /// Whether it predicts a position from the row before it, as Dream does.
    pub shifted: bool,
    /// Whether it can keep keys and values from one forward pass for others ([`View::scope`]).
    pub caches: bool,
}

/// One canvas, as it is shown to the model in one forward pass.
#[derive(Clone, Copy, Debug, Default)]
pub struct View<'a> {
    /// Which run it belongs to; what is remembered from step to step is kept under this number.
    pub run: u64,
    /// The tokens, the mask token where undecided.
    pub tokens: &'a [Token],
    /// The attention whose dependency scores are wanted.
    pub attention: &'a [Source],
    /// Positions that get a shadow: one more mask token with the same position id. Shadows see every token except the one
    /// they shadow, and each other; no token sees a shadow. So the other rows are as they would be without (WINO).
    pub shadows: &'a [usize],
    /// Which of its positions are computed.
    pub scope: Scope,
    /// What will be read of it.
    pub forecast: Forecast<'a>,
}

/// What a forward pass computes of a canvas, and what it takes from an earlier one of the same run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Scope {
    /// All positions.
    #[default]
    All,
    /// All positions, and their keys and values are kept.
    Keep,
    /// Only the positions from `start` to before `end`. They see the keys and values that were kept of all others, as stale as
    /// these may be, and only they can be read.
    Only {
        /// The first.
        start: usize,
        /// The one behind the last.
        end: usize,
    },
}

/// What will be read of a view, as far as that is known before the forward pass.
///
/// It changes no answer. A predictor that computes elsewhere can fetch these beliefs along with what it observes, and is not
/// waited for twice; one that computes right here may ignore it.
#[derive(Clone, Copy, Debug, Default)]
pub struct Forecast<'a> {
    /// Rows that will be read in all likelihood, whatever the forward pass shows. To remember one that is not read after all does
    /// no harm.
    pub sure: &'a [Row<'a>],
    /// Rows of which the first will be read.
    pub ranked: &'a [Row<'a>],
    /// How many of these: so many in all likelihood.
    pub expected: usize,
    /// And no more than so many.
    pub most: usize,
    /// When it will not be read on.
    pub until: Until,
    /// If not 0, what is ranked is not in order yet: the highest dependency score will come first, averaged over this many of
    /// the view's sources.
    pub sources: usize,
    /// If above 0, these scores are divided by it, and [`Draw::order_noise`] is added.
    pub temperature: f64,
}

/// Where reading down a ranking ends, at the latest where there are no more rows.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub enum Until {
    /// Nobody knows before.
    #[default]
    Unknown,
    /// As soon as the entropies of what was read, without the largest of them, come to more than this. It is looked at when
    /// as many have been read as are expected, and whenever that has doubled.
    Entropy(f64),
    /// Before the first position whose score is less than this, but not before the first of all.
    Score(f64),
}

/// Some heads of one layer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Source {
    /// The transformer block, from 0.
    pub layer: usize,
    /// The heads to average; all of them if empty.
    pub heads: Vec<usize>,
}

/// What a forward pass shows without reading any belief.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Observation {
    /// For each source of the view, the dependency score of each position: the attention that it pays to all unmasked
    /// positions, averaged over the source's heads (Algorithm 1 of the DOS paper). Zero where the position is not masked.
    pub dependency: Vec<Vec<f32>>,
}

/// A row of the model's output that is to be read.
#[derive(Clone, Copy, Debug)]
pub struct Row<'a> {
    /// Which of the views observed last.
    pub view: usize,
    /// Which of its positions.
    pub place: Place,
    /// How to turn logits into a belief.
    pub lens: &'a Lens,
    /// The random numbers for this row.
    pub draw: Draw,
    /// A token whose probability is wanted too.
    pub witness: Option<Token>,
    /// A second view to guide this one.
    pub guide: Option<Guide>,
    /// Whether to keep this distribution under (run, position) and to report its divergence from the one kept before.
    pub remember: bool,
}

impl<'a> Row<'a> {
    /// A plain row: no witness, no guide, nothing remembered.
    pub fn new(view: usize, place: Place, lens: &'a Lens, draw: Draw) -> Self {
        Self { view, place, lens, draw, witness: None, guide: None, remember: false }
    }
}

/// A position that is predicted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Place {
    /// The position itself. For a model whose prediction is shifted, such as Dream, finding the right row is the predictor's
    /// business.
    At(usize),
    /// The shadow of a position.
    Shadow(usize),
}

impl Place {
    /// The position, in both cases.
    pub fn position(self) -> usize {
        match self {
            Place::At(position) | Place::Shadow(position) => position,
        }
    }
}

/// Classifier-free guidance: `logits = unguided + (scale + 1) · (logits − unguided)`, as in LLaDA.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Guide {
    /// The view whose logits are pushed away from.
    pub view: usize,
    /// How far.
    pub scale: f32,
}
