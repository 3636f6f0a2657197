"""The likelihood of a text under a masked diffusion model."""

import random
from collections.abc import Iterator, Sequence

from ._native import Model


def loglikelihood(
    model: Model, prompt: str | Sequence[int], answer: str | Sequence[int], *, samples: int, batch: int, seed: int
) -> float:
    """LLaDA's Monte Carlo estimate; `Model.loglikelihood` says what it is."""
    if samples < 1 or batch < 1:
        raise ValueError("samples and batch must be 1 or more")
    begin, end = _tokens(model, prompt), _tokens(model, answer)
    if not end:
        raise ValueError("the answer is empty: there is nothing to estimate")
    draw = random.Random(f"{seed} {begin} {end}")
    total = 0.0
    for size in (min(batch, samples - done) for done in range(0, samples, batch)):
        masked = [sorted(draw.sample(range(len(end)), count)) for count in _counts(len(end), size, draw)]
        canvases = [
            begin + [model.mask_token if i in set(places) else t for i, t in enumerate(end)] for places in masked
        ]
        targets = [[(len(begin) + place, end[place]) for place in places] for places in masked]
        for places, found in zip(masked, model.log_probabilities(canvases, targets), strict=True):
            total += sum(found) * len(end) / len(places)
    return total / samples


def is_greedy(model: Model, prompt: str | Sequence[int], answer: str | Sequence[int]) -> bool:
    """True if the model, always taking its most confident position, writes exactly this answer, as LLaDA's evaluation asks."""
    begin, end = _tokens(model, prompt), _tokens(model, answer)
    written = model.stream(begin, strategy="confidence", gen_length=len(end), early_stop=False).finish()
    return written.tokens == end


def _counts(length: int, size: int, draw: random.Random) -> Iterator[int]:
    """How many tokens each sample masks: evenly spread over 1 to `length`, from a random start."""
    start = draw.randint(1, length)
    return ((round(start + i * length / size) - 1) % length + 1 for i in range(size))


def _tokens(model: Model, given: str | Sequence[int]) -> list[int]:
    return model.encode(given) if isinstance(given, str) else list(given)
