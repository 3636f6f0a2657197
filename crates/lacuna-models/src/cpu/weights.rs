//! The weights of a transformer, packed for the kernels.

use half::{bf16, f16};
use lacuna::Token;
use rayon::prelude::*;

use super::experts::Experts;
use super::feed_forward::{FeedForward, Network};
use super::matrix::{Linear, Matrix};
use crate::architecture::{Attention, FeedForward as Description, RouterBias};
use crate::checkpoint::{StoredType, Tensor};
use crate::weight::{Mlp, Role};
use crate::{Checkpoint, Precision, Result, int8};

/// All weights.
pub(crate) struct Weights {
    pub(crate) embedding: Embedding,
    pub(crate) blocks: Vec<Block>,
    pub(crate) final_norm: Vec<f32>,
    pub(crate) head: Matrix,
    /// Bytes held.
    pub(crate) bytes: usize,
}

/// One transformer block. Matrices with the same input are stacked, except the queries: the last block computes
/// keys and values for all rows, but queries only for those that are read.
pub(crate) struct Block {
    pub(crate) attention_norm: Vec<f32>,
    pub(crate) query: Linear,
    pub(crate) key_value: Linear,
    /// Weights of the RMS norm of query heads, where they are normalised.
    pub(crate) query_norm: Option<Vec<f32>>,
    /// The same for key heads.
    pub(crate) key_norm: Option<Vec<f32>>,
    pub(crate) output: Linear,
    pub(crate) feed_forward_norm: Vec<f32>,
    pub(crate) feed_forward: FeedForward,
}

impl Weights {
    /// Loads and checks all weights, giving the files' pages back on the way.
    pub(crate) fn load(checkpoint: &Checkpoint, precision: Precision) -> Result<Self> {
        let architecture = checkpoint.architecture();
        let mut loader = Loader { checkpoint, precision, layer: 0, bytes: 0 };
        let embedding = Embedding::load(&checkpoint.tensor(Role::Embedding, 0)?, precision)?;
        let blocks = (0..architecture.layers()).map(|layer| {
            loader.layer = layer;
            loader.block()
        });
        let blocks = blocks.collect::<Result<_>>()?;
        let (final_norm, head) = (loader.vector(Role::FinalNorm)?, loader.matrix(&[Role::Head])?);
        let bytes = loader.bytes + embedding.bytes();
        Ok(Self { embedding, blocks, final_norm, head, bytes })
    }
}

/// Loads the weights of one layer after the other and counts their bytes.
struct Loader<'a> {
    checkpoint: &'a Checkpoint,
    precision: Precision,
    layer: usize,
    bytes: usize,
}

impl Loader<'_> {
    fn vector(&mut self, role: Role) -> Result<Vec<f32>> {
        let vector = self.checkpoint.tensor(role, self.layer)?.to_vec()?;
        self.bytes += size_of_val(&vector[..]);
        Ok(vector)
    }

    /// The matrices of some roles, one below the other.
    fn matrix(&mut self, roles: &[Role]) -> Result<Matrix> {
        let matrix = Matrix::load(self.precision.format(roles[0]), &self.checkpoint.stack(self.layer, roles)?)?;
        self.bytes += matrix.bytes();
        Ok(matrix)
    }

    /// The same with their biases, if there are any.
    fn linear(&mut self, roles: &[Role], biased: bool, biases: &[Role]) -> Result<Linear> {
        let matrix = self.matrix(roles)?;
        let bias = biases.iter().filter(|_| biased).map(|&role| self.vector(role)).collect::<Result<Vec<_>>>()?;
        Ok(Linear { matrix, bias: biased.then(|| bias.concat()) })
    }

    fn block(&mut self) -> Result<Block> {
        let Attention { biased, output_biased, head_norm, .. } = self.checkpoint.architecture().attention;
        Ok(Block {
            attention_norm: self.vector(Role::AttentionNorm)?,
            query: self.linear(&[Role::Query], biased, &[Role::QueryBias])?,
            key_value: self.linear(&[Role::Key, Role::Value], biased, &[Role::KeyBias, Role::ValueBias])?,
            query_norm: head_norm.then(|| self.vector(Role::QueryNorm)).transpose()?,
            key_norm: head_norm.then(|| self.vector(Role::KeyNorm)).transpose()?,
            output: self.linear(&[Role::Output], output_biased, &[Role::OutputBias])?,
            feed_forward_norm: self.vector(Role::FeedForwardNorm)?,
            feed_forward: self.feed_forward()?,
        })
    }

    fn feed_forward(&mut self) -> Result<FeedForward> {
        let experts = match self.checkpoint.architecture().feed_forward[self.layer] {
            Description::Dense { .. } => return Ok(FeedForward::Dense(self.network(Mlp::Dense)?)),
            Description::Experts(experts) => experts,
        };
        let biased = experts.router.bias != RouterBias::None;
        Ok(FeedForward::Experts(Experts {
            description: experts,
            router: self.matrix(&[Role::Router])?,
            bias: biased.then(|| self.vector(Role::RouterBias)).transpose()?,
            networks: (0..experts.count).map(|expert| self.network(Mlp::Expert(expert))).collect::<Result<_>>()?,
            shared: experts.shared.map(|_| self.network(Mlp::Shared)).transpose()?,
        }))
    }

    fn network(&mut self, mlp: Mlp) -> Result<Network> {
        let gate_up = self.matrix(&[Role::Gate(mlp), Role::Up(mlp)])?;
        Ok(Network { gate_up, down: self.matrix(&[Role::Down(mlp)])? })
    }
}

/// The embedding table, in the file's own dtype unless the precision is int4.
pub(crate) struct Embedding {
    table: Table,
    hidden: usize,
}

enum Table {
    F32(Vec<f32>),
    F16(Vec<f16>),
    Bf16(Vec<bf16>),
    Int8(int8::Rows),
}

impl Embedding {
    fn load(tensor: &Tensor<'_>, precision: Precision) -> Result<Self> {
        let table = match tensor.stored_type() {
            _ if precision == Precision::Int4 => Table::Int8(int8::Rows::load(tensor)?),
            StoredType::F32 => Table::F32(tensor.to_vec()?),
            StoredType::F16 => Table::F16(narrow(tensor, f16::from_f32)?),
            StoredType::Bf16 => Table::Bf16(narrow(tensor, bf16::from_f32)?),
            _ if precision == Precision::F32 => Table::F32(tensor.to_vec()?),
            StoredType::Quantized(_) | StoredType::Int8 | StoredType::Int4 => {
                Table::Bf16(narrow(tensor, bf16::from_f32)?)
            }
        };
        Ok(Self { table, hidden: tensor.columns() })
    }

    /// Writes the embedding of a token.
    pub(crate) fn look_up(&self, token: Token, output: &mut [f32]) {
        let row = token as usize * self.hidden..(token as usize + 1) * self.hidden;
        match &self.table {
            Table::F32(table) => output.copy_from_slice(&table[row]),
            Table::F16(table) => {
                output.iter_mut().zip(&table[row]).for_each(|(output, value)| *output = value.to_f32())
            }
            Table::Bf16(table) => {
                output.iter_mut().zip(&table[row]).for_each(|(output, value)| *output = value.to_f32())
            }
            Table::Int8(int8::Rows { values, scales }) => {
                let scale = scales[token as usize];
                output.iter_mut().zip(&values[row]).for_each(|(output, &value)| *output = f32::from(value) * scale);
            }
        }
    }

    fn bytes(&self) -> usize {
        match &self.table {
            Table::F32(table) => size_of_val(&table[..]),
            Table::F16(table) => size_of_val(&table[..]),
            Table::Bf16(table) => size_of_val(&table[..]),
            Table::Int8(rows) => rows.bytes(),
        }
    }
}

/// Reads a tensor in numbers of 16 bits.
fn narrow<N: Copy + Default + Send>(tensor: &Tensor<'_>, narrow: impl Fn(f32) -> N + Sync) -> Result<Vec<N>> {
    const CHUNK_BYTES: usize = 1 << 16;
    let mut table = vec![N::default(); tensor.length()];
    let read = |scratch: &mut Vec<f32>, (index, part): (usize, &mut [N])| {
        scratch.resize(part.len(), 0.0);
        tensor.read(index * CHUNK_BYTES, scratch)?;
        part.iter_mut().zip(scratch).for_each(|(part, value)| *part = narrow(*value));
        Ok(())
    };
    let parts: Vec<Result<()>> = table.par_chunks_mut(CHUNK_BYTES).enumerate().map_init(Vec::new, read).collect();
    parts.into_iter().collect::<Result<()>>()?;
    tensor.release();
    Ok(table)
}
