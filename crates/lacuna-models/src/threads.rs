//! Number of compute threads.

use std::thread::available_parallelism;

/// Threads that compute where no number is given: `RAYON_NUM_THREADS`, else `OMP_NUM_THREADS`, which schedulers such as Ray set for
/// their workers, else one for each core.
pub fn default_threads() -> usize {
    let named = |variable| {
        let text = std::env::var(variable).ok()?;
        // OpenMP takes a number for each level of nesting.
        text.split(',').next()?.trim().parse().ok().filter(|&threads: &usize| threads > 0)
    };
    let cores = || available_parallelism().map_or(1, usize::from);
    named("RAYON_NUM_THREADS").or_else(|| named("OMP_NUM_THREADS")).unwrap_or_else(cores)
}
