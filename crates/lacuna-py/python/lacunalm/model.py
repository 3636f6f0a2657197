"""The engine: a checkpoint that decodes."""

import asyncio
import math
import sys
import time
from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Mapping, Sequence
from os import PathLike
from typing import Any, Literal, Protocol, Self, TypeAlias, Unpack, overload
from weakref import WeakKeyDictionary

from . import _native
from ._native import Frame, Result, Step, Stream
from .checks import MOST, finite, positive, whole
from .likelihood import Score, score
from .options import Options, Seedless
from .together import Together

MOST_SAMPLES = 1 << 16
"""The most samples of a prompt."""


class SupportsToList(Protocol):
    """An array of numpy, a tensor, a column of pandas."""

    def tolist(self) -> Any: ...


class Cancel(Protocol):
    """Something that says when to stop: a threading.Event."""

    def is_set(self) -> bool: ...


Message: TypeAlias = Mapping[str, str]
"""`{"role": ..., "content": ...}`."""
Prompt: TypeAlias = str | Sequence[Message] | Sequence[int] | SupportsToList
"""Text, a chat, or token ids as they are."""


class Asked(Seedless, total=False):
    """Everything that `Model.generate` can be asked beside the prompt, `n` and `seed`."""

    system: str | None
    raw: bool
    stop: str | Sequence[str] | None
    batch: int | None
    progress: bool | Callable[[int, int], object]
    on_step: Callable[[int, Step], object] | None
    cancel: Cancel | None


class Cancelled(Exception):
    """Decoding was cancelled."""


class Model(_native.Model):
    """A model that decodes: the embedded one, one in the Hugging Face layout or in GGUF, or the name of one in the Hugging Face cache.

    `device` is "auto", "cpu", "cuda", a GPU by its number as in "cuda:1" or a torch.device, or several as in "cuda:0,1" or
    "cuda:all": then each has a replica of the model, texts take turns on them, and the answers are the same. `precision` is "f32",
    "bf16", "int8", "int4" or "fp8", the checkpoint's own if it is not given. `isa` is the CPU's instruction set for all models of the
    process: "amx", "avx512bf16", "avx512", "avxvnni", "avx2" or "scalar"; "auto" is the one that LACUNA_ISA names, or else the fastest. `threads`
    are for this model alone; without it models share RAYON_NUM_THREADS, else OMP_NUM_THREADS, else as many as there are cores.
    `mask_token` is for checkpoints that do not name theirs, `shifted` for those that do not tell whether a position is predicted
    from the row before it (A2D).

    Several threads may use a model: their steps take turns, and Python is let go while they compute. It pickles as its path and
    settings, and whoever unpickles it loads it. A forked process may go on using a model of the CPU.
    """

    def __new__(
        cls,
        path: str | PathLike[str] | None = None,
        *,
        device: Any = "auto",
        precision: Literal["f32", "bf16", "int8", "int4", "fp8"] | None = None,
        isa: Literal["auto", "amx", "avx512bf16", "avx512", "avxvnni", "avx2", "scalar"] = "auto",
        threads: int | None = None,
        mask_token: int | None = None,
        shifted: bool | None = None,
    ) -> Self:
        model = super().__new__(
            cls,
            path,
            device=device,
            precision=precision,
            isa=isa,
            threads=threads,
            mask_token=mask_token,
            shifted=shifted,
        )
        model._together = WeakKeyDictionary()
        return model

    _together: WeakKeyDictionary[asyncio.AbstractEventLoop, Together]

    def __getstate__(self) -> None:
        """Nothing beyond its arguments."""

    @overload
    def generate(  # type: ignore[overload-overlap]  # Text is a sequence of texts, too.
        self,  # pyright: ignore[reportOverlappingOverload]
        prompt: str | Sequence[Message] | Sequence[int],
        *,
        n: None = None,
        best_of: int | None = None,
        seed: int | None = None,
        **asked: Unpack[Asked],
    ) -> Result: ...
    @overload
    def generate(
        self,
        prompt: str
        | Sequence[Message]
        | Sequence[int]
        | Sequence[str]
        | Sequence[Sequence[Message]]
        | Sequence[Sequence[int]],
        *,
        n: int | None = None,
        best_of: int | None = None,
        seed: int | Sequence[int] | None = None,
        **asked: Unpack[Asked],
    ) -> list[Result]: ...
    @overload
    def generate(
        self,
        prompt: SupportsToList,
        *,
        n: int | None = None,
        best_of: int | None = None,
        seed: int | Sequence[int] | None = None,
        **asked: Unpack[Asked],
    ) -> Any: ...
    def generate(
        self,
        prompt: Any,
        *,
        n: int | None = None,
        best_of: int | None = None,
        seed: int | Sequence[int] | None = None,
        system: str | None = None,
        raw: bool = False,
        stop: str | Sequence[str] | None = None,
        batch: int | None = None,
        progress: bool | Callable[[int, int], object] = False,
        on_step: Callable[[int, Step], object] | None = None,
        cancel: Cancel | None = None,
        **options: Unpack[Seedless],
    ) -> Result | list[Result]:
        """Answers a prompt, or each of a list of prompts.

        A prompt is text, a chat of messages, or token ids. Text gets the model's chat template, with `system` as its system message,
        unless it is to stay `raw`. Of a list, `batch` texts share a forward pass; it changes no answer.

        `n` samples of a prompt draw with `seed`, `seed + 1` and so on; a list of seeds draws one sample with each. A prompt that
        stands several times in a list is sampled in the same way. For a list of prompts, `n` gives the samples of the first prompt,
        then those of the second, and a list of seeds has one for each prompt.

        `best_of` samples are drawn where it is given, and the `n` best are returned, the best first: those with the highest
        `mean_logprob`. That takes a temperature above 0.

        A text ends before the first of the `stop` strings. `progress` shows a line on standard error, or is called with the number of
        finished texts and of all. `on_step` is called with the number of a text and what each of its steps changed. Decoding ends
        with `Cancelled` once `cancel.is_set()`, say of a threading.Event. `map` hands over results as they come.

        `help(lacunalm.Options)` explains the options.
        """
        several = _native.is_list_of_prompts(prompt)
        prompts = _listed(prompt) if several else [prompt]
        wanted = 1 if n is None else whole("n", n, 1, MOST_SAMPLES)
        drawn = wanted if best_of is None else whole("best_of", best_of, 1, MOST_SAMPLES)
        if drawn < wanted:
            raise ValueError(f"best_of is {drawn}, but n asks for {wanted} of them")
        given: Any = seed
        if hasattr(given, "tolist"):
            given = given.tolist()
        if isinstance(given, Sequence) and not isinstance(given, (str, bytes)):
            if n is not None or best_of is not None:
                raise ValueError(
                    "n, best_of and a list of seeds all say how many samples there are: leave the others out"
                )
            seeds = [whole("seed", one) for one in given]
            if not seeds or (several and len(seeds) != len(prompts)):
                raise ValueError(f"there are {len(prompts)} prompts, but {len(seeds)} seeds: give one for each")
            prompts = prompts if several else prompts * len(seeds)
        else:
            if drawn > wanted:
                self.plan(**options).check_best_of()
            prompts = [one for one in prompts for _ in range(drawn)]
            seeds = [one for _, one in _with_seeds(prompts, 0 if given is None else given)]
        results = list(
            self._decode(
                zip(prompts, seeds, strict=True),
                total=len(prompts),
                batch=batch,
                progress=progress,
                on_step=on_step,
                cancel=cancel,
                several=len(prompts) > 1 or several,
                system=system,
                raw=raw,
                stop=stop,
                **options,
            )
        )
        if drawn > wanted:
            groups = (results[first : first + drawn] for first in range(0, len(results), drawn))
            results = [one for group in groups for one in sorted(group, key=_mean_logprob, reverse=True)[:wanted]]
        single = not several and n is None and not isinstance(given, Sequence)
        return results[0] if single else results

    def map(
        self,
        prompts: Iterable[Any],
        *,
        seed: int = 0,
        system: str | None = None,
        raw: bool = False,
        stop: str | Sequence[str] | None = None,
        batch: int | None = None,
        on_step: Callable[[int, Step], object] | None = None,
        cancel: Cancel | None = None,
        **options: Unpack[Seedless],
    ) -> Iterator[Result]:
        """Answers prompts one after another, as `generate` does, and yields each result once it and all before it are there.

        Prompts are taken from the iterable when there is room for them; `batch` texts are decoded together, and when one is
        finished the next takes its place. Whoever stops reading loses nothing that was yielded. What is wrong with a prompt is raised
        once everything before it was yielded.
        """
        yield from self._decode(
            _with_seeds(prompts, seed),
            total=None,
            batch=batch,
            progress=False,
            on_step=on_step,
            cancel=cancel,
            several=True,
            system=system,
            raw=raw,
            stop=stop,
            **options,
        )

    def _decode(
        self,
        prompts: Iterable[tuple[Any, int]],
        *,
        total: int | None,
        batch: int | None,
        progress: bool | Callable[[int, int], object],
        on_step: Callable[[int, Step], object] | None,
        cancel: Cancel | None,
        several: bool,
        system: str | None,
        raw: bool,
        stop: str | Sequence[str] | None,
        **options: Unpack[Seedless],
    ) -> Iterator[Result]:
        """The results in order, each of a prompt and its seed."""
        if cancel is not None and not callable(getattr(cancel, "is_set", None)):
            raise TypeError("cancel must have a method is_set(), as threading.Event has")
        if on_step is not None and not callable(on_step):
            raise TypeError("on_step must be a function of the number of a text and its step")
        if not callable(progress) and progress not in (True, False):
            raise TypeError("progress must be True, False or a function of how many texts are done and of all")
        room = self.replicas * (self.default_batch if batch is None else positive("batch", batch))
        plan = self.plan(**options)

        def begin(number: int, prompt: Any, seed: int) -> Stream:
            try:
                return self.begin(plan, prompt, seed=seed, system=system, raw=raw, stop=stop)
            except Exception as error:
                if several:
                    error.add_note(f"This is about prompt {number} of the list.")
                raise

        waiting = (begin(number, *one) for number, one in enumerate(prompts))
        if total is not None:
            # Everything that is wrong with a prompt is said before anything is computed.
            waiting = (stream for stream in list(waiting))
        report = _reporter(progress, total)
        active: dict[int, Stream] = {}
        done: dict[int, Result] = {}
        begun = yielded = finished = 0
        failure: Exception | None = None
        while True:
            try:
                while failure is None and len(active) < room and (stream := next(waiting, None)) is not None:
                    active[begun] = stream
                    begun += 1
            except Exception as error:
                # What was begun before is handed over first.
                failure = error
            if not active:
                if failure is not None:
                    raise failure
                return
            if cancel is not None and cancel.is_set():
                raise Cancelled("decoding was cancelled")
            taken = {number: len(stream.steps) for number, stream in active.items()} if on_step else {}
            self.advance(list(active.values()))
            if on_step is not None:
                for number, stream in active.items():
                    for step in stream.steps[taken[number] :]:
                        on_step(number, step)
            for number in [number for number, stream in active.items() if stream.finished]:
                done[number] = active.pop(number).result
                finished += 1
                report(finished)
            while yielded in done:
                yield done.pop(yielded)
                yielded += 1

    def fill(
        self,
        text: str | Sequence[int] | SupportsToList,
        *,
        prompt: Prompt | None = None,
        allow_eos: bool = False,
        **options: Unpack[Options],
    ) -> Result:
        """Fills the gaps of a text, in which `<gap:N>` stands for N tokens, or of token ids with masks.

        The text is the answer to `prompt`, if there is one. With `allow_eos` a gap may end the text. `<gap>` has its length found, up to
        `max_gap` tokens; the result's `tried` has the lengths and their scores. `<draft>...</draft>` encloses what a revision may change.
        """
        return self.stream_fill(text, prompt=prompt, allow_eos=allow_eos, **options).finish()

    def revise(self, text: str, *, prompt: Prompt | None = None, **options: Unpack[Options]) -> Result:
        """Looks at a finished text again with a strategy's revision, and changes what the model doubts.

        The text keeps its number of tokens; the result's `changed` says which have changed. With `<draft>...</draft>` in the text, only
        what they enclose is looked at. The text is the answer to `prompt`, if there is one.
        """
        return self.stream_revise(text, prompt=prompt, **options).finish()

    async def agenerate(
        self,
        prompt: Prompt,
        *,
        system: str | None = None,
        raw: bool = False,
        stop: str | Sequence[str] | None = None,
        **options: Unpack[Options],
    ) -> Result:
        """Answers a prompt without blocking the event loop.

        Tasks that wait at the same time share forward passes. A task that is cancelled is not decoded further.
        """
        loop = asyncio.get_running_loop()
        together = self._together.setdefault(loop, Together(self))
        return await together.finish(self.stream(prompt, system=system, raw=raw, stop=stop, **options))

    async def astream(
        self,
        prompt: Prompt,
        *,
        system: str | None = None,
        raw: bool = False,
        stop: str | Sequence[str] | None = None,
        **options: Unpack[Options],
    ) -> AsyncIterator[Frame]:
        """The steps of an answer as they happen, without blocking the event loop."""
        stream = self.stream(prompt, system=system, raw=raw, stop=stop, **options)
        while not stream.finished:
            yield await asyncio.to_thread(next, stream)

    @overload
    def score(
        self,
        text: str | Sequence[int] | SupportsToList,
        *,
        prompt: Prompt | None = None,
        system: str | None = None,
        raw: bool = False,
        order: Literal["estimate", "left", "right", "random"] | None = None,
        steps: Sequence[Sequence[int]] | None = None,
        samples: int | None = None,
        seed: int | None = None,
        guidance: float | None = None,
        batch: int | None = None,
    ) -> Score: ...
    @overload
    def score(
        self,
        text: list[str] | tuple[str, ...],
        *,
        prompt: Any = None,
        system: str | None = None,
        raw: bool = False,
        order: Literal["estimate", "left", "right", "random"] | None = None,
        steps: Sequence[Sequence[int]] | None = None,
        samples: int | None = None,
        seed: int | None = None,
        guidance: float | None = None,
        batch: int | None = None,
    ) -> list[Score]: ...
    def score(
        self,
        text: Any,
        *,
        prompt: Any = None,
        system: str | None = None,
        raw: bool = False,
        order: Literal["estimate", "left", "right", "random"] | None = None,
        steps: Sequence[Sequence[int]] | None = None,
        samples: int | None = None,
        seed: int | None = None,
        guidance: float | None = None,
        batch: int | None = None,
    ) -> Score | list[Score]:
        """Tells how likely a text is, or each of a list of texts, behind a prompt: one for all, or a list with one for each.

        The prompt is as for `generate`, or there is none. Behind a `raw` prompt the text is cut as lm-evaluation-harness cuts it.

        `order` "estimate", which is meant if none is given, is LLaDA's Monte Carlo estimate of a lower bound on the
        log-likelihood: each of the `samples` (128) masks l of the text's L tokens, by the rule and from the `seed` (1234) of LLaDA's
        evaluation code, and weighs the log-probabilities of these tokens with L / l. "left", "right" and "random" score the tokens
        one by one in this order, which is the exact log-likelihood of writing the text so; `steps` names an order of your own, as
        lists of places in the text. `guidance` is the scale of classifier-free guidance. `batch` canvases share a forward pass; it
        changes no score.
        """
        several = not isinstance(text, str) and any(not hasattr(one, "__index__") for one in _listed(text))
        texts = _listed(text) if several else [text]
        given = not isinstance(prompt, str) and several and prompt is not None and _native.is_list_of_prompts(prompt)
        prompts = _listed(prompt) if given else [prompt] * len(texts)
        if len(prompts) != len(texts):
            raise ValueError(
                f"there are {len(texts)} texts, but {len(prompts)} prompts: give one for each, or one for all"
            )
        scores = score(
            self,
            list(zip(prompts, texts, strict=True)),
            system=system,
            raw=raw,
            batch=None if batch is None else positive("batch", batch),
            order=None if order is None else str(order),
            steps=None if steps is None else _places(steps),
            samples=None if samples is None else positive("samples", samples),
            seed=None if seed is None else whole("seed", seed),
            guidance=None if guidance is None else finite("guidance", guidance),
        )
        return scores if several else scores[0]


def _listed(prompts: Any) -> list[Any]:
    return list(prompts.tolist() if hasattr(prompts, "tolist") else prompts)


def _places(steps: Any) -> list[list[int]]:
    """The places of a text that each step scores."""
    try:
        found = [list(step) for step in steps]
    except TypeError:
        raise TypeError("steps must be a list of lists of places in the text") from None
    return [[whole("steps", place) for place in step] for step in found]


def _mean_logprob(result: Result) -> float:
    return -math.inf if result.mean_logprob is None else result.mean_logprob


def _with_seeds(prompts: Iterable[Any], seed: Any) -> Iterator[tuple[Any, int]]:
    """Each prompt with its seed: the k-th copy of a prompt draws with seed + k, in 64 bits."""
    copies: dict[str, int] = {}
    first = whole("seed", seed)
    for prompt in prompts:
        key = prompt if isinstance(prompt, str) else repr(_listed(prompt) if hasattr(prompt, "__len__") else prompt)
        copies[key] = copies.get(key, -1) + 1
        yield prompt, (first + copies[key]) & MOST


def _reporter(progress: bool | Callable[[int, int], object], total: int | None) -> Callable[[int], object]:
    if callable(progress):
        return lambda done: progress(done, total or 0)
    if not progress:
        return lambda _: None
    begun = time.monotonic()

    def show(done: int) -> None:
        rate = done / max(time.monotonic() - begun, 1e-6)
        end = "\n" if done == total else ""
        print(f"\r{done} of {total} done, {rate:.1f} a second\x1b[K", end=end, file=sys.stderr, flush=True)

    return show
