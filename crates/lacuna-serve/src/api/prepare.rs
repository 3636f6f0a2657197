//! From a request to its runs.

use std::ops::Range;

use lacuna::{DEFAULT_MAX_GAP, Error, Run, Token};
use lacuna_models::{Kind, Plan, PlanContext, Request, Specials, Template, ends_open, uses_attention};

use super::ApiError;
use super::body::{Goal, Prompt, PromptInput, TextRequest};
use crate::scheduler::{Start, Task};
use crate::service::Service;
use crate::transcript::{Finish, Transcript};
use crate::watch::Watch;

/// The runs of a request, before they are queued.
pub(crate) struct Prepared {
    /// The plan that they share, but for the seed.
    pub(crate) plan: Plan,
    pub(crate) runs: Vec<(Task, Run)>,
    /// One for each run.
    pub(crate) transcripts: Vec<Transcript>,
    /// The text of each run's prompt, if it is to be repeated.
    pub(crate) echoes: Vec<Option<String>>,
    pub(crate) prompt_tokens: usize,
}

/// Refuses a model that is not the one served.
pub(super) fn check_model(service: &Service, asked: Option<&str>) -> Result<(), ApiError> {
    let served = &service.config.model_name;
    match asked.filter(|asked| asked != served) {
        Some(asked) => Err(ApiError::no_model(asked, served)),
        None => Ok(()),
    }
}

/// Makes runs of what was asked.
pub(crate) fn prepare(service: &Service, query: &TextRequest, watch: Watch) -> Result<Prepared, ApiError> {
    check_model(service, query.model.as_deref())?;
    let limits = &service.config.limits;
    let wanted = query.given.count().saturating_mul(query.best_of);
    let most = limits.runs.min(limits.capacity(1));
    if wanted > most {
        let why = format!("{wanted} texts are asked for, but a request may ask for {most} at most");
        return Err(ApiError::bad(why).at(if query.best_of > query.n { "best_of" } else { "n" }));
    }
    let plan = plan(service, query, watch)?;
    if query.best_of > query.n {
        plan.check_best_of().map_err(|error| ApiError::from(error).at("best_of"))?;
    }
    let kind = kind_of(&query.goal);
    let mut prepared =
        Prepared { plan, runs: Vec::new(), transcripts: Vec::new(), echoes: Vec::new(), prompt_tokens: 0 };
    for prompt in prompts(service, &query.given)? {
        let (start, region) = start(service, &prompt, &query.goal, &prepared.plan)?;
        let echo = if query.echo { Some(service.text()?.decode(&prompt, Specials::Skip)?) } else { None };
        for choice in 0..query.best_of {
            let mut plan = prepared.plan.clone();
            plan.options.seed = plan.options.seed.wrapping_add(choice as u64);
            let most = plan.max_tokens.unwrap_or(0);
            let allow_eos = query.allow_eos || matches!(query.goal, Goal::Canvas(_));
            let task = Task { plan, start: start.clone(), watch, allow_eos };
            let run = task.run(&service.description)?;
            let written = run.canvas().gaps().count().max(most) + found_at_most(&start, &task.plan);
            if written > limits.gen_length {
                let why = format!("{written} tokens are to be written, but {} is the most", limits.gen_length);
                return Err(ApiError::bad(why).at("gen_length"));
            }
            let (ends, open_end) = match query.goal {
                // A text that meets its constraint is complete.
                Goal::Answer if prepared.plan.is_constrained() => (service.ends.clone(), Finish::Stop),
                Goal::Middle(_) => (service.ends.clone(), Finish::Stop),
                _ if kind == Kind::Answer => (service.ends.clone(), Finish::Length),
                _ => (Vec::new(), Finish::Stop),
            };
            let (region, longest) = match &start {
                Start::Prompt(prompt) => {
                    (region.start..run.text_end(), region.end.max(prompt.len().saturating_add(most)))
                }
                Start::Gaps(template) if template.is_open() => {
                    (region.start..run.text_end(), (template.tokens.len() - 1).saturating_add(most))
                }
                Start::Gaps(_) => (region.clone(), usize::MAX),
            };
            let transcript =
                Transcript::new(run.canvas().clone(), region, longest, ends, query.stops.clone(), open_end);
            prepared.prompt_tokens += if choice == 0 { transcript.prompt_tokens() } else { 0 };
            prepared.transcripts.push(if query.logprobs || query.best_of > query.n {
                transcript.scored()
            } else {
                transcript
            });
            prepared.echoes.push(echo.clone());
            prepared.runs.push((task, run));
        }
    }
    Ok(prepared)
}

/// Refuses what is longer than the model's context can hold, by its bytes, before it is tokenized. Returns how many bytes
/// there are in all.
pub(crate) fn check_size(service: &Service, given: &PromptInput, goal: Option<&Goal>) -> Result<usize, ApiError> {
    let context = service.description.context;
    let text = |name: &'static str, bytes: usize| match bytes > service.prompt_bytes {
        true => Err(ApiError::too_long(&format!("the {name}"), bytes, "bytes", context).at(name)),
        false => Ok(bytes),
    };
    let list = |tokens: &Vec<Token>| match tokens.len() > context {
        true => Err(ApiError::too_long("the prompt", tokens.len(), "tokens", context).at("prompt")),
        false => Ok(tokens.len()),
    };
    let given = match given {
        PromptInput::Nothing => 0,
        PromptInput::Chat(messages) if messages.len() > context => {
            return Err(ApiError::too_long("the chat", messages.len(), "messages", context).at("messages"));
        }
        PromptInput::Chat(messages) => text("messages", messages.iter().map(|(_, content)| content.len()).sum())?,
        PromptInput::Prompt(Prompt::Text(prompt)) => text("prompt", prompt.len())?,
        PromptInput::Prompt(Prompt::Texts(prompts)) => {
            prompts.iter().map(|prompt| text("prompt", prompt.len())).sum::<Result<usize, _>>()?
        }
        PromptInput::Prompt(Prompt::Tokens(tokens)) => list(tokens)?,
        PromptInput::Prompt(Prompt::Lists(lists)) => lists.iter().map(list).sum::<Result<usize, _>>()?,
    };
    let goal = match goal {
        Some(Goal::Middle(suffix)) => text("suffix", suffix.len())?,
        Some(Goal::Gaps(gaps)) => text("text", gaps.len())?,
        Some(Goal::Canvas(tokens)) => list(tokens)?,
        Some(Goal::Answer) | None => 0,
    };
    Ok(given.saturating_add(goal))
}

/// Every prompt as tokens.
pub(crate) fn prompts(service: &Service, given: &PromptInput) -> Result<Vec<Vec<Token>>, ApiError> {
    let text = service.text()?;
    Ok(match given {
        PromptInput::Nothing => vec![Vec::new()],
        PromptInput::Chat(messages) => {
            let pairs: Vec<(&str, &str)> = messages.iter().map(|(role, content)| (*role, content.as_str())).collect();
            vec![text.chat(&pairs).map_err(|error| ApiError::from(error).at("messages"))?]
        }
        PromptInput::Prompt(Prompt::Text(prompt)) => vec![text.encode(prompt)?],
        PromptInput::Prompt(Prompt::Texts(prompts)) => {
            prompts.iter().map(|prompt| text.encode(prompt)).collect::<Result<_, _>>()?
        }
        PromptInput::Prompt(Prompt::Tokens(tokens)) => vec![tokens.clone()],
        PromptInput::Prompt(Prompt::Lists(lists)) => lists.clone(),
    })
}

/// The request with the bound on its text. A gap has an exact length, so that there the bound is its length.
fn with_length(service: &Service, query: &TextRequest) -> Result<Request, ApiError> {
    let Some(most) = query.max_tokens else { return Ok(query.request.clone()) };
    let context = service.description.context;
    if most > context {
        return Err(ApiError::from(Error::TooLong { length: most, context }).at("max_tokens"));
    }
    let exact = matches!(query.goal, Goal::Middle(_)) && query.request.get("gen_length").is_none();
    Ok(query.request.clone().with(if exact { "gen_length" } else { "max_tokens" }, most)?)
}

/// The request's plan for this model.
fn plan(service: &Service, query: &TextRequest, watch: Watch) -> Result<Plan, ApiError> {
    let context = PlanContext::of(&service.checkpoint);
    let mut asked = with_length(service, query)?;
    if let Goal::Gaps(text) = &query.goal {
        asked = asked.for_text(text, &service.checkpoint)?;
    }
    let strategy = asked.strategy_for(&context);
    // Layers may be watched that the order does not use.
    let watched = watch.attention && !uses_attention(strategy);
    let request = Request(asked.filter(|name| !(watched && matches!(name, "layer" | "heads"))));
    let mut plan = request.plan(&service.checkpoint)?;
    if let Some(offer) = &query.offer {
        plan = plan.constrain("tools", &offer.constraint(), &service.checkpoint)?;
    }
    if plan.is_constrained() && matches!(query.goal, Goal::Canvas(_)) {
        let why = "a constraint applies to a whole answer: leave it out when you go on from a canvas";
        return Err(ApiError::bad(why).at("canvas"));
    }
    if query.max_tokens.is_none() {
        plan.max_tokens = plan.max_tokens.map(|most| most.min(service.config.limits.gen_length.max(plan.gen_length)));
    }
    // Each source costs time, and nothing is gained by naming one twice.
    for (name, there) in [("layer", service.description.layers), ("heads", service.description.heads)] {
        let named = asked.integers(name).map_or(0, |named| named.len());
        if named > there {
            return Err(ApiError::bad(format!("{name} names {named}, but the model has {there}")).at(name));
        }
    }
    if watched {
        plan.options.watch = context.attention_for(&asked);
    }
    Ok(plan)
}

/// The start of a run, and the positions whose text is returned.
fn start(service: &Service, prompt: &[Token], goal: &Goal, plan: &Plan) -> Result<(Start, Range<usize>), ApiError> {
    let mask = service.description.mask;
    let context = service.description.context;
    let from = prompt.len();
    if prompt.contains(&mask) {
        let why = "the prompt has the model's mask token in it: leave it out, or write gaps into the field text";
        return Err(ApiError::bad(why).at("prompt"));
    }
    let (template, field) = match goal {
        Goal::Answer => return Ok((Start::Prompt(prompt.to_vec()), from..from.saturating_add(plan.gen_length))),
        Goal::Middle(suffix) => {
            if plan.gen_length > context {
                return Err(Error::TooLong { length: plan.gen_length, context }.into());
            }
            let gap = vec![mask; plan.gen_length];
            let suffix = if suffix.is_empty() { Vec::new() } else { service.text()?.encode(suffix)? };
            let region = from..from + plan.gen_length;
            return Ok((Start::Gaps(Template::of_tokens([prompt, &gap, &suffix].concat(), mask)?), region));
        }
        Goal::Canvas(tokens) => (Template::of_tokens(tokens.clone(), mask), "canvas"),
        Goal::Gaps(text) => (service.checkpoint.encode_template(text), "text"),
    };
    let template = template.map_err(|error| ApiError::from(error).at(field))?.after(prompt);
    let region = from..template.tokens.len();
    Ok((Start::Gaps(template), region))
}

/// Upper bound on the tokens by which gaps of unknown length are longer than the canvas shows.
fn found_at_most(start: &Start, plan: &Plan) -> usize {
    match start {
        Start::Gaps(template) if !template.is_open() => {
            template.unknown.len() * (plan.params.integer("max_gap").unwrap_or(DEFAULT_MAX_GAP) - 1)
        }
        _ => 0,
    }
}

/// The kind of a goal: an answer, or a text with gaps.
pub(crate) fn kind_of(goal: &Goal) -> Kind {
    match goal {
        Goal::Answer | Goal::Canvas(_) => Kind::Answer,
        // The model ends a text that is open at its end.
        Goal::Gaps(text) if ends_open(text) => Kind::Answer,
        Goal::Middle(_) | Goal::Gaps(_) => Kind::Fill,
    }
}
