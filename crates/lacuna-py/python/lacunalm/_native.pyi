from collections.abc import Callable, Iterator, Sequence
from os import PathLike
from typing import Any, Literal, Self, Unpack, final

from typing_extensions import disjoint_base

from .options import Options

__all__ = [
    "Candidates",
    "Commit",
    "Error",
    "Frame",
    "Model",
    "Plan",
    "RankedPositions",
    "Result",
    "Run",
    "Seen",
    "Step",
    "Stream",
    "__version__",
    "check_command",
    "check_options",
    "describe_options",
    "describe_strategies",
    "evaluate_model",
    "evaluate_own",
    "is_list_of_prompts",
    "main",
    "register_order",
    "register_pace",
    "restore_run",
]

__version__: str

# `| Any` is where None stands for what was not asked for: whoever asked for it need not check.

def describe_options() -> list[tuple[str, str]]:
    """The names of all options, and what each is."""

def describe_strategies() -> list[tuple[str, list[tuple[str, str]]]]:
    """The names of all orders, paces, revisions, windows, caches and presets, and what each is."""

def is_list_of_prompts(given: Any) -> bool:
    """True if this is a list of prompts, not a single one."""

def restore_run(setup: dict[str, Any], answers: Any) -> Run:
    """A run that was pickled: its steps are taken again with the answers that it had."""

def check_options(
    path: str | PathLike[str] | None,
    elsewhere: bool,
    /,
    *,
    precision: str | None = None,
    system: str | None = None,
    raw: bool = False,
    stop: str | Sequence[str] | None = None,
    **options: Any,
) -> None:
    """Says what is wrong with what `Model` and `Model.generate` are to be asked, without loading the weights.

    If they are on another machine (`elsewhere`), a path that is not on this one is not missed.
    """

def check_command(arguments: Sequence[str], *, elsewhere: bool) -> None:
    """Says what is wrong with arguments of `lacuna eval` or `lacuna serve`, without loading the model.

    If they are for another machine (`elsewhere`), files that are not on this one are not missed.
    """

def main(arguments: Sequence[str] | None = None) -> int:
    """Runs the `lacuna` command with these arguments, else those of the process, and returns its exit status.

    Orders and paces that were registered go there, too: `lacuna.main(["eval", "words", "--strategy", "mine+eb"])`.
    """

def evaluate_model(model: Model, keywords: dict[str, Any], **options: Any) -> str:
    """Measures a loaded model; `lacunalm.evaluate` says how. Returns what results.json holds."""

def evaluate_own(own: dict[str, Any], keywords: dict[str, Any], **options: Any) -> str:
    """Measures a model of the caller's."""

def register_order(
    name: str,
    score: Callable[[Candidates], Any],
    *,
    attention: bool | int | Sequence[int] | None = None,
    beliefs: bool | None = None,
    known: bool = False,
    about: str | None = None,
) -> None:
    """Registers an order under a name, which then goes wherever a built-in order goes.

    `score(candidates)` is called once a step and returns one number per candidate; the highest is filled first. Runs that are
    decoded in one batch come in one call. `attention` lists the layers whose dependency scores it uses, or is True for those that
    the options `layer` and `heads` name. With `beliefs=False`, the default with attention, nothing is read before the order is
    known, as for `dos`; with `known=True` it is called before the forward pass and sees neither.
    """

def register_pace(
    name: str,
    choose: Callable[[RankedPositions], int | Sequence[int]],
    *,
    reads: int | Literal["all"] | None = None,
    about: str | None = None,
) -> None:
    """Registers a pace under a name, which then goes wherever a built-in pace goes.

    `choose(ranked)` returns how many of the first positions to commit, or a list of positions; at least one. `reads` is "all", the
    default, if it uses the beliefs of all candidates, or the number of first positions whose beliefs it uses.
    """

@final
class Candidates:
    """The candidates of one step, as an order in Python sees them. A batch of runs comes in one call: every array has one entry per
    candidate, those of the first run first.
    """

    @property
    def positions(self) -> memoryview:
        """int64 [n]: the masked positions that may be filled."""

    @property
    def runs(self) -> memoryview:
        """int64 [n]: which of `canvases` each belongs to."""

    @property
    def steps(self) -> memoryview:
        """int64 [n]: steps that its run has taken before."""

    @property
    def blocks(self) -> memoryview:
        """int64 [n]: index of the block being decoded."""

    @property
    def uniform(self) -> memoryview:
        """float64 [n]: random numbers in (0, 1), keyed by seed, step and position."""

    @property
    def dependency(self) -> memoryview:
        """float32 [sources, n]: dependency score of each attention source."""

    @property
    def token(self) -> memoryview | Any:
        """int64 [n]: the token that would be committed; None if the order does not use beliefs."""

    @property
    def probability(self) -> memoryview | Any:
        """float64 [n]: probability of `token`."""

    @property
    def first(self) -> memoryview | Any:
        """float64 [n]: largest probability."""

    @property
    def second(self) -> memoryview | Any:
        """float64 [n]: second largest probability."""

    @property
    def entropy(self) -> memoryview | Any:
        """float64 [n]: entropy in nats."""

    @property
    def canvases(self) -> list[list[int]]:
        """The canvas of each run: token ids, with the mask token at undecided positions."""

    @property
    def mask_token(self) -> int:
        """Id of the mask token."""

@final
class RankedPositions:
    """A ranking, as a pace in Python sees it."""

    @property
    def positions(self) -> memoryview:
        """int64 [n]: the candidates, best first."""

    @property
    def scores(self) -> memoryview:
        """float64 [n]: their scores in the order."""

    @property
    def token(self) -> memoryview:
        """int64 [m]: the tokens that would be committed, of the first m that the pace reads."""

    @property
    def probability(self) -> memoryview:
        """float64 [m]: probability of `token`."""

    @property
    def second(self) -> memoryview:
        """float64 [m]: second largest probability."""

    @property
    def entropy(self) -> memoryview:
        """float64 [m]: entropy in nats."""

    @property
    def step(self) -> int:
        """Steps taken before."""

    @property
    def block(self) -> int:
        """Index of the block being decoded."""

    @property
    def block_step(self) -> int:
        """Steps taken in this block before."""

    @property
    def canvas(self) -> list[int]:
        """The canvas: token ids, with the mask token at undecided positions."""

    @property
    def mask_token(self) -> int:
        """Id of the mask token."""

class Error(Exception):
    """An error of a model, a file or a device."""

@disjoint_base
class Model:
    """A model on a device. `lacunalm.Model` says what it takes, and decodes with it."""

    def __new__(
        cls,
        path: str | PathLike[str] | None = None,
        *,
        device: Any = None,
        precision: str | None = None,
        isa: str | None = None,
        threads: int | None = None,
        mask_token: int | None = None,
        shifted: bool | None = None,
    ) -> Self: ...
    def __getnewargs_ex__(self) -> tuple[tuple[Any, ...], dict[str, Any]]: ...
    def __copy__(self) -> Self: ...
    def __deepcopy__(self, _memo: Any, /) -> Self: ...
    def stream(
        self,
        prompt: Any,
        *,
        system: str | None = None,
        raw: bool = False,
        stop: str | Sequence[str] | None = None,
        **options: Unpack[Options],
    ) -> Stream:
        """Answers a prompt step by step: an iterator over the steps as they happen.

        A prompt is text, a chat of messages, or token ids. Text gets the model's chat template, with `system` as its system
        message, unless it is to stay `raw`. The text ends before the first of the `stop` strings. `lacunalm.Options` explains the
        options.
        """

    def plan(self, **options: Unpack[Options]) -> Plan:
        """Checks options for this model, so that several texts can be begun with them."""

    def begin(
        self,
        plan: Plan,
        prompt: Any,
        *,
        seed: int | None = None,
        system: str | None = None,
        raw: bool = False,
        stop: str | Sequence[str] | None = None,
    ) -> Stream:
        """Begins to answer a prompt with checked options, as `stream` does, with a seed of its own."""

    def stream_fill(
        self, text: Any, *, prompt: Any = None, allow_eos: bool = False, **options: Unpack[Options]
    ) -> Stream:
        """Fills the gaps of a text step by step, as `fill` does at once."""

    def stream_revise(self, text: str, *, prompt: Any = None, **options: Unpack[Options]) -> Stream:
        """Revises a finished text step by step; `revise` does it in one call."""

    def advance(self, streams: Sequence[Stream]) -> bool:
        """Takes one step with each of these streams that is not finished; they share a forward pass. False if there was none."""

    @property
    def replicas(self) -> int:
        """Number of its replicas, one for each GPU that `device` names."""

    @property
    def default_batch(self) -> int:
        """Recommended batch size for many texts, on each replica."""

    def score_pairs(
        self,
        pairs: Sequence[tuple[Any, Any]],
        request: str,
        *,
        system: str | None = None,
        raw: bool = False,
        batch: int | None = None,
    ) -> str:
        """Scores texts behind prompts, as JSON, in which `request` is written, too; `lacunalm.Model.score` says what it is."""

    def log_probabilities(
        self, canvases: Sequence[Sequence[int]], targets: Sequence[Sequence[tuple[int, int]]]
    ) -> list[list[float]]:
        """Log-probabilities of tokens: for each canvas, of each (position, token) of its targets, given what the canvas shows.

        The canvases share a forward pass.
        """

    def probe(
        self, tokens: Any, *, attention: int | Sequence[int] | None = None, rows: int | Sequence[int] | None = None
    ) -> Seen:
        """One forward pass over a canvas: its logits, the dependency scores of every layer, and the attention of the layer or the
        layers that `attention` names, averaged. Of the logits only the `rows` are computed, if they are given."""

    def probe_batch(
        self,
        canvases: Sequence[Any],
        *,
        attention: int | Sequence[int] | None = None,
        rows: Sequence[int | Sequence[int]] | None = None,
    ) -> list[Seen]:
        """`probe` of several canvases, which may differ in length, in one forward pass; `rows` has a list for each of them."""

    def encode(self, text: str) -> list[int]:
        """The tokens of a text; no template and no special token is added."""

    def encode_prompt(self, prompt: Any, *, system: str | None = None, raw: bool = False) -> list[int]:
        """The tokens of a prompt or a chat, as `generate` gives them to the model."""

    def decode(self, tokens: Any, *, special: bool = False) -> str:
        """The text of tokens, with or without the special ones."""

    @property
    def description(self) -> dict[str, Any]:
        """Facts about the model, as `lacuna inspect --format json` prints them."""

    @property
    def mask_token(self) -> int:
        """The id of the mask token."""

    @property
    def end_tokens(self) -> list[int]:
        """The tokens that end a text or a turn of a chat."""

    @property
    def vocabulary(self) -> int:
        """Vocabulary size."""

    @property
    def layers(self) -> int:
        """Number of layers."""

    @property
    def context(self) -> int:
        """Maximum number of positions of a canvas."""

    @property
    def shifted(self) -> bool:
        """True if position i is predicted from the output at i - 1, as Dream does."""

@final
class Plan:
    """Options that were checked for a model."""

    def check_best_of(self) -> None:
        """Refuses to look for the best of several samples if all of them would be alike."""

@final
class Seen:
    """Output of a model for a canvas. numpy.asarray and torch.frombuffer take its memory as it is."""

    @property
    def logits(self) -> memoryview:
        """float32 [length, vocabulary]: the logits of every position, before any shift; of the rows asked for, if they were."""

    @property
    def dependency(self) -> list[memoryview]:
        """For every layer float32 [length]: the dependency score of each position, 0 where there is no mask."""

    @property
    def attention(self) -> memoryview | Any:
        """float32 [length, length]: the attention that each position (row) pays to each (column), averaged over the heads of the layers
        asked for; None if none were."""

@final
class Commit:
    """A position that was decided."""

    def __new__(
        cls,
        position: int,
        token: int,
        probability: float,
        entropy: float,
        score: float,
        top_logprobs: Sequence[tuple[int, float]] = ...,
    ) -> Commit: ...
    def __getnewargs__(self) -> tuple[int, int, float, float, float, list[tuple[int, float]]]: ...
    @property
    def position(self) -> int:
        """Position, counted from the start of the prompt."""

    @property
    def token(self) -> int:
        """Token id."""

    @property
    def probability(self) -> float:
        """Probability of the token."""

    @property
    def entropy(self) -> float:
        """The entropy of the model's belief in nats."""

    @property
    def score(self) -> float:
        """The score by which the order ranked it."""

    @property
    def top_logprobs(self) -> list[tuple[int, float]]:
        """The most probable tokens and their log-probabilities, as many as `top_logprobs` asked for."""

@disjoint_base
class Step:
    """Changes of one step."""

    def __new__(
        cls, block: int, kind: str, committed: Sequence[Commit], edited: Sequence[Commit], reopened: Sequence[int]
    ) -> Self: ...
    @property
    def block(self) -> int:
        """The block that was decoded."""

    @property
    def kind(self) -> Literal["denoise", "prefill", "store"]:
        """Purpose of the forward pass: "denoise", "prefill" or "store"."""

    @property
    def committed(self) -> list[Commit]:
        """Committed tokens, ascending by position."""

    @property
    def edited(self) -> list[Commit]:
        """Decided positions whose token was replaced, ascending."""

    @property
    def reopened(self) -> list[int]:
        """The positions that were reopened after that, ascending."""

@final
class Frame(Step):
    """Changes of one step, and the text after it."""

    def __new__(
        cls,
        block: int,
        kind: str,
        committed: Sequence[Commit],
        edited: Sequence[Commit],
        reopened: Sequence[int],
        tokens: Sequence[int],
        text: str | None,
    ) -> Frame: ...
    @property
    def tokens(self) -> list[int]:
        """The answer's tokens, the mask token where undecided."""

    @property
    def text(self) -> str | None:
        """The visible text, ░ where undecided; None if the model has no tokenizer."""

@final
class Stream(Iterator[Frame]):
    """The steps of a text, taken one by one as they are asked for. Threads that share it take turns."""

    def __iter__(self) -> Stream: ...
    def __next__(self) -> Frame: ...
    def finish(self) -> Result:
        """Takes the remaining steps and returns what came of it."""

    @property
    def finished(self) -> bool:
        """True if every step is taken."""

    @property
    def steps(self) -> list[Step]:
        """Changes of each step so far."""

    @property
    def result(self) -> Result:
        """The result, once every step is taken."""

@final
class Result:
    """A decoded text and how it came about.

    `Result(line)` reads one that `to_json` or `lacuna generate --format json` wrote. Two are equal if everything is but the time
    they took, as far as JSON can tell: it has no infinities, and its readers may round the last bit.
    """

    def __new__(cls, line: str, steps: Sequence[Step] | None = None) -> Result: ...
    def __getnewargs__(self) -> tuple[str, list[Step]]: ...
    def records(self) -> list[dict[str, Any]]:
        """The decisions as a list of dicts, one for each token that a step committed or replaced: step, block, position, token,
        text, probability, entropy, score and edited. pandas.DataFrame takes it as it is.
        """

    def to_pandas(self) -> Any:
        """`records` as a frame of pandas."""

    def svg(self, *, columns: int = 44) -> str:
        """A picture as SVG: the canvas at a few moments, coloured by step, `columns` characters wide."""

    def plot(self, axes: Any = None) -> Any:
        """Draws when each position was decided, and how probable its token was; returns matplotlib's axes."""

    def _repr_html_(self) -> str:
        """The canvas as a notebook shows it: coloured by step, with a slider over the steps."""

    @property
    def text(self) -> str | None:
        """The visible text; None if the model has no tokenizer."""

    @property
    def tokens(self) -> list[int]:
        """The generated ids, or for a filled text all ids. What stopped early ends with its end-of-text token."""

    @property
    def changed(self) -> list[tuple[int, int, int]] | None:
        """The tokens of the draft that are others now: (position, old token, new token); None if there was no draft."""

    @property
    def tried(self) -> list[list[tuple[int, float]]]:
        """For each gap of unknown length, the lengths that were tried, each with its score: the mean of ln p of the most probable tokens."""

    @property
    def nfe(self) -> int:
        """Forward passes of the model."""

    @property
    def rows_read(self) -> int:
        """Rows of the model's output that were read."""

    @property
    def rows_computed(self) -> int:
        """Positions that forward passes computed."""

    @property
    def steps(self) -> list[Step]:
        """Changes of each step."""

    @property
    def strategy(self) -> str:
        """Strategy."""

    @property
    def layers(self) -> list[int]:
        """The layers whose attention set the order; empty if it was not attention."""

    @property
    def prompt_tokens(self) -> int:
        """Number of prompt tokens."""

    @property
    def seconds(self) -> float:
        """Decoding time in seconds."""

    @property
    def tokens_per_second(self) -> float:
        """Tokens of the visible text for each of these seconds."""

    @property
    def mean_logprob(self) -> float | None:
        """Mean log-probability of the tokens that were written, each in the step that decided it; None if there are none."""

    def to_json(self) -> str:
        """The record as a line of JSON, as `lacuna generate --format json` prints it and `lacuna replay` shows it."""

@final
class Run:
    """A text on its way from masks to tokens, stepped with the answers of any model.

    `tokens` are a prompt, which gets `gen_length` masks behind it, or any text with masks, which are filled. `mask_token` is the id
    that stands for "undecided". `end_tokens` end the text, the first of them is the end-of-text token. `vocabulary` is what the
    first logits have room for, if it is not told. `layers` is how many layers there are, of which `dos` takes the one a sixth of
    the way up if `layer` is not told. `shifted` models predict position i from row i - 1, as Dream does; temperature then means
    what it means to Dream. `help(lacunalm.Options)` explains the options.

    >>> run = lacuna.Run(prompt, mask_token=126336, gen_length=128, strategy="confidence+eb")
    >>> while not run.finished:
    ...     run.step(model(run.tokens))
    """

    def __new__(
        cls,
        tokens: Any,
        *,
        mask_token: int,
        end_tokens: Sequence[int] | None = None,
        vocabulary: int | None = None,
        layers: int | None = None,
        shifted: bool = False,
        **options: Unpack[Options],
    ) -> Run: ...
    def commit(self, tokens: dict[int, int]) -> Step:
        """Writes tokens by hand, {position: token}, in place of masks or of other tokens; returns the changes. The next step sees them."""

    def reopen(self, positions: Sequence[int]) -> Step:
        """Makes decided positions masks again by hand; returns what it changed."""

    def step(self, logits: Any, attention: Any = None, *, unguided: Any = None) -> Step:
        """Takes one step with what the model made of `run.tokens`, and returns what it changed.

        `logits` is an array [length, vocabulary]: a torch tensor, an array of numpy or its kin, a buffer of floats, a list of
        lists; or a function that gets a list of row numbers and returns these rows. Of tensors only the rows that are needed
        leave their device.

        `attention` is needed for `dos`: the softmax of the layer named by `run.layers`, as [heads, length, length] (row: who
        attends), or averaged over heads, [length, length], or ready scores for each position, [length]. For several layers it
        is a list with one such array for each layer of the model, or a dict by layer.

        A leading dimension of 1 is passed over. `unguided` are the logits for `run.unguided`, which guidance needs.
        """

    @property
    def tokens(self) -> list[int]:
        """The canvas: the prompt and everything decided so far, the mask token where undecided."""

    @property
    def unguided(self) -> list[int] | None:
        """With guidance, the canvas without its prompt, whose logits are to be given as well."""

    @property
    def layers(self) -> list[int]:
        """The layers whose attention is to be given; empty if none is needed."""

    @property
    def finished(self) -> bool:
        """True if there is nothing left to do."""

    @property
    def nfe(self) -> int:
        """Forward passes so far."""

    @property
    def rows_read(self) -> int:
        """Rows of the logits that were looked at so far."""

    @property
    def rows_computed(self) -> int:
        """Positions that forward passes have computed so far."""

    @property
    def steps(self) -> list[Step]:
        """Changes of each step so far."""

    @property
    def result(self) -> Result:
        """The result, once the run is finished."""
