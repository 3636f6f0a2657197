//! What predictors are asked, checked once.

use lacuna::{Choice, Description, Lens, Scope, View};

use crate::Error;

/// Refuses a view that a model cannot observe; `kept` positions of its run have keys and values that were kept.
pub(crate) fn check(view: &View<'_>, model: &Description, kept: Option<usize>) -> lacuna::Result<()> {
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
    for source in view.attention {
        if source.layer >= layers {
            return Err(lacuna::Error::NoSuchLayer { layer: source.layer, layers });
        }
        if let Some(&head) = source.heads.iter().find(|&&head| head >= heads) {
            return Err(lacuna::Error::NoSuchHead { head, heads });
        }
    }
    if !shadows && !view.shadows.is_empty() {
        let reason = "a model whose prediction is shifted has no shadow rows";
        return Err(lacuna::Error::Unfit(reason.to_string()));
    }
    if view.scope != Scope::All && !view.shadows.is_empty() {
        return Err(lacuna::Error::Unfit("keys and values are not kept of a canvas with shadows".to_string()));
    }
    if let Scope::Only { start, end } = view.scope {
        if !(start < end && end <= length) {
            return Err(Error::Request(format!("positions {start} to {end} are not in a canvas of {length}")).into());
        }
        if kept != Some(length) {
            return Err(Error::Request(format!("nothing was kept of run {} as it is now", view.run)).into());
        }
    }
    match view.shadows.iter().find(|&&position| position >= length) {
        Some(position) => Err(Error::Request(format!("position {position} has no token to shadow")).into()),
        None => Ok(()),
    }
}

/// Whether nothing happens to the logits but that some are left out, and the largest is chosen.
pub(crate) fn takes_the_largest(lens: &Lens) -> bool {
    let largest = match lens.choice {
        Choice::Greedy => true,
        Choice::Nucleus { temperature, top_p, top_k } => temperature <= 0.0 && top_p >= 1.0 && top_k == 0,
        Choice::Gumbel { .. } => false,
    };
    largest && lens.deferred.is_empty()
}
