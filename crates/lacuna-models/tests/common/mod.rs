//! Helpers that the tests share.
#![allow(dead_code, reason = "every test file uses some of it")]

pub(crate) mod altered;
pub(crate) mod decoding;
pub(crate) mod families;
pub(crate) mod family_decoding;
pub(crate) mod naive;
pub(crate) mod promises;

use std::path::PathBuf;
use std::sync::LazyLock;

use lacuna::{AttentionSource, Belief, Draw, Row, Sampling, Target, Token, TokenSet, View};
use lacuna_models::{Checkpoint, CpuPredictor, Model, Precision};
use safetensors::SafeTensors;

/// The mask token of the tiny models.
pub(crate) const MASK: Token = 511;

/// A file or directory of test data. The crate is looked for where the tests run, which may not be where they were built.
pub(crate) fn data(name: &str) -> PathBuf {
    let here = std::env::var_os("CARGO_MANIFEST_DIR").map(PathBuf::from);
    here.unwrap_or_else(|| env!("CARGO_MANIFEST_DIR").into()).join("tests/data").join(name)
}

/// Loads a checkpoint onto some device.
pub(crate) type Load = fn(&Checkpoint, Precision) -> Box<dyn Model>;

/// Loads a checkpoint onto the CPU.
pub(crate) fn on_cpu(checkpoint: &Checkpoint, precision: Precision) -> Box<dyn Model> {
    Box::new(CpuPredictor::load(checkpoint, Some(precision)).unwrap())
}

/// One of the tiny models.
pub(crate) fn tiny(name: &str) -> Checkpoint {
    Checkpoint::open(data(name)).unwrap()
}

/// One of the tiny models, on the CPU.
pub(crate) fn load(name: &str, precision: Precision) -> CpuPredictor {
    CpuPredictor::load(&tiny(name), Some(precision)).unwrap()
}

/// One case of the forward goldens.
pub(crate) struct Golden {
    pub(crate) tokens: Vec<Token>,
    pub(crate) logits: Vec<f32>,
    pub(crate) masked: Vec<usize>,
    /// Layer by layer, for the masked positions.
    pub(crate) dependency: Vec<f32>,
}

/// The three cases of a model.
pub(crate) fn goldens(model: &str) -> Vec<Golden> {
    let bytes = std::fs::read(data(&format!("forward/{model}.safetensors"))).unwrap();
    let file = SafeTensors::deserialize(&bytes).unwrap();
    let words = |name: String| -> Vec<[u8; 4]> { file.tensor(&name).unwrap().data().as_chunks().0.to_vec() };
    let floats = |name: String| words(name).into_iter().map(f32::from_le_bytes).collect();
    let integers = |name: String| words(name).into_iter().map(u32::from_le_bytes);
    (0..3)
        .map(|case| Golden {
            tokens: integers(format!("case{case}.input_ids")).collect(),
            logits: floats(format!("case{case}.logits")),
            masked: integers(format!("case{case}.masked_positions")).map(|position| position as usize).collect(),
            dependency: floats(format!("case{case}.dep")),
        })
        .collect()
}

/// All heads of each of the tiny models' layers.
pub(crate) fn all_layers() -> Vec<AttentionSource> {
    (0..4).map(|layer| AttentionSource { layer, heads: Vec::new() }).collect()
}

/// A view that asks for nothing but the forward pass.
pub(crate) fn view(tokens: &[Token]) -> View<'_> {
    View { tokens, ..View::default() }
}

/// Beliefs at places of one view.
pub(crate) fn read(model: &mut dyn Model, view: usize, places: &[Target]) -> Vec<Belief> {
    let (sampling, allowed) = (Sampling::default(), TokenSet::all_but(model.description().vocabulary, &[]));
    let row = |&place: &Target| Row { allowed: &allowed, ..row(view, place, &sampling) };
    let rows: Vec<Row<'_>> = places.iter().map(row).collect();
    model.read(&rows).unwrap()
}

/// All tokens of the tiny models but the mask.
static ALLOWED: LazyLock<TokenSet> = LazyLock::new(|| TokenSet::all_but(512, &[MASK]));

/// A row that asks for nothing but a belief.
pub(crate) fn row<'a>(view: usize, place: Target, sampling: &'a Sampling) -> Row<'a> {
    let draw = Draw::new(0, 0, place.position());
    Row::new(view, place, sampling, &ALLOWED, draw)
}

/// The largest distance between two slices.
pub(crate) fn distance(found: &[f32], expected: &[f32]) -> f32 {
    assert_eq!(found.len(), expected.len());
    found.iter().zip(expected).map(|(found, expected)| (found - expected).abs()).fold(0.0, f32::max)
}
