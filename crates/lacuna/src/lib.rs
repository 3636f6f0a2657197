//! Decoding for masked diffusion language models.
//!
//! A masked diffusion model fills the gaps of a text step by step. Which gaps to fill next decides how good
//! the text becomes. One step is one sentence, and the code reads like it:
//!
//! > **observe** the canvas → **order** the masked positions → **pace** how many → **commit** (→ **revise**)
//!
//! | word | here | what it is |
//! |---|---|---|
//! | canvas | [`Canvas`] | the tokens with their gaps: a prompt followed by masks, or any text with masks anywhere |
//! | predictor | [`Predictor`] | the model: it observes canvases, then tells its [`Belief`] at the positions asked for |
//! | order | [`Order`] | a score for each masked position, the highest first |
//! | pace | [`Pace`] | how many of the ranked positions to commit now |
//! | constraint | [`Constraint`] | which tokens may stand where, so that the text fits |
//! | revision | [`Revision`] | which committed positions to reopen, and which tokens to replace |
//! | window | [`Window`] | which masked positions may be filled now |
//! | length | [`Length`] | how many positions the canvas has |
//! | cache | [`Cache`] | which positions a forward pass computes |
//! | strategy | [`Strategy`] | one of each; `dos+eb` is the paper's best; [`catalogue`] has all parts by name |
//! | run | [`Run`] | one canvas on its way from masks to text, stepped from outside |
//! | score | [`Scoring`] | how likely a given text is, by LLaDA's estimate or along an order |
//! | trace | [`Trace`] | the first canvas and every change since; it replays to the same text |
//!
//! The crate holds no model code and does no I/O: it sees a model only through [`Predictor`].
//!
//! ```
//! use lacuna::{Canvas, Options, Predictor, Run, Strategy, catalogue::Params, decode};
//! # use lacuna::scripted::Scripted;
//! # let mut model = Scripted::new(3, 0, |_tokens, position| vec![0.0, 1.0, position as f32]);
//! let canvas = Canvas::with_tail(&[1, 2], 4, 0)?; // a prompt of two tokens, four masks; 0 is the mask
//! let strategy = Strategy::parse("confidence+eb", &Params::new().with("gamma", 0.1)?)?;
//! let mut runs = [Run::new(canvas, strategy, Options::default(), model.description())?];
//! decode(&mut runs, &mut model)?;
//! assert_eq!(runs[0].canvas().masked().count(), 0);
//! assert_eq!(&runs[0].trace().replay(), runs[0].canvas());
//! # Ok::<(), lacuna::Error>(())
//! ```
//!
//! The step itself is [`step()`], in `step.rs`; the rows it reads are planned in `plan.rs`.

mod allowed;
mod alternatives;
mod belief;
mod cache;
mod canvas;
pub mod catalogue;
mod compat;
mod context;
mod draw;
mod ending;
mod error;
mod gap_search;
mod length;
mod likelihood;
mod options;
mod order;
mod pace;
mod plan;
mod predictor;
mod probe;
mod replicas;
mod revision;
mod run;
pub mod scripted;
mod step;
mod strategy;
mod trace;
mod twister;
mod window;

pub use allowed::{Constraint, Fit, TokenSet};
pub use alternatives::{Alternatives, alternatives, most_probable};
pub use belief::{Belief, Previous, Sampling, TokenRule};
pub use cache::{Cache, CacheView, Computed, Delayed, FastDllm, Features, FinishedBlocks, NoCache, Passes, Rollout};
pub use canvas::{Block, Canvas, Token};
pub use context::{Ranked, Ranking, StepContext};
pub use draw::Draw;
pub use error::{Advice, Error, Message, Result};
pub use gap_search::GapSearch;
pub use length::{Daedal, Expansion, Fixed, Length, Resize};
pub use likelihood::{Direction, Likelihood, Passage, Score, Scoring};
pub use options::{CONSTRAINTS, DEFAULT_MAX_GAP, Grow, MAX_STRATEGY_BYTES, Options};
pub use order::{
    CertainDependency, Confidence, Dependency, DependencyGain, Entropy, Frequencies, Given, LeftToRight, Margin, Order,
    PositionPrior, Random, RankBy, RightToLeft, sources,
};
pub use pace::{
    Adaptive, Bound, CreditRule, CreditThreshold, Dawn, Draft, Entry, Factor, Hierarchy, LocalLeap, Pace, Plan,
    Prophet, Quota, Reads, Schedule, ScoreThreshold, Stability, Threshold, Timetable, TopK,
};
pub use predictor::{
    AttentionSource, Borders, Compute, Credit, Description, Guide, Measure, Observation, Predictor, RankByAttention,
    ReadPlan, Refresh, Row, StopRule, Target, View, Visibility, Wrapper,
};
pub use replicas::{Replica, Work, decode_all};
pub use revision::{Backtrack, Changes, Contrast, Doubt, Edit, Ends, Regroup, Remdm, Replan, Revision, Verify};
pub use run::Run;
pub use step::{decode, step};
pub use strategy::{Recipe, Strategy};
pub use trace::{Commit, Delta, Pass, Trace, Tried};
pub use twister::MersenneTwister;
pub use window::{Blocks, CausalBlocks, InBlocks, Sliding, SubBlocks, Window};

/// The examples in the guide compile.
#[cfg(doctest)]
#[doc = include_str!("../../../docs/extending.md")]
struct ExtendingGuide;
