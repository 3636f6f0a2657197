//! Times of single kernels.

use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};

use super::event::Event;
use super::gpu::Gpu;
use crate::{KernelTime, Result};

/// The launches that are timed, each with the moment when it is done. Off unless it is begun.
#[derive(Default)]
pub(crate) struct Launches {
    is_on: AtomicBool,
    noted: Mutex<Vec<(String, Event)>>,
}

impl Launches {
    pub(crate) fn is_on(&self) -> bool {
        self.is_on.load(Ordering::Relaxed)
    }

    /// Notes what was launched last.
    pub(crate) fn note(&self, gpu: &Gpu, name: impl FnOnce() -> String) -> Result<()> {
        if !self.is_on() {
            return Ok(());
        }
        let event = Event::new()?;
        event.record(gpu)?;
        self.noted.lock().expect("nobody panics with it").push((name(), event));
        Ok(())
    }

    /// Begins with work that was launched last, and that keeps the GPU busy until the launches to be timed wait behind each other.
    pub(crate) fn begin(&self, gpu: &Gpu) -> Result<()> {
        self.noted.lock().expect("nobody panics with it").clear();
        self.is_on.store(true, Ordering::Relaxed);
        self.note(gpu, String::new)
    }

    /// Ends it: all kernels that were launched, the longest first.
    pub(crate) fn end(&self, gpu: &Gpu) -> Result<Vec<KernelTime>> {
        gpu.wait()?;
        self.is_on.store(false, Ordering::Relaxed);
        let launches = std::mem::take(&mut *self.noted.lock().expect("nobody panics with it"));
        let mut times: Vec<KernelTime> = Vec::new();
        for pair in launches.windows(2) {
            let [(_, begin), (name, end)] = pair else { unreachable!("windows of two") };
            let ms = f64::from(begin.until(end)?);
            match times.iter_mut().find(|time| time.kernel == *name) {
                Some(time) => (time.launches, time.ms) = (time.launches + 1, time.ms + ms),
                None => times.push(KernelTime { kernel: name.clone(), launches: 1, ms }),
            }
        }
        times.sort_by(|one, other| other.ms.total_cmp(&one.ms));
        Ok(times)
    }
}
