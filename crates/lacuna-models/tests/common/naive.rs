//! LLaDA in the plainest possible way, in f64, with any visibility: what shadows are compared with.

use std::collections::HashMap;

use lacuna::Token;
use safetensors::SafeTensors;

use super::data;

const HIDDEN: usize = 64;
const HEADS: usize = 4;
const SIZE: usize = 16;

/// llada-tiny.
pub(crate) struct Naive {
    tensors: HashMap<String, (Vec<f64>, usize)>,
}

impl Naive {
    pub(crate) fn load() -> Self {
        let bytes = std::fs::read(data("llada-tiny/model.safetensors")).unwrap();
        let file = SafeTensors::deserialize(&bytes).unwrap();
        let widen =
            |bytes: &[u8]| bytes.as_chunks().0.iter().map(|&word| f64::from(f32::from_le_bytes(word))).collect();
        let entry = |(name, view): (String, safetensors::tensor::TensorView<'_>)| {
            (name, (widen(view.data()), *view.shape().last().unwrap()))
        };
        Self { tensors: file.tensors().into_iter().map(entry).collect() }
    }

    fn weight(&self, name: &str) -> &(Vec<f64>, usize) {
        &self.tensors[&format!("model.transformer.{name}.weight")]
    }

    fn multiply(&self, name: &str, row: &[f64]) -> Vec<f64> {
        let (values, width) = self.weight(name);
        values.chunks(*width).map(|weights| weights.iter().zip(row).map(|(w, x)| w * x).sum()).collect()
    }

    fn norm(&self, name: &str, row: &[f64]) -> Vec<f64> {
        let scale = (row.iter().map(|x| x * x).sum::<f64>() / row.len() as f64 + 1e-5).sqrt();
        row.iter().zip(&self.weight(name).0).map(|(x, w)| x / scale * w).collect()
    }

    /// The logits of all rows, where row q sees row k if `visible(q, k)`.
    pub(crate) fn logits(
        &self,
        tokens: &[Token],
        positions: &[usize],
        visible: impl Fn(usize, usize) -> bool,
    ) -> Vec<Vec<f64>> {
        let embedding = &self.weight("wte").0;
        let mut hidden: Vec<Vec<f64>> =
            tokens.iter().map(|&token| embedding[token as usize * HIDDEN..][..HIDDEN].to_vec()).collect();
        for layer in 0..4 {
            let part = |part: &str| format!("blocks.{layer}.{part}");
            let input: Vec<Vec<f64>> = hidden.iter().map(|row| self.norm(&part("attn_norm"), row)).collect();
            let project =
                |name: &str| -> Vec<Vec<f64>> { input.iter().map(|row| self.multiply(&part(name), row)).collect() };
            let turn = |rows: Vec<Vec<f64>>| -> Vec<Vec<f64>> {
                rows.iter().zip(positions).map(|(row, &position)| rotate(row, position)).collect()
            };
            let (queries, keys, values) = (turn(project("q_proj")), turn(project("k_proj")), project("v_proj"));
            for (q, row) in hidden.iter_mut().enumerate() {
                let mut mixed = vec![0.0; HIDDEN];
                for head in 0..HEADS {
                    let range = head * SIZE..(head + 1) * SIZE;
                    let score = |k: usize| -> f64 {
                        queries[q][range.clone()].iter().zip(&keys[k][range.clone()]).map(|(a, b)| a * b).sum::<f64>()
                            / 4.0
                    };
                    let seen: Vec<usize> = (0..tokens.len()).filter(|&k| visible(q, k)).collect();
                    let total: f64 = seen.iter().map(|&k| score(k).exp()).sum();
                    for &k in &seen {
                        let weight = score(k).exp() / total;
                        mixed[range.clone()]
                            .iter_mut()
                            .zip(&values[k][range.clone()])
                            .for_each(|(m, v)| *m += weight * v);
                    }
                }
                add(row, &self.multiply(&part("attn_out"), &mixed));
                let input = self.norm(&part("ff_norm"), row);
                let (gate, up) = (self.multiply(&part("ff_proj"), &input), self.multiply(&part("up_proj"), &input));
                let inner: Vec<f64> = gate.iter().zip(up).map(|(gate, up)| gate / (1.0 + (-gate).exp()) * up).collect();
                add(row, &self.multiply(&part("ff_out"), &inner));
            }
        }
        hidden.iter().map(|row| self.multiply("ff_out", &self.norm("ln_f", row))).collect()
    }
}

fn add(row: &mut [f64], other: &[f64]) {
    row.iter_mut().zip(other).for_each(|(row, other)| *row += other);
}

fn rotate(row: &[f64], position: usize) -> Vec<f64> {
    let mut output = row.to_vec();
    for (head, output) in output.chunks_mut(SIZE).enumerate() {
        for i in 0..SIZE / 2 {
            let (x, y) = (row[head * SIZE + i], row[head * SIZE + i + SIZE / 2]);
            let (sine, cosine) = (position as f64 * 500_000f64.powf(-2.0 * i as f64 / SIZE as f64)).sin_cos();
            (output[i], output[i + SIZE / 2]) = (x * cosine - y * sine, y * cosine + x * sine);
        }
    }
    output
}

/// The probabilities of logits, the mask token left out.
pub(crate) fn probabilities(logits: &[f64]) -> Vec<f64> {
    let kept = |(token, logit): (usize, &f64)| if token == super::MASK as usize { 0.0 } else { logit.exp() };
    let weights: Vec<f64> = logits.iter().enumerate().map(kept).collect();
    let total: f64 = weights.iter().sum();
    weights.into_iter().map(|weight| weight / total).collect()
}
