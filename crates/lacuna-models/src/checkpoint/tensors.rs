//! The tensors of a checkpoint: of one or many safetensors files, or of GGUF.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::ops::Range;
use std::sync::Arc;

use half::{bf16, f16};
use safetensors::{Dtype, SafeTensorError, SafeTensors};
use serde::Deserialize;

use super::Files;
use super::files::Content;
use super::gguf::{Gguf, Quant};
use super::noise::Noise;
use crate::int4::{self, GROUP, Group};
use crate::weight::{Role, Weight};
use crate::{Architecture, Error, Precision, Result, json};

const SINGLE: &str = "model.safetensors";
const INDEX: &str = "model.safetensors.index.json";
/// The types of number that can be read from safetensors.
const SAFETENSORS: &str = "F32, F16, BF16 and what `lacuna quantize` writes";
/// The types of number that can be read from GGUF.
const GGUF: &str = "F32, F16, BF16, Q8_0, Q4_0, Q4_1, Q5_0, Q5_1, Q4_K, Q5_K and Q6_K";

/// Behind the name of a quantised tensor: its scales, one for each row.
pub(super) const SCALES: &str = ".scales";
/// Behind the name of an int4 tensor: its groups.
pub(super) const GROUPS: &str = ".groups";

/// All tensors of a checkpoint, by name.
#[derive(Debug)]
pub(crate) struct Tensors {
    /// Name of the whole set in messages.
    label: String,
    shards: Vec<Shard>,
    entries: HashMap<String, Entry>,
    /// The types of number that can be read from such files.
    readable: &'static str,
}

#[derive(Debug)]
struct Shard {
    label: String,
    content: Arc<Content>,
}

#[derive(Debug)]
struct Entry {
    shard: usize,
    /// The name of the type if it is not supported.
    stored_type: std::result::Result<StoredType, String>,
    shape: Vec<usize>,
    range: Range<usize>,
    /// Heads whose rows stand in the order of llama.cpp, or 0.
    interleaved: usize,
    /// Of a quantised tensor: the place of its rows' scales, and of its groups if it has them.
    scales: Option<(Place, Option<Place>)>,
}

/// A shard, and a range of its bytes.
type Place = (usize, Range<usize>);

#[derive(Deserialize)]
struct Index {
    weight_map: BTreeMap<String, String>,
}

impl Tensors {
    /// Reads the headers. The values are not touched.
    pub(crate) fn open(files: &Files, architecture: &Architecture) -> Result<Self> {
        if let Files::Gguf(gguf) = files {
            return Self::of_gguf(gguf, architecture);
        }
        if let Some(index) = files.read(INDEX)? {
            return Self::open_index(files, &index);
        }
        let mut tensors =
            Self { label: files.label(SINGLE), shards: Vec::new(), entries: HashMap::new(), readable: SAFETENSORS };
        let Some(content) = files.map(SINGLE)? else {
            let advice = format!("a checkpoint has its weights there, or in files that {INDEX} names");
            return Err(Error::MissingFile { file: files.label(SINGLE), advice });
        };
        tensors.entries = tensors.add_shard(files.label(SINGLE), content)?;
        tensors.join_scales()?;
        Ok(tensors)
    }

    /// Gives quantised tensors their scales and groups, which are tensors of their own in a file.
    fn join_scales(&mut self) -> Result<()> {
        let quantized: Vec<String> =
            self.entries.keys().filter_map(|name| name.strip_suffix(SCALES)).map(str::to_string).collect();
        for name in quantized {
            let scales = self.entries.remove(&format!("{name}{SCALES}"));
            let groups = self.entries.remove(&format!("{name}{GROUPS}"));
            let (Some(scales), Some(values)) = (scales, self.entries.get_mut(&name)) else {
                return Err(Error::MissingTensor { file: self.label.clone(), tensor: name });
            };
            let rows = values.shape.first().copied().unwrap_or(0);
            let bytes = values.shape.get(1).copied().unwrap_or(0);
            let stored_type = match &groups {
                None => StoredType::Int8,
                Some(_) => StoredType::Int4,
            };
            let kind = |entry: &Entry| entry.stored_type.as_ref().err().cloned().unwrap_or_default();
            let fits = scales.stored_type == Ok(StoredType::F32)
                && scales.shape == [rows]
                && match &groups {
                    None => kind(values) == "I8",
                    Some(groups) => {
                        let shape = [rows, bytes / (GROUP / 2)];
                        kind(values) == "U8" && kind(groups) == "U8" && groups.shape == shape
                    }
                };
            if !fits {
                let reason = format!("the parts of the quantised tensor {name} do not fit each other");
                return Err(Error::Damaged { file: self.shards[values.shard].label.clone(), reason });
            }
            values.stored_type = Ok(stored_type);
            let place = |entry: Entry| (entry.shard, entry.range);
            values.scales = Some((place(scales), groups.map(place)));
        }
        Ok(())
    }

    fn of_gguf(gguf: &Gguf, architecture: &Architecture) -> Result<Self> {
        let shard = |part: &super::gguf::Part| Shard { label: part.label.clone(), content: part.content.clone() };
        let entries = gguf.named(architecture)?.into_iter().map(|(name, stored, interleaved)| {
            let stored_type = stored.stored_type.map_err(|kind| format!("{kind} (by GGUF's numbers)"));
            (
                name,
                Entry {
                    shard: stored.part,
                    stored_type,
                    shape: stored.shape,
                    range: stored.range,
                    interleaved,
                    scales: None,
                },
            )
        });
        Ok(Self {
            label: gguf.parts[0].label.clone(),
            shards: gguf.parts.iter().map(shard).collect(),
            entries: entries.collect(),
            readable: GGUF,
        })
    }

    fn open_index(files: &Files, index: &[u8]) -> Result<Self> {
        let label = files.label(INDEX);
        let index: Index = json::parse(&label, index)?;
        let mut tensors =
            Self { label: label.clone(), shards: Vec::new(), entries: HashMap::new(), readable: SAFETENSORS };
        let mut found: HashMap<String, HashMap<String, Entry>> = HashMap::new();
        for (tensor, file) in index.weight_map {
            let wrong =
                |problem| Error::Index { index: label.clone(), tensor: tensor.clone(), shard: file.clone(), problem };
            // A name with a path in it would leave the directory.
            if file.contains(['/', '\\']) {
                return Err(wrong("that is not the name of a file beside it"));
            }
            if !found.contains_key(&file) {
                let content = files.map(&file)?.ok_or_else(|| wrong("that file does not exist"))?;
                found.insert(file.clone(), tensors.add_shard(files.label(&file), content)?);
            }
            let entry = found.get_mut(&file).and_then(|entries| entries.remove(&tensor));
            tensors.entries.insert(tensor.clone(), entry.ok_or_else(|| wrong("that file has no such tensor"))?);
        }
        tensors.join_scales()?;
        Ok(tensors)
    }

    fn add_shard(&mut self, label: String, content: Content) -> Result<HashMap<String, Entry>> {
        let damaged = |reason: String| Error::Damaged { file: label.clone(), reason };
        let (header, metadata) =
            SafeTensors::read_metadata(&content).map_err(|error| damaged(header_problem(&error)))?;
        let start = 8 + header;
        let expected = start + metadata.data_len();
        if content.len() != expected {
            return Err(damaged(format!("it has {} bytes, but its header describes {expected}", content.len())));
        }
        let shard = self.shards.len();
        let entry = |info: &safetensors::tensor::TensorInfo| Entry {
            shard,
            stored_type: StoredType::of_safetensors(info.dtype).ok_or_else(|| format!("{:?}", info.dtype)),
            shape: info.shape.clone(),
            range: start + info.data_offsets.0..start + info.data_offsets.1,
            interleaved: 0,
            scales: None,
        };
        let entries = metadata.tensors().into_iter().map(|(name, info)| (name, entry(info))).collect();
        self.shards.push(Shard { label, content: Arc::new(content) });
        Ok(entries)
    }

    /// Refuses what does not fit an architecture: tensors that are missing, of a wrong shape or dtype, or left over.
    pub(crate) fn check(&self, architecture: &Architecture) -> Result<()> {
        let mut left: HashSet<&str> = self.entries.keys().map(String::as_str).collect();
        for weight in architecture.weights() {
            self.get(&weight)?;
            left.remove(weight.name.as_str());
        }
        if architecture.tied {
            let head = format!("{}.weight", architecture.names.head);
            let copy = self.entries.get(&head);
            if copy.is_some_and(|copy| {
                self.bytes_of(copy) != self.bytes_of(&self.entries[&architecture.weight(Role::Head, 0).name])
            }) {
                return Err(Error::TiedHead { file: self.label.clone(), tensor: head });
            }
            left.remove(head.as_str());
        }
        // Tables that older versions of transformers stored; they are computed.
        left.retain(|name| !name.ends_with(".inv_freq"));
        match left.iter().min() {
            None => Ok(()),
            Some(tensor) => {
                Err(Error::UnusedTensors { file: self.label.clone(), tensor: tensor.to_string(), count: left.len() })
            }
        }
    }

    fn bytes_of(&self, entry: &Entry) -> &[u8] {
        &self.shards[entry.shard].content[entry.range.clone()]
    }

    /// A weight that must be there.
    pub(crate) fn get(&self, weight: &Weight) -> Result<Tensor<'_>> {
        let Some(entry) = self.entries.get(&weight.name) else {
            return Err(Error::MissingTensor { file: self.label.clone(), tensor: weight.name.clone() });
        };
        let Shard { label, content } = &self.shards[entry.shard];
        let (file, tensor) = (label.clone(), weight.name.clone());
        let mut expected = weight.shape.clone();
        if let (Ok(StoredType::Int4), [_, columns]) = (&entry.stored_type, &mut expected[..]) {
            *columns = int4::groups(*columns) * GROUP / 2;
        }
        if entry.shape != expected {
            return Err(Error::Shape { file, tensor, found: entry.shape.clone(), expected });
        }
        let stored_type = match &entry.stored_type {
            Ok(stored_type) => *stored_type,
            Err(found) => {
                return Err(Error::Dtype { file, tensor, found: found.clone(), readable: self.readable });
            }
        };
        let Range { start, .. } = weight.elements();
        let (rows, columns) = (weight.rows.len(), weight.columns());
        let row_bytes = entry.range.len() / entry.shape[0].max(1);
        let at = entry.range.start;
        let range = at + weight.rows.start * row_bytes..at + weight.rows.end * row_bytes;
        let scales = entry.scales.as_ref().map(|(scales, groups)| {
            let rows = |(shard, range): &Place| {
                let row_bytes = range.len() / entry.shape[0].max(1);
                let bytes = &self.shards[*shard].content[range.clone()];
                &bytes[weight.rows.start * row_bytes..weight.rows.end * row_bytes]
            };
            RowScales { scales: rows(scales), groups: groups.as_ref().map_or(&[], rows) }
        });
        Ok(Tensor {
            name: tensor,
            file,
            stored_type,
            rows,
            columns,
            first: start,
            values: Values::Stored { content, range, interleaved: entry.interleaved, scales },
        })
    }

    /// True if all tensors take more than 16 bits a number.
    pub(crate) fn are_f32(&self) -> bool {
        self.entries.values().all(|entry| entry.stored_type == Ok(StoredType::F32))
    }

    /// The precision that tensors were quantised to.
    pub(crate) fn quantized(&self) -> Option<Precision> {
        let has = |stored_type| self.entries.values().any(|entry| entry.stored_type == Ok(stored_type));
        // int4 keeps some tensors in int8.
        [(StoredType::Int4, Precision::Int4), (StoredType::Int8, Precision::Int8)]
            .into_iter()
            .find_map(|(stored_type, precision)| has(stored_type).then_some(precision))
    }

    /// Bytes of all tensors.
    pub(crate) fn bytes(&self) -> usize {
        let places = |entry: &Entry| -> usize {
            let scales = entry.scales.iter().flat_map(|(scales, groups)| [Some(scales), groups.as_ref()]);
            scales.flatten().map(|(_, range)| range.len()).sum()
        };
        self.entries.values().map(|entry| entry.range.len() + places(entry)).sum()
    }

    /// The types of number that occur.
    pub(crate) fn dtypes(&self) -> Vec<String> {
        let name = |entry: &Entry| entry.stored_type.as_ref().map_or_else(String::clone, StoredType::name);
        let mut dtypes: Vec<String> = self.entries.values().map(name).collect();
        dtypes.sort();
        dtypes.dedup();
        dtypes
    }
}

/// Type of the values of a tensor in a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum StoredType {
    F32,
    F16,
    Bf16,
    /// Blocks with scales, in GGUF.
    Quantized(Quant),
    /// With a scale for each row.
    Int8,
    /// Groups of [`GROUP`], each in half as many bytes: the first half of a group in the lower four bits. With a scale for each row.
    Int4,
}

impl StoredType {
    fn of_safetensors(dtype: Dtype) -> Option<Self> {
        match dtype {
            Dtype::F32 => Some(Self::F32),
            Dtype::F16 => Some(Self::F16),
            Dtype::BF16 => Some(Self::Bf16),
            _ => None,
        }
    }

    /// The type that GGUF gives a number.
    pub(super) fn of_ggml(kind: u32) -> Option<Self> {
        match kind {
            0 => Some(Self::F32),
            1 => Some(Self::F16),
            30 => Some(Self::Bf16),
            _ => Quant::of_ggml(kind).map(Self::Quantized),
        }
    }

    /// Values and bytes of a block.
    pub(super) fn block(self) -> (usize, usize) {
        match self {
            Self::F32 => (1, 4),
            Self::F16 | Self::Bf16 => (1, 2),
            Self::Quantized(quant) => quant.block(),
            Self::Int8 => (1, 1),
            Self::Int4 => (GROUP, GROUP / 2),
        }
    }

    /// Its name in messages.
    fn name(&self) -> String {
        match self {
            Self::Quantized(quant) => quant.name().to_string(),
            plain => format!("{plain:?}").to_uppercase(),
        }
    }
}

/// Some rows of a tensor in a file, often all.
#[derive(Debug)]
pub(crate) struct Tensor<'a> {
    name: String,
    file: String,
    stored_type: StoredType,
    rows: usize,
    columns: usize,
    /// The first element's index in the file's tensor.
    first: usize,
    values: Values<'a>,
}

/// Source of a tensor's values.
#[derive(Debug)]
enum Values<'a> {
    Stored { content: &'a Content, range: Range<usize>, interleaved: usize, scales: Option<RowScales<'a>> },
    Random(Noise),
}

/// The scales of a quantised tensor's rows, and their groups, as they are stored.
#[derive(Clone, Copy, Debug)]
struct RowScales<'a> {
    scales: &'a [u8],
    groups: &'a [u8],
}

impl RowScales<'_> {
    fn scale(&self, row: usize) -> f32 {
        f32::from_le_bytes(self.scales.as_chunks().0[row])
    }

    /// The byte of a group of a row.
    fn group(&self, row: usize, group: usize) -> u8 {
        let count = self.groups.len() / (self.scales.len() / size_of::<f32>());
        self.groups[row * count + group]
    }
}

impl Tensor<'_> {
    /// A tensor of random values.
    pub(crate) fn random(weight: &Weight) -> Self {
        let first = weight.elements().start;
        Self {
            name: weight.name.clone(),
            file: "a random model".to_string(),
            stored_type: StoredType::Bf16,
            rows: weight.rows.len(),
            columns: weight.columns(),
            first,
            values: Values::Random(Noise::new(&weight.name, &weight.shape).skip(first)),
        }
    }

    /// Number of rows; the length of a vector.
    pub(crate) fn rows(&self) -> usize {
        self.rows
    }

    /// Length of a row; 1 for a vector.
    pub(crate) fn columns(&self) -> usize {
        self.columns
    }

    /// Reads the elements from `first` on, and checks them.
    pub(crate) fn read(&self, first: usize, values: &mut [f32]) -> Result<()> {
        match &self.values {
            Values::Random(noise) => noise.read(first, values),
            Values::Stored { content, range, scales: Some(scales), .. } => {
                let mut index = first;
                for part in row_parts(first, self.columns, values) {
                    let (row, column) = (index / self.columns, index % self.columns);
                    self.dequantize(&content[range.clone()], scales, row, column, part)?;
                    index += part.len();
                }
            }
            Values::Stored { content, range, interleaved: 0, .. } => {
                widen_all(self.stored_type, &content[range.clone()], first, values);
            }
            Values::Stored { content, range, interleaved, .. } => {
                let bytes = &content[range.clone()];
                let mut index = first;
                for part in row_parts(first, self.columns, values) {
                    let (row, column) = (index / self.columns, index % self.columns);
                    let row = stored_row(row, self.rows / interleaved);
                    widen_all(self.stored_type, bytes, row * self.columns + column, part);
                    index += part.len();
                }
            }
        }
        // Without an early exit this vectorizes, and nearly all weights are finite.
        if values.iter().fold(true, |finite, value| finite & value.is_finite()) {
            return Ok(());
        }
        let index = values.iter().position(|value| !value.is_finite()).unwrap_or_default();
        Err(Error::NotFinite {
            file: self.file.clone(),
            tensor: self.name.clone(),
            value: values[index],
            element: self.first + first + index,
        })
    }

    /// Values of a row of a quantised tensor from `column` on.
    fn dequantize(
        &self,
        bytes: &[u8],
        scales: &RowScales<'_>,
        row: usize,
        column: usize,
        values: &mut [f32],
    ) -> Result<()> {
        let scale = scales.scale(row);
        if self.stored_type == StoredType::Int8 {
            let row = &bytes[row * self.columns + column..];
            values.iter_mut().zip(row).for_each(|(value, &byte)| *value = f32::from(byte as i8) * scale);
            return Ok(());
        }
        let row_bytes = int4::groups(self.columns) * GROUP / 2;
        let row_values = &bytes[row * row_bytes..][..row_bytes];
        let mut current = None;
        for (value, at) in values.iter_mut().zip(column..) {
            let (index, place) = (at / GROUP, at % GROUP);
            let group = match current {
                Some((known, group)) if known == index => group,
                _ => Group::from_byte(scales.group(row, index)).ok_or_else(|| Error::Damaged {
                    file: self.file.clone(),
                    reason: format!("a group of row {row} of {} does not fit into 8 bits", self.name),
                })?,
            };
            current = Some((index, group));
            let byte = row_values[index * GROUP / 2 + place % (GROUP / 2)];
            let half = if place < GROUP / 2 { byte & 15 } else { byte >> 4 };
            *value = f32::from(group.int8(half)) * scale;
        }
        Ok(())
    }

    /// All elements, checked.
    pub(crate) fn to_vec(&self) -> Result<Vec<f32>> {
        let mut values = vec![0.0; self.length()];
        self.read(0, &mut values)?;
        self.release();
        Ok(values)
    }

    /// The scale of a row that is stored in int8.
    pub(crate) fn row_scale(&self, row: usize) -> Option<f32> {
        self.scales(StoredType::Int8).map(|scales| scales.scale(row))
    }

    /// The groups of a row that is stored in int4 and was read, and its scale.
    pub(crate) fn row_groups(&self, row: usize, groups: &mut [Group]) -> Option<f32> {
        let scales = self.scales(StoredType::Int4)?;
        let stored = |index| Group::from_byte(scales.group(row, index)).expect("reading the row has checked it");
        groups.iter_mut().enumerate().for_each(|(index, group)| *group = stored(index));
        Some(scales.scale(row))
    }

    fn scales(&self, stored_type: StoredType) -> Option<&RowScales<'_>> {
        match &self.values {
            Values::Stored { scales, .. } if self.stored_type == stored_type => scales.as_ref(),
            _ => None,
        }
    }

    /// The type of its values in the file.
    pub(crate) fn stored_type(&self) -> StoredType {
        self.stored_type
    }

    /// Number of elements.
    pub(crate) fn length(&self) -> usize {
        self.rows * self.columns
    }

    /// Its bytes, if they stand in the file one value after the other as [`stored_type`](Self::stored_type) has them.
    pub(crate) fn plain_bytes(&self) -> Option<&[u8]> {
        match &self.values {
            Values::Stored { content, range, interleaved: 0, .. }
                if matches!(self.stored_type, StoredType::F32 | StoredType::F16 | StoredType::Bf16) =>
            {
                Some(&content[range.clone()])
            }
            _ => None,
        }
    }

    /// Its generator, if its values are generated when read.
    pub(crate) fn noise(&self) -> Option<&Noise> {
        match &self.values {
            Values::Random(noise) => Some(noise),
            Values::Stored { .. } => None,
        }
    }

    /// Gives the memory of its pages back.
    pub(crate) fn release(&self) {
        if let Values::Stored { content, range, .. } = &self.values {
            content.release(range.clone());
        }
    }
}

/// The row of a file that holds row `row`, if llama.cpp has interleaved the halves of heads of `size` rows: first and second
/// half of a head take turns there.
fn stored_row(row: usize, size: usize) -> usize {
    let (head, place) = (row / size, row % size);
    head * size + place % (size / 2) * 2 + place / (size / 2)
}

/// Cuts values that begin at element `first` where rows of `columns` end.
fn row_parts(first: usize, columns: usize, values: &mut [f32]) -> impl Iterator<Item = &mut [f32]> {
    let (begun, rest) = values.split_at_mut((columns - first % columns).min(values.len()));
    [begun].into_iter().chain(rest.chunks_mut(columns))
}

/// The values of a tensor from element `first` on.
fn widen_all(stored_type: StoredType, bytes: &[u8], first: usize, values: &mut [f32]) {
    match stored_type {
        StoredType::F32 => widen(bytes, first, values, |bytes: [u8; 4]| f32::from_le_bytes(bytes)),
        StoredType::F16 => widen(bytes, first, values, |bytes: [u8; 2]| f16::from_le_bytes(bytes).to_f32()),
        StoredType::Bf16 => widen(bytes, first, values, |bytes: [u8; 2]| bf16::from_le_bytes(bytes).to_f32()),
        StoredType::Quantized(quant) => quant.read(bytes, first, values),
        StoredType::Int8 | StoredType::Int4 => unreachable!("these have scales beside them"),
    }
}

fn widen<const WIDTH: usize>(bytes: &[u8], first: usize, values: &mut [f32], widen: impl Fn([u8; WIDTH]) -> f32) {
    let (chunks, _) = bytes[first * WIDTH..].as_chunks::<WIDTH>();
    for (value, &chunk) in values.iter_mut().zip(chunks) {
        *value = widen(chunk);
    }
}
/// The fault in the header of a safetensors file.
fn header_problem(error: &SafeTensorError) -> String {
    match error {
        SafeTensorError::InvalidHeaderDeserialization(error) => format!("its header: {}", json::problem(error)),
        other => other.to_string(),
    }
}
