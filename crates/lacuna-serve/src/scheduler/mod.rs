//! One thread owns the model and steps all runs, whatever their age, length and strategy.
//!
//! [`queue`] hands runs to the thread, [`share`] decides which of them the next step is for, [`worker`] takes the step, and
//! [`job`] is a run with its client.

mod job;
mod queue;
mod share;
mod worker;

pub(crate) use job::{Failure, Progress, Start, Task, Update};
pub(crate) use queue::{Refusal, Scheduler, Ticket};
