//! Checks that a model can do what a strategy needs, before the first step.

use crate::{AttentionSource, Canvas, Description, Error, Options, Result, Strategy};

/// Refuses what the model cannot do.
pub(crate) fn check(canvas: &Canvas, strategy: &Strategy, options: &Options, model: &Description) -> Result<()> {
    let longest = options.grow.as_ref().map_or(canvas.len(), |grow| grow.most.max(canvas.len()));
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
    if !matrix.is_empty() && !strategy.cache.is_none() {
        return incompatible("this pace looks at the attention of every position: decode without a cache");
    }
    if strategy.pace.credit().is_some() && !model.credits {
        return incompatible(
            "credit cannot be added to the logits of this model here: decode on the CPU, or with another pace",
        );
    }
    if !strategy.cache.is_none() {
        if !model.caches {
            return incompatible("this model keeps no keys and values here: decode without a cache");
        } else if strategy.revision.is_some() {
            return incompatible(
                "a cache takes what was decided for granted, but this strategy reopens tokens: decode without a cache",
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
