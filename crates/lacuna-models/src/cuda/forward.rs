//! The forward pass: all blocks but the last for all rows, the rest for the rows that are asked for.

use std::collections::HashMap;
use std::sync::Arc;

use lacuna::{Observation, Token, View};

use super::attention::{Operands, Shape};
use super::buffer::Buffer;
use super::fp8::{self, Quantized};
use super::gpu::{Gpu, Graph};
use super::kept::Kept;
use super::kernel::{
    Collection, Embedding, Gate, Keeping, KeptPlace, Kernels, NONE, Norm, Projection, Reading, Rotation, Tile,
};
use super::matrix::{Elements, Part, element_size};
use super::product::{Factors, Products, Units};
use super::projection;
use super::rope::Rope;
use super::scores::{Jobs, Scores};
use super::staging::{Landing, Staging};
use super::weights::{Block, Weights};
use crate::layout::{Layout, Selection};
use crate::{Architecture, Precision, Result};

/// Recorded forward passes that are kept at most.
const GRAPHS: usize = 128;

/// Threads that work on a row of `width` numbers, four at a time each.
fn threads(width: usize) -> usize {
    width.div_ceil(4).next_multiple_of(32).min(256)
}

/// What computes.
pub(crate) struct Machine {
    pub(crate) gpu: Arc<Gpu>,
    pub(crate) kernels: Kernels,
    products: Products,
}

/// A model with its weights, and the buffers it computes in. They grow when a forward pass needs more and are kept.
pub(crate) struct Forward {
    /// Forward passes that were seen before, by what their launches depend on: recorded when they come again.
    graphs: HashMap<Pass, Option<Graph>>,
    pub(crate) weights: Weights,
    pub(crate) shape: Shape,
    pub(crate) sizes: Sizes,
    precision: Precision,
    rope: Rope,
    /// The residual stream of all rows before the last block.
    hidden: Buffer<f32>,
    /// Queries, keys and values of a block; after a forward pass, keys and values of the last.
    query_key_value: Elements,
    /// Queries of the last block.
    query: Elements,
    /// Rows on their way into a product.
    input: Elements,
    /// In fp8, rows on their way into a product of a block.
    quantized: Option<Quantized>,
    gate_up: Elements,
    /// The mass of each row and head, for each layer that was asked for it.
    mass: Buffer<f32>,
    pub(crate) scores: Buffer<f32>,
    pub(crate) kept: Kept,
    all: Selection,
    staging: Staging,
    landing: Landing,
    placed: Placed,
    mask: Token,
    pub(crate) machine: Machine,
}

/// Widths of rows.
#[derive(Clone, Copy)]
pub(crate) struct Sizes {
    pub(crate) hidden: usize,
    pub(crate) key: usize,
    pub(crate) mlp: usize,
    pub(crate) vocabulary: usize,
    epsilon: f32,
}

/// What the launches of a forward pass depend on.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
struct Pass {
    /// Rows, filled up.
    rows: usize,
    /// Tiles, filled up.
    tiles: usize,
    /// The layers whose mass is wanted, ascending.
    asked: Vec<usize>,
    /// Whether keys and values are kept for other passes.
    keeps: bool,
}

/// Where what a forward pass was given lies on the GPU.
#[derive(Clone, Copy, Default)]
struct Placed {
    tokens: u64,
    positions: u64,
    open: u64,
    tiles: u64,
    /// Where keys and values of each row are kept.
    places: u64,
    jobs: u64,
    heads: u64,
}

/// Rows that products are computed for where `rows` are needed. The others cost nothing, since products work on whole tiles, and
/// fewer shapes occur.
pub(crate) fn filled_up(rows: usize) -> usize {
    rows.next_multiple_of(if rows <= 64 { 16 } else { 64 })
}

impl Forward {
    pub(crate) fn new(
        gpu: &Arc<Gpu>,
        kernels: Kernels,
        architecture: &Architecture,
        mask: Token,
        weights: Weights,
        precision: Precision,
    ) -> Result<Self> {
        let shape = Shape::of(architecture, precision);
        for kernel in [&kernels.attention, &kernels.attention_with_mass] {
            kernels.allow_shared(kernel, shape.shared())?;
        }
        projection::allow(&kernels, precision)?;
        let elements = || Elements::new(gpu, precision, 0);
        Ok(Self {
            graphs: HashMap::new(),
            weights,
            shape,
            precision,
            sizes: Sizes {
                hidden: architecture.hidden,
                key: architecture.attention.key_size(),
                mlp: architecture.mlp(),
                vocabulary: architecture.vocabulary,
                epsilon: architecture.epsilon as f32,
            },
            rope: Rope::new(gpu, shape.head_size, architecture.attention.rope_theta)?,
            hidden: Buffer::new(gpu, 0)?,
            query_key_value: elements()?,
            query: elements()?,
            input: elements()?,
            quantized: (precision == Precision::Fp8).then(|| Quantized::new(gpu, 0, 0)).transpose()?,
            gate_up: elements()?,
            mass: Buffer::new(gpu, 0)?,
            scores: Buffer::new(gpu, 0)?,
            kept: Kept::new(gpu, precision, architecture.layers(), 2 * architecture.attention.key_size()),
            all: Selection::default(),
            staging: Staging::new(gpu)?,
            landing: Landing::new(gpu)?,
            placed: Placed::default(),
            mask,
            machine: Machine { gpu: gpu.clone(), kernels, products: Products::new(gpu, precision)? },
        })
    }

    /// Launches everything that all rows need. If dependency scores are asked for, they are on their way here.
    pub(crate) fn launch(&mut self, layout: &Layout, views: &[View<'_>]) -> Result<Option<Scores>> {
        if layout.rows() == 0 {
            return Ok(None);
        }
        let mut asked: Vec<usize> = views.iter().flat_map(|view| view.attention).map(|source| source.layer).collect();
        asked.sort_unstable();
        asked.dedup();
        let jobs = Jobs::of(layout, views, &asked);
        let pass = self.place(layout, asked, &jobs)?;
        self.run(pass.clone())?;
        if jobs.scores == 0 {
            return Ok(None);
        }
        self.collect(&pass, &jobs)?;
        self.landing.begin(jobs.scores * size_of::<f32>())?;
        Ok(Some(Scores { at: self.landing.fetch::<f32>(self.scores.at(0), jobs.scores)?, count: jobs.scores }))
    }

    /// What the views show, once their scores are here.
    pub(crate) fn seen(&self, views: &[View<'_>], scores: Option<Scores>) -> Vec<Observation> {
        let mut found: &[f32] = scores.map_or(&[], |Scores { at, count }| self.landing.get(at, count));
        let mut next = |tokens: usize| {
            let (these, rest) = found.split_at(tokens);
            found = rest;
            these.to_vec()
        };
        let mut show = |view: &View<'_>| view.attention.iter().map(|_| next(view.tokens.len())).collect();
        views.iter().map(|view| Observation { dependency: show(view) }).collect()
    }

    /// Makes room, and sends what the GPU must know.
    fn place(&mut self, layout: &Layout, asked: Vec<usize>, jobs: &Jobs) -> Result<Pass> {
        let Sizes { hidden, key, mlp, .. } = self.sizes;
        let rows = filled_up(layout.rows());
        self.all.select(layout, 0..layout.rows(), self.shape.tile());
        let places = if layout.caches() { self.kept.places(layout)? } else { Vec::new() };
        let mut tiles = self.shape.tiles(layout, &self.all, &self.kept);
        tiles.resize(tiles.len().next_multiple_of(4), Tile::default());
        let longest = layout.spans.iter().map(|span| span.length).max().unwrap_or(0);

        let bytes = Staging::room(&[
            2 * rows * 4,
            size_of_val(&tiles[..]),
            rows * size_of::<KeptPlace>(),
            size_of_val(&layout.open[..]),
            size_of_val(&jobs.list[..]),
            size_of_val(&jobs.heads[..]),
            64,
        ]);
        let mut make_room = || -> Result<bool> {
            let moved = [
                self.staging.begin(bytes)?,
                self.rope.extend(longest)?,
                self.hidden.reserve(rows * hidden)?,
                self.query_key_value.reserve(rows * (hidden + 2 * key))?,
                self.query.reserve(rows * hidden)?,
                self.input.reserve(rows * hidden.max(mlp))?,
                self.quantized.as_mut().map_or(Ok(false), |quantized| quantized.reserve(rows, hidden.max(mlp)))?,
                self.gate_up.reserve(rows * 2 * mlp)?,
                self.mass.reserve(asked.len() * rows * self.shape.heads)?,
                self.scores.reserve(jobs.scores)?,
            ];
            Ok(moved.contains(&true))
        };
        let moved = make_room();
        // What was recorded names buffers that have moved, even if there was no room for all.
        if !matches!(moved, Ok(false)) || self.graphs.len() >= GRAPHS {
            self.graphs.clear();
        }
        moved?;

        let fill = |values: &mut dyn Iterator<Item = u32>| -> Vec<u32> {
            let mut values: Vec<u32> = values.collect();
            values.resize(rows, 0);
            values
        };
        let keeps = !places.is_empty();
        let staging = &mut self.staging;
        // What a recorded pass takes lies in front, where its place depends on nothing but the pass.
        let tokens = staging.push(&fill(&mut layout.tokens.iter().copied()));
        let positions = staging.push(&fill(&mut layout.positions.iter().map(|&position| position as u32)));
        let tile_list = staging.push(&tiles);
        let mut places = places;
        places.resize(if keeps { rows } else { 0 }, KeptPlace::default());
        let places = staging.push(&places);
        let open = staging.push(&layout.open);
        let job_list = staging.push(&jobs.list);
        let heads = staging.push(&jobs.heads);
        staging.send()?;
        self.placed = Placed {
            tokens: staging.at(tokens),
            positions: staging.at(positions),
            open: staging.at(open),
            tiles: staging.at(tile_list),
            places: staging.at(places),
            jobs: staging.at(job_list),
            heads: staging.at(heads),
        };
        Ok(Pass { rows, tiles: tiles.len(), asked, keeps })
    }

    /// Runs the pass: launch by launch when it is new, recorded from the second time on.
    fn run(&mut self, pass: Pass) -> Result<()> {
        match self.graphs.get(&pass) {
            Some(Some(graph)) => graph.launch(),
            Some(None) => {
                let gpu = self.machine.gpu.clone();
                let graph = gpu.record(|| self.compute(&pass))?;
                graph.launch()?;
                self.graphs.insert(pass, Some(graph));
                Ok(())
            }
            None => {
                self.compute(&pass)?;
                self.graphs.insert(pass, None);
                Ok(())
            }
        }
    }

    fn compute(&mut self, pass: &Pass) -> Result<()> {
        let (rows, Sizes { hidden: width, key, .. }) = (pass.rows, self.sizes);
        self.embed(rows)?;
        let stride = width + 2 * key;
        let whole = Operands {
            queries: (self.query_key_value.at(0), stride),
            keys: self.query_key_value.at(width),
            values: self.query_key_value.at(width + key),
            key_stride: stride,
            output: self.input.at(0),
            mass: NONE,
            tiles: (self.placed.tiles, pass.tiles),
            rows: NONE,
            positions: self.placed.positions,
            open: self.placed.open,
            layer: 0,
        };
        let last = self.weights.blocks.len() - 1;
        for layer in 0..=last {
            let mass = match pass.asked.binary_search(&layer) {
                Ok(index) => self.mass.at(index * rows * self.shape.heads),
                Err(_) => NONE,
            };
            self.enter(layer, rows)?;
            if layer < last {
                self.query_key_values(layer, rows)?;
                self.keep(pass, layer, whole.keys, stride)?;
                self.shape.attend(&self.machine, Operands { mass, layer, ..whole })?;
                self.finish_block(layer, rows, self.hidden.at(0))?;
                continue;
            }
            self.key_values(layer, rows)?;
            self.keep(pass, layer, self.query_key_value.at(0), 2 * key)?;
            if mass != NONE {
                self.queries(layer, rows, NONE)?;
                let queries = (self.query.at(0), width);
                self.shape.attend(&self.machine, Operands { queries, output: NONE, mass, ..self.context(whole) })?;
            }
        }
        Ok(())
    }

    /// The output of the last block for a selection of rows, written to `output`. The selection and its tiles lie at `rows` and
    /// `tiles`, filled up.
    pub(crate) fn finish(&mut self, rows: (u64, usize), tiles: (u64, usize), output: u64) -> Result<()> {
        let layer = self.weights.blocks.len() - 1;
        let block = &self.weights.blocks[layer];
        self.norm(self.hidden.at(0), rows, block.attention_norm.at(0), output, self.quantized.as_ref())?;
        self.queries(layer, rows.1, rows.0)?;
        let operands = self.context(Operands {
            queries: (self.query.at(0), self.sizes.hidden),
            keys: NONE,
            values: NONE,
            key_stride: 0,
            output: self.input.at(0),
            mass: NONE,
            tiles,
            rows: rows.0,
            positions: self.placed.positions,
            open: self.placed.open,
            layer,
        });
        self.shape.attend(&self.machine, operands)?;
        self.finish_block(layer, rows.1, output)
    }

    /// The vocabulary projection of some rows of what [`finish`](Self::finish) gave, and what `reading` makes of it.
    pub(crate) fn project(&self, finished: u64, rows: (u64, usize), reading: Reading) -> Result<()> {
        self.norm(finished, rows, self.weights.final_norm.at(0), NONE, None)?;
        let Part { address: weights, k, .. } = self.weights.head.all();
        let Machine { gpu, kernels, .. } = &self.machine;
        let arguments = Projection { input: self.input.at(0), weights, reading, k: k as u32 };
        projection::project(gpu, kernels, self.precision, rows.1, &arguments)
    }

    /// Bytes that a forward pass over `rows` rows needs beyond the weights.
    pub(crate) fn buffer_bytes(sizes: Sizes, precision: Precision, rows: usize) -> usize {
        let Sizes { hidden, key, mlp, .. } = sizes;
        let elements = 2 * hidden + 2 * key + hidden.max(mlp) + 2 * mlp;
        let quantized = if precision == Precision::Fp8 { Quantized::row_bytes(hidden.max(mlp)) } else { 0 };
        filled_up(rows) * (2 * hidden * size_of::<f32>() + elements * element_size(precision) + quantized)
    }

    /// The keys and values of the last block, of all rows.
    fn context(&self, operands: Operands) -> Operands {
        let Sizes { key, .. } = self.sizes;
        let (keys, values) = (self.query_key_value.at(0), self.query_key_value.at(key));
        Operands { keys, values, key_stride: 2 * key, layer: self.weights.blocks.len() - 1, ..operands }
    }

    fn embed(&self, rows: usize) -> Result<()> {
        let arguments = Embedding {
            table: self.weights.embedding.table.at(0),
            tokens: self.placed.tokens,
            hidden: self.hidden.at(0),
            width: self.sizes.hidden as u32,
            table_is_bf16: u32::from(self.weights.embedding.is_bf16),
        };
        let Machine { gpu, kernels, .. } = &self.machine;
        gpu.launch(&kernels.embed, [rows, 1], threads(self.sizes.hidden), 0, &arguments)
    }

    /// Normalizes all rows on their way into a block.
    fn enter(&self, layer: usize, rows: usize) -> Result<()> {
        let weight = self.weights.blocks[layer].attention_norm.at(0);
        self.norm(self.hidden.at(0), (NONE, rows), weight, NONE, self.quantized.as_ref())
    }

    /// Normalizes rows into `input`, or to fp8; `copy` gets them as they were.
    fn norm(
        &self,
        source: u64,
        rows: (u64, usize),
        weight: u64,
        copy: u64,
        quantized: Option<&Quantized>,
    ) -> Result<()> {
        let Sizes { hidden, epsilon, .. } = self.sizes;
        let Machine { gpu, kernels, .. } = &self.machine;
        let (kernel, threads, output, units) = match quantized {
            Some(rows) => (&kernels.rms_norm_fp8, fp8::THREADS, rows.numbers.at(0), rows.units.at(0)),
            None => (&kernels.rms_norm, threads(hidden), self.input.at(0), NONE),
        };
        let arguments =
            Norm { input: source, rows: rows.0, weight, output, units, copy, width: hidden as u32, epsilon };
        gpu.launch(kernel, [rows.1, 1], threads, 0, &arguments)
    }

    /// `output = input · part`, or for `Some(add)` the same in f32, added to what is there or not.
    fn multiply(&mut self, m: usize, part: Part, output: u64, wide: Option<bool>) -> Result<()> {
        let Part { address: weights, n, k, .. } = part;
        let (input, units) = match self.quantized.as_ref().zip(part.units) {
            Some((rows, weights)) => (rows.numbers.at(0), Some(Units { input: rows.units.at(0), weights })),
            None => (self.input.at(0), None),
        };
        let add = wide == Some(true);
        let factors = Factors { m, n, k, input, weights, output, units, wide: wide.is_some(), add };
        let Machine { kernels, products, .. } = &mut self.machine;
        products.multiply(kernels, factors)
    }

    /// Queries, keys and values of a block for all rows.
    fn query_key_values(&mut self, layer: usize, rows: usize) -> Result<()> {
        let output = self.query_key_value.at(0);
        self.multiply(rows, self.weights.blocks[layer].query_key_value.all(), output, None)?;
        let Shape { heads, key_value_heads, .. } = self.shape;
        self.rotate(layer, (NONE, rows), output, 0, [heads + 2 * key_value_heads, heads + key_value_heads])
    }

    /// Keys and values of the last block for all rows.
    fn key_values(&mut self, layer: usize, rows: usize) -> Result<()> {
        let (output, Sizes { hidden, key, .. }) = (self.query_key_value.at(0), self.sizes);
        self.multiply(rows, self.weights.blocks[layer].query_key_value.part(hidden, 2 * key), output, None)?;
        let heads = self.shape.key_value_heads;
        self.rotate(layer, (NONE, rows), output, hidden, [2 * heads, heads])
    }

    /// Keeps the keys of a layer, and the values behind them, for other passes.
    fn keep(&self, pass: &Pass, layer: usize, keys: u64, stride: usize) -> Result<()> {
        if !pass.keeps {
            return Ok(());
        }
        let width = 2 * self.sizes.key;
        let arguments = Keeping {
            places: self.placed.places,
            keys,
            stride: stride as u32,
            width: width as u32,
            layer: layer as u32,
        };
        let Machine { gpu, kernels, .. } = &self.machine;
        gpu.launch(&kernels.keep, [pass.rows, 1], threads(width), 0, &arguments)
    }

    /// Queries of the last block for a selection that lies at `selected`, or for all rows.
    fn queries(&mut self, layer: usize, rows: usize, selected: u64) -> Result<()> {
        let output = self.query.at(0);
        self.multiply(rows, self.weights.blocks[layer].query_key_value.part(0, self.sizes.hidden), output, None)?;
        self.rotate(layer, (selected, rows), output, 0, [self.shape.heads; 2])
    }

    /// Adds the bias from number `first` on to rows of heads, and rotates the first of them.
    fn rotate(
        &self,
        layer: usize,
        rows: (u64, usize),
        data: u64,
        first: usize,
        [heads, rotated]: [usize; 2],
    ) -> Result<()> {
        let arguments = Rotation {
            data,
            bias: self.weights.blocks[layer].bias.as_ref().map_or(NONE, |bias| bias.at(first)),
            rows: rows.0,
            positions: self.placed.positions,
            cosines: self.rope.cosines.at(0),
            sines: self.rope.sines.at(0),
            heads: heads as u32,
            rotated: rotated as u32,
        };
        let Machine { gpu, kernels, .. } = &self.machine;
        gpu.launch(&kernels.rotate, [rows.1, 1], threads(heads * self.shape.head_size / 2), 0, &arguments)
    }

    /// Everything after attention, whose output is in `input`: `hidden` becomes the block's output.
    fn finish_block(&mut self, layer: usize, rows: usize, hidden: u64) -> Result<()> {
        let Block { output, mlp_norm, gate_up, down, .. } = &self.weights.blocks[layer];
        let (output, mlp_norm, gate_up, down) = (output.all(), mlp_norm.at(0), gate_up.all(), down.all());
        let (inner, width) = (self.gate_up.at(0), self.sizes.hidden);
        if let Some(quantized) = &self.quantized {
            quantized.fill(&self.machine.gpu, &self.machine.kernels, 0..rows, width, self.input.at(0))?;
        }
        self.multiply(rows, output, hidden, Some(true))?;
        self.norm(hidden, (NONE, rows), mlp_norm, NONE, self.quantized.as_ref())?;
        self.multiply(rows, gate_up, inner, None)?;
        self.gate(rows)?;
        self.multiply(rows, down, hidden, Some(true))
    }

    /// What the MLP's last product takes, from `gate_up`.
    fn gate(&self, rows: usize) -> Result<()> {
        let (gate_up, mlp) = (self.gate_up.at(0), self.sizes.mlp);
        let Machine { gpu, kernels, .. } = &self.machine;
        match &self.quantized {
            Some(quantized) => {
                let (output, units) = (quantized.numbers.at(0), quantized.units.at(0));
                let arguments = Gate { gate_up, output, units, width: mlp as u32 };
                gpu.launch(&kernels.silu_times_fp8, [rows, 1], fp8::THREADS, 0, &arguments)
            }
            None => {
                let arguments = Gate { gate_up, output: self.input.at(0), units: NONE, width: mlp as u32 };
                gpu.launch(&kernels.silu_times, [rows, mlp.div_ceil(2048)], threads(mlp), 0, &arguments)
            }
        }
    }

    /// Launches the scores of all jobs, one after the other.
    fn collect(&self, pass: &Pass, jobs: &Jobs) -> Result<()> {
        let Machine { gpu, kernels, .. } = &self.machine;
        let arguments = Collection {
            jobs: self.placed.jobs,
            heads: self.placed.heads,
            mass: self.mass.at(0),
            tokens: self.placed.tokens,
            positions: self.placed.positions,
            scores: self.scores.at(0),
            rows: pass.rows as u32,
            all_heads: self.shape.heads as u32,
            mask: self.mask,
        };
        gpu.launch(&kernels.collect, [jobs.list.len(), 1], 256, 0, &arguments)
    }
}
