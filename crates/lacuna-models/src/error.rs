//! Everything that can be wrong with a checkpoint, said so that the user can mend it.

/// What this crate returns.
pub type Result<T> = std::result::Result<T, Error>;

/// Why a checkpoint cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// There is no such checkpoint.
    #[error("{path} is not a directory: a model is a folder with config.json, safetensors files and tokenizer files")]
    NotADirectory {
        /// What was given.
        path: String,
    },
    /// A file that must be there is not.
    #[error("{file} does not exist: {advice}")]
    MissingFile {
        /// The file.
        file: String,
        /// What to do.
        advice: String,
    },
    /// The system cannot read a file.
    #[error("{file} cannot be read: {source}")]
    Io {
        /// The file.
        file: String,
        /// What the system says.
        source: std::io::Error,
    },
    /// A file that is not the JSON it should be.
    #[error("{file} is not as expected: {source}")]
    Json {
        /// The file.
        file: String,
        /// What is wrong, and in which line.
        source: serde_json::Error,
    },
    /// A model of another kind.
    #[error("{file}: model_type is {found}, but lacuna knows llada (LLaDA) and Dream")]
    UnknownModel {
        /// The configuration.
        file: String,
        /// Its model type.
        found: String,
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
        /// What is supported.
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
        /// What would make sense.
        expected: String,
    },
    /// A file that is not safetensors, or only a part of one.
    #[error(
        "{file} is not a whole safetensors file ({reason}): it may be damaged or only partly downloaded; fetch it again"
    )]
    Damaged {
        /// The file.
        file: String,
        /// What gave it away.
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
        /// What is wrong with that.
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
    #[error("tensor {tensor} in {file} is of type {found}, but lacuna reads F32, F16 and BF16")]
    Dtype {
        /// The file.
        file: String,
        /// The tensor.
        tensor: String,
        /// Its type.
        found: String,
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
        /// Where, counted through all dimensions.
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
        /// What is wrong.
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
        /// What it says.
        reason: String,
    },
    /// There is no GPU that can be used.
    #[error("no usable GPU: {reason}")]
    NoGpu {
        /// Why not.
        reason: String,
        /// Whether there is an NVIDIA driver, so that somebody may expect a GPU to be used.
        expected: bool,
    },
    /// A precision that the GPU predictor does not have.
    #[error("{precision} is not there on the GPU: use --precision f32, bf16 or fp8, or --device cpu")]
    NotOnGpu {
        /// What was asked for.
        precision: &'static str,
    },
    /// Fp8 where it cannot be had.
    #[error("fp8 needs {needed}, but {found}: use --precision bf16")]
    NoFp8 {
        /// What it takes.
        needed: &'static str,
        /// What is there instead.
        found: String,
    },
    /// A model that does not fit into the GPU's memory.
    #[error("{model} in {precision} needs {} on the GPU, but {gpu} has {} free: {advice}", amount(*needed), amount(*free))]
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
        /// What would fit.
        advice: String,
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
}

impl From<Error> for lacuna::Error {
    fn from(error: Error) -> Self {
        Self::Predictor(Box::new(error))
    }
}

/// Bytes, as people say it.
pub(crate) fn amount(bytes: usize) -> String {
    match bytes as f64 {
        bytes if bytes < 1e8 => format!("{:.0} MB", bytes * 1e-6),
        bytes => format!("{:.1} GB", bytes * 1e-9),
    }
}
