//! The header of a GGUF file: its metadata, and where its tensors are.

use std::collections::BTreeMap;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::checkpoint::files::{Content, map};
use crate::checkpoint::tensors::StoredType;
use crate::{Error, Result};

/// Most dimensions of a tensor.
const DIMENSIONS: u32 = 4;
/// Deepest nesting of arrays.
const DEPTH: usize = 4;
/// Alignment of tensors where the metadata names none.
const ALIGNMENT: usize = 32;

/// A model in GGUF: the metadata of its first file, and the tensors of all.
#[derive(Debug)]
pub(crate) struct Gguf {
    /// Its name in messages.
    pub(super) label: String,
    pub(super) metadata: BTreeMap<String, Value>,
    pub(crate) tensors: BTreeMap<String, Stored>,
    pub(crate) parts: Vec<Part>,
}

/// One of its files.
#[derive(Debug)]
pub(crate) struct Part {
    pub(crate) label: String,
    pub(crate) content: Arc<Content>,
}

/// Place and shape of a tensor.
#[derive(Clone, Debug)]
pub(crate) struct Stored {
    pub(crate) part: usize,
    /// None for a type that is not supported, whose number is given.
    pub(crate) stored_type: std::result::Result<StoredType, u32>,
    /// Rows first, as in safetensors.
    pub(crate) shape: Vec<usize>,
    pub(crate) range: Range<usize>,
}

/// A value of the metadata.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Value {
    Integer(i128),
    Float(f64),
    Bool(bool),
    Text(String),
    List(Vec<Value>),
}

impl Gguf {
    /// Opens a file and, if it is one of several, the others beside it.
    pub(crate) fn open(path: &Path) -> Result<Self> {
        let label = path.display().to_string();
        let mut all =
            Self { label: label.clone(), metadata: BTreeMap::new(), tensors: BTreeMap::new(), parts: Vec::new() };
        let paths = all_parts(path).unwrap_or_else(|| vec![path.to_path_buf()]);
        for (index, path) in paths.iter().enumerate() {
            let label = path.display().to_string();
            let Some(content) = map(path, &label)? else {
                let advice = if paths.len() > 1 { "it is a part of the model" } else { "is the path right?" };
                return Err(Error::MissingFile { file: label, advice: advice.to_string() });
            };
            let header = Header::parse(&label, &content)?;
            let part = |key: &str| header.metadata.get(key).and_then(Value::integer);
            let (number, count) = (part("split.no").unwrap_or(0), part("split.count").unwrap_or(1));
            if (number, count) != (index as i128, paths.len() as i128) {
                let reason = format!(
                    "it says that it is part {} of {count}, but by its name it is part {} of {}",
                    number + 1,
                    index + 1,
                    paths.len()
                );
                return Err(Error::Damaged { file: label, reason });
            }
            for (name, stored) in header.tensors {
                if all.tensors.insert(name.clone(), Stored { part: index, ..stored }).is_some() {
                    return Err(Error::Damaged { file: label, reason: format!("tensor {name} occurs twice") });
                }
            }
            if index == 0 {
                all.metadata = header.metadata;
            }
            all.parts.push(Part { label, content: Arc::new(content) });
        }
        Ok(all)
    }
}

/// The paths of all parts, if the name is that of a part: `NAME-00001-of-00003.gguf`.
fn all_parts(path: &Path) -> Option<Vec<PathBuf>> {
    let stem = path.file_stem()?.to_str()?;
    let (rest, count) = stem.rsplit_once("-of-")?;
    let (name, number) = rest.rsplit_once('-')?;
    let digits = |text: &str| text.len() == 5 && text.bytes().all(|letter| letter.is_ascii_digit());
    if !digits(number) || !digits(count) {
        return None;
    }
    let count: usize = count.parse().ok()?;
    Some((1..=count).map(|part| path.with_file_name(format!("{name}-{part:05}-of-{count:05}.gguf"))).collect())
}

impl Value {
    pub(super) fn integer(&self) -> Option<i128> {
        match self {
            Self::Integer(value) => Some(*value),
            _ => None,
        }
    }
}

/// The header of one file.
struct Header {
    metadata: BTreeMap<String, Value>,
    tensors: Vec<(String, Stored)>,
}

impl Header {
    fn parse(label: &str, content: &[u8]) -> Result<Self> {
        Self::read(&mut Cursor { content, at: 0 }).map_err(|reason| Error::Damaged { file: label.to_string(), reason })
    }

    fn read(cursor: &mut Cursor<'_>) -> std::result::Result<Self, String> {
        if cursor.take(4)? != b"GGUF" {
            return Err("it is not a GGUF file".to_string());
        }
        match cursor.u32()? {
            2 | 3 => {}
            version if matches!(version.swap_bytes(), 2 | 3) => return Err("it is big-endian".to_string()),
            version => return Err(format!("it is GGUF of version {version}, but only 2 and 3 can be read")),
        }
        let (tensors, pairs) = (cursor.u64()?, cursor.u64()?);
        let mut metadata = BTreeMap::new();
        for _ in 0..pairs {
            let key = cursor.text()?;
            let kind = cursor.u32()?;
            let value = cursor.value(kind, 0)?;
            if metadata.insert(key.clone(), value).is_some() {
                return Err(format!("its metadata has {key} twice"));
            }
        }
        let infos = (0..tensors).map(|_| Info::read(cursor)).collect::<std::result::Result<Vec<_>, String>>()?;
        let alignment = match metadata.get("general.alignment").map(|value| value.integer()) {
            None => ALIGNMENT,
            Some(Some(value)) if value > 0 && value <= 1 << 20 && (value as usize).is_power_of_two() => value as usize,
            Some(_) => return Err("general.alignment is not a power of two".to_string()),
        };
        let start = cursor.at.next_multiple_of(alignment);
        let place = |info: Info| info.place(start, cursor.content.len());
        Ok(Self { metadata, tensors: infos.into_iter().map(place).collect::<std::result::Result<_, String>>()? })
    }
}

/// A tensor as the header has it.
struct Info {
    name: String,
    shape: Vec<usize>,
    kind: u32,
    offset: u64,
}

impl Info {
    fn read(cursor: &mut Cursor<'_>) -> std::result::Result<Self, String> {
        let name = cursor.text()?;
        let dimensions = cursor.u32()?;
        if dimensions > DIMENSIONS {
            return Err(format!("tensor {name} has {dimensions} dimensions"));
        }
        let sizes = (0..dimensions).map(|_| cursor.u64()).collect::<std::result::Result<Vec<_>, _>>()?;
        let kind = cursor.u32()?;
        let offset = cursor.u64()?;
        let shape = sizes.iter().rev().map(|&size| usize::try_from(size).unwrap_or(usize::MAX)).collect();
        Ok(Self { name, shape, kind, offset })
    }

    /// The tensor's place in a file of `length` bytes whose tensors begin at `start`.
    fn place(self, start: usize, length: usize) -> std::result::Result<(String, Stored), String> {
        let Self { name, shape, kind, offset } = self;
        let stored_type = StoredType::of_ggml(kind).ok_or(kind);
        let bytes = match stored_type {
            // Its size is not known, and it will be refused if it is needed.
            Err(_) => Some(0),
            Ok(stored_type) => {
                let elements = shape.iter().try_fold(1usize, |product, &size| product.checked_mul(size));
                let (block, bytes) = stored_type.block();
                if !shape.last().is_some_and(|columns| columns.is_multiple_of(block)) {
                    return Err(format!("the rows of tensor {name} are not whole blocks of {block} values"));
                }
                elements.and_then(|elements| (elements / block).checked_mul(bytes))
            }
        };
        let begin = usize::try_from(offset).ok().and_then(|offset| start.checked_add(offset));
        let range = begin.zip(bytes).and_then(|(begin, bytes)| Some(begin..begin.checked_add(bytes)?));
        match range.filter(|range| range.end <= length) {
            Some(range) => Ok((name, Stored { part: 0, stored_type, shape, range })),
            None => Err(format!("it ends at byte {length}, before tensor {name} does")),
        }
    }
}

/// A place in a file.
struct Cursor<'a> {
    content: &'a [u8],
    at: usize,
}

impl<'a> Cursor<'a> {
    fn take(&mut self, count: usize) -> std::result::Result<&'a [u8], String> {
        let rest = &self.content[self.at..];
        let taken = rest.get(..count).ok_or_else(|| "its header is cut off".to_string())?;
        self.at += count;
        Ok(taken)
    }

    fn array<const N: usize>(&mut self) -> std::result::Result<[u8; N], String> {
        Ok(self.take(N)?.try_into().expect("as many were taken"))
    }

    fn u32(&mut self) -> std::result::Result<u32, String> {
        Ok(u32::from_le_bytes(self.array()?))
    }

    fn u64(&mut self) -> std::result::Result<u64, String> {
        Ok(u64::from_le_bytes(self.array()?))
    }

    fn text(&mut self) -> std::result::Result<String, String> {
        let length = usize::try_from(self.u64()?).unwrap_or(usize::MAX);
        let text = self.take(length)?;
        String::from_utf8(text.to_vec()).map_err(|_| "a text in its header is not UTF-8".to_string())
    }

    fn value(&mut self, kind: u32, depth: usize) -> std::result::Result<Value, String> {
        Ok(match kind {
            0 => Value::Integer(u8::from_le_bytes(self.array()?).into()),
            1 => Value::Integer(i8::from_le_bytes(self.array()?).into()),
            2 => Value::Integer(u16::from_le_bytes(self.array()?).into()),
            3 => Value::Integer(i16::from_le_bytes(self.array()?).into()),
            4 => Value::Integer(u32::from_le_bytes(self.array()?).into()),
            5 => Value::Integer(i32::from_le_bytes(self.array()?).into()),
            6 => Value::Float(f32::from_le_bytes(self.array()?).into()),
            7 => Value::Bool(self.array::<1>()? != [0]),
            8 => Value::Text(self.text()?),
            9 => {
                let (kind, count) = (self.u32()?, self.u64()?);
                // Each value takes a byte at least.
                if depth == DEPTH || count > (self.content.len() - self.at) as u64 {
                    return Err("a list in its header is too long or too deep".to_string());
                }
                Value::List((0..count).map(|_| self.value(kind, depth + 1)).collect::<std::result::Result<_, _>>()?)
            }
            10 => Value::Integer(u64::from_le_bytes(self.array()?).into()),
            11 => Value::Integer(i64::from_le_bytes(self.array()?).into()),
            12 => Value::Float(f64::from_le_bytes(self.array()?)),
            other => return Err(format!("its metadata has a value of unknown type {other}")),
        })
    }
}
