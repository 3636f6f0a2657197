//! Running the kernels' cases on the GPU.

use std::rc::Rc;

use super::lab::Lab;
use super::{attention, beliefs, experts, products, rows, scores, weights};
use crate::check::{Case, Report, Size, Timing, check, median};
use crate::cuda::compile::Variant;
use crate::cuda::event::Event;
use crate::cuda::gpu::Gpu;
use crate::{Error, Result};

/// Runs whose median is reported, after one to warm up.
const RUNS: usize = 21;

type MakeCase = fn(&Rc<Lab>, Size) -> Result<Case>;

/// All kernels. Those in fp8 run on Hopper.
const KERNELS: [(&str, MakeCase); 36] = [
    ("embed", rows::embed),
    ("embed_int8", rows::embed_int8),
    ("rms_norm", rows::rms_norm),
    ("rotate", rows::rotate),
    ("add_bias", rows::add_bias),
    ("silu_times", rows::silu_times),
    ("rms_norm_fp8", rows::rms_norm_fp8),
    ("silu_times_fp8", rows::silu_times_fp8),
    ("quantize", rows::quantize),
    ("product", products::product),
    ("product_int4", products::product_int4),
    ("compare", products::compare),
    ("ceiling", products::ceiling),
    ("attention", attention::attention),
    ("attention_with_mass", attention::attention_with_mass),
    ("add_attention", attention::add_attention),
    ("collect", scores::collect),
    ("rank", scores::rank),
    ("project", beliefs::project),
    ("project_int8", beliefs::project_int8),
    ("route", experts::route),
    ("route_choice", experts::route_choice),
    ("route_tiles", experts::route_tiles),
    ("expert_gate_up", experts::expert_gate_up::<{ experts::ELEMENTS }>),
    ("expert_gate_up_fp8", experts::expert_gate_up::<{ experts::FP8 }>),
    ("expert_gate_up_int4", experts::expert_gate_up::<{ experts::INT4 }>),
    ("expert_down", experts::expert_down::<{ experts::ELEMENTS }>),
    ("expert_down_fp8", experts::expert_down::<{ experts::FP8 }>),
    ("expert_down_int4", experts::expert_down::<{ experts::INT4 }>),
    ("combine", experts::combine),
    ("guide", beliefs::guide),
    ("conclude", beliefs::conclude),
    ("truncate_rows", beliefs::truncate_rows),
    ("continue_reads", beliefs::continue_reads),
    ("convert", weights::convert),
    ("noise", weights::noise),
];

/// Names of all kernels.
pub(crate) fn names() -> impl Iterator<Item = &'static str> {
    KERNELS.iter().map(|(name, _)| *name)
}

/// Runs a kernel on odd sizes in f32 and bf16 and, if `timed`, in bf16 on a large one.
pub(crate) fn run(name: &str, timed: bool) -> Result<Vec<Report>> {
    let unknown = || Error::Request(format!("there is no kernel {name:?}"));
    let &(name, case) = KERNELS.iter().find(|(known, _)| *known == name).ok_or_else(unknown)?;
    let gpu = Gpu::open(0)?;
    gpu.bind()?;
    let architecture = gpu.architecture();
    let needs_fp8 = name.ends_with("fp8") || name == "quantize";
    if needs_fp8 && architecture < 89 {
        return Err(Error::no_hopper(format!("{} is of compute capability {architecture}", gpu.name())));
    }
    let lab = |head_size, bf16| Lab::new(&gpu, Variant { architecture, head_size, bf16 });
    let mut reports = Vec::new();
    for (head_size, bf16) in [(22, false), (64, true)] {
        let lab = lab(head_size, bf16)?;
        let (error, tolerance) = check(|size| case(&lab, size))?;
        let variant = if bf16 { "bf16" } else { "f32" }.to_string();
        reports.push(Report { device: "cuda", name, variant, error, tolerance, timing: None });
    }
    // The emulated GPU's clock means nothing.
    if timed && !gpu.is_emulated() {
        let lab = lab(128, true)?;
        let mut case = case(&lab, Size::Large)?;
        (case.launch)()?;
        let (begin, end) = (Event::new()?, Event::new()?);
        let mut times = Vec::with_capacity(RUNS);
        for _ in 0..RUNS {
            begin.record(&gpu)?;
            (case.launch)()?;
            end.record(&gpu)?;
            gpu.wait()?;
            times.push(f64::from(begin.until(&end)?) * 1e-3);
        }
        let seconds = median(times.into_iter());
        let timing = Timing { seconds, bytes: case.bytes, operations: case.operations };
        reports.last_mut().expect("there are two").timing = Some(timing);
    }
    Ok(reports)
}
