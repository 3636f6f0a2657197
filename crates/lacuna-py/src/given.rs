//! A model that computes elsewhere: what it answers is handed in.

use std::collections::HashMap;

use lacuna::{
    AttentionSource, Belief, Description, Error, Observation, Predictor, Previous, Result, Row, Token, View, Visibility,
};
use lacuna_models::believe;
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use rayon::prelude::*;

use crate::arrays::{Array, Logits, dependency};
use crate::errors::carry;

/// More positions than anybody means.
const LONGEST: usize = 1 << 24;
/// The size of a vocabulary that is not known yet.
const UNKNOWN: usize = usize::MAX;

/// A predictor that knows what it is given before each step.
pub(crate) struct Given {
    description: Description,
    /// The largest token id in use.
    largest: Token,
    /// For each view of the step.
    logits: Vec<Logits>,
    attention: Option<Py<PyAny>>,
    previous: HashMap<usize, Previous>,
    /// What replaces `previous` once the step has succeeded.
    fresh: HashMap<usize, Previous>,
}

impl Given {
    /// A model with this mask token. Its vocabulary, if not told, is what the first logits have room for.
    pub(crate) fn new(mask: Token, vocabulary: Option<usize>, layers: usize, shifted: bool, largest: Token) -> Self {
        let description = Description {
            vocabulary: vocabulary.unwrap_or(UNKNOWN),
            mask,
            layers,
            // How many there are shows when attention is handed in.
            heads: usize::MAX,
            context: LONGEST,
            shadows: false,
            shifted,
            caches: false,
            credits: true,
            matrices: false,
            visibility: Visibility::Full,
        };
        let (logits, attention) = (Vec::new(), None);
        Self { description, largest, logits, attention, previous: HashMap::new(), fresh: HashMap::new() }
    }

    /// Takes the answers for the coming step: logits for each of its views, and attention for the first.
    pub(crate) fn hand_in(&mut self, logits: Vec<Logits>, attention: Option<Py<PyAny>>) {
        self.logits = logits;
        self.attention = attention;
    }

    /// Lets go of the answers. What they leave to be remembered counts if the step has succeeded.
    pub(crate) fn let_go(&mut self, succeeded: bool) {
        self.logits.clear();
        self.attention = None;
        let fresh = std::mem::take(&mut self.fresh);
        if succeeded {
            self.previous.extend(fresh);
        }
    }

    fn dependency(&self, sources: &[AttentionSource], tokens: &[Token]) -> PyResult<Vec<Vec<f32>>> {
        if sources.is_empty() {
            return Ok(Vec::new());
        }
        let masked: Vec<bool> = tokens.iter().map(|&token| token == self.description.mask).collect();
        Python::attach(|py| {
            let Some(attention) = &self.attention else {
                let layers: Vec<String> = sources.iter().map(|source| source.layer.to_string()).collect();
                let layers = layers.join(", ");
                let why =
                    format!("this order uses attention: give that of layer {layers} too, or choose another order");
                return Err(PyValueError::new_err(why));
            };
            let single = sources.len() == 1;
            sources.iter().map(|source| dependency(attention.bind(py), source, &masked, single)).collect()
        })
    }

    /// The logits of the rows that predict these positions, of one view.
    fn rows(&mut self, view: usize, wanted: &[usize]) -> Result<Array> {
        let array = Python::attach(|py| self.logits[view].rows(py, wanted)).map_err(carry)?;
        let (width, vocabulary) = (array.shape[1], self.description.vocabulary);
        if vocabulary != UNKNOWN && width != vocabulary {
            return Err(Error::Incompatible(
                format!("logits are for {width} tokens, but the vocabulary has {vocabulary}").into(),
            ));
        }
        if width <= self.largest as usize {
            let why = format!("logits are for {width} tokens, but token {} is among those given", self.largest);
            return Err(Error::Incompatible(why.into()));
        }
        self.description.vocabulary = width;
        Ok(array)
    }
}

impl Predictor for Given {
    fn description(&self) -> &Description {
        &self.description
    }

    fn observe(&mut self, views: &[View<'_>]) -> Result<Vec<Observation>> {
        let seen = |view: &View<'_>| {
            Ok(Observation { dependency: self.dependency(view.attention, view.tokens)?, ..Observation::default() })
        };
        views.iter().map(seen).collect::<PyResult<_>>().map_err(carry)
    }

    fn read(&mut self, rows: &[Row<'_>]) -> Result<Vec<Belief>> {
        let predicting = |position: usize| if self.description.shifted { position.saturating_sub(1) } else { position };
        let wanted: Vec<usize> = rows.iter().map(|row| predicting(row.target.position())).collect();
        let Array { shape, numbers: mut logits } = self.rows(0, &wanted)?;
        if let Some(guide) = rows.iter().find_map(|row| row.guide) {
            guide.mix(&mut logits, &self.rows(guide.view, &wanted)?.numbers);
        }
        let previous = &self.previous;
        let read = |(row, logits): (&Row<'_>, &mut [f32])| {
            let mut kept = previous.get(&row.target.position()).filter(|_| row.remember).cloned();
            believe(row, logits, &mut kept).map(|belief| (belief, kept))
        };
        let read: Vec<_> =
            rows.par_iter().zip(logits.par_chunks_exact_mut(shape[1])).map(read).collect::<Result<_>>()?;
        let mut beliefs = Vec::with_capacity(rows.len());
        for (row, (belief, kept)) in rows.iter().zip(read) {
            self.fresh.extend(kept.map(|kept| (row.target.position(), kept)));
            beliefs.push(belief);
        }
        Ok(beliefs)
    }

    fn forget(&mut self, _run: u64) {
        self.previous.clear();
        self.fresh.clear();
    }
}
