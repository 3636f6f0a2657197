"""Decoding with a model of one's own."""

from collections.abc import Callable, Iterable, Mapping, Sequence
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
    guidance once more, for the canvas without its prompt. It returns the logits, or `(logits, attention)`, or an output of
    transformers, which has both; `Run.step` says what these may be. All other arguments are those of `Run`;
    `help(lacunalm.Options)` explains the options.
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
    predict: Callable[[list[list[int]]], Any],
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

    `predict(canvases)` gets the canvases that are not finished, each a list of token ids. It returns a list with one answer for
    each, its logits or `(logits, attention)`; or all at once, as a model gives them: logits [canvases, length, vocabulary], alone,
    with attention [canvases, heads, length, length] (or a list or dict of these by layer), or as an output of transformers. Where
    canvases were padded on the right, what was padded is cut off. All other arguments are those of `Run`;
    `help(lacunalm.Options)` explains the options.
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
        answers = each(predict(canvases), [len(canvas) for canvas in canvases])
        unguided = [logits_and_attention(answer)[0] for answer in answers[len(unfinished) :]]
        for run, answer, other in zip(unfinished, answers, unguided or [None] * len(unfinished)):
            run.step(*logits_and_attention(answer), unguided=other)
    return [run.result for run in runs]


def logits_and_attention(answer: Any) -> tuple[Any, Any]:
    """The output of `predict` as a pair of logits and attention."""
    if hasattr(answer, "logits"):
        return answer.logits, getattr(answer, "attentions", None)
    if not isinstance(answer, tuple):
        return answer, None
    if len(answer) != 2:
        raise ValueError(f"predict must return logits or (logits, attention), but it returned {len(answer)} things")
    return answer


def each(answers: Any, lengths: list[int]) -> Sequence[Any]:
    """One answer for each canvas, of those that came one by one or all at once."""
    pair = isinstance(answers, tuple) and len(answers) == 2
    if hasattr(answers, "logits") or (pair and _dimensions(answers[0]) == 3 and len(answers[0]) == len(lengths)):
        logits, attention = logits_and_attention(answers)
        return [(_of(logits, i, n, 1), _attention_of(attention, i, n)) for i, n in enumerate(lengths)]
    if not hasattr(answers, "__len__"):
        kind = type(answers).__name__
        raise TypeError(f"predict must return an answer for each canvas, but it returned a value of type {kind}")
    if len(answers) != len(lengths):
        raise ValueError(f"predict was given {len(lengths)} canvases, but returned {len(answers)} answers")
    if _dimensions(answers) == 3:
        return [_of(answers, i, n, 1) for i, n in enumerate(lengths)]
    return answers  # type: ignore[no-any-return]


def _dimensions(array: Any) -> int:
    return len(getattr(array, "shape", ()))


def _of(array: Any, number: int, length: int, axes: int) -> Any:
    """One canvas of a batched array, cut to its `length`: its rows, or with two axes its rows and columns."""
    one = array[number]
    if axes == 2:
        return one[..., :length, :length] if _dimensions(one) >= 2 else one[:length]
    return one[:length]


def _attention_of(attention: Any, number: int, length: int) -> Any:
    """The attention of one canvas, by layer if it is by layer."""
    if attention is None or (isinstance(attention, (list, tuple)) and not attention):
        return None
    if isinstance(attention, Mapping):
        return {layer: _of(one, number, length, 2) for layer, one in attention.items()}
    if isinstance(attention, (list, tuple)):
        return [_of(one, number, length, 2) for one in attention]
    return _of(attention, number, length, 2)
