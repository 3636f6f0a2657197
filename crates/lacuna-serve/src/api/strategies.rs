//! `/v1/strategies`: the catalogue, and properties of the model.

use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use lacuna::catalogue::{
    self, ANSWER, Default, Example, Kind, Named, PRESETS, PRESETS_TITLE, QUESTION, Range, Section, parameters, parts,
};
use lacuna_models::{PlanContext, Request};
use serde::Serialize;
use serde_json::{Map, Value, json};
use utoipa::ToSchema;

use super::ApiError;
use crate::service::Service;

/// The parts of strategies, their parameters, and properties of the model.
#[derive(Serialize, ToSchema)]
pub(crate) struct Strategies {
    orders: Vec<StrategyPart>,
    paces: Vec<StrategyPart>,
    revisions: Vec<StrategyPart>,
    windows: Vec<StrategyPart>,
    lengths: Vec<StrategyPart>,
    caches: Vec<StrategyPart>,
    presets: Vec<Preset>,
    parameters: Vec<Parameter>,
    /// The question that the examples of parts and presets answer.
    question: &'static str,
    /// The number that is right.
    answer: &'static str,
    /// The lists above, in the order in which they are shown.
    sections: Vec<SectionFacts>,
    model: ModelFacts,
}

/// A list of parts, or the presets.
#[derive(Serialize, ToSchema)]
pub(crate) struct SectionFacts {
    /// The field that has the list.
    name: String,
    title: &'static str,
    /// The choice that its parts make.
    about: &'static str,
}

/// An order, a pace, a revision, a window, a length or a cache.
#[derive(Serialize, ToSchema)]
pub(crate) struct StrategyPart {
    name: String,
    /// Description in one line.
    about: String,
    /// The fields of a request that set it.
    parameters: Vec<&'static str>,
    /// Needs beyond the canvas: attention, beliefs, previous_beliefs, shadows, kv_cache.
    needs: Vec<&'static str>,
    /// The fields of a request for a short run that shows it.
    example: Map<String, Value>,
}

/// A published method.
#[derive(Serialize, ToSchema)]
pub(crate) struct Preset {
    name: &'static str,
    about: &'static str,
    /// The parts that it is made of.
    is: &'static str,
    /// The fields of a request that set its parts.
    parameters: Vec<&'static str>,
    /// Values of fields where they differ from the parts' own defaults.
    values: Map<String, Value>,
    /// The fields of a request for a short run that shows it.
    example: Map<String, Value>,
}

/// A field of a request.
#[derive(Serialize, ToSchema)]
pub(crate) struct Parameter {
    name: &'static str,
    about: &'static str,
    /// number, integer, boolean, string, layers, integers or choice.
    #[serde(rename = "type")]
    kind: &'static str,
    /// Default, if it is a fixed value.
    #[schema(required)]
    default: Option<Value>,
    /// Default as text.
    usual: String,
    /// Lower bound.
    #[schema(required)]
    minimum: Option<f64>,
    /// Upper bound.
    #[schema(required)]
    maximum: Option<f64>,
    /// The words that it takes.
    choices: Vec<String>,
    /// The parts that use it; none if it goes with every strategy.
    of: Vec<String>,
}

/// Properties of the model.
#[derive(Serialize, ToSchema)]
pub(crate) struct ModelFacts {
    id: String,
    family: &'static str,
    parameters: usize,
    layers: usize,
    heads: usize,
    vocabulary: usize,
    /// Context length.
    context: usize,
    mask_token: u32,
    end_tokens: Vec<u32>,
    /// True if it has a chat template.
    chat: bool,
    device: String,
    precision: String,
    recommended: Recommended,
    examples: Vec<crate::Example>,
}

/// Values that are used where a request leaves them out.
#[derive(Serialize, ToSchema)]
pub(crate) struct Recommended {
    strategy: String,
    layer: Vec<usize>,
    gen_length: usize,
    #[schema(required)]
    block_length: Option<usize>,
}

/// List the parts of strategies, their parameters, and properties of the model
#[utoipa::path(get, path = "/v1/strategies", tag = "lacuna", responses((status = 200, description = "What can be chosen", body = Strategies)))]
pub(crate) async fn strategies(State(service): State<Arc<Service>>) -> Result<Json<Strategies>, ApiError> {
    Ok(Json(Strategies {
        orders: section(Section::Order)?,
        paces: section(Section::Pace)?,
        revisions: section(Section::Revision)?,
        windows: section(Section::Window)?,
        lengths: section(Section::Length)?,
        caches: section(Section::Cache)?,
        presets: PRESETS.iter().map(preset).collect::<Result<_, _>>()?,
        parameters: all_parameters(),
        question: QUESTION,
        answer: ANSWER,
        sections: Section::ALL.map(Section::title).into_iter().chain([PRESETS_TITLE]).map(section_facts).collect(),
        model: facts(&service)?,
    }))
}

fn section_facts([title, about]: [&'static str; 2]) -> SectionFacts {
    SectionFacts { name: title.to_lowercase(), title, about }
}

fn section(section: Section) -> Result<Vec<StrategyPart>, ApiError> {
    let part = |part: Arc<catalogue::Part>| {
        Ok(StrategyPart {
            name: part.name.to_string(),
            about: part.about.to_string(),
            parameters: part.parameters.iter().map(|parameter| parameter.name).collect(),
            needs: part.needs.iter().map(|need| need.name()).collect(),
            example: fields(&Example::of_part(&part)?),
        })
    };
    parts(section).into_iter().map(part).collect()
}

fn fields(example: &Example) -> Map<String, Value> {
    let strategy = [("strategy".to_string(), json!(example.strategy))];
    strategy.into_iter().chain(example.params.iter().map(|(name, value)| (name.to_string(), json!(value)))).collect()
}

fn preset(preset: &catalogue::Preset) -> Result<Preset, ApiError> {
    let recipe = lacuna::Recipe::parse(preset.name, &catalogue::Params::new())?;
    Ok(Preset {
        name: preset.name,
        about: preset.about,
        is: preset.is,
        parameters: recipe.parameters().map(|parameter| parameter.name).collect(),
        values: preset.values.iter().map(|(name, value)| (name.to_string(), fixed(*value).into())).collect(),
        example: fields(&Example::of_preset(preset)?),
    })
}

/// A default as JSON, if it is a fixed value.
fn fixed(default: Default) -> Option<Value> {
    match default {
        Default::Number(number) if number.fract() == 0.0 => Some(json!(number as i64)),
        Default::Number(number) => Some(number.into()),
        Default::Flag(flag) => Some(flag.into()),
        Default::Word(word) => Some(word.into()),
        Default::Depends(_) | Default::Required => None,
    }
}

/// The bounds of a kind, as far as it has some.
fn bounds(kind: Kind) -> (f64, f64) {
    match kind {
        Kind::Integer { least, most: u64::MAX } => (least as f64, f64::INFINITY),
        Kind::Integer { least, most } => (least as f64, most as f64),
        Kind::Limit => (-1.0, f64::INFINITY),
        Kind::Number(Range { least, most, .. }) => (least, most),
        _ => (f64::NEG_INFINITY, f64::INFINITY),
    }
}

/// One entry for each name. Where parts have their own ranges, it is the widest.
fn all_parameters() -> Vec<Parameter> {
    let parameter = |known: Named| {
        let bounds: Vec<(f64, f64)> = known.kinds().iter().map(|parameter| bounds(parameter.kind)).collect();
        let finite = |number: f64| Some(number).filter(|number| number.is_finite());
        Parameter {
            name: known.parameter.name,
            about: known.parameter.about,
            kind: known.parameter.type_name(),
            default: fixed(known.parameter.default),
            usual: known.default(),
            minimum: finite(bounds.iter().map(|(least, _)| *least).fold(f64::INFINITY, f64::min)),
            maximum: finite(bounds.iter().map(|(_, most)| *most).fold(f64::NEG_INFINITY, f64::max)),
            choices: known.parameter.choices(),
            of: known.users(),
        }
    };
    parameters().into_iter().map(parameter).collect()
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
            layer: PlanContext::of(&service.checkpoint).layers_for(&plan.params),
            gen_length: plan.gen_length,
            block_length: plan.params.integer("block_length"),
            strategy: plan.strategy.name,
        },
        examples: service.config.examples.clone(),
    })
}
