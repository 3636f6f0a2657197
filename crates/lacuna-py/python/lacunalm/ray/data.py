"""Answers for the rows of a data set."""

import os
from collections.abc import Callable
from typing import Any

import ray
from ray.data import ActorPoolStrategy, Dataset

from ..checks import positive
from ..model import Model


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
    actors load the model once each, by default one for each `cpus` (or `gpus`) of the cluster, with one CPU kept for reading; an
    actor computes with as many threads as it has CPUs. `batch` texts share a forward pass. The answers are those of `Model.generate`
    on one machine, bit for bit; what a failed actor had to do is done again.

    With `id`, a column, rows whose id is among those of the data set `done` are left out: give what an earlier run wrote, and only
    the rest is decoded. `seed` is a number for all rows, or a column with a number for each. `setup` is called in each actor
    before anything else, say to register orders. `trace=True` adds the recorded run as a column, `run`.
    """
    batch = positive("batch", batch)
    if (columns := dataset.columns(fetch_if_missing=False)) is not None:
        _column(dict.fromkeys(columns), prompt)
    if done is not None:
        if id is None:
            raise ValueError("done= says which rows there are already: name the column that tells them apart with id=")
        _column(dict.fromkeys(done.columns() or [id]), id, "the rows of done=")
        known = ray.put({row[id] for row in done.select_columns([id]).iter_rows()})
        dataset = dataset.filter(lambda row: _column(row, id) not in ray.get(known))
    if concurrency is None:
        resources: dict[str, float] = ray.cluster_resources()  # type: ignore[no-untyped-call]
        share = resources.get("GPU", 0) / gpus if gpus else max(resources.get("CPU", 1) - 1, cpus) / cpus
        concurrency = max(1, int(share))
    about: dict[str, Any] = {
        "path": None if model is None else os.fspath(model),
        "precision": precision,
        "setup": setup,
    }
    about |= {"device": "cuda" if gpus else "cpu", "cpus": cpus}
    asked = {"raw": raw, "system": system, "stop": stop, "strategy": strategy, "batch": batch} | options
    # Rows of several batches wait at an actor, so that texts that finish early make room for others. Blocks of no more rows keep all
    # actors busy to the end, and little is lost with one that fails.
    rows = 4 * batch
    return dataset.repartition(target_num_rows_per_block=rows).map_batches(
        Decoder,
        fn_constructor_kwargs={"about": about, "asked": asked, "prompt": prompt, "seed": seed, "trace": trace},
        batch_size=rows,
        compute=ActorPoolStrategy(size=concurrency),
        num_cpus=cpus,
        num_gpus=gpus or None,
    )


class Decoder:
    """An actor: a model, loaded once, and what it is asked."""

    def __init__(self, about: dict[str, Any], asked: dict[str, Any], prompt: str, seed: str | int, trace: bool) -> None:
        if about["setup"] is not None:
            about["setup"]()
        threads = max(1, int(about["cpus"]))
        self.model = Model(about["path"], device=about["device"], precision=about["precision"], threads=threads)
        self.asked, self.prompt, self.seed, self.trace = asked, prompt, seed, trace

    def __call__(self, rows: dict[str, Any]) -> dict[str, Any]:
        prompts: Any = [one.tolist() if hasattr(one, "tolist") else one for one in _column(rows, self.prompt)]
        seeds = _column(rows, self.seed).tolist() if isinstance(self.seed, str) else [self.seed] * len(prompts)
        results = self.model.generate(prompts, seed=seeds, **self.asked)
        found: dict[str, Any] = {
            "text": [result.text for result in results],
            "tokens": [result.tokens for result in results],
            "nfe": [result.nfe for result in results],
            "strategy": [result.strategy for result in results],
        }
        if self.trace:
            found["run"] = [result.to_json() for result in results]
        if twice := found.keys() & rows.keys():
            raise ValueError(f"the rows have a column {sorted(twice)[0]!r} already: give it another name")
        return {**rows, **found}


def _column(rows: dict[str, Any], name: str, what: str = "the rows") -> Any:
    """A column of rows, or of one row."""
    if name not in rows:
        raise ValueError(f"{what} have no column {name!r}: they have {', '.join(rows)}")
    return rows[name]
