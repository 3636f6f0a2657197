//! A user's decoding request, and the plan that it becomes for a checkpoint.

use std::ops::Deref;
use std::sync::Arc;

use lacuna::catalogue::{Need, PRESETS, Params, Value};
use lacuna::{
    AttentionSource, Borders, CONSTRAINTS, Canvas, DEFAULT_MAX_GAP, Description, Error, GapSearch, Grow,
    MAX_STRATEGY_BYTES, Message, Options, Recipe, Result, Run, Sampling, Strategy, Token, TokenRule, sources,
};
use lacuna_constrain::{Compiled, Constraint, Ending};
use serde::{Deserialize, Serialize};

use crate::constraint::{EachGap, compile, given, named};
use crate::encode::{ends_open, has_draft};
use crate::{Checkpoint, Convention, Template};

/// Canvas length where neither the request nor the checkpoint names one.
const DEFAULT_LENGTH: usize = 128;
/// Upper bound on the tokens of a canvas that grows by itself, where the request names none.
const DEFAULT_MAX_LENGTH: usize = 2048;
/// Parameters that tokens are drawn by: whoever sets one of them sets all.
const SAMPLING: [&str; 4] = ["temperature", "top_p", "top_k", "sampling"];
const DEFAULT_STRATEGY: &str = "dos+eb";
/// Strategies for texts with drafts.
const DEFAULT_REVISION: &str = "dos+eb+verify";
const SHIFTED_REVISION: &str = "dos+eb+edit";

/// Parameters of the catalogue, as a user has set them. Those that are left out are as the checkpoint recommends, else as usual.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Request(pub Params);

/// Properties of the model that a plan depends on.
#[derive(Clone, Debug, PartialEq)]
pub struct PlanContext {
    /// Kind of model.
    pub convention: Convention,
    /// Number of layers.
    pub layers: usize,
    /// End-of-text token, if there is one.
    pub end: Option<Token>,
    /// That token, and those that end a turn of a chat.
    pub ends: Vec<Token>,
    /// Parameters that the checkpoint recommends.
    pub recommended: Params,
}

/// A request with everything decided, for one model.
#[derive(Clone, Debug)]
pub struct Plan {
    /// The strategy.
    pub strategy: Strategy,
    /// Its parameters, with those that the checkpoint recommends.
    pub params: Params,
    /// Options beside the strategy.
    pub options: Options,
    /// Masked positions at the start.
    pub gen_length: usize,
    /// Upper bound on the generated tokens, if the canvas may grow.
    pub max_tokens: Option<usize>,
    /// Tokens that end a text.
    pub ends: Vec<Token>,
    /// Tokens that an answer begins with and a revision may reopen.
    pub draft: Vec<Token>,
    constraint: Option<Arc<Compiled>>,
}

impl Deref for Request {
    type Target = Params;

    fn deref(&self) -> &Params {
        &self.0
    }
}

impl Request {
    /// Sets a parameter, in a chain of calls.
    pub fn with(self, name: &str, value: impl Into<Value>) -> Result<Self> {
        self.0.with(name, value).map(Self)
    }

    /// Refuses what is wrong for every model, for who has none at hand. It is a part of what `plan` refuses.
    pub fn check(&self) -> Result<()> {
        let Some(name) = self.word("strategy") else { return Ok(()) };
        let plain = self.filter(|name| name != "draft" && !CONSTRAINTS.contains(&name));
        Recipe::parse(name, &plain)?.refuse_unused(&plain)
    }

    /// The plan for a checkpoint.
    pub fn plan(&self, checkpoint: &Checkpoint) -> Result<Plan> {
        let mut plain = Self(self.0.filter(|name| name != "draft" && !CONSTRAINTS.contains(&name)));
        let draft = match self.word("draft") {
            Some("") => return Err(Error::parameter("draft", "''", "must have some text")),
            Some(text) => {
                plain = plain.for_draft(checkpoint)?;
                checkpoint.text().and_then(|codec| codec.encode(text))?
            }
            None => Vec::new(),
        };
        let plan = Plan { draft, ..plain.plan_for(&PlanContext::of(checkpoint))? };
        match given(self)? {
            Some((name, constraint)) => plan.constrain(name, &constraint, checkpoint),
            None => Ok(plan),
        }
    }

    /// The plan for any model. Constraints are about text, so that they need a checkpoint's tokenizer.
    pub fn plan_for(&self, model: &PlanContext) -> Result<Plan> {
        if let Some(name) = named(self)? {
            return Err(Error::BadConstraint { name, why: "it needs a tokenizer, and there is none here".into() });
        }
        if let Some(draft) = self.word("draft") {
            let expected = "must be left out: it needs a tokenizer, and there is none here";
            return Err(Error::parameter("draft", draft, expected));
        }
        let name = self.strategy_for(model);
        if name.len() > MAX_STRATEGY_BYTES {
            let expected = format!("must have at most {MAX_STRATEGY_BYTES} bytes");
            return Err(Error::parameter("strategy", name, expected));
        }
        // Parameters of the recommended strategy say nothing about another one, and those of sampling belong together.
        let own = self.word("strategy").is_none();
        let preset = PRESETS.iter().find(|preset| preset.name == name);
        let set = |name: &str| preset.is_some_and(|preset| preset.values.iter().any(|(known, _)| *known == name));
        let general =
            |name: &str| matches!(name, "gen_length" | "layer" | "heads") || (name == "schedule" && !set(name));
        let drawn = SAMPLING.iter().any(|name| self.get(name).is_some());
        let applies = |name: &str| (own && !(drawn && SAMPLING.contains(&name))) || general(name);
        let recommended = model.recommended.filter(applies);
        let recipe = Recipe::parse(name, &self.0.clone().or(&recommended))?;
        recipe.refuse_unused(&self.0)?;
        let mut params = self.0.clone().or(&recommended.filter(|name| recipe.uses(name)));
        if recipe.uses("layer") {
            params.set("layer", &Value::from(&model.layers_for(&params)[..]))?;
        }
        if let Some(end) = model.end.filter(|_| recipe.uses("end_token") && params.get("end_token").is_none()) {
            params.set("end_token", &Value::from(u64::from(end)))?;
        }
        let strategy = Recipe::parse(name, &params)?.build()?;

        let usual_length = model.recommended.integer("gen_length").unwrap_or(DEFAULT_LENGTH);
        let max_tokens = self.integer("max_tokens");
        let gen_length = match (self.integer("gen_length"), max_tokens) {
            (Some(length), Some(most)) if length > most => {
                let expected = format!("must be at most the limit of {most} tokens");
                return Err(Error::parameter("gen_length", length.to_string(), expected));
            }
            (Some(length), _) => length,
            (None, Some(most)) => most.min(usual_length),
            (None, None) => usual_length,
        };
        let given = Self(params.clone());
        let flag = |name: &str| given.flag(name).unwrap_or(false);
        let options = Options {
            sampling: Sampling {
                rule: given.token_rule(model.convention)?,
                deferred: if flag("defer_eos") { model.ends.clone() } else { Vec::new() },
            },
            suppressed: model.end.filter(|_| flag("suppress_eos")).into_iter().collect(),
            constraint: None,
            stop: if given.flag("early_stop").unwrap_or(true) { model.ends.clone() } else { Vec::new() },
            guidance: given.number("guidance").unwrap_or(0.0) as f32,
            watch: Vec::new(),
            alternatives: given.integer("top_logprobs").unwrap_or(0),
            seed: given.integer("seed").unwrap_or(0) as u64,
            grow: None,
            find: None,
            length: None,
        };
        let max_tokens = match strategy.length.is_fixed() {
            true => max_tokens.filter(|_| self.get("gen_length").is_none()),
            false => max_tokens.or(Some(DEFAULT_MAX_LENGTH.max(gen_length))),
        };
        let (ends, draft, constraint) = (model.ends.clone(), Vec::new(), None);
        Ok(Plan { strategy, params, options, gen_length, max_tokens, ends, draft, constraint })
    }

    /// The request for a text with gaps and drafts: what follows from the way it is written, where the request leaves it open. A
    /// draft has a revision; a text that ends with a gap of unknown length grows.
    pub fn for_text(&self, text: &str, checkpoint: &Checkpoint) -> Result<Self> {
        let request = if has_draft(text) { self.for_draft(checkpoint)? } else { self.clone() };
        if !ends_open(text) {
            return Ok(request);
        }
        let most = request.integer("max_gap");
        let mut request = Self(request.filter(|name| name != "max_gap"));
        if request.get("length").is_none() {
            request = request.with("length", "daedal")?;
        }
        match most {
            Some(most) => request.with("max_tokens", most),
            None => Ok(request),
        }
    }

    /// The request with a strategy that revises drafts, unless it names one.
    pub fn for_draft(&self, checkpoint: &Checkpoint) -> Result<Self> {
        match self.word("strategy") {
            Some(_) => Ok(self.clone()),
            // A shifted model cannot verify.
            None if checkpoint.architecture().shifted => self.clone().with("strategy", SHIFTED_REVISION),
            None => self.clone().with("strategy", DEFAULT_REVISION),
        }
    }

    /// One request for each of several strategies, each with those of the parameters that it uses. A parameter that none of them
    /// uses is refused.
    pub fn for_each(&self, strategies: &[&str]) -> Result<Vec<Self>> {
        let recipe = |name: &&str| Recipe::parse(name, &self.0);
        let recipes = strategies.iter().map(recipe).collect::<Result<Vec<_>>>()?;
        for (name, _) in self.iter() {
            if !recipes.iter().any(|recipe| recipe.uses(name)) {
                recipes.iter().try_for_each(|recipe| recipe.refuse_unused(&self.0.filter(|other| other == name)))?;
            }
        }
        let request =
            |(recipe, name): (&Recipe, &&str)| Self(self.0.filter(|name| recipe.uses(name))).with("strategy", *name);
        recipes.iter().zip(strategies).map(request).collect()
    }

    /// The name of the strategy: as asked, else as the model recommends.
    pub fn strategy_for<'a>(&'a self, model: &'a PlanContext) -> &'a str {
        self.word("strategy").or(model.recommended.word("strategy")).unwrap_or(DEFAULT_STRATEGY)
    }

    /// Rule by which tokens are taken from distributions, for a model of this family.
    ///
    /// At temperature 0 there is nothing to draw, so that `top_p` and `top_k` have no effect, unless Dream's way of sampling is asked
    /// for by name: it takes confidence and entropy from the truncated distribution, too.
    pub fn token_rule(&self, convention: Convention) -> Result<TokenRule> {
        let temperature = self.number("temperature").unwrap_or(0.0);
        let (top_p, top_k) = (self.number("top_p").unwrap_or(1.0), self.integer("top_k").unwrap_or(0));
        let truncated = top_p < 1.0 || top_k > 0;
        let dream = match self.word("sampling") {
            Some("dream") => true,
            Some(_) if truncated => {
                return Err(Error::unused(if top_p < 1.0 { "top_p" } else { "top_k" }, "LLaDA's way of sampling")
                    .advise("sampling", "dream"));
            }
            Some(_) => false,
            None if temperature == 0.0 => return Ok(TokenRule::Greedy),
            None => truncated || convention == Convention::Dream,
        };
        Ok(match dream {
            true if temperature != 0.0 || truncated => TokenRule::Nucleus { temperature, top_p, top_k },
            false if temperature != 0.0 => TokenRule::Gumbel { temperature },
            _ => TokenRule::Greedy,
        })
    }
}

impl PlanContext {
    /// The context of a checkpoint.
    pub fn of(checkpoint: &Checkpoint) -> Self {
        let architecture = checkpoint.architecture();
        Self {
            convention: architecture.family.convention(),
            layers: architecture.layers(),
            end: architecture.end,
            ends: checkpoint.ends(),
            recommended: checkpoint.recommended().clone(),
        }
    }

    /// The layers that an order uses with these parameters: as asked, else as recommended, else one a sixth of the way up, since
    /// the paper's best layers lie in the lower third.
    pub fn layers_for(&self, params: &Params) -> Vec<usize> {
        let named = |params: &Params| match params.word("layer") {
            Some(_) => Some((0..self.layers).collect()),
            None => params.integers("layer"),
        };
        named(params).or_else(|| named(&self.recommended)).unwrap_or_else(|| vec![self.layers / 6])
    }

    /// The attention that an order would use with these parameters, to be observed with any order.
    pub fn attention_for(&self, params: &Params) -> Vec<AttentionSource> {
        sources(Some(self.layers_for(params)), params.integers("heads"))
    }
}

/// True if the order of a strategy uses attention, so that its layers matter.
pub fn uses_attention(strategy: &str) -> bool {
    Recipe::parse(strategy, &Params::new()).is_ok_and(|recipe| recipe.needs(Need::Attention))
}

impl Plan {
    /// The same plan with a constraint on the text, which is given by this name.
    pub fn constrain(mut self, name: &'static str, constraint: &Constraint, checkpoint: &Checkpoint) -> Result<Self> {
        if self.constraint.is_some() {
            return Err(Error::BadConstraint { name, why: "there is another constraint: give only one".into() });
        }
        if !self.options.suppressed.is_empty() {
            let message = Message::from("a constraint says itself where the text may end: leave out ");
            return Err(Error::Incompatible(message.parameter("suppress_eos")));
        }
        let compiled = compile(name, constraint, checkpoint)?;
        self.constraint = Some(compiled.clone());
        self.options.constraint = Some(Arc::new(EachGap { compiled, ending: Ending::Padded }));
        Ok(self)
    }

    /// Refuses to look for the best of several samples if all of them would be alike.
    pub fn check_best_of(&self) -> Result<()> {
        let drawn = self.options.sampling.rule.temperature() > 0.0 || self.strategy.order_temperature > 0.0;
        if drawn || self.strategy.order.draws() {
            return Ok(());
        }
        let message =
            Message::from("the best of several samples is asked for, but at temperature 0 all are alike: set ");
        Err(Error::Incompatible(message.parameter("temperature").text(" above 0, or leave out ").parameter("best_of")))
    }

    /// True if there is a constraint on the text.
    pub fn is_constrained(&self) -> bool {
        self.constraint.is_some()
    }

    /// A run that answers a prompt.
    pub fn answer(&self, prompt: &[Token], model: &Description) -> Result<Run> {
        let length = self.gen_length;
        if prompt.is_empty() {
            return Err(Error::Incompatible("the prompt is empty: give the model some text to answer".into()));
        }
        if let Some(position) = prompt.iter().position(|&token| token == model.mask) {
            let why =
                format!("the prompt has the mask token at position {position}: only a text with gaps may have masks");
            return Err(Error::Incompatible(why.into()));
        }
        if self.params.get("max_gap").is_some() {
            return Err(Error::unused("max_gap", "an answer, which has no gaps"));
        }
        if self.draft.len() > length {
            let expected = format!("must be at least {}, the tokens of the draft", self.draft.len());
            return Err(Error::parameter("gen_length", length.to_string(), expected));
        }
        let window = &self.strategy.window;
        let borders = window.borders(prompt.len(), model);
        let end = match self.options.constraint.is_some() {
            // Nothing of a text under a constraint may be cut off.
            true => prompt.len().saturating_add(length),
            false => window.canvas_length(prompt.len(), length, model),
        };
        let asked = self.most(prompt.len(), model);
        let most = match self.max_tokens {
            Some(tokens) if borders.is_some() => window.canvas_length(prompt.len(), tokens, model),
            _ => asked,
        };
        if most.max(end) > model.context {
            return Err(Error::TooLong { length: most.max(end), context: model.context });
        }
        if end <= prompt.len() {
            let block = borders.map_or(0, Borders::length);
            let expected = format!("must be at most the generation length, {length}");
            return Err(Error::parameter("block_length", block.to_string(), expected));
        }
        let block = borders.map(Borders::length).or(self.params.integer("block_length"));
        if self.max_tokens.is_none() {
            window.fits(length, model)?;
        }
        let grow = self.max_tokens.map(|_| Grow { ends: self.ends.clone(), by: block.unwrap_or(length), most });
        let start = |length: usize| {
            let mut tokens = [prompt, &self.draft].concat();
            let draft = (!self.draft.is_empty()).then_some(prompt.len()..tokens.len());
            tokens.resize(prompt.len() + length, model.mask);
            let canvas = Canvas::with_drafts(tokens, model.mask, draft.as_slice())?;
            let options = Options { grow: grow.clone(), length: Some(asked), ..self.options.clone() };
            Run::new(canvas, self.strategy.clone(), options, model)
        };
        match start(end - prompt.len()) {
            Err(Error::Unmeetable { shortest: Some(shortest), .. }) => match self.max_tokens {
                // A text under a constraint is complete when its canvas is, so that there must be room enough from the start.
                Some(most) if shortest <= most => start((2 * shortest).next_multiple_of(length).min(most)),
                most => {
                    let (name, length) = most.map_or(("gen_length", length), |most| ("max_tokens", most));
                    let expected =
                        format!("must be at least {shortest}, the shortest length that meets the constraint");
                    Err(Error::parameter(name, length.to_string(), expected))
                }
            },
            run => run,
        }
    }

    /// Upper bound on the length of a canvas whose first gap is at `from`. One that grows by itself does so within the context.
    fn most(&self, from: usize, model: &Description) -> usize {
        let most = from.saturating_add(self.max_tokens.unwrap_or(self.gen_length));
        match self.strategy.length.is_fixed() || self.params.get("max_tokens").is_some() {
            true => most,
            false => most.min(model.context.max(from + self.gen_length)),
        }
    }

    /// A run that fills the gaps of a text and revises its drafts. Nothing ends such a text, so it never stops early, and end tokens
    /// are not chosen unless `allow_eos` is set; but a text that ends with a gap of unknown length is an answer to the text before it.
    pub fn fill(&self, template: &Template, allow_eos: bool, model: &Description) -> Result<Run> {
        let Template { tokens, drafts, unknown } = template;
        if !self.draft.is_empty() {
            let message = Message::from("a text has its drafts in it, as <draft>…</draft>: leave out ");
            return Err(Error::Incompatible(message.parameter("draft")));
        }
        if template.is_open() {
            let before = &tokens[..tokens.len() - 1];
            if !drafts.is_empty() || before.contains(&model.mask) {
                let why = "a gap of unknown length at the end goes with no other gap and no draft: give it a length";
                return Err(Error::Incompatible(why.into()));
            }
            return self.answer(before, model);
        }
        if unknown.is_empty() && self.params.get("max_gap").is_some() {
            return Err(Error::unused("max_gap", "a text whose gaps all have a length"));
        }
        let canvas = Canvas::with_drafts(tokens.clone(), model.mask, drafts)?;
        let most = self.params.integer("max_gap").unwrap_or(DEFAULT_MAX_GAP);
        let find = (!unknown.is_empty()).then(|| GapSearch::new(unknown.clone(), most));
        let mut options = Options { stop: Vec::new(), find, ..self.options.clone() };
        if !self.strategy.length.is_fixed() {
            let most = self.most(canvas.span().start, model).max(canvas.len());
            options.grow = Some(Grow { ends: Vec::new(), by: 0, most });
        }
        if !allow_eos {
            options.suppressed.extend(&self.ends);
            if let Some(compiled) = self.constraint.clone() {
                options.constraint = Some(Arc::new(EachGap { compiled, ending: Ending::Exact }));
            }
        }
        Run::new(canvas, self.strategy.clone(), options, model)
    }

    /// The layers whose attention the order uses.
    pub fn layers(&self) -> Vec<usize> {
        self.strategy.order.ranks_by().attention().iter().map(|source| source.layer).collect()
    }

    /// The strategy with the layers it uses, in a few words.
    pub fn describe(&self) -> String {
        let name = &self.strategy.name;
        match &self.layers()[..] {
            [] => name.clone(),
            [layer] => format!("{name} (layer {layer})"),
            layers => format!("{name} ({} layers)", layers.len()),
        }
    }
}
