"""Benchmarks for a model: `lacuna eval` from Python."""

import json
from collections.abc import Sequence
from os import PathLike, fspath
from typing import Any, Literal

from . import _native
from .checks import positive, several, whole
from .wrapper import Wrapped, wrap


def evaluate(
    model: Any,
    tasks: str | Sequence[str] = (),
    *,
    tokenizer: Any = None,
    strategy: str | Sequence[str] | None = None,
    suite: str | PathLike[str] | None = None,
    data: str | PathLike[str] | None = None,
    out: str | PathLike[str] = "results",
    protocol: str | None = None,
    preset: str | PathLike[str] | None = None,
    limit: int | None = None,
    part: Literal["all", "tune", "test"] = "all",
    shard: str = "1/1",
    batch: int | None = None,
    gen_length: int | Sequence[int] | None = None,
    block_lengths: int | str | Sequence[int | str] = (),
    each_layer: str | int | Sequence[int] | None = None,
    unconfined: bool = False,
    progress: bool = False,
    name: str | None = None,
    **options: Any,
) -> list[dict[str, Any]]:
    """Measures strategies on benchmarks, as `lacuna eval` does, and returns the entries of `results.json`.

    `model` is a `Model`, what `wrap` returns, or a model object that `wrap` takes, with its `tokenizer`. The results folder `out` is that
    of `lacuna eval`: the same call goes on where a stopped one ended, and `lacuna report` makes tables and plots of it.

    `tasks` is one name or several: gsm8k, math500, humaneval, mbpp (from `data`, a folder or a file), words and code (part of the
    package), and those of models/orders. `strategy` is one or several, each of which is measured. `suite` is a list of measurements
    (paper, mini, orders, strategies, or a file), of which `tasks` and `strategy` take a part. `protocol` is how the tasks are asked and
    answers are taken, the task's own if not given. `preset` is a file of `lacuna tune`. `limit` takes the first problems of each task,
    `part` all of them, those set aside for `lacuna tune` or the others, `shard` "I/N" one of N parts, for several machines. `batch`
    problems share a forward pass. Of several numbers of tokens `gen_length`, `block_lengths` ("one" is one block) and layers `each_layer`
    ("all", "0-7"), each is measured. `unconfined` runs generated code even where nothing confines it. `progress` shows on standard error
    how far it is. `name` is the model's name in the results, its own if not given.

    The other options are those of decoding: `help(lacunalm.Options)` explains them.
    """
    lengths = [] if gen_length is None else several(gen_length)
    layers = each_layer
    if layers is not None and not isinstance(layers, str):
        layers = ",".join(str(whole("each_layer", one)) for one in several(layers))
    keywords: dict[str, Any] = {
        "tasks": [tasks] if isinstance(tasks, str) else list(tasks),
        "suite": None if suite is None else fspath(suite),
        "data": data,
        "out": out,
        "protocol": protocol,
        "preset": preset,
        "limit": None if limit is None else positive("limit", limit),
        "part": part,
        "shard": shard,
        "batch": None if batch is None else positive("batch", batch),
        "gen_length": [positive("gen_length", one) for one in lengths],
        "block_lengths": [
            one if isinstance(one, str) else str(positive("block_lengths", one)) for one in several(block_lengths)
        ],
        "each_layer": layers,
        "unconfined": unconfined,
        "progress": progress,
    }
    options["strategy"] = strategy if strategy is None or isinstance(strategy, str) else ",".join(strategy)
    if isinstance(model, _native.Model):
        if tokenizer is not None:
            raise ValueError("a Model has its tokenizer: leave tokenizer= out")
        if name is not None:
            raise ValueError("a Model has its name: leave name= out")
        found = _native.evaluate_model(model, keywords, **options)
    else:
        wrapped = model if isinstance(model, Wrapped) else wrap(model, tokenizer)
        if wrapped.tokenizer is None:
            raise ValueError("the tasks are texts, so the model needs a tokenizer: give tokenizer=")
        found = _native.evaluate_own(_facts(wrapped, name), keywords, **options)
    entries: list[dict[str, Any]] = json.loads(found)
    return entries


def _facts(wrapped: Wrapped, name: str | None) -> dict[str, Any]:
    """Everything that an evaluation asks of a wrapped model."""
    model, config = wrapped.model, wrapped.config
    parameters = list(model.parameters()) if hasattr(model, "parameters") else []
    kind = getattr(model, "__name__", type(model).__name__)
    return {
        "name": name or getattr(config, "_name_or_path", None) or getattr(config, "name_or_path", None) or kind,
        "family": str(getattr(config, "model_type", None) or kind),
        "parameters": sum(one.numel() for one in parameters),
        "precision": str(parameters[0].dtype).removeprefix("torch.") if parameters else "its own",
        "device": str(parameters[0].device) if parameters else "its own",
        "mask_token": wrapped.mask_token,
        "end_tokens": wrapped.end_tokens,
        "layers": wrapped.layers,
        "shifted": wrapped.shifted,
        "answers": wrapped.answers,
        "codec": _Codec(wrapped.tokenizer),
    }


class _Codec:
    """A tokenizer of transformers as an evaluation uses it."""

    def __init__(self, tokenizer: Any) -> None:
        self.tokenizer = tokenizer

    def render(self, turns: list[tuple[str, str]]) -> str:
        if not getattr(self.tokenizer, "chat_template", None):
            raise ValueError("the tokenizer has no chat template, which the tasks need: set tokenizer.chat_template")
        chat = [{"role": role, "content": content} for role, content in turns]
        return str(self.tokenizer.apply_chat_template(chat, add_generation_prompt=True, tokenize=False))

    def encode(self, text: str) -> list[int]:
        return list(self.tokenizer(text, add_special_tokens=False)["input_ids"])

    def decode(self, tokens: list[int]) -> str:
        return str(self.tokenizer.decode(tokens, skip_special_tokens=True))
