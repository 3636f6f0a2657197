//! The weights of a transformer in the GPU's memory.

use std::sync::Arc;

use rayon::prelude::*;

use super::buffer::Buffer;
use super::fp8::Fp8Rows;
use super::gpu::Gpu;
use super::kernel::{Kernels, NoiseCall, Source, Table};
use super::matrix::{Contents, ElementSlice, Elements, Matrix, Target, element_size};
use super::staging::Staging;
use crate::checkpoint::{Numbers, Tensor};
use crate::{Architecture, Checkpoint, Precision, Result};

/// All weights.
pub(crate) struct Weights {
    pub(crate) embedding: Embedding,
    pub(crate) blocks: Vec<Block>,
    pub(crate) final_norm: Buffer<f32>,
    pub(crate) head: Matrix,
}

/// One transformer block. Matrices with the same input are stacked, the queries first: the last block computes keys and values
/// for all rows, but queries only for those that are read.
pub(crate) struct Block {
    pub(crate) attention_norm: Buffer<f32>,
    pub(crate) query_key_value: Matrix,
    pub(crate) bias: Option<Buffer<f32>>,
    pub(crate) output: Matrix,
    pub(crate) mlp_norm: Buffer<f32>,
    pub(crate) gate_up: Matrix,
    pub(crate) down: Matrix,
}

/// The embedding table: in bf16 if the file has it so, else in f32.
pub(crate) struct Embedding {
    bytes: Buffer<u8>,
    is_bf16: bool,
}

impl Embedding {
    pub(crate) fn table(&self) -> Table<'_> {
        Table { bytes: self.bytes.all(), is_bf16: self.is_bf16 }
    }
}

impl Weights {
    /// Streams all weights into the GPU's memory and checks them there, giving the files' pages back on the way.
    pub(crate) fn load(
        gpu: &Arc<Gpu>,
        kernels: &Kernels,
        checkpoint: &Checkpoint,
        precision: Precision,
    ) -> Result<Self> {
        let architecture = checkpoint.architecture();
        let &Architecture { hidden, vocabulary, names, .. } = architecture;
        let mut loader = Loader::new(gpu, kernels, checkpoint, precision)?;
        Ok(Self {
            embedding: loader.embedding(&checkpoint.embedding()?)?,
            blocks: (0..architecture.layers).map(|layer| Block::load(&mut loader, layer)).collect::<Result<_>>()?,
            final_norm: loader.vector(&[(format!("{}.weight", names.final_norm), hidden)])?,
            head: loader.matrix(vec![(checkpoint.head()?, vocabulary)], hidden)?,
        })
    }

    /// Bytes that the weights of a model take.
    pub(crate) fn bytes(checkpoint: &Checkpoint, precision: Precision) -> usize {
        let architecture = checkpoint.architecture();
        let table = architecture.vocabulary * architecture.hidden;
        // A tied table is kept twice: as an embedding in the file's dtype, and as the projection in the precision's.
        let tables = if architecture.tied { table } else { 0 };
        let embedding = if precision == Precision::F32 || checkpoint.is_f32() { 4 } else { 2 };
        let all = (architecture.parameters() + tables - table) * element_size(precision) + table * embedding;
        match precision {
            Precision::Fp8 => all - architecture.layers * Block::saved_by_fp8(architecture),
            _ => all,
        }
    }
}

impl Block {
    /// Bytes that its matrices take less in fp8 than in bf16.
    fn saved_by_fp8(architecture: &Architecture) -> usize {
        let &Architecture { hidden, mlp, .. } = architecture;
        let stacked = hidden + 2 * architecture.key_size();
        let matrices = [(stacked, hidden), (hidden, hidden), (2 * mlp, hidden), (hidden, mlp)];
        matrices.into_iter().map(|(n, k)| n * (2 * k - Fp8Rows::row_bytes(k))).sum()
    }

    fn load(loader: &mut Loader<'_>, layer: usize) -> Result<Self> {
        let checkpoint = loader.checkpoint;
        let architecture = checkpoint.architecture();
        let &Architecture { hidden, mlp, names, .. } = architecture;
        let key_size = architecture.key_size();
        let name = |part: &str, kind: &str| checkpoint.name_of(layer, part, kind);
        let stack = |parts: &[(&str, usize)], k| checkpoint.stack(layer, parts, k);
        let attention = [(names.query, hidden), (names.key, key_size), (names.value, key_size)];
        let bias = attention.map(|(part, rows)| (name(part, "bias"), rows));
        Ok(Self {
            attention_norm: loader.vector(&[(name(names.attention_norm, "weight"), hidden)])?,
            query_key_value: loader.block_matrix(stack(&attention, hidden)?, hidden)?,
            bias: architecture.biased.then(|| loader.vector(&bias)).transpose()?,
            output: loader.block_matrix(stack(&[(names.output, hidden)], hidden)?, hidden)?,
            mlp_norm: loader.vector(&[(name(names.mlp_norm, "weight"), hidden)])?,
            gate_up: loader.block_matrix(stack(&[(names.gate, mlp), (names.up, mlp)], hidden)?, hidden)?,
            down: loader.block_matrix(stack(&[(names.down, hidden)], mlp)?, mlp)?,
        })
    }
}

/// Bytes of a file that are sent at a time.
const CHUNK: usize = 16 << 20;

/// Loads tensors in the model's precision.
struct Loader<'a> {
    gpu: &'a Arc<Gpu>,
    checkpoint: &'a Checkpoint,
    precision: Precision,
    upload: Upload<'a>,
    /// A tensor before it is brought to fp8.
    whole: Elements,
}

impl<'a> Loader<'a> {
    fn new(gpu: &'a Arc<Gpu>, kernels: &'a Kernels, checkpoint: &'a Checkpoint, precision: Precision) -> Result<Self> {
        let upload = Upload::new(gpu, kernels)?;
        Ok(Self { gpu, checkpoint, precision, upload, whole: Elements::new(gpu, precision, 0)? })
    }

    fn matrix(&mut self, tensors: Vec<(Tensor<'_>, usize)>, k: usize) -> Result<Matrix> {
        let n = tensors.iter().map(|(_, rows)| rows).sum::<usize>();
        let elements = Elements::new(self.gpu, self.precision, n * k)?;
        let mut first = 0;
        for (tensor, rows) in &tensors {
            let target = elements.all().slice(first * k..(first + rows) * k);
            self.upload.tensor(tensor, Target::Elements(target))?;
            first += rows;
        }
        Ok(Matrix { contents: Contents::Elements(elements), n, k })
    }

    /// A matrix of a block, in fp8 if that is the precision.
    fn block_matrix(&mut self, tensors: Vec<(Tensor<'_>, usize)>, k: usize) -> Result<Matrix> {
        if self.precision != Precision::Fp8 {
            return self.matrix(tensors, k);
        }
        let n = tensors.iter().map(|(_, rows)| rows).sum::<usize>();
        let quantized = Fp8Rows::new(self.gpu, n, k)?;
        let mut first = 0;
        for (tensor, rows) in &tensors {
            self.whole.reserve(rows * k)?;
            let whole = self.whole.all().slice(0..rows * k);
            self.upload.tensor(tensor, Target::Elements(whole))?;
            self.upload.kernels.quantize(whole, k, quantized.rows(first..first + rows, k))?;
            first += rows;
        }
        Ok(Matrix { contents: Contents::Fp8(quantized), n, k })
    }

    fn vector(&mut self, parts: &[(String, usize)]) -> Result<Buffer<f32>> {
        let vector = Buffer::new(self.gpu, parts.iter().map(|(_, length)| length).sum())?;
        let mut first = 0;
        for (name, length) in parts {
            let target = vector.slice(first..first + length);
            self.upload.tensor(&self.checkpoint.tensor(name, &[*length])?, Target::F32(target))?;
            first += length;
        }
        Ok(vector)
    }

    fn embedding(&mut self, tensor: &Tensor<'_>) -> Result<Embedding> {
        let is_bf16 = tensor.numbers() == Numbers::Bf16 && self.precision != Precision::F32;
        let bytes = Buffer::new(self.gpu, tensor.length() * if is_bf16 { 2 } else { 4 })?;
        let target = match is_bf16 {
            true => Target::Elements(ElementSlice::new(bytes.all(), true)),
            false => Target::F32(bytes.all().cast()),
        };
        self.upload.tensor(tensor, target)?;
        Ok(Embedding { bytes, is_bf16 })
    }
}

/// Sends tensors in chunks, through two places in turn: one is written while the other is copied.
struct Upload<'a> {
    kernels: &'a Kernels,
    chunks: [Staging; 2],
    /// The lowest index of a value that is not finite.
    not_finite: Buffer<u64>,
}

impl<'a> Upload<'a> {
    fn new(gpu: &Arc<Gpu>, kernels: &'a Kernels) -> Result<Self> {
        let chunks = [Staging::new(gpu)?, Staging::new(gpu)?];
        Ok(Self { kernels, chunks, not_finite: Buffer::of(gpu, &[u64::MAX])? })
    }

    /// Puts a tensor at `target`.
    fn tensor(&mut self, tensor: &Tensor<'_>, target: Target<'_>) -> Result<()> {
        assert_eq!(tensor.length(), target.len(), "a tensor goes where there is room for exactly it");
        if let Some(noise) = tensor.noise() {
            let (seed, mean, step) = noise.recipe();
            return self.kernels.noise(NoiseCall { seed, mean, step }, target);
        }
        let (dtype, size) = match tensor.numbers() {
            Numbers::F32 => (0, 4),
            Numbers::F16 => (1, 2),
            Numbers::Bf16 => (2, 2),
        };
        for (index, bytes) in tensor.bytes().chunks(CHUNK).enumerate() {
            let staging = &mut self.chunks[index % 2];
            let mut batch = staging.begin()?;
            let sent = batch.push_with(bytes.len(), |host| {
                let pieces = host.par_chunks_mut(1 << 20).zip(bytes.par_chunks(1 << 20));
                pieces.for_each(|(to, from)| _ = to.write_copy_of_slice(from));
            })?;
            batch.send()?;
            let (first, length) = (index * CHUNK / size, bytes.len() / size);
            let source = Source { bytes: staging.list(sent), dtype, first, length };
            self.kernels.convert(source, target.slice(first..first + length), self.not_finite.all())?;
        }
        let mut not_finite = [0];
        self.not_finite.read(0, &mut not_finite)?;
        tensor.release();
        match not_finite {
            [u64::MAX] => Ok(()),
            // Reading it here finds the same and says so.
            [element] => tensor.read(element as usize, &mut [0.0]),
        }
    }
}
