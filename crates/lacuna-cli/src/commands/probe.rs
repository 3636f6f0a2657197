//! `lacuna probe`: what the model sees in a canvas.

use std::collections::BTreeMap;

use anyhow::{Result, ensure};
use clap::Args;
use lacuna::{AttentionSource, Borders, Description, Error, Token, View, Visibility};
use lacuna_models::Specials;
use serde::Serialize;

use super::print;
use crate::args::{Format, Model, Tokens, parse_positive, parse_tokens};
use crate::engine::Engine;

#[derive(Args)]
pub(crate) struct Probe {
    /// The canvas as token ids, the mask token where undecided
    #[arg(long, value_name = "IDS", value_parser = parse_tokens)]
    tokens: Tokens,
    /// Length of the blocks of block-causal attention, counted from position 0 [default: the model's]
    #[arg(long, value_name = "N", value_parser = parse_positive)]
    block_length: Option<usize>,
    #[command(flatten)]
    model: Model,
    /// Output format
    #[arg(long, value_enum, default_value_t = Format::Text)]
    format: Format,
}

#[derive(Serialize)]
struct ProbeReport {
    /// The logits of every position, before Dream's shift.
    logits: Vec<Vec<f32>>,
    /// For every layer the dependency score of each position that is masked.
    dependency: BTreeMap<usize, Vec<Option<f32>>>,
}

pub(crate) fn probe(args: &Probe) -> Result<()> {
    let mut engine = Engine::open(&args.model)?;
    let tokens = &args.tokens.0;
    let Description { vocabulary, context, layers, mask, visibility, .. } = *engine.predictor.description();
    ensure!(!tokens.is_empty(), "there is nothing to probe: give --tokens some ids");
    ensure!(tokens.len() <= context, Error::TooLong { length: tokens.len(), context });
    for (position, &token) in tokens.iter().enumerate() {
        ensure!((token as usize) < vocabulary, Error::TokenOutOfRange { token, position, vocabulary });
    }

    ensure!(
        args.block_length.is_none() || visibility != Visibility::Full,
        "--block-length has no effect: the attention of this model is not block-causal here"
    );
    let blocks = args.block_length.map(Borders::from_zero);

    let attention: Vec<AttentionSource> =
        (0..layers).map(|layer| AttentionSource { layer, heads: Vec::new() }).collect();
    let views = [View { tokens, attention: &attention, blocks, ..View::default() }];
    let observation = engine.predictor.observe(&views)?.remove(0);
    let masked_only = |scores: Vec<f32>| -> Vec<Option<f32>> {
        scores.into_iter().zip(tokens).map(|(score, &token)| (token == mask).then_some(score)).collect()
    };
    let dependency = observation.dependency.into_iter().map(masked_only).enumerate().collect();
    let seen = ProbeReport { logits: engine.predictor.logits(0)?, dependency };
    match args.format {
        Format::Json => print(&serde_json::to_string(&seen)?),
        Format::Text => show(&seen, &args.tokens.0, &engine),
    }
}

/// A table with a line for each position: its token, what the model would put there, and its dependency scores.
fn show(seen: &ProbeReport, tokens: &[Token], engine: &Engine) -> Result<()> {
    let word = |token: Token| match engine.text() {
        Ok(text) => format!("{:?}", text.decode(&[token], Specials::Keep).unwrap_or_default()),
        Err(_) => String::new(),
    };
    let shifted = engine.checkpoint.architecture().shifted;
    let layers: String = seen.dependency.keys().map(|layer| format!(" {:>6}", format!("dep {layer}"))).collect();
    print(&format!("{:>4} {:>6} {:<16} {:>6} {:<16} {:>6}{layers}", "at", "token", "", "best", "", "p"))?;
    for (position, &token) in tokens.iter().enumerate() {
        let logits = &seen.logits[if shifted { position.saturating_sub(1) } else { position }];
        let best = (0..logits.len()).max_by(|&a, &b| logits[a].total_cmp(&logits[b])).unwrap_or_default();
        let total: f64 = logits.iter().map(|&logit| f64::from(logit - logits[best]).exp()).sum();
        let score = |score: &Option<f32>| score.map_or(format!(" {:>6}", "·"), |score| format!(" {score:>6.3}"));
        let scores: String = seen.dependency.values().map(|scores| score(&scores[position])).collect();
        let (best, p) = (best as Token, 1.0 / total);
        print(&format!("{position:>4} {token:>6} {:<16} {best:>6} {:<16} {p:>6.3}{scores}", word(token), word(best)))?;
    }
    Ok(())
}
