//! Runs: strategies on tasks, sample by sample, in a folder from which a stopped run resumes.

mod codec;
mod decode;
mod evaluate;
mod folder;
mod ledger;
mod sample;
mod trial;

pub use codec::TextCodec;
pub use evaluate::{Evaluation, Progress, evaluate};
pub(crate) use folder::replace_text;
pub use folder::{Configuration, Folder, Model};
pub use sample::{Entry, Sample, summarize};
pub use trial::{Part, Shard, Trial};
