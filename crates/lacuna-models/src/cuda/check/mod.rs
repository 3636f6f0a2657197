//! Every kernel run alone, against a scalar twin.

mod attention;
mod beliefs;
mod experts;
mod lab;
mod products;
mod rows;
mod run;
mod scores;
mod weights;

pub(crate) use run::{names, run};
