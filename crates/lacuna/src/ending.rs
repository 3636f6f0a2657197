//! The end of a run: its text is decided, its canvas is complete, or it grows.

use crate::allowed::Allowed;
use crate::context::RunState;
use crate::{Canvas, Predictor, Resize, Result, Run};

impl Run {
    /// Number of leading positions that are decided for good: none of them is masked or can be reopened.
    pub fn settled(&self) -> usize {
        let safe = match &self.strategy.revision {
            Some(revision) if !self.is_complete() || revision.needs_another_pass() || self.next_block().is_some() => {
                revision.settled(&self.state.block)
            }
            _ => self.state.canvas.len(),
        };
        self.state.canvas.masked().next().map_or(safe, |masked| masked.min(safe))
    }

    /// Appends masks to a canvas that is decided without an end token, if it may grow. A text under a constraint is complete when its
    /// canvas is.
    pub(crate) fn grow(&mut self) -> Result<Option<Resize>> {
        let free = self.strategy.length.is_fixed() && self.state.options.constraint.is_none();
        let Some(grow) = self.state.options.grow.as_ref().filter(|_| free) else { return Ok(None) };
        let canvas = &mut self.state.canvas;
        let by = grow.by.min(grow.most.saturating_sub(canvas.len()));
        let ended = canvas.gaps().any(|position| grow.ends.contains(&canvas.tokens()[position]));
        if by == 0 || ended {
            return Ok(None);
        }
        let at = canvas.len();
        let grown = Resize { at, tokens: vec![canvas.mask(); by], length: at + by };
        canvas.resize(&grown);
        let tail = Canvas::new(canvas.tokens().to_vec(), canvas.mask())?;
        self.blocks.append(self.strategy.window.blocks(&tail, self.borders)?);
        Ok(Some(grown))
    }

    /// Changes the length of the canvas as its length policy wants it, if the constraint can be met then. The block begins anew:
    /// positions may have moved.
    pub(crate) fn resize(&mut self, resize: &Resize, predictor: &mut dyn Predictor) -> Result<bool> {
        let state = &mut self.state;
        let mut canvas = state.canvas.clone();
        canvas.resize(resize);
        let Ok(allowed) = Allowed::new(&canvas, &state.options, self.model.vocabulary) else { return Ok(false) };
        (state.canvas, state.allowed) = (canvas, allowed);
        self.blocks = self.strategy.window.blocks(&state.canvas, self.borders)?;
        predictor.forget(self.id);
        self.strategy.cache.forget();
        (self.stored, self.reached) = (0, 0);
        self.enter(self.state.block.index)?;
        Ok(true)
    }

    pub(crate) fn is_complete(&self) -> bool {
        self.state.canvas.masked().next().is_none()
    }

    /// True if a stop token stands in a gap and everything before it is decided for good.
    pub(crate) fn text_is_decided(&self) -> bool {
        let RunState { canvas, options, .. } = &self.state;
        let written = (0..self.settled()).filter(|&position| canvas.is_gap(position));
        written.map(|position| canvas.tokens()[position]).any(|token| options.stop.contains(&token))
    }
}
