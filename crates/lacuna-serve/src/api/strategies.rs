//! `/v1/strategies`: what can be chosen, and what the model is.

use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use lacuna::{ORDERS, PACES, PRESETS, REVISIONS};
use lacuna_models::Request;
use serde::Serialize;
use utoipa::ToSchema;

use super::ApiError;
use super::fields::DECODING;
use crate::Example;
use crate::service::Service;

/// What a strategy can be made of, and the model's facts.
#[derive(Serialize, ToSchema)]
pub(crate) struct Strategies {
    orders: Vec<StrategyPart>,
    paces: Vec<StrategyPart>,
    revisions: Vec<StrategyPart>,
    presets: Vec<Preset>,
    parameters: Vec<Parameter>,
    model: ModelFacts,
}

/// An order, a pace or a revision.
#[derive(Serialize, ToSchema)]
pub(crate) struct StrategyPart {
    name: &'static str,
    /// In one line.
    about: &'static str,
    /// The fields of a request that set it.
    parameters: Vec<&'static str>,
}

/// A published method.
#[derive(Serialize, ToSchema)]
pub(crate) struct Preset {
    name: &'static str,
    about: &'static str,
    /// What it is made of.
    is: &'static str,
}

/// A field of a request.
#[derive(Serialize, ToSchema)]
pub(crate) struct Parameter {
    name: &'static str,
    about: &'static str,
    /// The parts that use it; none if it goes with all.
    of: &'static [&'static str],
    usual: &'static str,
}

/// What the model is.
#[derive(Serialize, ToSchema)]
pub(crate) struct ModelFacts {
    id: String,
    family: &'static str,
    parameters: usize,
    layers: usize,
    heads: usize,
    vocabulary: usize,
    /// How many positions a canvas may have.
    context: usize,
    mask_token: u32,
    end_tokens: Vec<u32>,
    /// Whether it has a chat template.
    chat: bool,
    device: String,
    precision: String,
    recommended: Recommended,
    examples: Vec<Example>,
}

/// What is used if a request leaves it out.
#[derive(Serialize, ToSchema)]
pub(crate) struct Recommended {
    strategy: String,
    layer: Vec<usize>,
    gamma: f64,
    gen_length: usize,
    #[schema(required)]
    block_length: Option<usize>,
}

const ABOUT: [(&str, &str); 16] = [
    ("dos", "the position that pays most attention to what is already there"),
    ("confidence", "the position whose best token is most probable"),
    ("entropy", "the position with the least uncertain distribution"),
    ("margin", "the position whose best token is furthest ahead of the second"),
    ("random", "any position"),
    ("top1", "always one, or as many as the number says: top2, top4"),
    ("eb", "as many as the entropy bound allows: sum H - max H <= gamma"),
    ("threshold", "the first, and all whose confidence reaches the threshold"),
    ("score-threshold", "the first, and all whose score in the order reaches the threshold"),
    ("factor", "as long as the n-th is confident enough for n at once: (n + 1)(1 - p) <= factor"),
    ("klass", "all that are confident and have kept still"),
    ("schedule", "a fixed number of steps, spread as LLaDA or Dream does"),
    ("draft", "all above the threshold, up to a share of what is masked"),
    ("adaptive", "all above the mean confidence of what was committed"),
    ("verify", "reopens tokens that the model doubts when it does not see them"),
    ("backtrack", "reopens tokens whose position has lost confidence"),
];

const PRESETS_ABOUT: [(&str, &str); 5] = [
    ("llada", "LLaDA's own sampler: the most confident first, in a fixed number of steps"),
    ("fast-dllm", "Fast-dLLM: all that are confident enough at once"),
    ("klass", "KLASS: all that are confident and have kept still"),
    ("wino", "WINO: draft widely, then reopen what does not hold"),
    ("saber", "Saber: more at once as confidence grows, with backtracking"),
];

/// List what strategies are made of, and the model's facts
#[utoipa::path(get, path = "/v1/strategies", tag = "lacuna", responses((status = 200, description = "What can be chosen", body = Strategies)))]
pub(crate) async fn strategies(State(service): State<Arc<Service>>) -> Result<Json<Strategies>, ApiError> {
    Ok(Json(Strategies {
        orders: ORDERS.map(part).into(),
        paces: PACES.map(part).into(),
        revisions: REVISIONS.map(part).into(),
        presets: PRESETS.map(|(name, is)| Preset { name, about: about(&PRESETS_ABOUT, name), is }).into(),
        parameters: DECODING
            .iter()
            .map(|field| Parameter { name: field.name, about: field.about, of: field.of, usual: field.usual })
            .collect(),
        model: facts(&service)?,
    }))
}

fn facts(service: &Service) -> Result<ModelFacts, ApiError> {
    let plan = Request::default().plan(&service.checkpoint)?;
    let description = &service.description;
    Ok(ModelFacts {
        id: service.config.model_name.clone(),
        family: service.checkpoint.architecture().family.name(),
        parameters: service.checkpoint.parameters(),
        layers: description.layers,
        heads: description.heads,
        vocabulary: description.vocabulary,
        context: description.context,
        mask_token: description.mask,
        end_tokens: service.ends.clone(),
        chat: service.text()?.can_chat(),
        device: service.device.clone(),
        precision: service.precision.clone(),
        recommended: Recommended {
            strategy: plan.strategy,
            layer: plan.settings.layers,
            gamma: plan.settings.gamma,
            gen_length: plan.gen_length,
            block_length: plan.block_length,
        },
        examples: service.config.examples.clone(),
    })
}

fn part(name: &'static str) -> StrategyPart {
    let uses = DECODING.iter().filter(|field| field.of.contains(&name));
    StrategyPart { name, about: about(&ABOUT, name), parameters: uses.map(|field| field.name).collect() }
}

fn about(explained: &[(&str, &'static str)], name: &str) -> &'static str {
    explained.iter().find(|(known, _)| *known == name).map_or("", |(_, about)| about)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_name_is_explained() {
        for name in ORDERS.into_iter().chain(PACES).chain(REVISIONS) {
            assert_ne!(about(&ABOUT, name), "", "{name}");
        }
        for (name, _) in PRESETS {
            assert_ne!(about(&PRESETS_ABOUT, name), "", "{name}");
        }
    }
}
