"""The likelihood of a text under a masked diffusion model."""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from ._native import Model


@dataclass(frozen=True)
class ScoredToken:
    """A token that was scored along an order.

    `place` is its place in the text, from 0, and `step` the step in which it was scored, from 0. `token` is its id; `text` is empty if
    the model has no tokenizer. `logprob` is the logarithm of its probability.
    """

    place: int
    token: int
    text: str
    logprob: float
    step: int


@dataclass(frozen=True)
class Score:
    """Log-likelihood of a text.

    `loglikelihood` is the log-likelihood, or the estimate of a lower bound on it, in nats; `mean_logprob` is that divided by the number of
    `tokens` that were scored. `nfe` are forward passes of the model. `standard_error` is that of the estimate; None along an order,
    where nothing is drawn. `logprobs` are, along an order, the scored tokens by their place.
    """

    loglikelihood: float
    mean_logprob: float
    tokens: int
    nfe: int
    standard_error: float | None = None
    logprobs: tuple[ScoredToken, ...] = ()


def score(
    model: Model,
    pairs: Sequence[tuple[Any, Any]],
    *,
    system: str | None = None,
    raw: bool = False,
    batch: int | None = None,
    **request: Any,
) -> list[Score]:
    """The scores of texts, each behind its prompt; `Model.score` says what they are."""
    asked = json.dumps({name: value for name, value in request.items() if value is not None})
    found: list[dict[str, Any]] = json.loads(model.score_pairs(list(pairs), asked, system=system, raw=raw, batch=batch))
    for one in found:
        one["logprobs"] = tuple(ScoredToken(**token) for token in one.get("logprobs", ()))
    return [Score(**one) for one in found]


def is_greedy(model: Model, prompt: Sequence[int], answer: Sequence[int]) -> bool:
    """True if the model, always taking its most confident position, writes exactly this answer, as LLaDA's evaluation asks."""
    written = model.stream(list(prompt), strategy="confidence", gen_length=len(answer), early_stop=False).finish()
    return written.tokens == list(answer)
