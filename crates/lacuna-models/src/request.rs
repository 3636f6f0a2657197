//! How a user asks for a text to be decoded, and what that means for a checkpoint.

use lacuna::{
    Cache, Canvas, Description, Error, Options, Result, Run, Sampling, Settings, Strategy, Token, TokenRule, split,
};
use serde::{Deserialize, Serialize};

use crate::{Checkpoint, Convention, Layers, Recommended};

/// What can be asked for. Whatever is left out is as the checkpoint recommends, else as it is usual.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Request {
    /// `<order>[+<pace>][+<revision>]` or a preset.
    pub strategy: Option<String>,
    /// How many tokens to generate.
    pub gen_length: Option<usize>,
    /// How many tokens a block has; one block if there is no such length.
    pub block_length: Option<usize>,
    /// `dos`: the layers whose attention is averaged.
    pub layer: Option<Layers>,
    /// `dos`: the heads that are averaged in each layer.
    pub heads: Option<Vec<usize>>,
    /// `schedule` and `klass`: steps for the whole text.
    pub steps: Option<usize>,
    /// `schedule`: how tokens are spread over the steps.
    pub schedule: Option<Convention>,
    /// `schedule` as Dream's: the last timestep.
    pub eps: Option<f32>,
    /// `eb`: the entropy bound.
    pub gamma: Option<f64>,
    /// `threshold`, `draft`, `score-threshold`: what is to be reached.
    pub threshold: Option<f64>,
    /// `verify`: the support that a token needs.
    pub threshold_back: Option<f64>,
    /// `factor`: the factor.
    pub factor: Option<f64>,
    /// `klass`: the confidence to exceed.
    pub conf_threshold: Option<f64>,
    /// `klass`: the divergence to stay below.
    pub kl_threshold: Option<f64>,
    /// `klass`: for how many steps.
    pub history: Option<usize>,
    /// `adaptive`, `backtrack`: the least number of tokens in a step.
    pub saber_n: Option<usize>,
    /// The temperature at which the order is drawn.
    pub order_temperature: Option<f64>,
    /// The temperature at which tokens are drawn.
    pub temperature: Option<f64>,
    /// Draw only from the most probable tokens that together reach this.
    pub top_p: Option<f64>,
    /// Draw only from this many tokens.
    pub top_k: Option<usize>,
    /// Whose meaning of temperature is meant.
    pub sampling: Option<Convention>,
    /// Classifier-free guidance.
    pub guidance: Option<f32>,
    /// Never choose the end-of-text token.
    pub suppress_eos: bool,
    /// Commit end-of-text and end-of-turn tokens last.
    pub defer_eos: bool,
    /// Whether to stop when everything before the first end is decided; true if not given.
    pub early_stop: Option<bool>,
    /// Where random draws start from.
    pub seed: Option<u64>,
    /// What the steps of a block take from its first one; nothing if not given.
    pub cache: Option<Cache>,
}

/// What a plan must know of the model that it is for.
#[derive(Clone, Debug, PartialEq)]
pub struct Basis {
    /// The official sampling convention of the model.
    pub convention: Convention,
    /// How many layers it has.
    pub layers: usize,
    /// The token that ends a text, if there is one.
    pub end: Option<Token>,
    /// That token, and those that end a turn of a chat.
    pub ends: Vec<Token>,
    /// What it recommends.
    pub recommended: Recommended,
}

/// A request with everything decided: what to do with a canvas of one model.
#[derive(Clone, Debug)]
pub struct Plan {
    /// The strategy's name.
    pub strategy: String,
    /// Its numbers.
    pub settings: Settings,
    /// Everything else.
    pub options: Options,
    /// How many tokens to generate.
    pub gen_length: usize,
    /// How many tokens a block has; one block if there is no such length.
    pub block_length: Option<usize>,
}

impl Request {
    /// What this means for a checkpoint.
    pub fn plan(&self, checkpoint: &Checkpoint) -> Result<Plan> {
        let architecture = checkpoint.architecture();
        self.plan_for(&Basis {
            convention: architecture.family.convention(),
            layers: architecture.layers(),
            end: architecture.end,
            ends: checkpoint.ends(),
            recommended: checkpoint.recommended().clone(),
        })
    }

    /// What this means for any model.
    pub fn plan_for(&self, model: &Basis) -> Result<Plan> {
        let Basis { convention, end, ref ends, ref recommended, .. } = *model;
        // What belongs to the recommended strategy says nothing about another one.
        let own = self.strategy.is_none();
        let strategy = self.strategy.clone().or(recommended.strategy.clone()).unwrap_or_else(|| "dos+eb".into());
        let usual = Settings::default();
        let settings = Settings {
            layers: self.layers(model),
            heads: self.heads.clone().unwrap_or_default(),
            // KLASS's code for Dream falls back to one token, whatever the steps.
            steps: self.steps.filter(|_| !(convention == Convention::Dream && strategy.ends_with("klass"))),
            dream_schedule: self.schedule == Some(Convention::Dream),
            eps: self.eps.unwrap_or(usual.eps),
            gamma: self.gamma.or(recommended.gamma.filter(|_| own)).unwrap_or(usual.gamma),
            threshold: self.threshold,
            threshold_back: self.threshold_back.unwrap_or(usual.threshold_back),
            factor: self.factor.unwrap_or(usual.factor),
            conf_threshold: self.conf_threshold.unwrap_or(usual.conf_threshold),
            kl_threshold: self.kl_threshold.unwrap_or(usual.kl_threshold),
            history: self.history.unwrap_or(usual.history),
            saber_n: self.saber_n.unwrap_or(usual.saber_n),
            order_temperature: self.order_temperature.unwrap_or(0.0),
        };
        let options = Options {
            sampling: Sampling {
                rule: self.token_rule(convention)?,
                suppressed: end.filter(|_| self.suppress_eos).into_iter().collect(),
                deferred: if self.defer_eos { ends.clone() } else { Vec::new() },
            },
            stop: if self.early_stop.unwrap_or(true) { ends.clone() } else { Vec::new() },
            guidance: self.guidance.unwrap_or(0.0),
            cache: self.cache.unwrap_or_default(),
            watch: Vec::new(),
            seed: self.seed.unwrap_or(0),
        };
        let block_length = self.block_length.or(recommended.block_length.filter(|_| own));
        let gen_length = self.gen_length.or(recommended.gen_length).unwrap_or(128);
        for (name, length) in [("gen_length", Some(gen_length)), ("block_length", block_length)] {
            if length == Some(0) {
                return Err(Error::Parameter { name, value: "0".into(), expected: "it must be 1 or more".into() });
            }
        }
        Strategy::parse(&strategy, &settings)?;
        Ok(Plan { strategy, settings, options, gen_length, block_length })
    }

    /// As asked, else as recommended, else a sixth of the way up: the paper's best layers lie in the lower third.
    fn layers(&self, model: &Basis) -> Vec<usize> {
        let (layers, recommended) = (model.layers, &model.recommended.layer);
        match &self.layer {
            Some(Layers::One(layer)) => vec![*layer],
            Some(Layers::These(these)) => these.clone(),
            Some(Layers::All) => (0..layers).collect(),
            None if recommended.is_empty() => vec![layers / 6],
            None => recommended.clone(),
        }
    }

    /// How tokens are chosen, of a model with this convention.
    pub fn token_rule(&self, convention: Convention) -> Result<TokenRule> {
        let (temperature, top_p) = (self.temperature.unwrap_or(0.0), self.top_p.unwrap_or(1.0));
        if !(top_p > 0.0 && top_p <= 1.0) {
            let expected = "it must be more than 0 and at most 1".into();
            return Err(Error::Parameter { name: "top_p", value: top_p.to_string(), expected });
        }
        let truncated = self.top_p.is_some() || self.top_k.is_some();
        let sampling = self.sampling.unwrap_or(if truncated { Convention::Dream } else { convention });
        Ok(match sampling {
            Convention::Llada if truncated => {
                return Err(Error::Incompatible(
                    "top_p and top_k belong to Dream's way of sampling, not to LLaDA's".into(),
                ));
            }
            Convention::Dream if temperature != 0.0 || truncated => {
                TokenRule::Nucleus { temperature, top_p, top_k: self.top_k.unwrap_or(0) }
            }
            Convention::Llada if temperature != 0.0 => TokenRule::Gumbel { temperature },
            _ => TokenRule::Greedy,
        })
    }
}

impl Plan {
    /// A run that answers a prompt.
    pub fn answer(&self, prompt: &[Token], model: &Description) -> Result<Run> {
        let length = self.gen_length;
        if prompt.is_empty() {
            return Err(Error::Incompatible("the prompt is empty: give the model some text to answer".into()));
        }
        if let Some(position) = prompt.iter().position(|&token| token == model.mask) {
            let why = format!("the prompt has the mask token at position {position}: a text with gaps is for `fill`");
            return Err(Error::Incompatible(why));
        }
        if prompt.len().saturating_add(length) > model.context {
            return Err(Error::TooLong { length: prompt.len().saturating_add(length), context: model.context });
        }
        let block = self.block_length.unwrap_or(length);
        if !length.is_multiple_of(block) {
            let expected = format!("it must divide the generation length, {length}");
            return Err(Error::Parameter { name: "block_length", value: block.to_string(), expected });
        }
        let canvas = Canvas::with_tail(prompt, length, model.mask)?;
        let blocks = split(prompt.len()..canvas.len(), block);
        Run::new(canvas, blocks, Strategy::parse(&self.strategy, &self.settings)?, self.options.clone(), model)
    }

    /// A run that fills the gaps of a canvas. Nothing ends such a text, so it never stops early.
    pub fn fill(&self, canvas: Canvas, model: &Description) -> Result<Run> {
        let blocks = split(canvas.span(), self.block_length.unwrap_or(canvas.len()));
        let options = Options { stop: Vec::new(), ..self.options.clone() };
        Run::new(canvas, blocks, Strategy::parse(&self.strategy, &self.settings)?, options, model)
    }

    /// The layers that the order looks at, if it is `dos`.
    pub fn layers(&self) -> &[usize] {
        if self.strategy.starts_with("dos") { &self.settings.layers } else { &[] }
    }

    /// The strategy with what it looks at, in a few words.
    pub fn describe(&self) -> String {
        match self.layers() {
            [] => self.strategy.clone(),
            [layer] => format!("{} (layer {layer})", self.strategy),
            layers => format!("{} ({} layers)", self.strategy, layers.len()),
        }
    }
}
