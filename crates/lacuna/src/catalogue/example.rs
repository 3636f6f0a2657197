//! Short runs that show parts and presets at work.

use super::{Default, PRESETS, Params, Part, Preset, Section};
use crate::{Recipe, Result};

/// A short run that shows a part or a preset at work.
#[derive(Clone, Debug)]
pub struct Example {
    /// The strategy that has it.
    pub strategy: String,
    /// The other parameters, the length among them.
    pub params: Params,
}

/// The question that the examples answer.
pub const QUESTION: &str = "Sara has 24 pens and gives 9 away. How many are left?";

/// The number that answers it.
pub const ANSWER: &str = "15";

/// Length of an example.
const LENGTH: usize = 32;

/// Values for a short run, for the strategies that use them: what they must be given, and what would need a longer run by default.
const VALUES: &[(&str, &str)] = &[
    ("steps", "8"),
    ("answer_offset", "8"),
    ("places", "0,2,4,6,8,10,12,1,3,5,7,9,11,13"),
    ("remdm_loops", "4"),
    ("revise_every", "2"),
    ("end_check", "4"),
    // All tokens are equally frequent.
    ("frequencies", r#"{"num_token":1000,"p_baseline_dict":{}}"#),
];

/// Values with which a method does what it is there for, in a run as short as this.
const OWN: &[(&str, &str, &str)] = &[
    ("dsb", "threshold", "0.9"),
    ("hierarchy-remask", "remask_threshold", "0.95"),
    ("llada2.1", "threshold", "0.5"),
    ("llada2.1", "edit_threshold", "0.5"),
];

/// Values for parameters that have no default here.
const REQUIRED: &[(&str, &str)] = &[("threshold", "0.9"), ("block_length", "8")];

impl Example {
    /// Shows a part: an order alone, a pace with `dos`, a revision or a length in the preset that has it, a window or a cache with
    /// Fast-dLLM's threshold in blocks.
    pub fn of_part(part: &Part) -> Result<Self> {
        let (section, name) = (part.section(), &*part.name);
        let preset = |has: &dyn Fn(&Preset) -> bool| {
            PRESETS.iter().find(|preset| has(preset)).map(|preset| preset.name.to_string())
        };
        let named = section.parameter();
        let sets =
            |preset: &Preset| preset.values.iter().any(|(key, value)| Some(*key) == named && value.to_string() == name);
        let strategy = match section {
            Section::Order => name.to_string(),
            Section::Pace => format!("dos+{name}"),
            Section::Revision => {
                preset(&|preset| preset.is.ends_with(&format!("+{name}"))).unwrap_or(format!("confidence+top2+{name}"))
            }
            Section::Window | Section::Length => preset(&sets).unwrap_or("fast-dllm".into()),
            Section::Cache => "fast-dllm".into(),
        };
        let mut params = Params::new();
        if let Some(parameter) = named {
            params.parse(parameter, name)?;
        }
        if matches!(section, Section::Window | Section::Cache) {
            params.parse("block_length", "8")?;
        }
        Self::new(strategy, params)
    }

    /// Shows a preset.
    pub fn of_preset(preset: &Preset) -> Result<Self> {
        Self::new(preset.name.into(), Params::new())
    }

    fn new(strategy: String, mut params: Params) -> Result<Self> {
        let recipe = Recipe::parse(&strategy, &params)?;
        for (_, name, value) in OWN.iter().filter(|(of, ..)| *of == strategy) {
            params.parse(name, value)?;
        }
        let used = VALUES.iter().filter(|(name, _)| recipe.uses(name));
        let required = REQUIRED.iter().filter(|(name, _)| {
            params.get(name).is_none()
                && recipe.parameters().any(|known| known.name == *name && known.default == Default::Required)
        });
        for (name, value) in used.chain(required).collect::<Vec<_>>() {
            params.parse(name, value)?;
        }
        // A canvas that grows begins with room for a quarter.
        let grows = recipe.uses("end_check");
        let params = params.with("gen_length", if grows { LENGTH / 4 } else { LENGTH })?;
        Ok(Self { strategy, params })
    }
}
