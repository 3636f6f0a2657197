//! The weights of a transformer, packed for the kernels.

use half::{bf16, f16};
use lacuna::Token;
use rayon::prelude::*;

use super::matrix::{Linear, Matrix};
use crate::checkpoint::{Numbers, Tensor};
use crate::{Architecture, Checkpoint, Precision, Result};

/// All weights.
pub(crate) struct Weights {
    pub(crate) embedding: Embedding,
    pub(crate) blocks: Vec<Block>,
    pub(crate) final_norm: Vec<f32>,
    pub(crate) head: Matrix,
}

/// One transformer block. Matrices with the same input are stacked, except the queries: the last block computes
/// keys and values for all rows, but queries only for those that are read.
pub(crate) struct Block {
    pub(crate) attention_norm: Vec<f32>,
    pub(crate) query: Linear,
    pub(crate) key_value: Linear,
    pub(crate) output: Matrix,
    pub(crate) mlp_norm: Vec<f32>,
    pub(crate) gate_up: Matrix,
    pub(crate) down: Matrix,
}

impl Weights {
    /// Loads and checks all weights, giving the files' pages back on the way.
    pub(crate) fn load(checkpoint: &Checkpoint, precision: Precision) -> Result<Self> {
        let architecture = checkpoint.architecture();
        let &Architecture { hidden, vocabulary, names, .. } = architecture;
        Ok(Self {
            embedding: Embedding::load(&checkpoint.embedding()?, hidden)?,
            blocks: (0..architecture.layers)
                .map(|layer| Block::load(checkpoint, precision, layer))
                .collect::<Result<_>>()?,
            final_norm: checkpoint.tensor(&format!("{}.weight", names.final_norm), &[hidden])?.to_vec()?,
            head: Matrix::load(precision, &[(checkpoint.head()?, vocabulary)], hidden)?,
        })
    }

    /// Bytes held.
    pub(crate) fn bytes(&self) -> usize {
        let blocks: usize = self.blocks.iter().map(Block::bytes).sum();
        self.embedding.bytes() + blocks + size_of_val(&self.final_norm[..]) + self.head.bytes()
    }
}

impl Block {
    fn load(checkpoint: &Checkpoint, precision: Precision, layer: usize) -> Result<Self> {
        let architecture = checkpoint.architecture();
        let &Architecture { hidden, mlp, names, .. } = architecture;
        let key_size = architecture.key_size();
        let name = |part: &str, kind: &str| checkpoint.name_of(layer, part, kind);
        let norm = |part: &str| checkpoint.tensor(&name(part, "weight"), &[hidden])?.to_vec();
        let matrix = |parts: &[(&str, usize)], k| Matrix::load(precision, &checkpoint.stack(layer, parts, k)?, k);
        let bias = |parts: &[(&str, usize)]| -> Result<Option<Vec<f32>>> {
            if !architecture.biased {
                return Ok(None);
            }
            let bias = |&(part, rows): &(&str, usize)| checkpoint.tensor(&name(part, "bias"), &[rows])?.to_vec();
            Ok(Some(parts.iter().map(bias).collect::<Result<Vec<_>>>()?.concat()))
        };
        let linear = |parts: &[(&str, usize)]| -> Result<Linear> {
            Ok(Linear { matrix: matrix(parts, hidden)?, bias: bias(parts)? })
        };
        Ok(Self {
            attention_norm: norm(names.attention_norm)?,
            query: linear(&[(names.query, hidden)])?,
            key_value: linear(&[(names.key, key_size), (names.value, key_size)])?,
            output: matrix(&[(names.output, hidden)], hidden)?,
            mlp_norm: norm(names.mlp_norm)?,
            gate_up: matrix(&[(names.gate, mlp), (names.up, mlp)], hidden)?,
            down: matrix(&[(names.down, hidden)], mlp)?,
        })
    }

    fn bytes(&self) -> usize {
        let vectors =
            [Some(&self.attention_norm), Some(&self.mlp_norm), self.query.bias.as_ref(), self.key_value.bias.as_ref()];
        let matrices = [&self.query.matrix, &self.key_value.matrix, &self.output, &self.gate_up, &self.down];
        vectors.into_iter().flatten().map(|vector| size_of_val(&vector[..])).sum::<usize>()
            + matrices.into_iter().map(Matrix::bytes).sum::<usize>()
    }
}

/// The embedding table, in the file's own numbers.
pub(crate) struct Embedding {
    table: Table,
    hidden: usize,
}

enum Table {
    F32(Vec<f32>),
    F16(Vec<f16>),
    Bf16(Vec<bf16>),
}

impl Embedding {
    fn load(tensor: &Tensor<'_>, hidden: usize) -> Result<Self> {
        let table = match tensor.numbers() {
            Numbers::F32 => Table::F32(tensor.to_vec()?),
            Numbers::F16 => Table::F16(narrow(tensor, f16::from_f32)?),
            Numbers::Bf16 => Table::Bf16(narrow(tensor, bf16::from_f32)?),
        };
        Ok(Self { table, hidden })
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
        }
    }

    fn bytes(&self) -> usize {
        match &self.table {
            Table::F32(table) => size_of_val(&table[..]),
            Table::F16(table) => size_of_val(&table[..]),
            Table::Bf16(table) => size_of_val(&table[..]),
        }
    }
}

/// Reads a tensor whose numbers `narrow` represents exactly.
fn narrow<N: Copy + Default + Send>(tensor: &Tensor<'_>, narrow: impl Fn(f32) -> N + Sync) -> Result<Vec<N>> {
    const STRETCH: usize = 1 << 16;
    let mut table = vec![N::default(); tensor.length()];
    let read = |scratch: &mut Vec<f32>, (index, part): (usize, &mut [N])| {
        scratch.resize(part.len(), 0.0);
        tensor.read(index * STRETCH, scratch)?;
        part.iter_mut().zip(scratch).for_each(|(part, value)| *part = narrow(*value));
        Ok(())
    };
    let parts: Vec<Result<()>> = table.par_chunks_mut(STRETCH).enumerate().map_init(Vec::new, read).collect();
    parts.into_iter().collect::<Result<()>>()?;
    tensor.release();
    Ok(table)
}
