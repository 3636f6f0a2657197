//! Dependency scores: what is asked of the GPU, and what comes back.

use lacuna::View;

use super::kernel::Job;
use super::staging::Offset;
use crate::layout::Layout;

/// Dependency scores on their way from the GPU.
#[derive(Clone, Copy)]
pub(crate) struct Scores {
    pub(crate) at: Offset,
    pub(crate) count: usize,
}

/// The dependency scores that all views ask for.
pub(crate) struct Jobs {
    pub(crate) list: Vec<Job>,
    pub(crate) heads: Vec<u32>,
    /// How many scores they are.
    pub(crate) scores: usize,
}

impl Jobs {
    pub(crate) fn of(layout: &Layout, views: &[View<'_>], asked: &[usize]) -> Self {
        let mut jobs = Self { list: Vec::new(), heads: Vec::new(), scores: 0 };
        for (span, view) in layout.spans.iter().zip(views) {
            for source in view.attention {
                jobs.list.push(Job {
                    layer: asked.binary_search(&source.layer).expect("every layer asked for is among them") as u32,
                    heads: jobs.heads.len() as u32,
                    head_count: source.heads.len() as u32,
                    start: span.start as u32,
                    tokens: span.tokens as u32,
                    length: span.length as u32,
                    output: jobs.scores as u32,
                });
                jobs.heads.extend(source.heads.iter().map(|&head| head as u32));
                jobs.scores += span.length;
            }
        }
        jobs
    }
}
