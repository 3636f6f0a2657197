//! Running cases, and what is reported of them.

use std::time::Instant;

use super::case::{Case, Size};
use super::cpu;
use crate::cuda::check as cuda;
use crate::{Error, Result};

/// Runs whose median is reported.
const RUNS: usize = 21;

/// A kernel that was run alone.
#[derive(Clone, Debug)]
pub struct Report {
    /// `cpu` or `cuda`.
    pub device: &'static str,
    /// Its name.
    pub name: &'static str,
    /// Dtype, or instruction set.
    pub variant: String,
    /// The largest distance from the scalar twin, as a share of the largest output or of each.
    pub error: f64,
    /// The largest distance that is allowed.
    pub tolerance: f64,
    /// Its speed, if a time means anything here.
    pub timing: Option<Timing>,
}

/// Speed of a kernel.
#[derive(Clone, Copy, Debug)]
pub struct Timing {
    /// The median of several runs.
    pub seconds: f64,
    /// Bytes that a run reads and writes.
    pub bytes: f64,
    /// Additions and multiplications of a run.
    pub operations: f64,
}

impl Report {
    /// True if it gives what its twin gives.
    pub fn passed(&self) -> bool {
        self.error <= self.tolerance
    }
}

/// A kernel of the CPU: its name, and a case of each variant.
pub(super) type CpuKernel = (&'static str, &'static [(&'static str, fn(Size) -> Case)]);

/// All kernels: device and name.
pub fn names() -> Vec<(&'static str, &'static str)> {
    let cpu = cpu::KERNELS.iter().map(|(name, _)| ("cpu", *name));
    cpu.chain(cuda::names().map(|name| ("cuda", name))).collect()
}

/// Runs the kernel `name` of a device on odd sizes and, if `timed`, on a large one.
pub fn run(device: &str, name: &str, timed: bool) -> Result<Vec<Report>> {
    match device {
        "cuda" => cuda::run(name, timed),
        _ => run_on_cpu(name, timed),
    }
}

fn run_on_cpu(name: &str, timed: bool) -> Result<Vec<Report>> {
    let unknown = || Error::Request(format!("there is no kernel {name:?}"));
    let (name, variants) = cpu::KERNELS.iter().find(|(known, _)| *known == name).ok_or_else(unknown)?;
    let report = |(variant, case): &(&str, fn(Size) -> Case)| {
        let (error, tolerance) = check(|size| Ok(case(size)))?;
        let timing = timed.then(|| {
            let mut case = case(Size::Large);
            let mut seconds = [(); RUNS].map(|()| {
                let start = Instant::now();
                (case.launch)().map(|()| start.elapsed().as_secs_f64())
            });
            let seconds = median(seconds.iter_mut().map(|seconds| seconds.as_ref().copied().unwrap_or(f64::NAN)));
            Timing { seconds, bytes: case.bytes, operations: case.operations }
        });
        Ok(Report { device: "cpu", name, variant: variant.to_string(), error, tolerance, timing })
    };
    variants.iter().map(report).collect()
}

/// The largest error of the odd cases, and the tolerance.
pub(crate) fn check(case: impl Fn(Size) -> Result<Case>) -> Result<(f64, f64)> {
    let (mut worst, mut tolerance) = (0.0, 0.0);
    for index in 0..3 {
        let mut case = case(Size::Odd(index))?;
        worst = f64::max(worst, case.error()?);
        tolerance = case.tolerance;
    }
    Ok((worst, tolerance))
}

/// The middle one of some times.
pub(crate) fn median(times: impl Iterator<Item = f64>) -> f64 {
    let mut times: Vec<f64> = times.collect();
    times.sort_unstable_by(f64::total_cmp);
    times[times.len() / 2]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_kernel_of_the_cpu_gives_what_its_scalar_twin_gives() {
        for (_, name) in names().into_iter().filter(|(device, _)| *device == "cpu") {
            for report in run("cpu", name, false).unwrap() {
                assert!(report.passed(), "{report:?}");
            }
        }
        assert!(run("cpu", "nothing", false).is_err());
    }
}
