//! The GPU, and the libraries that it takes.
#![allow(unsafe_code, reason = "calls into the CUDA driver")]

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use cudarc::driver::result::{self, DriverError};
use cudarc::driver::{CudaContext, CudaGraph, CudaStream, sys};
use cudarc::{cublaslt, nvrtc};

use super::profile::Launches;
use crate::{Error, Result};

/// One of the GPUs that the driver shows, and the one stream on which everything happens in order.
pub(crate) struct Gpu {
    context: Arc<CudaContext>,
    stream: Arc<CudaStream>,
    name: String,
    capability: (i32, i32),
    multiprocessors: usize,
    /// Waits that have begun.
    waits: AtomicU64,
    /// The last of these that has finished.
    finished_waits: AtomicU64,
    pub(crate) profile: Launches,
}

/// Compute capability from which on there are tensor cores for bf16.
const OLDEST: (i32, i32) = (8, 0);

impl Gpu {
    /// Opens the GPU with this number, or says why it cannot be used.
    pub(crate) fn open(number: usize) -> Result<Arc<Self>> {
        let count = gpu_count()?;
        if number >= count {
            let reason = match count {
                1 => format!("there is no GPU {number}: the driver shows one, which is cuda:0"),
                _ => format!("there is no GPU {number}: the driver shows {count}, numbered from 0"),
            };
            return Err(Error::NoGpu { reason, expected: true });
        }
        let none = |reason: String| Error::NoGpu { reason, expected: true };
        let context = CudaContext::new(number).map_err(|error| {
            none(match error.0 {
                sys::CUresult::CUDA_ERROR_OUT_OF_MEMORY => "the GPU's memory is full; stop what else uses it".into(),
                _ => format!("the GPU cannot be opened ({})", text(error)),
            })
        })?;
        let (name, capability) = (context.name()?, context.compute_capability()?);
        if capability < OLDEST {
            let (major, minor) = capability;
            return Err(none(format!(
                "{name} is of compute capability {major}.{minor}, but bf16 needs {}.{} or later",
                OLDEST.0, OLDEST.1
            )));
        }
        let multiprocessors =
            context.attribute(sys::CUdevice_attribute::CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT)?.max(1) as usize;
        // SAFETY: all work is on one stream, so there is nothing to track.
        unsafe { context.disable_event_tracking() };
        let stream = context.new_stream()?;
        Ok(Arc::new(Self {
            context,
            stream,
            name,
            capability,
            multiprocessors,
            waits: AtomicU64::new(0),
            finished_waits: AtomicU64::new(0),
            profile: Launches::default(),
        }))
    }

    /// The GPU's name.
    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    /// True for the emulated GPU of the tests, whose times mean nothing.
    pub(crate) fn is_emulated(&self) -> bool {
        self.name.starts_with("emulated")
    }

    /// Compute capability as one number, such as 90.
    pub(crate) fn architecture(&self) -> i32 {
        self.capability.0 * 10 + self.capability.1
    }

    /// Blocks of threads that run at once, if each takes all that there is.
    pub(crate) fn multiprocessors(&self) -> usize {
        self.multiprocessors
    }

    /// Bytes of its memory that are free, and all.
    pub(crate) fn memory(&self) -> Result<(usize, usize)> {
        Ok(self.context.mem_get_info()?)
    }

    /// Makes it the GPU of this thread. Every entry from outside begins with it.
    pub(crate) fn bind(&self) -> Result<()> {
        Ok(self.context.bind_to_thread()?)
    }

    /// Waits until all work launched so far is done.
    pub(crate) fn wait(&self) -> Result<()> {
        let number = self.waits.fetch_add(1, Ordering::SeqCst) + 1;
        self.stream.synchronize()?;
        self.finished_waits.fetch_max(number, Ordering::SeqCst);
        Ok(())
    }

    /// Number of the last wait that has begun: how often somebody has waited.
    pub(crate) fn waits(&self) -> u64 {
        self.waits.load(Ordering::SeqCst)
    }

    /// Number of the last wait that has finished.
    pub(crate) fn finished_waits(&self) -> u64 {
        self.finished_waits.load(Ordering::SeqCst)
    }

    pub(crate) fn stream(&self) -> sys::CUstream {
        self.stream.cu_stream()
    }

    /// Records what `work` launches, to be launched again at once.
    pub(crate) fn record(&self, work: impl FnOnce() -> Result<()>) -> Result<Graph> {
        self.stream.begin_capture(sys::CUstreamCaptureMode::CU_STREAM_CAPTURE_MODE_THREAD_LOCAL)?;
        let done = work();
        let graph = self.stream.end_capture(sys::CUgraphInstantiate_flags(0))?;
        done?;
        let graph = graph.ok_or_else(|| Error::Gpu("a recorded forward pass was empty".into()))?;
        Ok(Graph(graph))
    }
}

/// Recorded launches.
pub(crate) struct Graph(CudaGraph);

// SAFETY: a graph may be used from any thread, by one at a time; it is only reachable through `&mut` of its owner.
unsafe impl Send for Graph {}

impl Graph {
    /// Launches everything again, with the arguments that it was recorded with.
    ///
    /// # Safety
    /// The recorded launches are still sound: all memory that they were given is where it was.
    pub(crate) unsafe fn launch(&self) -> Result<()> {
        Ok(self.0.launch()?)
    }
}

/// The number of GPUs that the driver shows, 1 or more.
pub(crate) fn gpu_count() -> Result<usize> {
    let none = |reason: String| Error::NoGpu { reason, expected: true };
    // SAFETY: opening a library runs its initializers; these are NVIDIA's.
    let [driver, cublas, compiler] =
        unsafe { [sys::is_culib_present(), cublaslt::sys::is_culib_present(), nvrtc::sys::is_culib_present()] };
    if !driver {
        let reason = "the NVIDIA driver (libcuda) is not installed".into();
        return Err(Error::NoGpu { reason, expected: false });
    }
    let missing = [("libcublasLt", cublas), ("libnvrtc", compiler)].into_iter().find(|(_, there)| !there);
    if let Some((library, _)) = missing {
        let advice = "install the CUDA toolkit, or put its lib64 folder on LD_LIBRARY_PATH";
        return Err(none(format!("{library} was not found: {advice}")));
    }
    result::init().map_err(|error| none(format!("the NVIDIA driver finds no GPU ({})", text(error))))?;
    check_versions()?;
    Ok(CudaContext::device_count()? as usize)
}

/// Refuses a driver that cannot run what the CUDA libraries make.
fn check_versions() -> Result<()> {
    let (mut driver, mut major, mut minor) = (0, 0, 0);
    // SAFETY: the pointers are valid.
    let told = unsafe {
        sys::cuDriverGetVersion(&mut driver).result().is_ok()
            && nvrtc::sys::nvrtcVersion(&mut major, &mut minor) == nvrtc::sys::nvrtcResult::NVRTC_SUCCESS
    };
    match too_old(driver, (major, minor)).filter(|_| told) {
        Some(reason) => Err(Error::NoGpu { reason, expected: true }),
        None => Ok(()),
    }
}

/// The reason that a driver does not go with the libraries. It gives the newest CUDA it knows as 12080 for 12.8.
fn too_old(driver: i32, libraries: (i32, i32)) -> Option<String> {
    let (known, found) = ((driver / 1000, driver % 1000 / 10), libraries);
    // Within a major version newer libraries run on older drivers.
    (known.0 < found.0).then(|| {
        format!(
            "the NVIDIA driver is too old: it knows CUDA {}.{}, but the CUDA libraries here are {}.{}; update the driver",
            known.0, known.1, found.0, found.1
        )
    })
}

/// The GPU that is used unless another is named, in a few words, and how many others there are; or why there is none.
pub fn describe_gpu() -> Result<String> {
    let gpu = Gpu::open(0)?;
    let (free, all) = gpu.memory()?;
    let others = match gpu_count()? {
        1 => String::new(),
        count => format!("; the first of {count}"),
    };
    Ok(format!("{}, {:.1} of {:.1} GB free{others}", gpu.name(), free as f64 * 1e-9, all as f64 * 1e-9))
}

fn text(error: DriverError) -> String {
    error.error_string().map_or_else(|_| format!("{error:?}"), |text| text.to_string_lossy().into_owned())
}

impl From<DriverError> for Error {
    fn from(error: DriverError) -> Self {
        Self::Gpu(text(error))
    }
}

#[cfg(test)]
mod tests {
    use super::too_old;

    #[test]
    fn a_driver_must_know_the_libraries_major_version() {
        assert_eq!(too_old(13_000, (13, 2)), None);
        assert_eq!(too_old(13_010, (12, 8)), None);
        let reason = too_old(12_040, (13, 0)).unwrap();
        assert!(reason.contains("it knows CUDA 12.4, but the CUDA libraries here are 13.0"), "{reason}");
    }
}
