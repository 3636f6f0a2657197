//! Moments in the GPU's work.
#![allow(unsafe_code, reason = "events of the CUDA driver")]

use cudarc::driver::{result::event, sys};

use super::gpu::Gpu;
use crate::{Error, Result};

/// A moment on the GPU's own clock.
pub(crate) struct Event(sys::CUevent);

impl Event {
    pub(crate) fn new() -> Result<Self> {
        Ok(Self(event::create(sys::CUevent_flags::CU_EVENT_DEFAULT)?))
    }

    /// Marks the moment when everything launched so far is done.
    pub(crate) fn record(&self, gpu: &Gpu) -> Result<()> {
        // SAFETY: both exist.
        unsafe { event::record(self.0, gpu.stream())? };
        Ok(())
    }

    /// Waits until the moment has passed. One that was never marked has.
    pub(crate) fn wait(&self, gpu: &Gpu) -> Result<()> {
        // SAFETY: it exists.
        match unsafe { event::query(self.0) } {
            Ok(()) => Ok(()),
            Err(_) => gpu.wait(),
        }
    }

    /// Milliseconds from this moment to another; both have passed.
    pub(crate) fn until(&self, end: &Self) -> Result<f32> {
        type Elapsed = unsafe extern "C" fn(*mut f32, sys::CUevent, sys::CUevent) -> sys::CUresult;
        let mut milliseconds = 0.0;
        // SAFETY: the function has this type in all drivers, and both events exist. cudarc would call its second version, which
        // only drivers for CUDA 12.8 and later have.
        unsafe {
            let elapsed = sys::culib().get::<Elapsed>(b"cuEventElapsedTime");
            let elapsed = elapsed.map_err(|error| Error::Gpu(error.to_string()))?;
            elapsed(&mut milliseconds, self.0, end.0).result()?;
        }
        Ok(milliseconds)
    }
}

impl Drop for Event {
    fn drop(&mut self) {
        // SAFETY: it is not used any more.
        let _ = unsafe { event::destroy(self.0) };
    }
}

// SAFETY: a handle of the driver, which may be used from any thread that has bound the context.
unsafe impl Send for Event {}
