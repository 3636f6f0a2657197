//! A model that is ready to be asked, wherever it computes.

use std::fmt;
use std::panic::resume_unwind;
use std::str::FromStr;
use std::thread;

use lacuna::{AttentionSource, Predictor, Token};
use serde::{Deserialize, Serialize};

use crate::{Checkpoint, CpuPredictor, CudaPredictor, Error, Precision, Result, gpu_count};

/// Compute device, written `auto`, `cpu`, `cuda`, `cuda:1`, `cuda:0,1` or `cuda:all`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub enum Device {
    /// The first NVIDIA GPU if it can be used, else the processor.
    #[default]
    Auto,
    /// The processor.
    Cpu,
    /// NVIDIA GPUs by the driver's numbers, at least one. Each holds a replica of the model.
    Cuda(Vec<usize>),
    /// All NVIDIA GPUs that the driver shows.
    AllGpus,
}

impl Device {
    /// Numbers of the GPUs that it names; none for the others.
    fn gpus(&self) -> Result<Vec<usize>> {
        match self {
            Self::Auto | Self::Cpu => Ok(Vec::new()),
            Self::Cuda(numbers) => Ok(numbers.clone()),
            Self::AllGpus => Ok((0..gpu_count()?).collect()),
        }
    }
}

impl FromStr for Device {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        let numbers = match text {
            "auto" => return Ok(Self::Auto),
            "cpu" => return Ok(Self::Cpu),
            "cuda:all" | "all" => return Ok(Self::AllGpus),
            "cuda" => "0",
            _ => text.strip_prefix("cuda:").unwrap_or_default(),
        };
        let unknown = |_| {
            Error::Request(format!(
                "there is no device '{text}': use auto, cpu, cuda, a GPU such as cuda:1, several such as cuda:0,1, or cuda:all"
            ))
        };
        let numbers: Vec<usize> =
            numbers.split(',').map(|number| number.parse().map_err(unknown)).collect::<Result<_>>()?;
        match numbers.iter().enumerate().find(|(at, number)| numbers[..*at].contains(number)) {
            Some((_, twice)) => Err(Error::Request(format!("'{text}' names GPU {twice} twice: name each once"))),
            None => Ok(Self::Cuda(numbers)),
        }
    }
}

impl fmt::Display for Device {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Auto => formatter.write_str("auto"),
            Self::Cpu => formatter.write_str("cpu"),
            Self::Cuda(numbers) => {
                let numbers: Vec<String> = numbers.iter().map(usize::to_string).collect();
                write!(formatter, "cuda:{}", numbers.join(","))
            }
            Self::AllGpus => formatter.write_str("cuda:all"),
        }
    }
}

impl TryFrom<String> for Device {
    type Error = Error;

    fn try_from(text: String) -> Result<Self> {
        text.parse()
    }
}

impl From<Device> for String {
    fn from(device: Device) -> Self {
        device.to_string()
    }
}

/// Default batch size, unless a device has reasons for another.
pub(crate) const DEFAULT_BATCH: usize = 8;
/// Weights of so many bytes or fewer are a small model's.
pub(crate) const SMALL_MODEL_BYTES: usize = 64 << 20;

/// A predictor that can also tell about itself.
pub trait Model: Predictor + Send {
    /// Name of the device, in a few words.
    fn device(&self) -> String;

    /// The precision of its matrix products.
    fn precision(&self) -> Precision;

    /// Bytes held, and bytes that a forward pass over `length` positions needs in addition.
    fn memory(&self, length: usize) -> Memory;

    /// Recommended batch size for many canvases.
    fn default_batch(&self) -> usize {
        DEFAULT_BATCH
    }

    /// Keeps keys and values of finished blocks for runs whose texts begin alike, in so many bytes; none unless it is told. Block-causal
    /// models alone can do that, and it changes no result.
    fn reuse_prompts(&mut self, _bytes: usize) {}

    /// Bytes of what is kept for that.
    fn prompt_bytes(&self) -> usize {
        0
    }

    /// The most operations a second, in GFLOP/s, that its device does in its precision. It is measured.
    fn ceiling_gflops(&mut self) -> Result<f64>;

    /// Times each kernel that is launched from now on, on a GPU.
    fn begin_profile(&mut self) -> Result<()> {
        Err(Error::Request(
            "the kernels of a GPU are timed one by one, and this computes on the CPU: use --device cuda".into(),
        ))
    }

    /// Ends that.
    fn end_profile(&mut self) -> Result<Profile> {
        Ok(Profile::default())
    }

    /// Waits for work that the device does asynchronously. Only measurements need it.
    fn wait(&mut self) -> Result<()> {
        Ok(())
    }

    /// The logits of every position of a view observed last, before any shift: row i is the model's output at position i.
    fn logits(&mut self, view: usize) -> Result<Vec<Vec<f32>>> {
        self.logits_at(view, None)
    }

    /// The same of these positions, which must ascend; of all if there are none given.
    fn logits_at(&mut self, view: usize, positions: Option<&[usize]>) -> Result<Vec<Vec<f32>>>;

    /// The attention that one position pays to every position of a canvas, the mean over `sources`; none if this device does
    /// not give single attention weights. It computes anew: views observed before can no longer be read.
    fn attention(
        &mut self,
        _tokens: &[Token],
        _position: usize,
        _sources: &[AttentionSource],
    ) -> lacuna::Result<Option<Vec<f32>>> {
        Ok(None)
    }
}

/// Time that a GPU spent in each kernel.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Profile {
    /// All kernels, the one that took longest first.
    pub kernels: Vec<KernelTime>,
    /// Number of experts that got rows, summed over the layers.
    pub experts_used: usize,
}

/// Time that a GPU spent in a kernel.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct KernelTime {
    /// Name of the kernel; of a product by cublasLt its sizes too.
    pub kernel: String,
    /// Number of launches.
    pub launches: usize,
    /// Milliseconds of all of them.
    pub ms: f64,
}

/// Memory use of a predictor, in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Memory {
    /// The weights.
    pub weights: usize,
    /// The buffers of one forward pass.
    pub buffers: usize,
}

/// Loads a checkpoint's weights onto a device, in the checkpoint's own precision if none is given.
///
/// [`Device::Auto`] means the GPU, except where there is none that can be used or the precision is one that it does not have. A
/// model that is too large for the GPU is refused, not moved: on the processor it would be many times slower. So are several GPUs.
pub fn load(checkpoint: &Checkpoint, precision: Option<Precision>, device: &Device) -> Result<Box<dyn Model>> {
    let cpu = || Ok(Box::new(CpuPredictor::load(checkpoint, precision)?) as Box<dyn Model>);
    match device.gpus()?[..] {
        [] if *device == Device::Cpu => cpu(),
        [] => match CudaPredictor::load(checkpoint, precision) {
            Err(Error::NoGpu { reason, .. }) if precision == Some(Precision::Fp8) => Err(Error::no_hopper(reason)),
            Err(Error::NoGpu { .. } | Error::NotOnGpu { .. }) => cpu(),
            loaded => Ok(Box::new(loaded?)),
        },
        [number] => Ok(Box::new(CudaPredictor::load_onto(number, checkpoint, precision)?)),
        _ => Err(Error::Request(format!("{device} names several GPUs, but this computes on one: use cuda:0"))),
    }
}

/// Loads one model for each GPU that `device` names, else one as [`load`] does. Their answers are the same: GPUs of several kinds,
/// which may round differently, are refused.
pub fn load_replicas(
    checkpoint: &Checkpoint,
    precision: Option<Precision>,
    device: &Device,
) -> Result<Vec<Box<dyn Model>>> {
    let numbers = device.gpus()?;
    let [first, others @ ..] = &numbers[..] else { return Ok(vec![load(checkpoint, precision, device)?]) };
    let onto = |number: usize| {
        let model = CudaPredictor::load_onto(number, checkpoint, precision)?;
        Ok(Box::new(model) as Box<dyn Model>)
    };
    // The first compiles the kernels, which the others then find in the cache.
    let first = onto(*first)?;
    let others: Vec<Box<dyn Model>> = thread::scope(|scope| {
        let threads: Vec<_> = others.iter().map(|number| scope.spawn(|| onto(*number))).collect();
        threads
            .into_iter()
            .map(|thread| thread.join().unwrap_or_else(|panic| resume_unwind(panic)))
            .collect::<Result<_>>()
    })?;
    if let Some(other) = others.iter().find(|other| other.device() != first.device()) {
        let (one, two) = (first.device(), other.device());
        return Err(Error::Request(format!(
            "{device} names GPUs of several kinds ({one}; {two}), which may round differently: name GPUs of one kind"
        )));
    }
    Ok([vec![first], others].into_iter().flatten().collect())
}

/// The device of replicas, in a few words.
pub fn describe_devices(replicas: &[Box<dyn Model>]) -> String {
    match replicas {
        [] => "none".into(),
        [model] => model.device(),
        [model, ..] => format!("{} times {}", replicas.len(), model.device()),
    }
}

#[cfg(test)]
mod tests {
    use super::Device;

    #[test]
    fn devices_are_written_as_they_are_read() {
        for text in ["auto", "cpu", "cuda:0", "cuda:3", "cuda:2,0,1", "cuda:all"] {
            assert_eq!(text.parse::<Device>().unwrap().to_string(), text);
        }
        assert_eq!("cuda".parse::<Device>().unwrap(), Device::Cuda(vec![0]));
        assert_eq!("all".parse::<Device>().unwrap(), Device::AllGpus);
        for text in ["", "gpu", "cuda:", "cuda:-1", "cuda:0,", "cuda:0, 1", "cuda0", "0", "CUDA", "cuda:x"] {
            let refused = text.parse::<Device>().unwrap_err().to_string();
            assert!(refused.starts_with(&format!("there is no device '{text}': use auto")), "{refused}");
        }
        let refused = "cuda:1,0,1".parse::<Device>().unwrap_err().to_string();
        assert_eq!(refused, "'cuda:1,0,1' names GPU 1 twice: name each once");
    }
}
