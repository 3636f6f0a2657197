//! One thread for each replica of the model owns it and steps runs, whatever their age, length and strategy; what has not begun
//! waits in one queue for all of them.
//!
//! [`queue`] hands runs to the thread, [`share`] decides which of them the next step is for, [`worker`] takes the step, and
//! [`job`] is a run with its client.

mod job;
mod queue;
mod share;
mod worker;

pub(crate) use job::{Failure, Progress, Start, Task, Update};
pub(crate) use queue::{Refusal, Scheduler, Ticket};
