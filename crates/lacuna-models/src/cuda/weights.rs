//! The weights of a transformer in the GPU's memory.

use std::sync::Arc;

use rayon::prelude::*;

use super::buffer::Buffer;
use super::fp8::Quantized;
use super::gpu::Gpu;
use super::kernel::{Conversion, Kernels, Noise};
use super::matrix::{Contents, Elements, Matrix, element_size};
use super::staging::{Pinned, copy_to};
use crate::checkpoint::{Numbers, Tensor};
use crate::{Architecture, Checkpoint, Error, Precision, Result};

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
    pub(crate) table: Buffer<u8>,
    pub(crate) is_bf16: bool,
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
        // A tied table is kept twice: as an embedding in the file's numbers, and as the projection in the precision's.
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
        matrices.into_iter().map(|(n, k)| n * (2 * k - Quantized::row_bytes(k))).sum()
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

/// Bytes of a file that travel at a time.
const CHUNK: usize = 16 << 20;

/// What loading needs: room for a chunk on both sides, twice, so that one is read while another travels.
struct Loader<'a> {
    gpu: &'a Arc<Gpu>,
    kernels: &'a Kernels,
    checkpoint: &'a Checkpoint,
    precision: Precision,
    /// A tensor before it is brought to fp8.
    whole: Elements,
    chunks: [(Pinned, Buffer<u8>); 2],
    /// The lowest index of a number that is not finite.
    wrong: Buffer<u64>,
}

impl<'a> Loader<'a> {
    fn new(gpu: &'a Arc<Gpu>, kernels: &'a Kernels, checkpoint: &'a Checkpoint, precision: Precision) -> Result<Self> {
        let chunk = || Ok::<_, Error>((Pinned::new(CHUNK)?, Buffer::new(gpu, CHUNK)?));
        let wrong = Buffer::new(gpu, 1)?;
        wrong.write(0, &[u64::MAX])?;
        let whole = Elements::new(gpu, precision, 0)?;
        Ok(Self { gpu, kernels, checkpoint, precision, whole, chunks: [chunk()?, chunk()?], wrong })
    }

    fn matrix(&mut self, tensors: Vec<(Tensor<'_>, usize)>, k: usize) -> Result<Matrix> {
        let n = tensors.iter().map(|(_, rows)| rows).sum::<usize>();
        let elements = Elements::new(self.gpu, self.precision, n * k)?;
        let mut first = 0;
        for (tensor, rows) in &tensors {
            self.tensor(tensor, elements.at(first * k), false)?;
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
        let quantized = Quantized::new(self.gpu, n, k)?;
        let mut first = 0;
        for (tensor, rows) in &tensors {
            self.whole.reserve(rows * k)?;
            self.tensor(tensor, self.whole.at(0), false)?;
            quantized.fill(self.gpu, self.kernels, first..first + rows, k, self.whole.at(0))?;
            first += rows;
        }
        Ok(Matrix { contents: Contents::Fp8(quantized), n, k })
    }

    fn vector(&mut self, parts: &[(String, usize)]) -> Result<Buffer<f32>> {
        let vector = Buffer::new(self.gpu, parts.iter().map(|(_, length)| length).sum())?;
        let mut first = 0;
        for (name, length) in parts {
            self.tensor(&self.checkpoint.tensor(name, &[*length])?, vector.at(first), true)?;
            first += length;
        }
        Ok(vector)
    }

    fn embedding(&mut self, tensor: &Tensor<'_>) -> Result<Embedding> {
        let is_bf16 = tensor.numbers() == Numbers::Bf16 && self.precision != Precision::F32;
        let table = Buffer::new(self.gpu, tensor.length() * if is_bf16 { 2 } else { 4 })?;
        self.tensor(tensor, table.at(0), !is_bf16)?;
        Ok(Embedding { table, is_bf16 })
    }

    /// Puts a tensor at `target`, as f32 if `wide`, else as elements.
    fn tensor(&mut self, tensor: &Tensor<'_>, target: u64, wide: bool) -> Result<()> {
        if let Some(noise) = tensor.noise() {
            let (seed, mean, step) = noise.recipe();
            let length = tensor.length() as u64;
            let arguments = Noise { target, length, seed, mean, step, wide: u32::from(wide) };
            return self.gpu.launch(&self.kernels.noise, [4096, 1], 256, 0, &arguments);
        }
        let (numbers, size) = match tensor.numbers() {
            Numbers::F32 => (0, 4),
            Numbers::F16 => (1, 2),
            Numbers::Bf16 => (2, 2),
        };
        let target_size = if wide { 4 } else { element_size(self.precision) };
        for (index, bytes) in tensor.bytes().chunks(CHUNK).enumerate() {
            // The chunk two before this one was sent from the same place.
            if index % 2 == 0 {
                self.gpu.wait()?;
            }
            let (host, device) = &mut self.chunks[index % 2];
            let host = &mut host.as_mut_slice()[..bytes.len()];
            host.par_chunks_mut(1 << 20).zip(bytes.par_chunks(1 << 20)).for_each(|(to, from)| to.copy_from_slice(from));
            copy_to(self.gpu, device.at(0), host)?;
            let first = index * CHUNK / size;
            let arguments = Conversion {
                source: device.at(0),
                target: target + (first * target_size) as u64,
                wrong: self.wrong.at(0),
                first: first as u64,
                length: (bytes.len() / size) as u64,
                numbers,
                wide: u32::from(wide),
            };
            self.gpu.launch(&self.kernels.convert, [1024, 1], 256, 0, &arguments)?;
        }
        let mut wrong = [0];
        self.wrong.read(0, &mut wrong)?;
        tensor.release();
        match wrong {
            [u64::MAX] => Ok(()),
            // Reading it here finds the same and says so.
            [element] => tensor.read(element as usize, &mut [0.0]),
        }
    }
}
