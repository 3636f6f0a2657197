//! Properties of strategies and runs, on random models, canvases and blocks.

mod cases;
mod options;
mod reads;
mod refusals;
mod strategies;
