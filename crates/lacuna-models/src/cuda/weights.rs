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
use crate::weight::{Mlp, Role};
use crate::{Checkpoint, Error, Precision, Result};

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
        let layers = checkpoint.architecture().layers();
        let mut loader = Loader::new(gpu, kernels, checkpoint, precision)?;
        Ok(Self {
            embedding: loader.embedding(&checkpoint.tensor(Role::Embedding, 0)?)?,
            blocks: (0..layers).map(|layer| Block::load(&mut loader, layer)).collect::<Result<_>>()?,
            final_norm: loader.vector(0, &[Role::FinalNorm])?,
            head: loader.matrix(vec![checkpoint.tensor(Role::Head, 0)?])?,
        })
    }

    /// Bytes that the weights of a model take.
    pub(crate) fn bytes(checkpoint: &Checkpoint, precision: Precision) -> usize {
        checkpoint.architecture().weight_bytes(precision, checkpoint.embedding_format(precision))
    }
}

impl Block {
    fn load(loader: &mut Loader<'_>, layer: usize) -> Result<Self> {
        let checkpoint = loader.checkpoint;
        let biased = checkpoint.architecture().attention.biased;
        let stack = |roles: &[Role]| checkpoint.stack(layer, roles);
        let bias = [Role::QueryBias, Role::KeyBias, Role::ValueBias];
        Ok(Self {
            attention_norm: loader.vector(layer, &[Role::AttentionNorm])?,
            query_key_value: loader.block_matrix(stack(&[Role::Query, Role::Key, Role::Value])?)?,
            bias: biased.then(|| loader.vector(layer, &bias)).transpose()?,
            output: loader.block_matrix(stack(&[Role::Output])?)?,
            mlp_norm: loader.vector(layer, &[Role::FeedForwardNorm])?,
            gate_up: loader.block_matrix(stack(&[Role::Gate(Mlp::Dense), Role::Up(Mlp::Dense)])?)?,
            down: loader.block_matrix(stack(&[Role::Down(Mlp::Dense)])?)?,
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

    fn matrix(&mut self, tensors: Vec<Tensor<'_>>) -> Result<Matrix> {
        let (n, k) = stacked(&tensors);
        let elements = Elements::new(self.gpu, self.precision, n * k)?;
        let mut first = 0;
        for tensor in &tensors {
            self.tensor(tensor, elements.at(first * k), false)?;
            first += tensor.rows();
        }
        Ok(Matrix { contents: Contents::Elements(elements), n, k })
    }

    /// A matrix of a block, in fp8 if that is the precision.
    fn block_matrix(&mut self, tensors: Vec<Tensor<'_>>) -> Result<Matrix> {
        if self.precision != Precision::Fp8 {
            return self.matrix(tensors);
        }
        let (n, k) = stacked(&tensors);
        let quantized = Quantized::new(self.gpu, n, k)?;
        let mut first = 0;
        for tensor in &tensors {
            let rows = tensor.rows();
            self.whole.reserve(rows * k)?;
            self.tensor(tensor, self.whole.at(0), false)?;
            quantized.fill(self.gpu, self.kernels, first..first + rows, k, self.whole.at(0))?;
            first += rows;
        }
        Ok(Matrix { contents: Contents::Fp8(quantized), n, k })
    }

    fn vector(&mut self, layer: usize, roles: &[Role]) -> Result<Buffer<f32>> {
        let tensors = self.checkpoint.stack(layer, roles)?;
        let vector = Buffer::new(self.gpu, stacked(&tensors).0)?;
        let mut first = 0;
        for tensor in &tensors {
            self.tensor(tensor, vector.at(first), true)?;
            first += tensor.rows();
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

/// Rows and columns of tensors that are put one below the other.
fn stacked(tensors: &[Tensor<'_>]) -> (usize, usize) {
    (tensors.iter().map(Tensor::rows).sum(), tensors.first().map_or(0, Tensor::columns))
}
