"""Decoding with a model of one's own."""

from collections.abc import Callable, Iterable, Sequence
from typing import Any, Unpack

from ._native import Result, Run
from .options import Options


def decode(
    predict: Callable[[list[int]], Any],
    tokens: Sequence[int],
    *,
    mask_token: int,
    end_tokens: Sequence[int] = (),
    vocabulary: int | None = None,
    layers: int | None = None,
    shifted: bool = False,
    **options: Unpack[Options],
) -> Result:
    """Decodes with a model of your own.

    `predict(tokens)` is called once a step with the canvas, a list of token ids with `mask_token` where undecided; with
    guidance once more, for the canvas without its prompt. It returns the logits, or `(logits, attention)`; `Run.step` says what
    these may be. All other arguments are those of `Run`.
    """
    return decode_batch(
        lambda canvases: [predict(canvas) for canvas in canvases],
        [tokens],
        mask_token=mask_token,
        end_tokens=end_tokens,
        vocabulary=vocabulary,
        layers=layers,
        shifted=shifted,
        **options,
    )[0]


def decode_batch(
    predict: Callable[[list[list[int]]], Sequence[Any]],
    prompts: Iterable[Sequence[int]],
    *,
    mask_token: int,
    end_tokens: Sequence[int] = (),
    vocabulary: int | None = None,
    layers: int | None = None,
    shifted: bool = False,
    **options: Unpack[Options],
) -> list[Result]:
    """Decodes several texts, which may differ in length, with one call of `predict` a step.

    `predict(canvases)` gets the canvases that are not finished, each a list of token ids, and returns a list with one answer
    for each: its logits, or `(logits, attention)`.
    """
    runs = [
        Run(
            tokens,
            mask_token=mask_token,
            end_tokens=end_tokens,
            vocabulary=vocabulary,
            layers=layers,
            shifted=shifted,
            **options,
        )
        for tokens in prompts
    ]
    while unfinished := [run for run in runs if not run.finished]:
        canvases = [run.tokens for run in unfinished]
        canvases += [run.unguided for run in unfinished if run.unguided is not None]
        answers = predict(canvases)
        if len(answers) != len(canvases):
            raise ValueError(f"predict was given {len(canvases)} canvases, but returned {len(answers)} answers")
        unguided = [logits_and_attention(answer)[0] for answer in answers[len(unfinished) :]]
        for run, answer, other in zip(unfinished, answers, unguided or [None] * len(unfinished)):
            run.step(*logits_and_attention(answer), unguided=other)
    return [run.result for run in runs]


def logits_and_attention(answer: Any) -> tuple[Any, Any]:
    """What `predict` returned, as a pair."""
    if not isinstance(answer, tuple):
        return answer, None
    if len(answer) != 2:
        raise ValueError(f"predict must return logits or (logits, attention), but it returned {len(answer)} things")
    return answer
