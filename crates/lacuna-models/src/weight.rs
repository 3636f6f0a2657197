//! The weights of an architecture: their names, shapes and roles. Every count of parameters, operations and bytes is a sum over
//! [`Architecture::weights`].

use std::ops::Range;

use crate::architecture::{Experts, FeedForward, RouterBias};
use crate::precision::{Precision, WeightFormat};
use crate::{Architecture, Attention};

/// The part a weight plays.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Role {
    Embedding,
    AttentionNorm,
    Query,
    Key,
    Value,
    QueryBias,
    KeyBias,
    ValueBias,
    QueryNorm,
    KeyNorm,
    Output,
    OutputBias,
    FeedForwardNorm,
    Router,
    RouterBias,
    Gate(Mlp),
    Up(Mlp),
    Down(Mlp),
    FinalNorm,
    Head,
}

/// One of the networks of a feed-forward layer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Mlp {
    Dense,
    Shared,
    Expert(usize),
}

impl Role {
    /// It is the right operand of a product with the rows of a layer.
    pub(crate) fn is_block_matrix(self) -> bool {
        matches!(
            self,
            Self::Query
                | Self::Key
                | Self::Value
                | Self::Output
                | Self::Router
                | Self::Gate(_)
                | Self::Up(_)
                | Self::Down(_)
        )
    }
}

/// A weight as it is stored: some rows of a tensor, often all.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Weight {
    pub(crate) role: Role,
    /// The tensor's name.
    pub(crate) name: String,
    /// The tensor's shape: rows and columns of a matrix, or the length of a vector.
    pub(crate) shape: Vec<usize>,
    /// The rows that are this weight.
    pub(crate) rows: Range<usize>,
}

impl Weight {
    /// Length of a row.
    pub(crate) fn columns(&self) -> usize {
        self.shape.get(1).copied().unwrap_or(1)
    }

    /// Its elements, counted through the tensor.
    pub(crate) fn elements(&self) -> Range<usize> {
        self.rows.start * self.columns()..self.rows.end * self.columns()
    }

    /// Number of parameters.
    pub(crate) fn size(&self) -> usize {
        self.elements().len()
    }
}

/// Names of a family's tensors. Layer i's query matrix is `{block}.{i}.{query}.weight`, the gate of its expert e is
/// `{block}.{i}.{experts}.{e}.{gate}.weight`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Names {
    pub(crate) embedding: &'static str,
    pub(crate) block: &'static str,
    pub(crate) attention_norm: &'static str,
    /// One tensor of queries, keys and values, in place of three.
    pub(crate) query_key_value: Option<&'static str>,
    pub(crate) query: &'static str,
    pub(crate) key: &'static str,
    pub(crate) value: &'static str,
    pub(crate) query_norm: &'static str,
    pub(crate) key_norm: &'static str,
    pub(crate) output: &'static str,
    pub(crate) feed_forward_norm: &'static str,
    /// Prefix of a dense feed-forward network, with its dot.
    pub(crate) dense: &'static str,
    pub(crate) shared: &'static str,
    pub(crate) experts: &'static str,
    pub(crate) router: &'static str,
    /// The whole name below the layer: it has no `.weight`.
    pub(crate) router_bias: &'static str,
    pub(crate) gate: &'static str,
    pub(crate) up: &'static str,
    pub(crate) down: &'static str,
    pub(crate) final_norm: &'static str,
    pub(crate) head: &'static str,
}

impl Architecture {
    /// All weights that are stored, layer by layer.
    pub(crate) fn weights(&self) -> impl Iterator<Item = Weight> {
        let blocks = (0..self.layers()).flat_map(|layer| self.block_weights(layer));
        let before = [self.weight(Role::Embedding, 0)];
        let after = [Some(Role::FinalNorm), (!self.tied).then_some(Role::Head)];
        before.into_iter().chain(blocks).chain(after.into_iter().flatten().map(|role| self.weight(role, 0)))
    }

    /// The weights of a layer.
    pub(crate) fn block_weights(&self, layer: usize) -> impl Iterator<Item = Weight> {
        self.roles(layer).into_iter().map(move |role| self.weight(role, layer))
    }

    fn roles(&self, layer: usize) -> Vec<Role> {
        let network = |mlp| [Role::Gate(mlp), Role::Up(mlp), Role::Down(mlp)];
        let Attention { biased, output_biased, head_norm, .. } = self.attention;
        let mut roles = vec![Role::AttentionNorm, Role::Query, Role::Key, Role::Value, Role::Output];
        if biased {
            roles.extend([Role::QueryBias, Role::KeyBias, Role::ValueBias]);
        }
        if output_biased {
            roles.push(Role::OutputBias);
        }
        if head_norm {
            roles.extend([Role::QueryNorm, Role::KeyNorm]);
        }
        roles.push(Role::FeedForwardNorm);
        match self.feed_forward[layer] {
            FeedForward::Dense { .. } => roles.extend(network(Mlp::Dense)),
            FeedForward::Experts(Experts { count, shared, router, .. }) => {
                roles.push(Role::Router);
                if router.bias != RouterBias::None {
                    roles.push(Role::RouterBias);
                }
                if shared.is_some() {
                    roles.extend(network(Mlp::Shared));
                }
                roles.extend((0..count).flat_map(|expert| network(Mlp::Expert(expert))));
            }
        }
        roles
    }

    /// The weight of a role; `layer` matters only for those of layers.
    pub(crate) fn weight(&self, role: Role, layer: usize) -> Weight {
        let Names { gate, up, down, .. } = self.names;
        let (hidden, vocabulary, names) = (self.hidden, self.vocabulary, &self.names);
        let (query, key, head) = (self.attention.query_size(), self.attention.key_size(), self.attention.head_size);
        let table = |name: &str| whole(role, format!("{name}.weight"), &[vocabulary, hidden]);
        let part = |name: &str, kind: &str, shape: &[usize]| {
            whole(role, format!("{}.{layer}.{name}.{kind}", names.block), shape)
        };
        let projection = |name: &str, first: usize, rows: usize| match names.query_key_value {
            None => part(name, "weight", &[rows, hidden]),
            Some(name) => Weight { rows: first..first + rows, ..part(name, "weight", &[query + 2 * key, hidden]) },
        };
        let network = |mlp: Mlp, name: &str, inward: bool| {
            let width = self.width(layer, mlp);
            let shape = if inward { [width, hidden] } else { [hidden, width] };
            part(&self.network_name(mlp, name), "weight", &shape)
        };
        match role {
            Role::Embedding => table(names.embedding),
            Role::Head => table(if self.tied { names.embedding } else { names.head }),
            Role::FinalNorm => whole(role, format!("{}.weight", names.final_norm), &[hidden]),
            Role::AttentionNorm => part(names.attention_norm, "weight", &[hidden]),
            Role::Query => projection(names.query, 0, query),
            Role::Key => projection(names.key, query, key),
            Role::Value => projection(names.value, query + key, key),
            Role::QueryBias => part(names.query, "bias", &[query]),
            Role::KeyBias => part(names.key, "bias", &[key]),
            Role::ValueBias => part(names.value, "bias", &[key]),
            Role::QueryNorm => part(names.query_norm, "weight", &[head]),
            Role::KeyNorm => part(names.key_norm, "weight", &[head]),
            Role::Output => part(names.output, "weight", &[hidden, query]),
            Role::OutputBias => part(names.output, "bias", &[hidden]),
            Role::FeedForwardNorm => part(names.feed_forward_norm, "weight", &[hidden]),
            Role::Router => part(names.router, "weight", &[self.expert_count(layer), hidden]),
            Role::RouterBias => {
                let name = format!("{}.{layer}.{}", names.block, names.router_bias);
                whole(role, name, &[self.expert_count(layer)])
            }
            Role::Gate(mlp) => network(mlp, gate, true),
            Role::Up(mlp) => network(mlp, up, true),
            Role::Down(mlp) => network(mlp, down, false),
        }
    }

    fn network_name(&self, mlp: Mlp, name: &str) -> String {
        let Names { dense, shared, experts, .. } = self.names;
        match mlp {
            Mlp::Dense => format!("{dense}{name}"),
            Mlp::Shared => format!("{shared}.{name}"),
            Mlp::Expert(expert) => format!("{experts}.{expert}.{name}"),
        }
    }

    fn width(&self, layer: usize, mlp: Mlp) -> usize {
        match (self.feed_forward[layer], mlp) {
            (FeedForward::Dense { width }, _) => width,
            (FeedForward::Experts(experts), Mlp::Shared) => experts.shared.unwrap_or(0),
            (FeedForward::Experts(experts), _) => experts.width,
        }
    }

    fn expert_count(&self, layer: usize) -> usize {
        match self.feed_forward[layer] {
            FeedForward::Dense { .. } => 0,
            FeedForward::Experts(experts) => experts.count,
        }
    }

    /// Number of parameters.
    pub(crate) fn parameters(&self) -> usize {
        self.weights().map(|weight| weight.size()).sum()
    }

    /// Number of parameters that a token goes through.
    pub fn active_parameters(&self) -> usize {
        let layers = (0..self.layers()).map(|layer| {
            let of = |weight: &Weight| weight.size() as f64 * self.share(layer, weight.role);
            self.block_weights(layer).map(|weight| of(&weight)).sum::<f64>()
        });
        let tables = [Role::Embedding, Role::FinalNorm].into_iter().chain((!self.tied).then_some(Role::Head));
        layers.sum::<f64>() as usize + tables.map(|role| self.weight(role, 0).size()).sum::<usize>()
    }

    /// Bytes of all weights in a precision, without padding. A tied table is held twice: as an embedding in the format of the
    /// file, and as the projection in the precision's.
    pub(crate) fn weight_bytes(&self, precision: Precision, embedding: WeightFormat) -> usize {
        let bytes = |weight: Weight| {
            let format = match weight.role {
                Role::Embedding => embedding,
                role if role == Role::Head || role.is_block_matrix() => precision.format(role).weights,
                // Vectors.
                _ => WeightFormat::F32,
            };
            weight.rows.len() * format.row_bytes(weight.columns())
        };
        self.weights().chain(self.tied.then(|| self.weight(Role::Head, 0))).map(bytes).sum()
    }

    /// Sizes of the rows of a forward pass.
    pub(crate) fn sizes(&self) -> Sizes {
        let mut sizes = Sizes {
            hidden: self.hidden,
            query: 0,
            key: 0,
            mlp: 0,
            input: 0,
            vocabulary: self.vocabulary,
            epsilon: self.epsilon as f32,
        };
        for weight in self.weights().filter(|weight| weight.role.is_block_matrix()) {
            let output = match weight.role {
                Role::Query => &mut sizes.query,
                Role::Key => &mut sizes.key,
                Role::Gate(_) => &mut sizes.mlp,
                _ => &mut 0,
            };
            *output = (*output).max(weight.rows.len());
            sizes.input = sizes.input.max(weight.columns());
        }
        sizes
    }

    /// Fraction of the tokens that a weight of a layer is used for, if experts are used evenly.
    fn share(&self, layer: usize, role: Role) -> f64 {
        match (self.feed_forward[layer], role) {
            (
                FeedForward::Experts(experts),
                Role::Gate(Mlp::Expert(_)) | Role::Up(Mlp::Expert(_)) | Role::Down(Mlp::Expert(_)),
            ) => experts.active as f64 / experts.count as f64,
            _ => 1.0,
        }
    }
}

/// Sizes of the rows that a forward pass computes. Where layers differ, the widest.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Sizes {
    /// The residual stream.
    pub(crate) hidden: usize,
    /// Queries of all heads.
    pub(crate) query: usize,
    /// Keys of all heads; values have as many.
    pub(crate) key: usize,
    /// Inner rows of a feed-forward network.
    pub(crate) mlp: usize,
    /// Inputs of products.
    pub(crate) input: usize,
    /// Logits.
    pub(crate) vocabulary: usize,
    /// The epsilon of norms.
    pub(crate) epsilon: f32,
}

/// Operations of one forward pass over the last `rows` positions of a canvas of `length`, without reading: all blocks but the
/// last, and its keys and values. Matrix products and attention count, a multiplication and an addition as two.
pub fn forward_flops(architecture: &Architecture, rows: usize, length: usize) -> f64 {
    let last = architecture.layers() - 1;
    let products = |layer: usize| -> f64 {
        let used = forward_weights(architecture, layer);
        used.map(|weight| weight.size() as f64 * architecture.share(layer, weight.role)).sum()
    };
    let blocks = architecture.attention.visibility.default_blocks();
    let prefix = |position| blocks.map_or(length, |blocks| blocks.end(position).min(length));
    let seen: usize = (length - rows..length).map(prefix).sum();
    let attention = 2.0 * (last * seen * architecture.attention.query_size()) as f64;
    2.0 * (rows as f64 * (0..=last).map(products).sum::<f64>() + attention)
}

/// Operations of reading the logits of a row: the last block without keys, values and attention, and the projection.
pub(crate) fn read_flops(architecture: &Architecture) -> f64 {
    let last = architecture.layers() - 1;
    let read = |weight: &Weight| weight.role.is_block_matrix() && !matches!(weight.role, Role::Key | Role::Value);
    let block = architecture.block_weights(last).filter(read);
    let block: f64 = block.map(|weight| weight.size() as f64 * architecture.share(last, weight.role)).sum();
    2.0 * (block + architecture.weight(Role::Head, 0).size() as f64)
}

/// Bytes of the weights that such a forward pass over `rows` rows goes through. Of experts, those that so many rows choose, if
/// experts are used evenly.
pub fn forward_bytes(architecture: &Architecture, precision: Precision, rows: usize) -> f64 {
    let layers = (0..architecture.layers()).flat_map(|layer| {
        forward_weights(architecture, layer).map(move |weight| {
            let unused = (1.0 - architecture.share(layer, weight.role)).powf(rows as f64);
            precision.format(weight.role).weights.row_bytes(weight.size()) as f64 * (1.0 - unused)
        })
    });
    layers.sum()
}

/// The matrices of a layer that a forward pass without reading goes through.
fn forward_weights(architecture: &Architecture, layer: usize) -> impl Iterator<Item = Weight> {
    let is_last = layer + 1 == architecture.layers();
    architecture.block_weights(layer).filter(move |weight| match is_last {
        true => matches!(weight.role, Role::Key | Role::Value),
        false => weight.role.is_block_matrix(),
    })
}

fn whole(role: Role, name: String, shape: &[usize]) -> Weight {
    Weight { role, name, shape: shape.to_vec(), rows: 0..shape[0] }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Checkpoint, Shape};

    #[test]
    fn sums_over_weights_are_the_formulas_of_a_dense_transformer() {
        for (shape, biased) in [(Shape::Llada8b, false), (Shape::Dream7b, true)] {
            let checkpoint = Checkpoint::random(shape).unwrap();
            let model = checkpoint.architecture();
            let (layers, h, mlp) = (model.layers(), model.hidden, model.mlp());
            let (key, table) = (model.attention.key_size(), model.vocabulary * model.hidden);
            let matrices = 2 * h * (h + key) + 3 * h * mlp;
            let vectors = 2 * h + if biased { h + 2 * key } else { 0 };
            assert_eq!(model.parameters(), layers * (matrices + vectors) + 2 * table + h);
            assert_eq!(model.active_parameters(), model.parameters());
            let flops = |rows: usize, length: usize| {
                2.0 * rows as f64 * ((layers - 1) * (matrices + 2 * length * h) + 2 * h * key) as f64
            };
            assert_eq!(forward_flops(model, 640, 640), flops(640, 640));
            assert_eq!(forward_flops(model, 32, 640), flops(32, 640));
            assert_eq!(read_flops(model), (2 * (2 * h * h + 3 * h * mlp + table)) as f64);
            let Sizes { hidden, query, input, .. } = model.sizes();
            assert_eq!((hidden, query, input, model.sizes().mlp, model.sizes().key), (h, h, mlp, mlp, key));

            let read = 2 * ((layers - 1) * matrices + 2 * h * key);
            assert_eq!(forward_bytes(model, Precision::Bf16, 1), read as f64);

            let vectors = 4 * (layers * vectors + h);
            let bf16 = 2 * (layers * matrices + 2 * table) + vectors;
            assert_eq!(model.weight_bytes(Precision::Bf16, WeightFormat::Bf16), bf16);
            let rows = layers * (2 * h + 2 * key + 2 * mlp + h);
            let fp8 = layers * matrices + 4 * rows + 4 * table + vectors;
            assert_eq!(model.weight_bytes(Precision::Fp8, WeightFormat::Bf16), fp8);
        }
    }

    #[test]
    fn a_forward_pass_reads_the_experts_that_its_rows_choose() {
        let bytes =
            |shape, rows| forward_bytes(Checkpoint::random(shape).unwrap().architecture(), Precision::Bf16, rows);
        let routers = (15 * 64 * 2048 * 4) as f64;
        let dense = bytes(Shape::LladaMoeDense, 1) + routers;
        assert!((bytes(Shape::LladaMoe, 1) / dense - 1.0).abs() < 1e-9);
        let all = dense + 15.0 * 56.0 * 3.0 * 2048.0 * 1024.0 * 2.0;
        assert!((bytes(Shape::LladaMoe, 1 << 20) / all - 1.0).abs() < 1e-9);
        let [few, many] = [4, 64].map(|rows| bytes(Shape::LladaMoe, rows));
        assert!(dense < few && few < many && many < all, "{dense} {few} {many} {all}");
        assert_eq!(bytes(Shape::LladaMoeDense, 1), bytes(Shape::LladaMoeDense, 256));
    }
}
