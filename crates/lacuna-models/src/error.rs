//! Everything that can be wrong with a checkpoint or a device, as facts. Callers word the advice in the terms of their interface.

/// Result of this crate's functions.
pub type Result<T> = std::result::Result<T, Error>;

/// A parameter that would help if it were set otherwise.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Advice {
    /// The parameter's name, such as `precision`.
    pub parameter: &'static str,
    /// The value that helps; none if only the user knows it.
    pub value: Option<String>,
    /// The effect of that, such as `would take 8 GB`.
    pub effect: Option<String>,
}

impl Advice {
    /// Advice to set a parameter to a value.
    pub(crate) fn new(parameter: &'static str, value: &str) -> Self {
        Self { parameter, value: Some(value.to_string()), effect: None }
    }

    /// The setting as a name and a value, in no interface's syntax.
    fn plain(&self) -> String {
        match &self.value {
            Some(value) => format!("{} {value}", self.parameter),
            None => self.parameter.to_string(),
        }
    }
}

/// An error of loading or running a checkpoint.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// There is no such checkpoint.
    #[error(
        "{path} is neither a directory nor a .gguf file: a model is a folder with config.json, safetensors files and tokenizer files, a \
         GGUF file, or the name of one that `hf download` has fetched"
    )]
    NotADirectory {
        /// Given path.
        path: String,
    },
    /// A GGUF file of another kind of model.
    #[error("{file} holds a model of architecture '{found}', but lacuna reads llada, dream and llada-moe from GGUF")]
    GgufArchitecture {
        /// The file.
        file: String,
        /// Its `general.architecture`.
        found: String,
    },
    /// A file that must be there is not.
    #[error("{file} does not exist: {advice}")]
    MissingFile {
        /// The file.
        file: String,
        /// Advice.
        advice: String,
    },
    /// The system cannot read a file.
    #[error("{file} cannot be read: {source}")]
    Io {
        /// The file.
        file: String,
        /// Error of the operating system.
        source: std::io::Error,
    },
    /// The system cannot write a file.
    #[error("{file} cannot be written: {source}")]
    CannotWrite {
        /// The file.
        file: String,
        /// Error of the operating system.
        source: std::io::Error,
    },
    /// A file that is not the JSON it should be.
    #[error("{file} is not as expected: {problem}")]
    Json {
        /// The file.
        file: String,
        /// The key and its value, or the error of the JSON parser with its line.
        problem: String,
    },
    /// Something that is no regular file, such as a pipe.
    #[error("{file} is not a regular file")]
    NotAFile {
        /// The file.
        file: String,
    },
    /// A model of a family that is not known.
    #[error("{file}: model_type '{found}' is not supported; the supported families are {known}")]
    UnknownModel {
        /// The configuration.
        file: String,
        /// Its model type.
        found: String,
        /// The supported families.
        known: String,
    },
    /// A model of a family that is known, but not supported.
    #[error("{file}: {family} is not supported yet: it needs {missing}")]
    RefusedModel {
        /// The configuration.
        file: String,
        /// The family.
        family: &'static str,
        /// Feature of the family that lacuna does not support.
        missing: &'static str,
    },
    /// A mask token that neither the configuration nor the user names.
    #[error("{}: {}", no_mask_token(file), plainly(&self.advice()))]
    NoMaskToken {
        /// The configuration.
        file: String,
    },
    /// A variant of a known model that lacuna does not know.
    #[error("{file}: {key} is {value}, which is not supported; it must be {supported}")]
    Unsupported {
        /// The configuration.
        file: String,
        /// The setting.
        key: &'static str,
        /// Its value.
        value: String,
        /// Supported values.
        supported: &'static str,
    },
    /// A setting that makes no sense.
    #[error("{file}: {key} is {value}, but {expected}")]
    Config {
        /// The configuration.
        file: String,
        /// The setting.
        key: &'static str,
        /// Its value.
        value: String,
        /// Values that would make sense.
        expected: String,
    },
    /// A file of weights that is something else, or only a part of one.
    #[error(
        "{file} cannot be read as a file of weights ({reason}): it may be damaged or only partly downloaded; fetch it again"
    )]
    Damaged {
        /// The file.
        file: String,
        /// The evidence.
        reason: String,
    },
    /// An index that does not describe what is there.
    #[error("{index} says that tensor {tensor} is in {shard}, but {problem}; fetch the checkpoint again")]
    Index {
        /// The index.
        index: String,
        /// The tensor.
        tensor: String,
        /// The file named for it.
        shard: String,
        /// Problem with that.
        problem: &'static str,
    },
    /// A tensor that must be there is not.
    #[error("{file} has no tensor {tensor}: the checkpoint is incomplete, or config.json describes another model")]
    MissingTensor {
        /// The file or index.
        file: String,
        /// The tensor.
        tensor: String,
    },
    /// Tensors that the configuration does not account for.
    #[error(
        "{file} has tensors that config.json does not describe ({tensor}; {count} in all): one of the two belongs to another \
         model"
    )]
    UnusedTensors {
        /// The file or index.
        file: String,
        /// One of them.
        tensor: String,
        /// Their number.
        count: usize,
    },
    /// A vocabulary projection beside an embedding that config.json says is used in its place.
    #[error("{file} has {tensor} with other weights than the embedding, but by config.json the two are tied")]
    TiedHead {
        /// The file or index.
        file: String,
        /// The vocabulary projection.
        tensor: String,
    },
    /// A tensor that does not fit the configuration.
    #[error("tensor {tensor} in {file} has shape {found:?}, but by config.json it must be {expected:?}")]
    Shape {
        /// The file.
        file: String,
        /// The tensor.
        tensor: String,
        /// Its shape.
        found: Vec<usize>,
        /// The shape that fits.
        expected: Vec<usize>,
    },
    /// A tensor of numbers that cannot be read.
    #[error("tensor {tensor} in {file} is of type {found}, but lacuna reads {readable}")]
    Dtype {
        /// The file.
        file: String,
        /// The tensor.
        tensor: String,
        /// Its type.
        found: String,
        /// The types that can be read from such a file.
        readable: &'static str,
    },
    /// A tensor that holds NaN or infinity.
    #[error("tensor {tensor} in {file} has {value} at element {element}: the weights are damaged")]
    NotFinite {
        /// The file.
        file: String,
        /// The tensor.
        tensor: String,
        /// The value.
        value: f32,
        /// Index of the element, over all dimensions.
        element: usize,
    },
    /// Text was asked of a checkpoint without a tokenizer.
    #[error(
        "{place} has no tokenizer (neither tokenizer.json nor vocab.json with merges.txt): add one, or use raw token ids"
    )]
    NoTokenizer {
        /// The checkpoint.
        place: String,
    },
    /// A tokenizer that cannot be used.
    #[error("{file} is not a usable tokenizer: {reason}")]
    Tokenizer {
        /// The file.
        file: String,
        /// Reason in one sentence.
        reason: String,
    },
    /// A chat was asked of a model that was not made for it.
    #[error(
        "{place} has no chat template (neither chat_template in tokenizer_config.json nor chat_template.jinja), \
         so it is probably a base model: give it plain text to continue"
    )]
    NoTemplate {
        /// The checkpoint.
        place: String,
    },
    /// A chat template that fails.
    #[error("the chat template in {file} fails: {reason}")]
    Template {
        /// The file.
        file: String,
        /// Its message.
        reason: String,
    },
    /// There is no GPU that can be used.
    #[error("no usable GPU: {reason}")]
    NoGpu {
        /// Reason.
        reason: String,
        /// True if there is an NVIDIA driver, so that a GPU may be expected.
        expected: bool,
    },
    /// A precision or a part of a model that the CUDA predictor does not have.
    #[error("{}: {}", not_on_gpu(what), plainly(advice))]
    NotOnGpu {
        /// The missing part.
        what: String,
        /// Settings that work.
        advice: Vec<Advice>,
    },
    /// Fp8 where it cannot be had.
    #[error("{}: {}", no_fp8(needed, found), plainly(&self.advice()))]
    NoFp8 {
        /// The requirement.
        needed: &'static str,
        /// The value found instead.
        found: String,
    },
    /// A model that does not fit into the GPU's memory.
    #[error("{}: {}", too_large(model, precision, gpu, *needed, *free), plainly(advice))]
    TooLarge {
        /// The model.
        model: String,
        /// The precision asked for.
        precision: &'static str,
        /// The GPU.
        gpu: String,
        /// Bytes needed.
        needed: usize,
        /// Bytes free.
        free: usize,
        /// Settings that would fit.
        advice: Vec<Advice>,
    },
    /// The GPU's memory ran out.
    #[error(
        "the memory of {gpu} is full: {} more are needed and {} are free; use shorter or fewer canvases at a time",
        amount(*needed),
        amount(*free)
    )]
    GpuFull {
        /// The GPU.
        gpu: String,
        /// Bytes needed at once.
        needed: usize,
        /// Bytes free.
        free: usize,
    },
    /// The GPU or one of its libraries failed.
    #[error("the GPU failed: {0}")]
    Gpu(String),
    /// A predictor was asked for something that is not there.
    #[error("{0}")]
    Request(String),
}

impl Error {
    /// Fp8 was asked of something that is no Hopper GPU.
    pub(crate) fn no_hopper(found: impl Into<String>) -> Self {
        Self::NoFp8 { needed: "an NVIDIA Hopper GPU (H100, H200)", found: found.into() }
    }

    /// A part of a model that the CUDA predictor does not have.
    pub(crate) fn not_on_gpu(what: impl Into<String>) -> Self {
        Self::NotOnGpu { what: what.into(), advice: vec![Advice::new("device", "cpu")] }
    }

    /// Parameters that would help if they were set otherwise.
    pub fn advice(&self) -> Vec<Advice> {
        match self {
            Self::NoMaskToken { .. } => vec![Advice { parameter: "mask_token", value: None, effect: None }],
            Self::NoFp8 { .. } => vec![Advice::new("precision", "bf16")],
            Self::NotOnGpu { advice, .. } | Self::TooLarge { advice, .. } => advice.clone(),
            _ => Vec::new(),
        }
    }

    /// True if a file or folder is not there. It may be on another machine.
    pub fn is_absence(&self) -> bool {
        matches!(self, Self::NotADirectory { .. } | Self::MissingFile { .. })
    }

    /// The message, with `setting` writing the parameters it advises: as flags, as arguments of a call, ...
    pub fn worded(&self, setting: impl Fn(&Advice) -> String) -> String {
        let problem = match self {
            Self::NoMaskToken { file } => no_mask_token(file),
            Self::NoFp8 { needed, found } => no_fp8(needed, found),
            Self::NotOnGpu { what, .. } => not_on_gpu(what),
            Self::TooLarge { model, precision, gpu, needed, free, .. } => {
                too_large(model, precision, gpu, *needed, *free)
            }
            other => return other.to_string(),
        };
        format!("{problem}: {}", phrase(&self.advice(), setting))
    }
}

fn no_mask_token(file: &str) -> String {
    format!("{file} does not name the model's mask token")
}

fn no_fp8(needed: &str, found: &str) -> String {
    format!("fp8 needs {needed}, but {found}")
}

fn not_on_gpu(what: &str) -> String {
    format!("{what} is not supported on CUDA yet")
}

fn too_large(model: &str, precision: &str, gpu: &str, needed: usize, free: usize) -> String {
    format!("{model} in {precision} needs {} on the GPU, but {gpu} has {} free", amount(needed), amount(free))
}

fn plainly(advice: &[Advice]) -> String {
    phrase(advice, Advice::plain)
}

/// All advice as one clause.
fn phrase(advice: &[Advice], setting: impl Fn(&Advice) -> String) -> String {
    let clause = |(index, advice): (usize, &Advice)| match (advice, index) {
        (Advice { value: None, .. }, _) => format!("give {}", setting(advice)),
        (Advice { effect: Some(effect), .. }, _) => format!("{} {effect}", setting(advice)),
        (_, 0) => format!("use {}", setting(advice)),
        _ => setting(advice),
    };
    advice.iter().enumerate().map(clause).collect::<Vec<_>>().join(" or ")
}

impl From<Error> for lacuna::Error {
    fn from(error: Error) -> Self {
        Self::Predictor(Box::new(error))
    }
}

/// A number of bytes, for people to read.
pub(crate) fn amount(bytes: usize) -> String {
    match bytes as f64 {
        bytes if bytes < 1e8 => format!("{:.0} MB", bytes * 1e-6),
        bytes => format!("{:.1} GB", bytes * 1e-9),
    }
}
