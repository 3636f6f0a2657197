//! A checkpoint, stored in fewer bits.

use std::fs::{self, File};
use std::io::{BufWriter, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};

use half::{bf16, f16};
use rayon::prelude::*;
use serde_json::{Map, Value, json};

use super::open::CONFIG;
use super::tensors::{GROUPS, SCALES};
use super::{Checkpoint, StoredType, Tensor};
use crate::int4::{self, GROUP, Group};
use crate::text::FILES;
use crate::weight::{Role, Weight};
use crate::{Error, Precision, Result, WeightFormat, int8, json};

/// Bytes of values that are made at a time.
const CHUNK_BYTES: usize = 64 << 20;

impl Checkpoint {
    /// Stores the model in a precision of integers, in the Hugging Face layout: a new directory with config.json, the tokenizer's
    /// files and model.safetensors. Loaded from there it computes bit for bit what it does if it is quantised when it is loaded.
    /// The directory appears when it is complete.
    pub fn quantize(&self, precision: Precision, directory: &Path) -> Result<()> {
        if !matches!(precision, Precision::Int8 | Precision::Int4) {
            return Err(Error::Request(format!("{} is not a precision to store: use int4 or int8", precision.name())));
        }
        if let Some(stored) = self.quantized() {
            let message = "is already stored in";
            return Err(Error::Request(format!("{} {message} {}: take the original", self.name(), stored.name())));
        }
        if fs::symlink_metadata(directory).is_ok() {
            let message = "already exists: name a new directory";
            return Err(Error::Request(format!("{} {message}", directory.display())));
        }
        let partial = Partial::new(directory)?;
        self.write_files(precision, &partial.path)?;
        let plan = self.plan(precision)?;
        let path = partial.path.join("model.safetensors");
        plan.write(self, &path).map_err(|failed| match failed {
            Failed::Read(error) => error,
            Failed::Write(source) => cannot_write(&path, source),
        })?;
        fs::rename(&partial.path, directory).map_err(|source| cannot_write(directory, source))
    }

    /// Writes the configuration, with a note of the precision, and the tokenizer's files.
    fn write_files(&self, precision: Precision, directory: &Path) -> Result<()> {
        let write = |name: &str, content: &[u8]| {
            let path = directory.join(name);
            fs::write(&path, content).map_err(|source| cannot_write(&path, source))
        };
        let config = self.files.read(CONFIG)?.unwrap_or_default();
        let label = self.files.label(CONFIG);
        let mut config: Map<String, Value> = json::parse(&label, &config)?;
        let note = json!({"quant_method": "lacuna", "precision": precision.name()});
        config.insert("quantization_config".to_string(), note);
        write(CONFIG, format!("{:#}\n", Value::Object(config)).as_bytes())?;
        for name in FILES {
            if let Some(content) = self.files.read(name)? {
                write(name, &content)?;
            }
        }
        Ok(())
    }

    /// The tensors to write.
    fn plan(&self, precision: Precision) -> Result<Plan> {
        let mut plan = Plan::default();
        for weight in self.architecture().weights() {
            let whole = Weight { rows: 0..weight.shape[0], ..weight };
            // Queries, keys and values can be parts of one tensor.
            if plan.tensors.last().is_some_and(|known: &Planned| known.weight.name == whole.name) {
                continue;
            }
            let stored_type = self.storage_type(&whole, precision)?;
            plan.add(whole, stored_type);
        }
        Ok(plan)
    }

    /// The type of number that a weight is stored in.
    fn storage_type(&self, weight: &Weight, precision: Precision) -> Result<StoredType> {
        let format = match weight.role {
            Role::Embedding => self.embedding_format(precision),
            role if role == Role::Head || role.is_block_matrix() => precision.format(role).weights,
            _ => WeightFormat::F32,
        };
        Ok(match format {
            WeightFormat::Int4 => StoredType::Int4,
            WeightFormat::Int8 => StoredType::Int8,
            // The embedding, as the CPU holds it.
            WeightFormat::Bf16 => match self.get(weight)?.stored_type() {
                StoredType::F16 => StoredType::F16,
                StoredType::F32 => StoredType::F32,
                _ => StoredType::Bf16,
            },
            _ => StoredType::F32,
        })
    }
}

/// A directory that is removed unless it gets its name.
struct Partial {
    path: PathBuf,
}

impl Partial {
    /// A directory beside the one it will be.
    fn new(directory: &Path) -> Result<Self> {
        let mut name = directory
            .file_name()
            .map(|name| name.to_os_string())
            .ok_or_else(|| Error::Request(format!("{} is not the name of a new directory", directory.display())))?;
        name.push(format!(".partial-{}", std::process::id()));
        let path = directory.with_file_name(name);
        fs::create_dir(&path).map_err(|source| cannot_write(&path, source))?;
        Ok(Self { path })
    }
}

impl Drop for Partial {
    fn drop(&mut self) {
        // Once it has its name there is nothing left here.
        let _ = fs::remove_dir_all(&self.path);
    }
}

fn cannot_write(path: &Path, source: std::io::Error) -> Error {
    Error::CannotWrite { file: path.display().to_string(), source }
}

/// A file of tensors before it is written.
#[derive(Default)]
struct Plan {
    tensors: Vec<Planned>,
}

/// A weight and the parts that it is stored in.
struct Planned {
    weight: Weight,
    stored_type: StoredType,
    parts: Vec<Part>,
}

/// A tensor of the file.
struct Part {
    name: String,
    dtype: &'static str,
    /// Bytes of a number.
    size: usize,
    shape: Vec<usize>,
    /// First byte behind the header.
    start: usize,
}

impl Part {
    fn bytes(&self) -> usize {
        self.shape.iter().product::<usize>() * self.size
    }
}

enum Failed {
    Read(Error),
    Write(std::io::Error),
}

impl From<std::io::Error> for Failed {
    fn from(error: std::io::Error) -> Self {
        Self::Write(error)
    }
}

impl From<Error> for Failed {
    fn from(error: Error) -> Self {
        Self::Read(error)
    }
}

impl Plan {
    fn add(&mut self, weight: Weight, stored_type: StoredType) {
        let (rows, groups) = (weight.shape[0], int4::groups(weight.columns()));
        let part = |suffix: &str, dtype, size, shape| Part {
            name: format!("{}{suffix}", weight.name),
            dtype,
            size,
            shape,
            start: 0,
        };
        let shape = weight.shape.clone();
        // In the order in which `pack` gives their bytes.
        let parts = match stored_type {
            StoredType::F16 => vec![part("", "F16", 2, shape)],
            StoredType::Bf16 => vec![part("", "BF16", 2, shape)],
            StoredType::Int8 => vec![part("", "I8", 1, shape), part(SCALES, "F32", 4, vec![rows])],
            StoredType::Int4 => vec![
                part("", "U8", 1, vec![rows, groups * GROUP / 2]),
                part(SCALES, "F32", 4, vec![rows]),
                part(GROUPS, "U8", 1, vec![rows, groups]),
            ],
            _ => vec![part("", "F32", 4, shape)],
        };
        self.tensors.push(Planned { weight, stored_type, parts });
    }

    /// Gives every part its place, those of large numbers first so that all are aligned, and returns the header.
    fn arrange(&mut self) -> Vec<u8> {
        let mut parts: Vec<&mut Part> = self.tensors.iter_mut().flat_map(|tensor| &mut tensor.parts).collect();
        parts.sort_by_key(|part| std::cmp::Reverse(part.size));
        let mut header = Map::from_iter([("__metadata__".to_string(), json!({"format": "pt"}))]);
        let mut end = 0;
        for part in parts {
            part.start = end;
            end += part.bytes();
            let entry = json!({"dtype": part.dtype, "shape": part.shape, "data_offsets": [part.start, end]});
            header.insert(part.name.clone(), entry);
        }
        let mut header = Value::Object(header).to_string().into_bytes();
        header.resize(header.len().next_multiple_of(8), b' ');
        header
    }

    fn write(mut self, checkpoint: &Checkpoint, path: &Path) -> std::result::Result<(), Failed> {
        let header = self.arrange();
        let mut file = BufWriter::new(File::create_new(path)?);
        file.write_all(&(header.len() as u64).to_le_bytes())?;
        file.write_all(&header)?;
        let data = size_of::<u64>() + header.len();
        for Planned { weight, stored_type, parts } in &self.tensors {
            let tensor = checkpoint.get(weight)?;
            let stretch = (CHUNK_BYTES / (weight.columns() * size_of::<f32>())).max(1);
            for first in (0..tensor.rows()).step_by(stretch) {
                let rows = first..tensor.rows().min(first + stretch);
                for (part, bytes) in parts.iter().zip(pack(&tensor, *stored_type, rows)?) {
                    let place = data + part.start + first * (part.bytes() / tensor.rows());
                    file.seek(SeekFrom::Start(place as u64))?;
                    file.write_all(&bytes)?;
                }
            }
            tensor.release();
        }
        let file = file.into_inner().map_err(|error| error.into_error())?;
        Ok(file.sync_all()?)
    }
}

/// The bytes of some rows of a tensor: its values, and where it is quantised its scales and its groups.
fn pack(tensor: &Tensor<'_>, stored_type: StoredType, rows: std::ops::Range<usize>) -> Result<[Vec<u8>; 3]> {
    let columns = tensor.columns();
    let row = |scratch: &mut Vec<f32>, row: usize| -> Result<[Vec<u8>; 3]> {
        scratch.resize(columns, 0.0);
        tensor.read(row * columns, scratch)?;
        let plain = |bytes: Vec<u8>| Ok([bytes, Vec::new(), Vec::new()]);
        match stored_type {
            StoredType::F16 => plain(scratch.iter().flat_map(|&value| f16::from_f32(value).to_le_bytes()).collect()),
            StoredType::Bf16 => plain(scratch.iter().flat_map(|&value| bf16::from_f32(value).to_le_bytes()).collect()),
            StoredType::Int8 => {
                let mut values = vec![0i8; columns];
                let scale = int8::round(scratch, None, &mut values);
                Ok([values.iter().map(|&value| value as u8).collect(), scale.to_le_bytes().to_vec(), Vec::new()])
            }
            StoredType::Int4 => {
                let mut groups = vec![Group::default(); int4::groups(columns)];
                let row_scale = int4::choose(scratch, &mut groups);
                let mut values = vec![0; groups.len() * GROUP];
                int4::round(scratch, row_scale, &groups, &mut values[..columns]);
                let mut halves = vec![0; values.len() / 2];
                let packed = values.as_chunks().0.iter().zip(halves.chunks_exact_mut(GROUP / 2));
                packed.for_each(|(values, halves)| int4::pack(values, halves));
                let groups = groups.iter().map(|group| group.byte()).collect();
                Ok([halves, row_scale.to_le_bytes().to_vec(), groups])
            }
            _ => plain(scratch.iter().flat_map(|value| value.to_le_bytes()).collect()),
        }
    };
    let packed: Vec<[Vec<u8>; 3]> = rows.into_par_iter().map_init(Vec::new, row).collect::<Result<_>>()?;
    Ok([0, 1, 2].map(|part| packed.iter().flat_map(|parts| &parts[part]).copied().collect()))
}
