//! Running generated Python without trusting it.
//!
//! Each program runs in its own interpreter behind several layers, each of which holds when another is missing:
//!
//! | layer | what it does |
//! |---|---|
//! | process group | everything the program starts is killed with it |
//! | limits | CPU, memory, files, file size, processes, output; a wall clock over all |
//! | empty environment | no variable of ours is passed on |
//! | temporary folder | a fresh working folder of limited size, removed afterwards |
//! | Landlock | no file outside that folder can be written, none but Python's own read; no signal leaves |
//! | seccomp | no sockets, no new processes, no signals, no mounts, no tracing, nothing done to other processes |
//! | namespaces | no network, no byte above the limit on the folder |
//! | bubblewrap | the same from outside, where it is installed |
//!
//! The last four depend on the kernel. [`Sandbox::detect`] tries each of them on a program that attacks it; what does
//! not hold is not counted, and with none of them nothing is run unless told to.

mod bubblewrap;
mod child;
#[cfg(target_os = "linux")]
mod confine;
#[cfg(target_os = "linux")]
mod filesystem;
mod folder;
mod interpreter;
mod layers;
#[cfg(target_os = "linux")]
mod namespaces;
#[cfg(target_os = "linux")]
mod syscalls;

pub use interpreter::Interpreter;
pub use layers::{Layer, Layers};

use std::time::Duration;

use crate::{Error, Result};

/// Resource limits of a program.
#[derive(Clone, Debug, PartialEq)]
pub struct Limits {
    /// From start to end.
    pub wall: Duration,
    /// Address space in bytes.
    pub memory: u64,
    /// Bytes written to files.
    pub files: u64,
    /// Bytes printed.
    pub output: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self { wall: Duration::from_secs(3), memory: 1 << 30, files: 16 << 20, output: 1 << 20 }
    }
}

/// Outcome of a program.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Outcome {
    /// True if it ran to its end, so that every test in it passed.
    pub passed: bool,
    /// Reason in a few words.
    pub reason: String,
}

/// A place where Python programs run.
#[derive(Debug)]
pub struct Sandbox {
    interpreter: Interpreter,
    /// Layers that this machine offers.
    available: Layers,
    /// Layers in use.
    layers: Layers,
    limits: Limits,
}

impl Sandbox {
    /// Finds Python and the layers that hold on this machine. If none of those that need the kernel does, this is an
    /// error, unless `unconfined` programs are explicitly allowed.
    pub fn detect(limits: Limits, unconfined: bool) -> Result<Self> {
        let interpreter = Interpreter::find()?;
        let holds = |layer: &Layer| {
            let layers = Layers::always().with(*layer);
            // Generous, since the first start of Python may be slow.
            let limits = Limits { wall: Duration::from_secs(20), ..Limits::default() };
            let probe = Self { interpreter: interpreter.clone(), available: layers.clone(), layers, limits };
            probe.run(layer.attack()).is_ok_and(|outcome| outcome.passed)
        };
        let available = Layer::KERNEL.into_iter().filter(holds).fold(Layers::always(), Layers::with);
        if !available.confine() && !unconfined {
            return Err(Error::NoSandbox);
        }
        let layers = available.clone().without_doubles();
        Ok(Self { interpreter, available, layers, limits })
    }

    /// The same with other limits.
    pub fn with_limits(&self, limits: Limits) -> Self {
        let Self { interpreter, available, layers, .. } = self;
        Self { interpreter: interpreter.clone(), available: available.clone(), layers: layers.clone(), limits }
    }

    /// The same with only these of the layers that hold on this machine.
    pub fn with_layers(&self, layers: &[Layer]) -> Self {
        let kept = layers.iter().copied().filter(|layer| self.available.contains(*layer));
        let layers = kept.fold(Layers::always(), Layers::with).without_doubles();
        Self { layers, ..self.with_limits(self.limits.clone()) }
    }

    /// Layers that protect this machine.
    pub fn layers(&self) -> &Layers {
        &self.layers
    }

    /// The Python that is used.
    pub fn interpreter(&self) -> &Interpreter {
        &self.interpreter
    }

    /// Resource limits of a program.
    pub fn limits(&self) -> &Limits {
        &self.limits
    }

    /// Runs a program. An error means that it could not be run, not that it failed.
    pub fn run(&self, program: &str) -> Result<Outcome> {
        child::run(self, program)
    }

    /// Runs programs, `threads` at a time; the outcomes come in their order.
    pub fn run_all(&self, programs: &[String], threads: usize) -> Result<Vec<Outcome>> {
        let next = std::sync::atomic::AtomicUsize::new(0);
        let work = || {
            let mut done = Vec::new();
            loop {
                let index = next.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
                let Some(program) = programs.get(index) else { return done };
                done.push((index, self.run(program)));
            }
        };
        let mut outcomes: Vec<(usize, Result<Outcome>)> = std::thread::scope(|scope| {
            let threads: Vec<_> = (0..threads.clamp(1, programs.len().max(1))).map(|_| scope.spawn(work)).collect();
            threads.into_iter().flat_map(|thread| thread.join().expect("running a program does not panic")).collect()
        });
        outcomes.sort_by_key(|(index, _)| *index);
        outcomes.into_iter().map(|(_, outcome)| outcome).collect()
    }
}
