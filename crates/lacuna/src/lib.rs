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
//! | revision | [`Revision`] | which committed positions to reopen |
//! | strategy | [`Strategy`] | one of each; `dos+eb` is the paper's best |
//! | run | [`Run`] | one canvas on its way from masks to text, stepped from outside |
//! | trace | [`Trace`] | the first canvas and every change since; it replays to the same text |
//!
//! The crate holds no model code and does no I/O: it sees a model only through [`Predictor`].
//!
//! ```
//! use lacuna::{Canvas, Options, Predictor, Run, Settings, Strategy, decode};
//! # use lacuna::scripted::Scripted;
//! # let mut model = Scripted::new(3, 0, |_tokens, position| vec![0.0, 1.0, position as f32]);
//! let canvas = Canvas::with_tail(&[1, 2], 4, 0)?; // a prompt of two tokens, four masks; 0 is the mask
//! let strategy = Strategy::parse("confidence+eb", &Settings::default())?;
//! let blocks = vec![canvas.span()]; // one block
//! let mut runs = [Run::new(canvas, blocks, strategy, Options::default(), model.description())?];
//! decode(&mut runs, &mut model)?;
//! assert_eq!(runs[0].canvas().masked().count(), 0);
//! assert_eq!(&runs[0].trace().replay(), runs[0].canvas());
//! # Ok::<(), lacuna::Error>(())
//! ```

mod belief;
mod canvas;
mod draw;
mod error;
mod order;
mod pace;
mod predictor;
mod revise;
mod run;
pub mod scripted;
mod step;
mod strategy;
mod trace;

pub use belief::{Belief, Previous, Sampling, TokenRule};
pub use canvas::{Block, Canvas, Token};
pub use draw::Draw;
pub use error::{Error, Result};
pub use order::{Confidence, Dependency, Entropy, Margin, Order, Random};
pub use pace::{
    Adaptive, Draft, EntropyBound, Factor, Pace, Schedule, ScoreThreshold, Stability, Threshold, Timetable, TopK,
};
pub use predictor::{
    AttentionSource, Compute, Description, Guide, Measure, Observation, Predictor, RankByAttention, ReadPlan, Row,
    StopRule, Target, View,
};
pub use revise::{Backtrack, Revision, Verify};
pub use run::{Cache, Options, Run, decode, split, step};
pub use step::{Ranking, Step};
pub use strategy::{ORDERS, PACES, PRESETS, REVISIONS, Settings, Strategy};
pub use trace::{Commit, Delta, Trace};

/// The examples in the guide compile.
#[cfg(doctest)]
#[doc = include_str!("../../../docs/decoding.md")]
struct DecodingGuide;
