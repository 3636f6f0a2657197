//! The kernels. Beside each `.cu` file stands a `.rs` file of the same name with the structs that its kernels take and the
//! functions that launch them.
//!
//! To add a kernel: write it into a `.cu` file, declare its arguments with [`c_structs!`](structs), add a line to the table in
//! [`table`], a function that launches it, and a check to `cuda/check`.

mod attention;
mod belief;
mod experts;
mod fp8;
mod int4;
mod matrices;
mod product;
mod projection;
mod routing;
mod rows;
mod scores;
mod source;
mod structs;
mod table;
mod weights;

pub(crate) use attention::{Attend, Geometry, Tile};
pub(crate) use belief::{Reading, RowSpec, STRETCH, Summary};
pub(crate) use experts::{ExpertsCall, Slots, expert_lines, most_tiles};
pub(crate) use int4::SharedSums;
pub(crate) use matrices::{MatricesCall, MatrixTask};
pub(crate) use product::{Factors, Output};
pub(crate) use projection::TokenWeights;
pub(crate) use routing::{ExpertTile, arrivals};
pub(crate) use rows::{CacheCall, CacheSlot, NormCall, RotateCall, Rows, Table};
pub(crate) use scores::{
    Candidate, CollectCall, ENTROPY, ROUND_GROWTH, RankTask, Ranking, ReadState, SCORE, SPARE_LARGEST, SURPRISAL,
    ScoreTask,
};
pub(crate) use source::source;
pub(crate) use structs::{ABSENT, Element, In, Out, Untyped, to_u32};
pub(crate) use table::Kernels;
pub(crate) use weights::{NoiseCall, Source};
