//! Checks that a model can do what a strategy needs, before the first step.

use crate::{
    AttentionSource, Block, Borders, Canvas, Description, Error, Message, Options, Result, Strategy, TokenRule,
    Visibility,
};

/// Refuses what the model cannot do. `borders` are those of block-causal attention.
pub(crate) fn check(
    canvas: &Canvas,
    strategy: &Strategy,
    options: &Options,
    model: &Description,
    borders: Option<Borders>,
) -> Result<()> {
    let found = options.find.as_ref().map_or(0, |find| find.gaps.len().saturating_mul(find.most - 1));
    let longest = options.grow.as_ref().map_or(canvas.len() + found, |grow| grow.most.max(canvas.len()));
    if longest > model.context {
        return Err(Error::TooLong { length: longest, context: model.context });
    }
    for (position, &token) in canvas.tokens().iter().enumerate() {
        if token as usize >= model.vocabulary {
            return Err(Error::TokenOutOfRange { token, position, vocabulary: model.vocabulary });
        }
    }
    let sampling = &options.sampling;
    let mut special = options.suppressed.iter().chain(&sampling.deferred).chain(&options.stop);
    if let Some(token) = special.find(|token| **token as usize >= model.vocabulary) {
        let why = format!("end or suppressed token {token} is outside the vocabulary, 0 to {}", model.vocabulary - 1);
        return Err(Error::Incompatible(why.into()));
    }
    let matrix = strategy.pace.matrix(model);
    if let Some(&layer) = matrix.iter().find(|layer| **layer >= model.layers) {
        return Err(Error::NoSuchLayer { layer, layers: model.layers });
    }
    for AttentionSource { layer, heads } in strategy.order.ranks_by().attention().iter().chain(&options.watch) {
        if *layer >= model.layers {
            return Err(Error::NoSuchLayer { layer: *layer, layers: model.layers });
        }
        if let Some(&head) = heads.iter().find(|head| **head >= model.heads) {
            return Err(Error::NoSuchHead { head, heads: model.heads });
        }
    }
    let incompatible = |why: &str| Err(Error::Incompatible(why.into()));
    if !strategy.length.is_fixed() && canvas.gaps().count() < canvas.len() - canvas.span().start {
        return incompatible("a canvas grows at its end, but this one ends with a text: decode it at a fixed length");
    }
    match &strategy.revision {
        None if canvas.drafts_in(0..canvas.len()).next().is_some() => {
            let message = Message::from("only a revision reopens a draft, and this strategy has none: add one to ");
            return Err(Error::Incompatible(message.parameter("strategy").text(", such as '+verify' or '+edit'")));
        }
        Some(revision) if !revision.revises_complete_text() && canvas.masked().next().is_none() => {
            return incompatible(
                "this revision compares what a step has written with the step before, but nothing of this text is masked: use another \
                 one, such as 'verify' or 'edit'",
            );
        }
        _ => {}
    }
    if strategy.revision.as_ref().is_some_and(|revision| revision.shadows()) && !model.shadows {
        let cannot = match model.shifted {
            true => "predicts a position from the one before it (as Dream does)",
            false => "cannot do that",
        };
        return incompatible(&format!(
            "WINO verifies a token by predicting it again at its own position, but this model {cannot}: use a strategy without \
             'verify'"
        ));
    }
    if !matrix.is_empty() && !model.matrices {
        return incompatible(
            "this pace looks at whole attention matrices, which this model does not show here: decode on the CPU, or with another pace",
        );
    }
    if !matrix.is_empty() && !strategy.cache.is_exact() {
        return incompatible("this pace looks at the attention of every position: decode without a cache");
    }
    if strategy.pace.credit().is_some() && !model.credits {
        return incompatible(
            "credit cannot be added to the logits of this model here: decode on the CPU, or with another pace",
        );
    }
    let drawn_from_all = matches!(sampling.rule, TokenRule::Greedy | TokenRule::Gumbel { .. });
    if options.alternatives > 0 && !model.alternatives && !drawn_from_all {
        let message = Message::from(
            "the most probable tokens of a distribution that is tempered or cut as Dream's are not told here: decode on \
             the CPU, or without ",
        );
        return Err(Error::Incompatible(message.parameter("top_logprobs")));
    }
    check_blocks(canvas, strategy, model, borders)?;
    if !strategy.cache.is_exact() {
        if (strategy.cache.refreshes() && !model.refreshes) || (strategy.cache.rollout() && !model.rollouts) {
            return incompatible(
                "this cache looks at values and attention inside the model, which it does not show here: decode on the CPU, or with \
                 another cache",
            );
        }
        if !model.caches {
            return incompatible("this model keeps no keys and values here: decode without a cache");
        } else if strategy.revision.is_some() {
            return incompatible(
                "a cache takes what was decided for granted, but this strategy reopens tokens: decode without a cache",
            );
        } else if strategy.pace.exceeds_window() {
            return incompatible(
                "this pace may commit positions that a cache does not compute: decode without a cache",
            );
        } else if options.guidance > 0.0 {
            return incompatible("guidance and a cache do not go together: decode without one of them");
        }
    }
    for (name, value) in [("guidance", f64::from(options.guidance)), ("temperature", sampling.rule.temperature())] {
        if !(value >= 0.0 && value.is_finite()) {
            return Err(Error::parameter(name, value.to_string(), "must be 0 or more"));
        }
    }
    Ok(())
}

/// Refuses what does not go with the blocks of block-causal attention, or with full attention.
fn check_blocks(canvas: &Canvas, strategy: &Strategy, model: &Description, borders: Option<Borders>) -> Result<()> {
    let incompatible = |why: &str| Err(Error::Incompatible(why.into()));
    let Some(borders) = borders else {
        return match strategy.cache.is_causal() {
            true => incompatible(
                "cache 'blocks' stores finished blocks of block-causal attention, but this model's attention is full: use another \
                 cache or strategy",
            ),
            false => Ok(()),
        };
    };
    if model.visibility == Visibility::Full {
        return incompatible(
            "this window makes attention block-causal, but this model attends to everything: use window 'blocks' or another strategy",
        );
    }
    if !strategy.cache.is_exact() && !strategy.cache.is_causal() {
        return incompatible(
            "this cache is for full attention, but this model's is block-causal: its finished blocks are cached exactly without it",
        );
    }
    if !strategy.length.is_fixed() {
        return incompatible(
            "this length measures the end of the canvas, which block-causal attention does not see: use length 'fixed'",
        );
    }
    let block = Block { index: 1, range: 1..2, step: 0 };
    let unsettled = strategy.revision.as_ref().is_some_and(|revision| revision.settled(&block) < block.range.start);
    if strategy.cache.is_causal() && unsettled {
        return incompatible(
            "cache 'blocks' stores finished blocks for good, but this revision changes them: decode without it",
        );
    }
    let end = borders.end(canvas.span().start);
    match (end..canvas.len()).find(|&position| !canvas.is_gap(position)) {
        Some(position) => {
            let (first, length) = (canvas.span().start, borders.length());
            let why = format!(
                "the gap at position {first} does not see what stands at position {position}: this model's attention goes block by \
                 block of {length}, so that nothing given may follow the block of the first gap"
            );
            Err(Error::Incompatible(why.into()))
        }
        None => Ok(()),
    }
}
