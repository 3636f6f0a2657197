//! The predictor: views are checked here, once.

use std::sync::Arc;

use lacuna::{Belief, Borders, Description, Observation, Predictor, Row, Token, View};

use super::activations::Activations;
use super::compile::Variant;
use super::forward::Forward;
use super::fp8;
use super::gpu::Gpu;
use super::kernel::Kernels;
use super::measure::{ceiling_gflops, keep_busy};
use super::read::Reader;
use super::weights::Weights;
use crate::checks::{check_rows, check_views};
use crate::error::amount;
use crate::layout::Layout;
use crate::model::{DEFAULT_BATCH, SMALL_MODEL_BYTES};
use crate::{Advice, Architecture, Checkpoint, Error, Memory, Model, Precision, Profile, Result};

/// A model on an NVIDIA GPU.
///
/// Results are batch-invariant: a row's belief is bit-identical whatever rows and views are computed with it.
pub struct CudaPredictor {
    description: Description,
    architecture: Architecture,
    precision: Precision,
    layout: Layout,
    reader: Reader,
    forward: Forward,
    weight_bytes: usize,
    gpu: Arc<Gpu>,
}

/// Positions that must fit beside the weights.
const CANVAS: usize = 512;
/// Bytes that the driver, the libraries and the kernels take.
const OVERHEAD: usize = 700 << 20;
/// Canvases that keep a GPU busy with a small model.
const SMALL_MODEL_BATCH: usize = 128;
/// The largest head that the attention kernel has registers for.
const LARGEST_HEAD: usize = 256;

impl CudaPredictor {
    /// Loads the weights onto the first GPU, in the checkpoint's own precision if none is given: 16-bit weights stay so.
    pub fn load(checkpoint: &Checkpoint, precision: Option<Precision>) -> Result<Self> {
        Self::load_onto(0, checkpoint, precision)
    }

    /// Loads the weights onto the GPU with this number.
    pub fn load_onto(number: usize, checkpoint: &Checkpoint, precision: Option<Precision>) -> Result<Self> {
        let precision = precision.unwrap_or(checkpoint.own_precision());
        if precision == Precision::Int8 {
            let advice = [("precision", "bf16"), ("precision", "int4"), ("device", "cpu")];
            let advice = advice.map(|(parameter, value)| Advice::new(parameter, value)).to_vec();
            return Err(Error::NotOnGpu { what: precision.name().to_string(), advice });
        }
        let architecture = checkpoint.architecture();
        let mask = checkpoint.mask_token()?;
        let gpu = Gpu::open(number)?;
        gpu.bind()?;
        let fp8 = fp8::check(&gpu, architecture);
        let has_fp8 = fp8.is_ok();
        if precision == Precision::Fp8 {
            fp8?;
        }
        fits(checkpoint, precision, gpu.name(), gpu.memory()?.0, has_fp8)?;
        let head_size = architecture.attention.head_size;
        if head_size > LARGEST_HEAD {
            return Err(Error::not_on_gpu(format!("a head size of {head_size}, which is more than {LARGEST_HEAD},")));
        }
        let bf16 = precision != Precision::F32;
        let variant = Variant { architecture: gpu.architecture(), head_size, bf16 };
        let kernels = Kernels::load(&gpu, variant)?;
        let weights = Weights::load(&gpu, &kernels, checkpoint, precision)?;
        let forward = Forward::new(&gpu, kernels, variant, architecture, mask, weights, precision)?;
        let predictor = Self {
            description: Description { refreshes: false, alternatives: false, ..architecture.description(mask) },
            architecture: architecture.clone(),
            precision,
            layout: Layout::new(architecture.shifted, architecture.attention.visibility.default_blocks()),
            reader: Reader::new(&gpu, architecture)?,
            forward,
            weight_bytes: Weights::bytes(checkpoint, precision),
            gpu,
        };
        predictor.gpu.wait()?;
        Ok(predictor)
    }

    /// Times that the host has waited for the GPU: once for each step whose reads were planned.
    pub fn waits(&self) -> u64 {
        self.gpu.waits()
    }

    /// Sets the prefetch budget in rows. Affects latency, never results.
    pub fn set_prefetch_budget(&mut self, rows: usize) {
        self.reader.prefetch_budget = rows;
    }
}

impl Drop for CudaPredictor {
    fn drop(&mut self) {
        // The thread that drops it gives its memory back to the driver. One that cannot be bound has nothing to give.
        let _ = self.gpu.bind();
    }
}

/// Refuses a model that the GPU has no room for, and says what it would have room for. `fp8` tells whether it has that.
fn fits(checkpoint: &Checkpoint, precision: Precision, gpu: &str, free: usize, fp8: bool) -> Result<()> {
    let needed = |precision| needed(checkpoint, precision);
    if needed(precision) <= free {
        return Ok(());
    }
    let smaller = [(Precision::Bf16, true), (Precision::Fp8, fp8), (Precision::Int4, true)];
    let (advice, effect) = match smaller.into_iter().find(|&(smaller, possible)| possible && needed(smaller) <= free) {
        Some((smaller, _)) => {
            (Advice::new("precision", smaller.name()), format!("would take {}", amount(needed(smaller))))
        }
        None => {
            let host = amount(Weights::bytes(checkpoint, Precision::Bf16));
            (Advice::new("device", "cpu"), format!("would take {host} of memory in bf16"))
        }
    };
    let advice = vec![Advice { effect: Some(effect), ..advice }];
    Err(Error::TooLarge {
        model: checkpoint.name(),
        precision: precision.name(),
        gpu: gpu.to_string(),
        needed: needed(precision),
        free,
        advice,
    })
}

/// Bytes for the weights and a canvas.
fn needed(checkpoint: &Checkpoint, precision: Precision) -> usize {
    let buffers = buffer_bytes(checkpoint.architecture(), precision, CANVAS);
    // A model of a few megabytes needs little beside itself, but the libraries are always there.
    Weights::bytes(checkpoint, precision) + buffers + OVERHEAD
}

/// Bytes of all buffers for a canvas of `length` positions.
fn buffer_bytes(architecture: &Architecture, precision: Precision, length: usize) -> usize {
    Activations::bytes(architecture, precision, length) + Reader::buffer_bytes(architecture.sizes(), length)
}

impl Predictor for CudaPredictor {
    fn description(&self) -> &Description {
        &self.description
    }

    fn observe(&mut self, views: &[View<'_>]) -> lacuna::Result<Vec<Observation>> {
        check_views(views, &self.description, |run| self.forward.kv_store.length(run))?;
        self.gpu.bind()?;
        let Self { gpu, layout, forward, reader, .. } = self;
        layout.pack(views, self.description.mask);
        reader.clear_prefetched(layout);
        let scores = forward.launch(layout, views)?;
        let pending = reader.prefetch(forward, layout, views)?;
        if scores.is_some() || pending.is_some() {
            gpu.wait()?;
        }
        reader.store_prefetched(layout, pending)?;
        Ok(forward.observations(layout, views, scores))
    }

    fn read(&mut self, rows: &[Row<'_>]) -> lacuna::Result<Vec<Belief>> {
        check_rows(rows, self.description.vocabulary)?;
        self.gpu.bind()?;
        self.reader.read(&mut self.forward, &self.layout, rows)
    }

    fn forget(&mut self, run: u64) {
        self.reader.forget(run);
        self.forward.kv_store.forget(run);
    }

    fn store_prefix(&mut self, run: u64, tokens: &[Token], blocks: Borders) {
        if self.gpu.bind().is_ok() {
            self.forward.kv_store.store_prefix(run, tokens, blocks);
        }
    }

    fn reuse_prefix(&mut self, run: u64, tokens: &[Token], blocks: Borders) -> usize {
        self.gpu.bind().map_or(0, |()| self.forward.kv_store.reuse_prefix(run, tokens, blocks))
    }
}

impl Model for CudaPredictor {
    fn device(&self) -> String {
        format!("cuda, {}", self.gpu.name())
    }

    fn precision(&self) -> Precision {
        self.precision
    }

    fn memory(&self, length: usize) -> Memory {
        let buffers = buffer_bytes(&self.architecture, self.precision, length);
        Memory { weights: self.weight_bytes, buffers }
    }

    fn default_batch(&self) -> usize {
        if self.weight_bytes <= SMALL_MODEL_BYTES { SMALL_MODEL_BATCH } else { DEFAULT_BATCH }
    }

    fn reuse_prompts(&mut self, bytes: usize) {
        self.forward.kv_store.prompts.limit(bytes);
    }

    fn prompt_bytes(&self) -> usize {
        self.forward.kv_store.prompts.bytes()
    }

    fn ceiling_gflops(&mut self) -> Result<f64> {
        self.gpu.bind()?;
        ceiling_gflops(self.forward.kernels(), self.precision)
    }

    fn begin_profile(&mut self) -> Result<()> {
        self.gpu.bind()?;
        if let Some(used) = self.forward.experts_used() {
            used.write(0, &[0])?;
        }
        keep_busy(self.forward.kernels())?;
        self.gpu.profile.begin(&self.gpu)
    }

    fn end_profile(&mut self) -> Result<Profile> {
        self.gpu.bind()?;
        let kernels = self.gpu.profile.end(&self.gpu)?;
        let mut experts_used = [0];
        if let Some(used) = self.forward.experts_used() {
            used.read(0, &mut experts_used)?;
        }
        Ok(Profile { kernels, experts_used: experts_used[0] as usize })
    }

    fn wait(&mut self) -> Result<()> {
        self.gpu.bind()?;
        self.gpu.wait()
    }

    fn logits_at(&mut self, view: usize, positions: Option<&[usize]>) -> Result<Vec<Vec<f32>>> {
        self.gpu.bind()?;
        let rows = self.layout.output_rows(view, positions)?;
        self.reader.logits(&mut self.forward, &self.layout, rows.into_iter())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Shape;

    #[test]
    fn a_model_that_does_not_fit_is_refused_with_what_would() {
        let checkpoint = Checkpoint::random(Shape::Llada8b).unwrap();
        let refusal = |precision, free, fp8| {
            fits(&checkpoint, precision, "a GPU", free, fp8).err().map(|error| error.to_string())
        };
        assert_eq!(refusal(Precision::Bf16, 24_000_000_000, false), None);
        assert_eq!(refusal(Precision::Fp8, 12_000_000_000, true), None);
        let halved = refusal(Precision::F32, 24_000_000_000, true).unwrap();
        assert!(halved.contains("in f32 needs 33.") && halved.contains("a GPU has 24.0 GB free"), "{halved}");
        assert!(halved.ends_with("precision bf16 would take 17.1 GB"), "{halved}");
        let refused = refusal(Precision::Bf16, 12_000_000_000, false).unwrap();
        assert!(
            refused.contains("in bf16 needs 17.1 GB") && refused.contains("precision int4 would take"),
            "{refused}"
        );
        let halved = refusal(Precision::Bf16, 12_000_000_000, true).unwrap();
        assert!(halved.ends_with("precision fp8 would take 10.1 GB"), "{halved}");
        let refused = refusal(Precision::Fp8, 8_000_000_000, true).unwrap();
        assert!(
            refused.contains("in fp8 needs 10.1 GB") && refused.contains("precision int4 would take 5.8 GB"),
            "{refused}"
        );
        let refused = refusal(Precision::Int4, 5_000_000_000, true).unwrap();
        assert!(refused.contains("in int4 needs 5.8 GB") && refused.contains("device cpu"), "{refused}");
    }
}
