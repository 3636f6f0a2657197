//! The weights of a transformer in the GPU's memory.

use std::sync::Arc;

use rayon::prelude::*;

use super::buffer::Buffer;
use super::experts::Experts;
use super::fp8::Fp8Rows;
use super::gpu::Gpu;
use super::int4::Int4Rows;
use super::int8::Int8Rows;
use super::kernel::{Kernels, NoiseCall, Slots, Source, Table, TokenWeights, expert_lines};
use super::matrix::{Contents, ElementSlice, Elements, Matrix, Target};
use super::staging::Staging;
use crate::architecture::RouterBias;
use crate::checkpoint::{StoredType, Tensor};
use crate::weight::{Mlp, Role};
use crate::{Attention, Checkpoint, FeedForward, Precision, Result, architecture, int8};

/// All weights.
pub(crate) struct Weights {
    pub(crate) embedding: Embedding,
    pub(crate) blocks: Vec<Block>,
    pub(crate) final_norm: Buffer<f32>,
    pub(crate) head: Head,
}

/// One transformer block. Matrices with the same input are stacked, the queries first: the last block computes keys and values
/// for all rows, but queries only for those that are read.
pub(crate) struct Block {
    pub(crate) attention_norm: Buffer<f32>,
    pub(crate) query_key_value: Matrix,
    pub(crate) bias: Option<Buffer<f32>>,
    /// Weights of the norm of query heads, and behind them of key heads.
    pub(crate) head_norms: Option<Buffer<f32>>,
    pub(crate) output: Matrix,
    pub(crate) output_bias: Option<Buffer<f32>>,
    pub(crate) feed_forward_norm: Buffer<f32>,
    /// The mixture of experts of the layer, if it is one.
    pub(crate) experts: Option<Experts>,
    /// The network that every row goes through: of a mixture the shared expert, if there is one.
    pub(crate) network: Option<Network>,
}

/// `down(silu(gate(x)) · up(x))`, the gates above the values.
pub(crate) struct Network {
    pub(crate) gate_up: Matrix,
    pub(crate) down: Matrix,
}

/// The embedding table: in int8 if the precision is int4, in bf16 if the file has no more, else in f32.
pub(crate) struct Embedding {
    bytes: Buffer<u8>,
    /// Bits of a value.
    bits: u32,
    /// Of rows in int8.
    row_scales: Option<Buffer<f32>>,
}

impl Embedding {
    pub(crate) fn table(&self) -> Table<'_> {
        Table { bytes: self.bytes.all(), bits: self.bits, row_scales: self.row_scales.as_ref().map(Buffer::all) }
    }
}

/// The vocabulary projection: in int8 if the precision is int4, else in elements.
pub(crate) enum Head {
    Elements(Elements),
    Int8(Int8Rows),
}

impl Head {
    pub(crate) fn all(&self) -> TokenWeights<'_> {
        match self {
            Self::Elements(elements) => TokenWeights::Elements(elements.all()),
            Self::Int8(rows) => TokenWeights::Int8(rows.all()),
        }
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
        let layers = checkpoint.architecture().layers();
        let mut loader = Loader::new(gpu, kernels, checkpoint, precision)?;
        Ok(Self {
            embedding: loader.embedding(&checkpoint.tensor(Role::Embedding, 0)?)?,
            blocks: (0..layers).map(|layer| Block::load(&mut loader, layer)).collect::<Result<_>>()?,
            final_norm: loader.vector(0, &[Role::FinalNorm])?,
            head: loader.head(&checkpoint.tensor(Role::Head, 0)?)?,
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
        let Attention { biased, head_norm, output_biased, .. } = checkpoint.architecture().attention;
        let (experts, network) = match checkpoint.architecture().feed_forward[layer] {
            FeedForward::Dense { .. } => (None, Some(Mlp::Dense)),
            FeedForward::Experts(experts) => {
                let apart = experts.shared.filter(|_| !Slots::hold_shared(&experts));
                (Some(experts), apart.map(|_| Mlp::Shared))
            }
        };
        let stack = |roles: &[Role]| checkpoint.stack(layer, roles);
        let bias = [Role::QueryBias, Role::KeyBias, Role::ValueBias];
        Ok(Self {
            attention_norm: loader.vector(layer, &[Role::AttentionNorm])?,
            query_key_value: loader.block_matrix(stack(&[Role::Query, Role::Key, Role::Value])?)?,
            bias: biased.then(|| loader.vector(layer, &bias)).transpose()?,
            head_norms: head_norm.then(|| loader.vector(layer, &[Role::QueryNorm, Role::KeyNorm])).transpose()?,
            output: loader.block_matrix(stack(&[Role::Output])?)?,
            output_bias: output_biased.then(|| loader.vector(layer, &[Role::OutputBias])).transpose()?,
            feed_forward_norm: loader.vector(layer, &[Role::FeedForwardNorm])?,
            experts: experts.map(|experts| Experts::load(loader, layer, experts)).transpose()?,
            network: network.map(|mlp| Network::load(loader, layer, mlp)).transpose()?,
        })
    }
}

impl Network {
    fn load(loader: &mut Loader<'_>, layer: usize, mlp: Mlp) -> Result<Self> {
        let stack = |roles: &[Role]| loader.checkpoint.stack(layer, roles);
        let (gate_up, down) = (stack(&[Role::Gate(mlp), Role::Up(mlp)])?, stack(&[Role::Down(mlp)])?);
        Ok(Self { gate_up: loader.block_matrix(gate_up)?, down: loader.block_matrix(down)? })
    }
}

impl Experts {
    fn load(loader: &mut Loader<'_>, layer: usize, description: architecture::Experts) -> Result<Self> {
        loader.upload.kernels.allow_routing(&description)?;
        let biased = description.router.bias != RouterBias::None;
        let all = |roles: &dyn Fn(Mlp) -> Vec<Role>| {
            let shared = Slots::hold_shared(&description).then_some(Mlp::Shared);
            let mlps = (0..description.count).map(Mlp::Expert).chain(shared);
            loader.checkpoint.stack(layer, &mlps.flat_map(roles).collect::<Vec<Role>>())
        };
        let gate_up = all(&|mlp| vec![Role::Gate(mlp), Role::Up(mlp)])?;
        let down = all(&|mlp| vec![Role::Down(mlp)])?;
        Ok(Self {
            description,
            router: loader.vector(layer, &[Role::Router])?,
            router_bias: biased.then(|| loader.vector(layer, &[Role::RouterBias])).transpose()?,
            gate_up: loader.experts_matrix(gate_up, 2 * description.width, true)?,
            down: loader.experts_matrix(down, loader.checkpoint.architecture().hidden, false)?,
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

    fn matrix(&mut self, tensors: Vec<Tensor<'_>>) -> Result<Matrix> {
        let (n, k) = stacked(&tensors);
        Ok(Matrix { contents: Contents::Elements(self.elements(&tensors)?), n, k })
    }

    /// Tensors one below the other.
    fn elements(&mut self, tensors: &[Tensor<'_>]) -> Result<Elements> {
        let (n, k) = stacked(tensors);
        let elements = Elements::new(self.gpu, self.precision, n * k)?;
        let mut first = 0;
        for tensor in tensors {
            let rows = tensor.rows();
            let target = elements.all().slice(first * k..(first + rows) * k);
            self.upload.tensor(tensor, Target::Elements(target))?;
            first += rows;
        }
        Ok(elements)
    }

    /// A matrix of a block, in fp8 or int4 if that is the precision.
    fn block_matrix(&mut self, tensors: Vec<Tensor<'_>>) -> Result<Matrix> {
        let (n, k) = stacked(&tensors);
        match self.precision {
            Precision::Fp8 => {}
            Precision::Int4 => {
                let order: Vec<Option<usize>> = (0..n).map(Some).collect();
                let contents = Contents::Int4(Int4Rows::load(self.gpu, &tensors, &order)?);
                return Ok(Matrix { contents, n, k });
            }
            _ => return self.matrix(tensors),
        }
        let quantized = Fp8Rows::new(self.gpu, n, k)?;
        let mut first = 0;
        for tensor in &tensors {
            let rows = tensor.rows();
            self.whole.reserve(rows * k)?;
            let whole = self.whole.all().slice(0..rows * k);
            self.upload.tensor(tensor, Target::Elements(whole))?;
            self.upload.kernels.quantize(whole, k, quantized.rows(first..first + rows, k))?;
            first += rows;
        }
        Ok(Matrix { contents: Contents::Fp8(quantized), n, k })
    }

    /// Matrices of experts, of `rows` rows each, one below the other; `gated` ones are gates above values.
    fn experts_matrix(&mut self, tensors: Vec<Tensor<'_>>, rows: usize, gated: bool) -> Result<Matrix> {
        if self.precision != Precision::Int4 {
            return self.block_matrix(tensors);
        }
        let (all, k) = stacked(&tensors);
        let lines = expert_lines(rows, gated);
        let of_expert = |first: usize| lines.iter().map(move |row| Some(first + (*row)?));
        let order: Vec<Option<usize>> = (0..all).step_by(rows).flat_map(of_expert).collect();
        Ok(Matrix { contents: Contents::Int4(Int4Rows::load(self.gpu, &tensors, &order)?), n: order.len(), k })
    }

    /// Weights in f32: vectors, and routers.
    fn vector(&mut self, layer: usize, roles: &[Role]) -> Result<Buffer<f32>> {
        let tensors = self.checkpoint.stack(layer, roles)?;
        let vector = Buffer::new(self.gpu, tensors.iter().map(Tensor::length).sum())?;
        let mut first = 0;
        for tensor in &tensors {
            let length = tensor.length();
            let target = vector.slice(first..first + length);
            self.upload.tensor(tensor, Target::F32(target))?;
            first += length;
        }
        Ok(vector)
    }

    fn head(&mut self, tensor: &Tensor<'_>) -> Result<Head> {
        Ok(match self.precision {
            Precision::Int4 => Head::Int8(Int8Rows::new(self.gpu, &int8::Rows::load(tensor)?)?),
            _ => Head::Elements(self.elements(std::slice::from_ref(tensor))?),
        })
    }

    fn embedding(&mut self, tensor: &Tensor<'_>) -> Result<Embedding> {
        if self.precision == Precision::Int4 {
            let rows = int8::Rows::load(tensor)?;
            let bytes: Vec<u8> = rows.values.into_iter().map(|value| value as u8).collect();
            let row_scales = Some(Buffer::of(self.gpu, &rows.scales)?);
            return Ok(Embedding { bytes: Buffer::of(self.gpu, &bytes)?, bits: 8, row_scales });
        }
        let narrow = !matches!(tensor.stored_type(), StoredType::F32 | StoredType::F16);
        let is_bf16 = narrow && self.precision != Precision::F32;
        let bytes = Buffer::new(self.gpu, tensor.length() * if is_bf16 { 2 } else { 4 })?;
        let target = match is_bf16 {
            true => Target::Elements(ElementSlice::new(bytes.all(), true)),
            false => Target::F32(bytes.all().cast()),
        };
        self.upload.tensor(tensor, target)?;
        Ok(Embedding { bytes, bits: if is_bf16 { 16 } else { 32 }, row_scales: None })
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
        let plain = tensor.plain_bytes();
        let (dtype, size) = match tensor.stored_type() {
            StoredType::F16 if plain.is_some() => (1, 2),
            StoredType::Bf16 if plain.is_some() => (2, 2),
            _ => (0, 4),
        };
        let (total, mut widened) = (tensor.length() * size, Vec::new());
        for (index, start) in (0..total).step_by(CHUNK).enumerate() {
            let end = total.min(start + CHUNK);
            let bytes = match plain {
                Some(bytes) => &bytes[start..end],
                None => {
                    widened.resize(end - start, 0);
                    widen(tensor, start / size, &mut widened)?;
                    &widened
                }
            };
            let staging = &mut self.chunks[index % 2];
            let mut batch = staging.begin()?;
            let sent = batch.push_with(bytes.len(), |host| {
                let pieces = host.par_chunks_mut(1 << 20).zip(bytes.par_chunks(1 << 20));
                pieces.for_each(|(to, from)| _ = to.write_copy_of_slice(from));
            })?;
            batch.send()?;
            let (first, length) = (start / size, bytes.len() / size);
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

/// The values of a tensor from `first` on, in f32.
fn widen(tensor: &Tensor<'_>, first: usize, bytes: &mut [u8]) -> Result<()> {
    const STRETCH: usize = 1 << 14;
    let read = |values: &mut Vec<f32>, (index, bytes): (usize, &mut [u8])| {
        values.resize(bytes.len() / 4, 0.0);
        tensor.read(first + index * STRETCH, values)?;
        bytes.chunks_exact_mut(4).zip(values).for_each(|(bytes, value)| bytes.copy_from_slice(&value.to_le_bytes()));
        Ok(())
    };
    bytes.par_chunks_mut(4 * STRETCH).enumerate().map_init(Vec::new, read).collect()
}

/// Rows and columns of tensors that are put one below the other.
fn stacked(tensors: &[Tensor<'_>]) -> (usize, usize) {
    (tensors.iter().map(Tensor::rows).sum(), tensors.first().map_or(0, Tensor::columns))
}
