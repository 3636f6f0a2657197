//! Runs: strategies on tasks, sample by sample, in a folder from which a stopped run resumes.

mod decode;
mod evaluate;
mod folder;
mod ledger;
mod sample;
mod speech;
mod trial;

pub use evaluate::{Evaluation, Progress, evaluate};
pub(crate) use folder::replace_text;
pub use folder::{Configuration, Folder, Model};
pub use sample::{Entry, Sample, summarize};
pub use speech::Speech;
pub use trial::{Part, Shard, Trial};
