//! A predictor whose answers are written down: for tests, examples and exact computations.

use std::collections::HashMap;

use crate::{
    AttentionSource, Belief, Borders, Description, Observation, Predictor, Previous, Result, Row, Target, Token, View,
    Visibility,
};

type Logits = dyn Fn(&[Token], usize) -> Vec<f32> + Send;
type Attention = dyn Fn(&[Token], &AttentionSource, usize, usize) -> f32 + Send;

/// A model that is two functions: the logits at a position, and the attention one position pays to another.
pub struct Scripted {
    description: Description,
    logits: Box<Logits>,
    attention: Box<Attention>,
    views: Vec<(Vec<Token>, Option<Borders>)>,
    runs: Vec<u64>,
    previous: HashMap<(u64, usize), Previous>,
}

impl Scripted {
    /// A model with these logits for (tokens, position), and no attention.
    pub fn new(vocabulary: usize, mask: Token, logits: impl Fn(&[Token], usize) -> Vec<f32> + Send + 'static) -> Self {
        let description = Description {
            vocabulary,
            mask,
            layers: 0,
            heads: 1,
            context: usize::MAX,
            shadows: true,
            shifted: false,
            caches: true,
            credits: true,
            matrices: true,
            rollouts: true,
            refreshes: true,
            alternatives: true,
            visibility: Visibility::Full,
        };
        Self {
            description,
            logits: Box::new(logits),
            attention: Box::new(|_, _, _, _| 0.0),
            views: Vec::new(),
            runs: Vec::new(),
            previous: HashMap::new(),
        }
    }

    /// The same model with `layers` that show this attention for (tokens, source, from, to).
    pub fn with_attention(
        mut self,
        layers: usize,
        attention: impl Fn(&[Token], &AttentionSource, usize, usize) -> f32 + Send + 'static,
    ) -> Self {
        self.description.layers = layers;
        self.attention = Box::new(attention);
        self
    }

    /// The same model with block-causal attention: a position knows the tokens up to the end of its block alone.
    pub fn in_blocks(mut self, length: usize) -> Self {
        self.description.visibility = Visibility::Blocks(length);
        self
    }

    /// Has it tell the most probable tokens of a row, or not.
    pub fn read_alternatives(&mut self, tells: bool) {
        self.description.alternatives = tells;
    }

    fn blocks(&self, view: &View<'_>) -> Option<Borders> {
        view.blocks.or(self.description.visibility.default_blocks())
    }

    fn dependency(&self, view: &View<'_>, source: &AttentionSource) -> Vec<f32> {
        let (tokens, blocks) = (view.tokens, self.blocks(view));
        let masked = |position: usize| tokens[position] == self.description.mask;
        let mass = |from: usize| {
            let seen = prefix(tokens, blocks, from);
            let unmasked = (0..seen.len()).filter(|&position| !masked(position));
            unmasked.map(|to| (self.attention)(seen, source, from, to)).sum()
        };
        (0..tokens.len()).map(|from| if masked(from) { mass(from) } else { 0.0 }).collect()
    }

    fn matrix(&self, view: &View<'_>) -> Vec<f32> {
        if view.matrix.is_empty() {
            return Vec::new();
        }
        let length = view.tokens.len();
        let pairs = (0..length).flat_map(|from| (0..length).map(move |to| (from, to)));
        let mean = |(from, to)| {
            let source = |&layer: &usize| AttentionSource { layer, heads: Vec::new() };
            let layers = view.matrix.iter().map(|layer| (self.attention)(view.tokens, &source(layer), from, to));
            layers.sum::<f32>() / view.matrix.len() as f32
        };
        pairs.map(mean).collect()
    }

    /// The logits at a place; a shadow sees its own position masked.
    fn logits(&self, view: usize, place: Target) -> Vec<f32> {
        let (tokens, blocks) = &self.views[view];
        let mut tokens = prefix(tokens, *blocks, place.position()).to_vec();
        if let Target::Shadow(position) = place {
            tokens[position] = self.description.mask;
        }
        (self.logits)(&tokens, place.position())
    }
}

impl Predictor for Scripted {
    fn description(&self) -> &Description {
        &self.description
    }

    fn observe(&mut self, views: &[View<'_>]) -> Result<Vec<Observation>> {
        self.views = views.iter().map(|view| (view.tokens.to_vec(), self.blocks(view))).collect();
        self.runs = views.iter().map(|view| view.run).collect();
        let scores = |view: &View<'_>| view.attention.iter().map(|source| self.dependency(view, source)).collect();
        let rollout = |view: &View<'_>| vec![1.0; if view.rollout { view.tokens.len() } else { 0 }];
        let seen = |view| Observation { dependency: scores(view), matrix: self.matrix(view), rollout: rollout(view) };
        Ok(views.iter().map(seen).collect())
    }

    fn read(&mut self, rows: &[Row<'_>]) -> Result<Vec<Belief>> {
        let mut beliefs = Vec::with_capacity(rows.len());
        for row in rows {
            let mut logits = self.logits(row.view, row.target);
            if let Some(guide) = row.guide {
                let unguided = self.logits(guide.view, row.target);
                guide.mix(&mut logits, &unguided);
            }
            let key = (self.runs[row.view], row.target.position());
            let mut previous = self.previous.remove(&key);
            beliefs.push(row.belief(&mut logits, &mut previous)?);
            if let Some(previous) = previous {
                self.previous.insert(key, previous);
            }
        }
        Ok(beliefs)
    }

    fn forget(&mut self, run: u64) {
        self.previous.retain(|(owner, _), _| *owner != run);
    }
}

/// The tokens that a position sees.
fn prefix(tokens: &[Token], blocks: Option<Borders>, position: usize) -> &[Token] {
    &tokens[..blocks.map_or(tokens.len(), |blocks| blocks.end(position).min(tokens.len()))]
}
