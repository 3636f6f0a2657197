//! Checks of views and rows.

use lacuna::{Compute, Description, Row, Sampling, TokenRule, View, Visibility};

use crate::Error;

/// Refuses views that a model cannot observe together; `cached(run)` leading positions of a run are in the KV cache.
pub(crate) fn check_views(
    views: &[View<'_>],
    model: &Description,
    cached: impl Fn(u64) -> Option<usize>,
) -> lacuna::Result<()> {
    let stores = |view: &View<'_>| view.compute != Compute::All;
    for (index, view) in views.iter().enumerate() {
        check_view(view, model, cached(view.run))?;
        if stores(view) && views[..index].iter().any(|other| stores(other) && other.run == view.run) {
            let reason =
                format!("two views of run {} would store over each other; give each a run of its own", view.run);
            return Err(Error::Request(reason).into());
        }
    }
    Ok(())
}

/// Refuses a view that a model cannot observe; `cached` leading positions of its run are in the KV cache.
fn check_view(view: &View<'_>, model: &Description, cached: Option<usize>) -> lacuna::Result<()> {
    let &Description { vocabulary, layers, heads, context, shadows, .. } = model;
    let length = view.tokens.len();
    if length == 0 {
        return Err(Error::Request("a canvas without positions cannot be observed".to_string()).into());
    }
    if length > context {
        return Err(lacuna::Error::TooLong { length, context });
    }
    if let Some(position) = view.tokens.iter().position(|&token| token as usize >= vocabulary) {
        return Err(lacuna::Error::TokenOutOfRange { token: view.tokens[position], position, vocabulary });
    }
    check_rows(view.plan.certain, vocabulary)?;
    check_rows(view.plan.ranked, vocabulary)?;
    for source in view.attention {
        if source.layer >= layers {
            return Err(lacuna::Error::NoSuchLayer { layer: source.layer, layers });
        }
        if let Some(&head) = source.heads.iter().find(|&&head| head >= heads) {
            return Err(lacuna::Error::NoSuchHead { head, heads });
        }
    }
    if let Some(&layer) = view.matrix.iter().find(|layer| **layer >= layers) {
        return Err(lacuna::Error::NoSuchLayer { layer, layers });
    }
    let shows_matrix = model.matrices && view.compute == Compute::All;
    if !view.matrix.is_empty() && !shows_matrix {
        let reason = "whole attention matrices are only available without a cache";
        return Err(lacuna::Error::Incompatible(reason.into()));
    }
    let refresh = matches!(view.compute, Compute::Refresh(_));
    if view.rollout && !model.rollouts || refresh && !model.refreshes {
        let reason = "this device does not support attention rollout and layer-wise refresh: choose another cache";
        return Err(lacuna::Error::Incompatible(reason.into()));
    }
    if view.blocks.is_some() && (view.rollout || refresh) {
        let reason = "attention rollout and layer-wise refresh are for full attention";
        return Err(lacuna::Error::Incompatible(reason.into()));
    }
    if view.blocks.is_some() && model.visibility == Visibility::Full {
        return Err(lacuna::Error::Incompatible("the attention of this model is not block-causal here".into()));
    }
    if !shadows && !view.shadows.is_empty() {
        let reason = "a model whose prediction is shifted has no shadow rows";
        return Err(lacuna::Error::Incompatible(reason.into()));
    }
    if view.compute != Compute::All && !view.shadows.is_empty() {
        return Err(lacuna::Error::Incompatible("a canvas with shadow rows cannot be cached".into()));
    }
    if let Compute::Only(positions) = view.compute {
        let ascending = positions.windows(2).all(|pair| pair[0] < pair[1]);
        if !ascending || positions.last().is_none_or(|&last| last >= length) {
            let reason = format!("the positions to compute must ascend and lie in a canvas of {length}");
            return Err(Error::Request(reason).into());
        }
        let known = cached.unwrap_or(0);
        let complete = match (view.blocks.or(model.visibility.default_blocks()), positions.last()) {
            (Some(blocks), Some(&last)) => {
                let unknown = known..blocks.end(last).min(length);
                positions.iter().filter(|position| unknown.contains(position)).count() == unknown.len()
            }
            _ => cached == Some(length),
        };
        if !complete {
            return Err(Error::Request(format!(
                "run {} has no complete KV cache: compute all of its positions first",
                view.run
            ))
            .into());
        }
    }
    match view.shadows.iter().find(|&&position| position >= length) {
        Some(position) => Err(Error::Request(format!("position {position} has no token to shadow")).into()),
        None => Ok(()),
    }
}

/// Refuses rows that name tokens of another vocabulary than the model's.
pub(crate) fn check_rows(rows: &[Row<'_>], vocabulary: usize) -> lacuna::Result<()> {
    rows.iter().try_for_each(|row| check_row(row, vocabulary))
}

fn check_row(row: &Row<'_>, vocabulary: usize) -> lacuna::Result<()> {
    let position = row.target.position();
    if let Some(token) = row.scored_token.filter(|&token| token as usize >= vocabulary) {
        return Err(
            Error::Request(format!("the scored token {token} is outside the vocabulary (0..{vocabulary})")).into()
        );
    }
    if row.allowed.words().len() != vocabulary.div_ceil(32) {
        let reason =
            format!("the tokens allowed at position {position} are not of this model's vocabulary of {vocabulary}");
        return Err(Error::Request(reason).into());
    }
    Ok(())
}

/// True if the token with the largest allowed logit is chosen, without temperature, truncation or deferred tokens.
pub(crate) fn is_greedy(sampling: &Sampling) -> bool {
    let largest = match sampling.rule {
        TokenRule::Greedy => true,
        TokenRule::Nucleus { temperature, top_p, top_k } => temperature <= 0.0 && top_p >= 1.0 && top_k == 0,
        TokenRule::Gumbel { .. } => false,
    };
    largest && sampling.deferred.is_empty()
}
