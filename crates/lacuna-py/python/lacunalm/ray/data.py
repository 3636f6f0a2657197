"""Answers for the rows of a data set."""

import os
from collections.abc import Callable
from typing import Any

import ray
from ray.data import ActorPoolStrategy, Dataset

from .._native import check_options
from ..checks import positive, whole
from ..model import Model
from .room import Room


def generate(
    dataset: Dataset,
    *,
    model: str | os.PathLike[str] | None = None,
    prompt: str = "prompt",
    strategy: str | None = None,
    batch: int = 8,
    gpus: float = 0,
    cpus: float = 1,
    concurrency: int | None = None,
    id: str | None = None,
    done: Dataset | None = None,
    seed: str | int = 0,
    precision: str | None = None,
    raw: bool = False,
    system: str | None = None,
    stop: str | list[str] | None = None,
    setup: Callable[[], object] | None = None,
    trace: bool = False,
    **options: Any,
) -> Dataset:
    """Answers each row's `prompt` column; all other columns stay, and `text`, `tokens`, `nfe` and `strategy` are added.

    The rows come from whatever Ray Data reads, and the result goes wherever it writes: nothing is computed before. `concurrency`
    actors load the model once each, by default as many as there is room for beside a CPU for reading; an actor computes with as many
    threads as it has CPUs. `batch` texts share a forward pass. The answers are those of `Model.generate` on one machine, bit for bit; what a failed actor had to do is done again.

    What is wrong with the options is said at once. With `setup`, which may register orders, the actors say it; what a model decides
    that only other machines have, they say, too.

    With `id`, a column, rows whose id is among those of the data set `done` are left out: give what an earlier run wrote, and only
    the rest is decoded. `seed` is a number for all rows, or a column with a number for each. `setup` is called in each actor
    before anything else, say to register orders. `trace=True` adds the recorded run as a column, `run`.
    """
    if not isinstance(dataset, Dataset):
        raise TypeError(
            "dataset must be one of Ray Data, such as ray.data.read_json(...) or ray.data.from_items([...])"
        )
    path = None if model is None else os.fspath(model)
    batch = positive("batch", batch)
    concurrency = None if concurrency is None else positive("concurrency", concurrency)
    room = Room(cpus, gpus, kept=1)
    asked: dict[str, Any] = {"raw": raw, "system": system, "stop": stop, "strategy": strategy} | options
    # What is registered in the actors is not known here.
    if setup is None:
        check_options(path, room.elsewhere, precision=precision, **asked)
    added = ["text", "tokens", "nfe", "strategy"] + ["run"] * trace
    needed = [prompt] if id is None else [prompt, id]
    if isinstance(seed, str):
        needed.append(seed)
    else:
        whole("seed", seed)
    if (columns := dataset.columns(fetch_if_missing=False)) is not None:
        _check_columns(columns, needed, added)
    if done is not None:
        if id is None:
            raise ValueError("done= says which rows there are already: name the column that tells them apart with id=")
        if (columns := done.columns()) is not None:
            _check_columns(columns, [id], what="the rows of done=")
        known = ray.put({row[id] for row in done.select_columns([id]).iter_rows()} if columns else set())

        def is_left(row: dict[str, Any]) -> bool:
            _check_columns(list(row), [id])
            return row[id] not in ray.get(known)

        dataset = dataset.filter(is_left)
    concurrency = room.share("concurrency", concurrency)
    about: dict[str, Any] = {"path": path, "precision": precision, "setup": setup}
    about |= {"device": "cuda" if gpus else "cpu", "cpus": cpus}
    asked["batch"] = batch
    # Rows of several batches wait at an actor, so that texts that finish early make room for others. Blocks of no more rows keep all
    # actors busy to the end, and little is lost with one that fails.
    rows = 4 * batch
    return dataset.repartition(target_num_rows_per_block=rows).map_batches(
        Decoder,
        fn_constructor_kwargs={
            "about": about,
            "asked": asked,
            "prompt": prompt,
            "seed": seed,
            "needed": needed,
            "added": added,
        },
        batch_size=rows,
        compute=ActorPoolStrategy(size=concurrency),
        num_cpus=cpus,
        num_gpus=gpus or None,
    )


class Decoder:
    """An actor: a model, loaded once, and what it is asked."""

    def __init__(
        self,
        about: dict[str, Any],
        asked: dict[str, Any],
        prompt: str,
        seed: str | int,
        needed: list[str],
        added: list[str],
    ) -> None:
        if about["setup"] is not None:
            about["setup"]()
        threads = max(1, int(about["cpus"]))
        self.model = Model(about["path"], device=about["device"], precision=about["precision"], threads=threads)
        self.asked, self.prompt, self.seed, self.needed, self.added = asked, prompt, seed, needed, added

    def __call__(self, rows: dict[str, Any]) -> dict[str, Any]:
        _check_columns(list(rows), self.needed, self.added)
        prompts = [self._checked(one) for one in rows[self.prompt]]
        seeds = rows[self.seed].tolist() if isinstance(self.seed, str) else [self.seed] * len(prompts)
        results = self.model.generate(prompts, seed=seeds, **self.asked)
        found: dict[str, Any] = {
            "text": [result.text for result in results],
            "tokens": [result.tokens for result in results],
            "nfe": [result.nfe for result in results],
            "strategy": [result.strategy for result in results],
        }
        if "run" in self.added:
            found["run"] = [result.to_json() for result in results]
        return {**rows, **found}

    def _checked(self, prompt: Any) -> Any:
        """A prompt of one row, which must not be taken for a part of another one."""
        given = prompt.tolist() if hasattr(prompt, "tolist") else prompt
        if not isinstance(given, (str, list)):
            raise TypeError(
                f"the column {self.prompt!r} must have texts, lists of messages or lists of token ids, but a row has {given!r}: "
                "leave such rows out, say with dataset.filter(...)"
            )
        return given


def _check_columns(there: list[str], needed: list[str], added: list[str] | None = None, what: str = "the rows") -> None:
    """Refuses rows without a column that is needed, or with one that would be added."""
    for name in needed:
        if name not in there:
            raise ValueError(f"{what} have no column {name!r}: they have {', '.join(there)}")
    for name in added or []:
        if name in there:
            raise ValueError(f"{what} have a column {name!r} already: give it another name")
