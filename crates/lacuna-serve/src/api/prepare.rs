//! From a request to its runs.

use std::ops::Range;

use lacuna::{AttentionSource, Canvas, Error, Run, Token};
use lacuna_models::{GAP, Kind, Plan, Specials};

use super::ApiError;
use super::body::{Ask, Given, Goal, Prompt};
use crate::scheduler::{Start, Task};
use crate::service::Service;
use crate::transcript::{Finish, Transcript};
use crate::watch::Watch;

/// What a request's runs are, before they are queued.
pub(crate) struct Prepared {
    /// What they have in common.
    pub(crate) plan: Plan,
    pub(crate) runs: Vec<(Task, Run)>,
    /// One for each run.
    pub(crate) transcripts: Vec<Transcript>,
    /// The text of each run's prompt, if it is to be repeated.
    pub(crate) echoes: Vec<Option<String>>,
    pub(crate) prompt_tokens: usize,
}

/// Makes runs of what was asked.
pub(crate) fn prepare(service: &Service, ask: &Ask, watch: Watch) -> Result<Prepared, ApiError> {
    let served = &service.config.model_name;
    if let Some(asked) = ask.model.as_ref().filter(|asked| *asked != served) {
        return Err(ApiError::no_model(asked, served));
    }
    let limits = &service.config.limits;
    let wanted = ask.given.count().saturating_mul(ask.n);
    if wanted > limits.runs {
        let why = format!("{wanted} texts are asked for, but a request may ask for {} at most", limits.runs);
        return Err(ApiError::bad(why).at("n"));
    }
    let plan = plan(service, ask, watch)?;
    let mut prepared =
        Prepared { plan, runs: Vec::new(), transcripts: Vec::new(), echoes: Vec::new(), prompt_tokens: 0 };
    for prompt in prompts(service, &ask.given)? {
        let (start, region) = start(service, &prompt, &ask.goal, &prepared.plan)?;
        let echo = if ask.echo { Some(service.text()?.decode(&prompt, Specials::Skip)?) } else { None };
        for choice in 0..ask.n {
            let mut plan = prepared.plan.clone();
            plan.options.seed = plan.options.seed.wrapping_add(choice as u64);
            let task = Task { plan, start: start.clone(), watch };
            let run = task.run(&service.description)?;
            let written = run.canvas().gaps().count();
            if written > limits.gen_length {
                let why = format!("{written} tokens are to be written, but {} is the most", limits.gen_length);
                return Err(ApiError::bad(why).at("gen_length"));
            }
            let (ends, open_end) = match ask.goal {
                Goal::Answer | Goal::Canvas(_) => (service.ends.clone(), Finish::Length),
                Goal::Middle(_) => (service.ends.clone(), Finish::Stop),
                Goal::Gaps(_) => (Vec::new(), Finish::Stop),
            };
            let transcript = Transcript::new(run.canvas().clone(), region.clone(), ends, ask.stops.clone(), open_end);
            prepared.prompt_tokens += if choice == 0 { transcript.prompt_tokens() } else { 0 };
            prepared.transcripts.push(if ask.logprobs { transcript.scored() } else { transcript });
            prepared.echoes.push(echo.clone());
            prepared.runs.push((task, run));
        }
    }
    Ok(prepared)
}

/// Every prompt as tokens.
fn prompts(service: &Service, given: &Given) -> Result<Vec<Vec<Token>>, ApiError> {
    let text = service.text()?;
    Ok(match given {
        Given::Nothing => vec![Vec::new()],
        Given::Chat(messages) => {
            let pairs: Vec<(&str, &str)> = messages.iter().map(|(role, content)| (*role, content.as_str())).collect();
            vec![text.chat(&pairs).map_err(|error| ApiError::from(error).at("messages"))?]
        }
        Given::Prompt(Prompt::Text(prompt)) => vec![text.encode(prompt)?],
        Given::Prompt(Prompt::Texts(prompts)) => {
            prompts.iter().map(|prompt| text.encode(prompt)).collect::<Result<_, _>>()?
        }
        Given::Prompt(Prompt::Tokens(tokens)) => vec![tokens.clone()],
        Given::Prompt(Prompt::Lists(lists)) => lists.clone(),
    })
}

/// What the request means for this model.
fn plan(service: &Service, ask: &Ask, watch: Watch) -> Result<Plan, ApiError> {
    let mut plan = ask.request.plan(&service.checkpoint)?;
    // Each source costs time, and nothing is gained by naming one twice.
    for (name, named, there) in [
        ("layer", plan.settings.layers.len(), service.description.layers),
        ("heads", plan.settings.heads.len(), service.description.heads),
    ] {
        if named > there {
            return Err(ApiError::bad(format!("{name} names {named}, but the model has {there}")).at(name));
        }
    }
    if matches!(ask.goal, Goal::Middle(_) | Goal::Gaps(_)) && !ask.allow_eos {
        plan.options.sampling.suppressed.extend(&service.ends);
    }
    if watch.attention && plan.layers().is_empty() {
        let source = |&layer: &usize| AttentionSource { layer, heads: plan.settings.heads.clone() };
        plan.options.watch = plan.settings.layers.iter().map(source).collect();
    }
    Ok(plan)
}

/// What a run starts from, and the positions whose text is returned.
fn start(service: &Service, prompt: &[Token], goal: &Goal, plan: &Plan) -> Result<(Start, Range<usize>), ApiError> {
    let mask = service.description.mask;
    let context = service.description.context;
    let from = prompt.len();
    let (canvas, region) = match goal {
        Goal::Answer => return Ok((Start::Prompt(prompt.to_vec()), from..from.saturating_add(plan.gen_length))),
        Goal::Middle(suffix) => {
            if plan.gen_length > context {
                return Err(Error::TooLong { length: plan.gen_length, context }.into());
            }
            let gap = vec![mask; plan.gen_length];
            let suffix = if suffix.is_empty() { Vec::new() } else { service.text()?.encode(suffix)? };
            ([prompt, &gap, &suffix].concat(), from..from + plan.gen_length)
        }
        Goal::Canvas(tokens) => {
            let whole = [prompt, tokens].concat();
            let length = whole.len();
            (whole, from..length)
        }
        Goal::Gaps(text) => {
            let body = service.checkpoint.encode_with_gaps(text).map_err(|error| ApiError::from(error).at("text"))?;
            let whole = [prompt, &body].concat();
            let length = whole.len();
            (whole, from..length)
        }
    };
    let (how, field) = match goal {
        Goal::Canvas(_) => (format!("write each open slot as the mask token, {mask}"), "canvas"),
        _ => (format!("write each gap as {GAP}"), "text"),
    };
    let canvas = Canvas::new(canvas, mask).map_err(|error| ApiError::bad(format!("{error}: {how}")).at(field))?;
    if prompt.contains(&mask) {
        return Err(ApiError::bad("the prompt has the mask token in it: gaps belong into text").at("prompt"));
    }
    Ok((Start::Gaps(canvas), region))
}

/// Whether a goal is an answer or a text with gaps.
pub(crate) fn kind_of(goal: &Goal) -> Kind {
    match goal {
        Goal::Answer | Goal::Canvas(_) => Kind::Answer,
        Goal::Middle(_) | Goal::Gaps(_) => Kind::Fill,
    }
}
