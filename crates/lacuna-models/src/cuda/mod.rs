//! The predictor for NVIDIA GPUs.
//!
//! The driver, cublasLt and nvrtc are opened at run time: nothing of CUDA is needed to build, nor to run without a GPU.
//!
//! | layer | files |
//! |---|---|
//! | the device | `gpu` (context and stream), `event`, `profile`, `buffer` (memory), `staging` (transfers), `compile` (nvrtc) |
//! | kernels | `kernel`: each `.cu` file with a `.rs` file that declares its structs and launches it; `product` (cublasLt) |
//! | the model | `weights`, `matrix`, `fp8`, `int4`, `int8`, `experts`, `rope`, `attention` (tiles) |
//! | a forward pass | `forward`, made of `activations`, `inputs`, `graphs` (recorded passes), `kv_store`; `block` is the computation |
//! | beliefs | `read` |
//!
//! # What is checked, and what is `unsafe`
//! A [`Buffer`](buffer::Buffer) owns memory and is freed only after all work launched before. A
//! [`DeviceSlice`](buffer::DeviceSlice) borrows a part of it, so no launch can name memory that is gone. A kernel takes one struct,
//! declared once in Rust: its CUDA text is made from it, with assertions on its size and offsets, and a prototype of the kernel, so
//! that neither side compiles with another struct. Functions that launch a kernel check the lengths of their slices, and lists of
//! indices carry a bound that was checked on the host. Where a kernel follows indices or addresses inside structs in memory, the
//! function that launches it is `unsafe` and says what they must be.
//!
//! # The path of a read
//! `observe` computes all blocks but the last, and of that the keys and values; then it prefetches. `read` returns what was
//! prefetched and computes the rest. Both go the same way:
//!
//! 1. Each row that is asked for becomes a `RowRequest`: the row of the layout that predicts it, and the row that guides it.
//! 2. The rows needed are selected. For them, the rest of the last block runs.
//! 3. Requests are cut into chunks. A chunk's rows are projected onto the vocabulary, and each tile of logits is reduced to a
//!    `Summary` at once. A `RowSpec` says what is made of a row: temperature, guidance, where its logits go.
//! 4. Rows that are truncated (top-p, top-k) or have deferred tokens get a second pass over their logits.
//! 5. Summaries are fetched, and become beliefs on the host.
//!
//! # Prefetch
//! The host waits once for each step. So what a step will read is launched behind its forward pass, from the view's `ReadPlan`,
//! before anybody knows its scores. A plan's ranked rows become a `RankedRead`. If attention decides their order, the kernel `rank`
//! sorts the candidates by score and puts the rows, random seeds and guides of the first into the lists that the next kernels
//! read. If a stop rule decides how far down the ranking is read, rows are read in rounds, each four times as far as the one before,
//! and the kernel `continue_reads` decides between two rounds which reads go on; the launches of a read that has stopped end at
//! once. Beliefs wait in the `PrefetchCache` until `read` asks for them. What was not prefetched costs a second wait. Prefetching
//! affects latency, never results.

mod activations;
mod attention;
mod block;
mod buffer;
pub(crate) mod check;
mod compile;
mod event;
mod experts;
mod forward;
mod fp8;
mod gpu;
mod graphs;
mod inputs;
mod int4;
mod int8;
mod kernel;
mod kv_store;
mod matrix;
mod measure;
mod predictor;
mod product;
mod profile;
mod read;
mod rope;
mod staging;
mod weights;

pub use compile::compile_kernels;
pub use gpu::describe_gpu;
pub(crate) use gpu::gpu_count;
pub use predictor::CudaPredictor;
