//! Reading rows: from a request to a belief. See the path of a read in the module above.

mod chunk;
mod collect;
mod history;
mod launch;
mod prefetch;
mod rank;
mod reader;
mod request;

pub(crate) use reader::Reader;
