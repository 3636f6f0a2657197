//! Numbers from Python: torch tensors, arrays of numpy and its kin, buffers, and plain lists.
#![allow(unsafe_code, reason = "logits are read where they lie")]

use half::f16;
use lacuna::{AttentionSource, Belief, Row, Token, TokenRule};
use pyo3::buffer::{Element, PyBuffer, PyUntypedBuffer};
use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyByteArray, PyBytes, PyDict, PyFloat, PyInt, PyList, PyMemoryView, PyTuple};

use crate::errors::{kind, raise};

/// The most dimensions there are: a batch of one, heads, and a matrix for each. Strings, of which each holds a string, would
/// go on for ever.
const MAX_DIMENSIONS: usize = 4;

/// Numbers in rows, the last dimension in one piece.
pub(crate) struct Array {
    pub(crate) shape: Vec<usize>,
    pub(crate) numbers: Vec<f32>,
}

impl Array {
    /// Copies the numbers of anything that holds some; `what` is what messages call it.
    fn of(given: &Bound<'_, PyAny>, what: &str) -> PyResult<Self> {
        let py = given.py();
        let given = if is_tensor(given)? {
            &given.call_method0("detach")?.call_method0("float")?.call_method0("cpu")?.call_method0("numpy")?
        } else if given.hasattr("__array__")? {
            &given.call_method0("__array__")?.call_method1("astype", ("float32",))?
        } else {
            given
        };
        let Ok(buffer) = PyUntypedBuffer::get(given) else {
            let mut array = Self { shape: Vec::new(), numbers: Vec::new() };
            array.collect(given, 0, what)?;
            return Ok(array);
        };
        let numbers = if let Ok(singles) = buffer.as_typed::<f32>() {
            singles.to_vec(py)?
        } else if let Ok(doubles) = buffer.as_typed::<f64>() {
            doubles.to_vec(py)?.into_iter().map(|number| number as f32).collect()
        } else {
            let format = buffer.format().to_string_lossy().into_owned();
            return Err(PyTypeError::new_err(format!(
                "{what} must hold 32-bit or 64-bit floats, but its buffer's format is '{format}'"
            )));
        };
        Ok(Self { shape: buffer.shape().to_vec(), numbers })
    }

    /// The array without a leading dimension of length 1, if it has that beside its `dimensions`.
    fn without_batch(mut self, dimensions: usize) -> Self {
        if self.shape.len() == dimensions + 1 && self.shape[0] == 1 {
            self.shape.remove(0);
        }
        self
    }

    /// The attention that each position pays to all that are not masked, averaged over the heads; ready scores stay.
    fn attention_to_unmasked(self, heads: &[usize], masked: &[bool]) -> Vec<f32> {
        let length = masked.len();
        let all: Vec<usize> = match self.shape[..] {
            [_] => return self.numbers,
            [_, _] => vec![0],
            _ if heads.is_empty() => (0..self.shape[0]).collect(),
            _ => heads.to_vec(),
        };
        let row = |head: usize, from: usize| self.numbers[(head * length + from) * length..][..length].iter();
        let sum = |head, from| -> f64 {
            row(head, from)
                .zip(masked)
                .filter(|(_, masked)| !**masked)
                .map(|(&attention_to_unmasked, _)| f64::from(attention_to_unmasked))
                .sum()
        };
        let mean = |from| all.iter().map(|&head| sum(head, from)).sum::<f64>() / all.len() as f64;
        (0..length).map(|from| mean(from) as f32).collect()
    }

    /// Goes through nested lists; what is at one depth must have one length.
    fn collect(&mut self, given: &Bound<'_, PyAny>, depth: usize, what: &str) -> PyResult<()> {
        let ragged = || PyValueError::new_err(format!("{what} must have rows of one length"));
        let Some(length) = given.len().ok().filter(|_| depth < MAX_DIMENSIONS) else {
            let number = given.extract::<f32>();
            let wrong = |_| {
                PyTypeError::new_err(format!("{what} must be numbers, but there is a value of type {}", kind(given)))
            };
            self.numbers.push(number.map_err(wrong)?);
            return if depth == self.shape.len() { Ok(()) } else { Err(ragged()) };
        };
        if self.numbers.is_empty() && self.shape.len() == depth {
            self.shape.push(length);
        }
        if self.shape.get(depth) != Some(&length) {
            return Err(ragged());
        }
        given.try_iter()?.try_for_each(|item| self.collect(&item?, depth + 1, what))
    }
}

/// Token ids: a list, or an array with one dimension, or with a leading one of length 1.
pub(crate) fn tokens(given: &Bound<'_, PyAny>) -> PyResult<Vec<Token>> {
    let list = if given.hasattr("tolist")? { &given.call_method0("tolist")? } else { given };
    let row = match list.extract::<Vec<Bound<'_, PyAny>>>() {
        Ok(rows) if rows.len() == 1 && rows[0].is_instance_of::<PyList>() => &rows[0].clone(),
        _ => list,
    };
    row.extract().map_err(|_| PyValueError::new_err("token ids must be a list of whole numbers, 0 or more"))
}

/// Logits as they are handed in: a row for each position.
pub(crate) enum Logits {
    /// An array that picks rows by itself: of a tensor only these leave its device.
    Array(Py<PyAny>),
    /// A function that is asked for rows.
    Function(Py<PyAny>),
    /// All numbers.
    Numbers(Array),
}

impl Logits {
    const NAME: &str = "logits";

    /// Takes logits for `length` positions.
    pub(crate) fn of(given: &Bound<'_, PyAny>, length: usize) -> PyResult<Self> {
        let check = |shape: &[usize]| match shape {
            [rows, _] if *rows == length => Ok(()),
            _ => Err(PyValueError::new_err(format!(
                "logits must be [{length}, vocabulary], a row for each position, but they are {shape:?}"
            ))),
        };
        let is_tensor = is_tensor(given)?;
        if is_tensor || given.hasattr("__array__")? {
            let array = if is_tensor { given.clone() } else { given.call_method0("__array__")? };
            let array = without_batch(array, 2)?;
            check(&shape(&array)?)?;
            return Ok(Self::Array(array.unbind()));
        }
        if given.is_callable() {
            return Ok(Self::Function(given.clone().unbind()));
        }
        let numbers = Array::of(given, Self::NAME)?.without_batch(2);
        check(&numbers.shape)?;
        Ok(Self::Numbers(numbers))
    }

    /// The rows with these numbers.
    pub(crate) fn rows(&self, py: Python<'_>, wanted: &[usize]) -> PyResult<Rows> {
        let count = wanted.len();
        let gathered = match self {
            Self::Array(array) => {
                if let Some(rows) = Rows::in_place(array.bind(py), wanted)? {
                    return Ok(rows);
                }
                array.bind(py).get_item(PyList::new(py, wanted)?)?
            }
            Self::Function(ask) => ask.bind(py).call1((PyList::new(py, wanted)?,))?,
            Self::Numbers(Array { shape, numbers }) => {
                let row = |&row: &usize| &numbers[row * shape[1]..][..shape[1]];
                let numbers = wanted.iter().flat_map(row).copied().collect();
                return Ok(Rows { numbers: Numbers::Own(numbers), width: shape[1], wanted: (0..count).collect() });
            }
        };
        let Array { shape, numbers } = Array::of(&gathered, Self::NAME)?;
        match shape[..] {
            [found, width] if found == count => {
                Ok(Rows { numbers: Numbers::Own(numbers), width, wanted: (0..count).collect() })
            }
            ref shape => Err(PyValueError::new_err(format!(
                "logits were asked for {count} rows, [{count}, vocabulary], but answered with {shape:?}"
            ))),
        }
    }

    /// The width of the logits and the beliefs of these rows, computed by torch where the tensor is; a belief is none if its logits
    /// are not finite. None if it is a matter of the CPU: because the logits are there, or because of what is asked.
    pub(crate) fn reduce(
        &self,
        py: Python<'_>,
        rows: &[Row<'_>],
        wanted: &[usize],
        unguided: Option<&Self>,
    ) -> PyResult<Option<(usize, Vec<Option<Belief>>)>> {
        let (Self::Array(tensor), Some(first)) = (self, rows.first()) else { return Ok(None) };
        let tensor = tensor.bind(py);
        if !is_tensor(tensor)?
            || on_cpu(tensor)?
            || rows.iter().any(|row| row.remember || row.credit.is_some() || row.alternatives > 0)
        {
            return Ok(None);
        }
        let temperature = match first.sampling.rule {
            TokenRule::Greedy => None,
            TokenRule::Gumbel { temperature } => Some((temperature, false)),
            TokenRule::Nucleus { temperature, top_p, top_k } if top_p >= 1.0 && top_k == 0 => {
                (temperature > 0.0).then_some((temperature, true))
            }
            TokenRule::Nucleus { .. } => return Ok(None),
        };
        let unguided = match (first.guide, unguided) {
            (Some(guide), Some(Self::Array(unguided))) => Some((unguided.bind(py), guide.scale)),
            (Some(_), _) => return Ok(None),
            (None, _) => None,
        };
        let width = shape(tensor)?[1];
        let Some(suppressed) = suppressed(rows, width) else { return Ok(None) };
        let which = wanted.iter().map(|&row| row as u64);
        let keys = rows.iter().map(|row| row.draw.key());
        let named = rows.iter().map(|row| u64::from(row.scored_token.unwrap_or(0)));
        let numbers = integer_bytes(py, which.chain(keys).chain(named));
        let is_scored = rows.iter().any(|row| row.scored_token.is_some());
        let sampling = (suppressed, &first.sampling.deferred, temperature);
        let arguments = (tensor, numbers, unguided, sampling, is_scored);
        let reduced = torch_functions(py)?.call_method1("beliefs", arguments)?;
        let numbers = PyBuffer::<f32>::get(&reduced)?.to_vec(py)?;
        let belief = |(row, &numbers): (&Row<'_>, &[f32; 8])| {
            let [token, own, best, second, scored, others, weighted, spoilt] = numbers.map(f64::from);
            let others = if second == f64::NEG_INFINITY { 0.0 } else { others };
            let log_total = best + others.ln_1p();
            (!spoilt.is_nan() && log_total.is_finite()).then(|| Belief {
                token: token as Token,
                probability: (own - log_total).exp(),
                first: (best - log_total).exp(),
                second: (second - log_total).exp(),
                entropy: if others > 0.0 { (others.ln_1p() - weighted / (1.0 + others)).max(0.0) } else { 0.0 },
                divergence: None,
                scored: row.scored_token.map(|_| (scored - log_total).exp()),
                vote: None,
                alternatives: Vec::new(),
            })
        };
        let (numbers, _) = numbers.as_chunks::<8>();
        Ok(Some((width, rows.iter().zip(numbers).map(belief).collect())))
    }
}

/// The functions that torch does the work of.
fn torch_functions(py: Python<'_>) -> PyResult<Bound<'_, PyModule>> {
    py.import("lacunalm.reduce")
}

/// 64-bit integers as memory, from which torch makes a tensor at once.
fn integer_bytes(py: Python<'_>, integers: impl Iterator<Item = u64>) -> Bound<'_, PyByteArray> {
    PyByteArray::new(py, &integers.flat_map(u64::to_ne_bytes).collect::<Vec<u8>>())
}

/// The few tokens that none of the rows may choose; none if the rows differ, or if there are many.
fn suppressed(rows: &[Row<'_>], width: usize) -> Option<Vec<Token>> {
    const MAX_SUPPRESSED: usize = 256;
    let words = rows.first()?.allowed.words();
    if rows.iter().any(|row| row.allowed.words().as_ptr() != words.as_ptr()) {
        return None;
    }
    let missing =
        |(&word, from): (&u32, usize)| (0..32).filter(move |bit| word >> bit & 1 == 0).map(move |bit| from + bit);
    let some = words.iter().zip((0..width).step_by(32)).filter(|(word, _)| **word != u32::MAX);
    let tokens: Vec<Token> = some
        .flat_map(missing)
        .filter(|&token| token < width)
        .take(MAX_SUPPRESSED + 1)
        .map(|token| token as Token)
        .collect();
    (tokens.len() <= MAX_SUPPRESSED).then_some(tokens)
}

/// Rows of logits, in memory of their own or where they were given.
pub(crate) struct Rows {
    numbers: Numbers,
    width: usize,
    /// Indices of these rows in the array.
    wanted: Vec<usize>,
}

enum Numbers {
    Own(Vec<f32>),
    Shared(PyBuffer<f32>),
    /// 16-bit floats, as the bits that they are.
    Halves(PyBuffer<i16>, Half),
}

/// A kind of 16-bit float.
#[derive(Clone, Copy)]
enum Half {
    Bf16,
    F16,
}

impl Rows {
    /// The rows of an array of 32-bit floats, or of a tensor of 16-bit floats, in one piece, without a copy.
    fn in_place(array: &Bound<'_, PyAny>, wanted: &[usize]) -> PyResult<Option<Self>> {
        if !is_tensor(array)? {
            return Self::shared(array, b"f", wanted, Numbers::Shared);
        }
        if !on_cpu(array)? {
            return Ok(None);
        }
        let (array, dtype) = (array.call_method0("detach")?, array.getattr("dtype")?.str()?);
        let half = match &*dtype.to_cow()? {
            "torch.float32" => return Self::shared(&array.call_method0("numpy")?, b"f", wanted, Numbers::Shared),
            "torch.bfloat16" => Half::Bf16,
            "torch.float16" => Half::F16,
            _ => return Ok(None),
        };
        // numpy has no bfloat16.
        let bits = array.call_method1("view", (array.py().import("torch")?.getattr("int16")?,))?;
        Self::shared(&bits.call_method0("numpy")?, b"h", wanted, |buffer| Numbers::Halves(buffer, half))
    }

    /// The rows of a buffer with numbers of this format, if it is in one piece.
    fn shared<T: Element>(
        array: &Bound<'_, PyAny>,
        format: &[u8],
        wanted: &[usize],
        numbers: impl FnOnce(PyBuffer<T>) -> Numbers,
    ) -> PyResult<Option<Self>> {
        let Ok(buffer) = PyBuffer::<T>::get(array) else { return Ok(None) };
        // Numbers in another byte order are of the same type, but not of the same format.
        let plain = buffer.format().to_bytes() == format && buffer.is_c_contiguous() && buffer.dimensions() == 2;
        if !plain || wanted.iter().any(|&row| row >= buffer.shape()[0]) {
            return Ok(None);
        }
        let width = buffer.shape()[1];
        Ok(Some(Self { numbers: numbers(buffer), width, wanted: wanted.to_vec() }))
    }

    pub(crate) fn width(&self) -> usize {
        self.width
    }

    /// Writes the row with this number to `row`, in place of what is there.
    pub(crate) fn copy(&self, number: usize, row: &mut Vec<f32>) {
        let place = self.wanted[number] * self.width..(self.wanted[number] + 1) * self.width;
        row.clear();
        match &self.numbers {
            Numbers::Own(numbers) => row.extend_from_slice(&numbers[place]),
            Numbers::Shared(buffer) => row.extend_from_slice(&numbers(buffer)[place]),
            Numbers::Halves(buffer, Half::Bf16) => {
                row.extend(numbers(buffer)[place].iter().map(|bits| f32::from_bits((*bits as u32) << 16)));
            }
            Numbers::Halves(buffer, Half::F16) => {
                row.extend(numbers(buffer)[place].iter().map(|bits| f16::from_bits(*bits as u16).to_f32()));
            }
        }
    }
}

/// The numbers of a buffer in one piece.
fn numbers<T: Element>(buffer: &PyBuffer<T>) -> &[T] {
    // SAFETY: the buffer holds so many numbers in one piece and stays where it is while it is held. Whoever handed it in is waiting
    // for the step; if another thread writes to it nevertheless, the numbers are anything, as they are in numpy.
    unsafe { std::slice::from_raw_parts(buffer.buf_ptr().cast::<T>(), buffer.item_count()) }
}

/// The dependency score of each position: the attention that it pays to all that are not masked, averaged over the heads of
/// `source`; 0 where there is no mask.
///
/// `attention` is one array, which can only be meant if a `single` layer is asked for, or one for each layer.
pub(crate) fn dependency(
    attention: &Bound<'_, PyAny>,
    source: &AttentionSource,
    masked: &[bool],
    single: bool,
) -> PyResult<Vec<f32>> {
    let AttentionSource { layer, heads } = source;
    let given = match by_layer(attention, *layer)? {
        Some(given) => given,
        None if single => attention.clone(),
        None => {
            let why =
                "attention of several layers is asked for: give a list with one for each layer, or a dict by layer";
            return Err(PyValueError::new_err(why));
        }
    };
    let what = format!("the attention of layer {layer}");
    let scores = if is_tensor(&given)? {
        let tensor = without_batch(given.clone(), 3)?;
        check_attention(&what, &shape(&tensor)?, heads, masked.len())?;
        let unmasked = (0..masked.len()).filter(|&position| !masked[position]).map(|position| position as u64);
        let arguments = (tensor, integer_bytes(given.py(), unmasked), heads);
        PyBuffer::<f32>::get(&torch_functions(given.py())?.call_method1("attention_to", arguments)?)?
            .to_vec(given.py())?
    } else {
        let array = Array::of(&given, &what)?.without_batch(3);
        check_attention(&what, &array.shape, heads, masked.len())?;
        array.attention_to_unmasked(heads, masked)
    };
    let at_masks = scores.into_iter().zip(masked).map(|(score, masked)| if *masked { score } else { 0.0 });
    let scores: Vec<f32> = at_masks.collect();
    match scores.iter().position(|score| !score.is_finite()) {
        Some(position) => Err(PyValueError::new_err(format!("{what} is not finite at position {position}"))),
        None => Ok(scores),
    }
}

/// The array of one layer, if `attention` has several.
fn by_layer<'py>(attention: &Bound<'py, PyAny>, layer: usize) -> PyResult<Option<Bound<'py, PyAny>>> {
    let missing = || PyValueError::new_err(format!("there is no attention of layer {layer}, which is asked for"));
    if let Ok(layers) = attention.cast::<PyDict>() {
        return layers.get_item(layer)?.ok_or_else(missing).map(Some);
    }
    let is_number = |item: Bound<'_, PyAny>| item.is_instance_of::<PyFloat>() || item.is_instance_of::<PyInt>();
    let is_list = attention.is_instance_of::<PyList>() || attention.is_instance_of::<PyTuple>();
    if !is_list || attention.get_item(0).is_ok_and(is_number) {
        return Ok(None);
    }
    let of_layer = attention.get_item(layer).map_err(|_| missing())?;
    if of_layer.is_none() {
        return Err(PyValueError::new_err(format!(
            "the attention of layer {layer} is None: a model of transformers returns it with attn_implementation='eager'"
        )));
    }
    Ok(Some(of_layer))
}

fn check_attention(what: &str, shape: &[usize], heads: &[usize], length: usize) -> PyResult<()> {
    match *shape {
        [count, from, to] if (from, to) == (length, length) => match heads.iter().find(|&&head| head >= count) {
            Some(&head) => Err(raise(lacuna::Error::NoSuchHead { head, heads: count })),
            None => Ok(()),
        },
        [from] | [from, _] if from == length && shape.ends_with(&[length]) => match heads {
            [] => Ok(()),
            _ => {
                Err(PyValueError::new_err(format!("heads pick from [heads, length, length], but {what} is {shape:?}")))
            }
        },
        _ => Err(PyValueError::new_err(format!(
            "{what} must be [heads, {length}, {length}], [{length}, {length}] or ready scores [{length}], but it is {shape:?}"
        ))),
    }
}

/// True if it is one of torch, or behaves like one.
fn is_tensor(given: &Bound<'_, PyAny>) -> PyResult<bool> {
    given.hasattr("detach")
}

/// True for a tensor in the memory of the CPU.
fn on_cpu(tensor: &Bound<'_, PyAny>) -> PyResult<bool> {
    let Ok(device) = tensor.getattr("device") else { return Ok(true) };
    Ok(device.getattr("type").and_then(|kind| kind.extract::<String>()).map_or(true, |kind| kind == "cpu"))
}

fn shape(array: &Bound<'_, PyAny>) -> PyResult<Vec<usize>> {
    array.getattr("shape")?.extract()
}

/// The array without a leading dimension of length 1, if it has that beside its `dimensions`.
fn without_batch(array: Bound<'_, PyAny>, dimensions: usize) -> PyResult<Bound<'_, PyAny>> {
    let shape = shape(&array)?;
    if shape.len() == dimensions + 1 && shape[0] == 1 { array.get_item(0) } else { Ok(array) }
}

/// float32 values as a view on memory, which numpy and torch take as it is.
pub(crate) fn floats(py: Python<'_>, values: &[f32], shape: Vec<usize>) -> PyResult<Py<PyAny>> {
    let bytes: Vec<u8> = values.iter().flat_map(|value| value.to_ne_bytes()).collect();
    view(py, &bytes, "f", shape)
}

/// float64 values as a view on memory, in one dimension.
pub(crate) fn doubles(py: Python<'_>, values: &[f64]) -> PyResult<Py<PyAny>> {
    let bytes: Vec<u8> = values.iter().flat_map(|value| value.to_ne_bytes()).collect();
    view(py, &bytes, "d", vec![values.len()])
}

/// int64 values as a view on memory, in one dimension.
pub(crate) fn integers(py: Python<'_>, values: &[i64]) -> PyResult<Py<PyAny>> {
    let bytes: Vec<u8> = values.iter().flat_map(|value| value.to_ne_bytes()).collect();
    view(py, &bytes, "q", vec![values.len()])
}

fn view(py: Python<'_>, bytes: &[u8], format: &str, shape: Vec<usize>) -> PyResult<Py<PyAny>> {
    let view = PyMemoryView::from(&PyBytes::new(py, bytes))?;
    // A view cannot be cast to a shape without elements.
    let cast = match shape.contains(&0) {
        true => view.call_method1("cast", (format,))?,
        false => view.call_method1("cast", (format, shape))?,
    };
    Ok(cast.unbind())
}
