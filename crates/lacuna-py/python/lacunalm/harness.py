"""lm-evaluation-harness on a model of lacuna, without a server.

`python -m lacunalm.harness` registers this model and then is `lm_eval`. Where the harness reads entry points, which versions up to 0.4.13
do not, `lm_eval --model lacuna` finds it.

    python -m lacunalm.harness --model lacuna --model_args path=LLaDA-8B-Instruct,strategy=dos+eb --tasks gsm8k --apply_chat_template
"""

from collections.abc import Iterator, Sequence
from typing import Any

from .likelihood import is_greedy, score
from .model import Model

try:
    from lm_eval.api.model import LM
    from lm_eval.api.registry import register_model
    from tqdm import tqdm
except ModuleNotFoundError as error:
    why = f"lacunalm.harness takes lm-evaluation-harness, and there is no {error.name}: pip install lm-eval"
    raise ModuleNotFoundError(why, name=error.name) from None

IGNORED = {"do_sample", "until", "max_gen_toks", "num_beams"}
"""Generation arguments that are not options of decoding, or that are taken otherwise."""
TOGETHER = 32
"""Continuations that are scored together."""


@register_model("lacuna")  # type: ignore[no-untyped-call]
class LacunaLM(LM):
    """A model that is decoded as `Model.generate` does; options of decoding are model arguments, or a task's own."""

    def __init__(
        self,
        path: str | None = None,
        pretrained: str | None = None,
        device: str = "auto",
        precision: Any = None,
        threads: int | None = None,
        batch_size: int | str = 8,
        max_batch_size: int | None = None,
        mc_num: int = 128,
        cfg: float | None = None,
        is_check_greedy: bool = True,
        **options: Any,
    ) -> None:
        super().__init__()
        # The harness names a GPU whether there is one or not.
        self.model = Model(
            path or pretrained, device="auto" if device == "cuda:0" else device, precision=precision, threads=threads
        )
        self.name = str(path or pretrained or "lacuna").replace("/", "__")
        self.batch = self.model.default_batch if str(batch_size).startswith("auto") else int(batch_size)
        self.samples, self.checks_greedy = int(mc_num), is_check_greedy
        self.guidance = 0.0 if cfg is None else float(cfg)
        self.options: dict[str, Any] = options if cfg is None else {"guidance": cfg, **options}
        # What is wrong with the options is said before the harness prepares its tasks.
        self.model.plan(**self.options)

    def apply_chat_template(self, chat_history: list[dict[str, str]], add_generation_prompt: bool = True) -> str:
        """The text of a chat up to where the answer begins; without the prompt for one, the last message is its beginning."""
        turns = [dict(turn) for turn in chat_history]
        begun = "" if add_generation_prompt else turns.pop()["content"]
        return self.model.decode(self.model.encode_prompt(turns), special=True) + begun

    @property
    def tokenizer_name(self) -> str:
        """Part of the key under which the harness caches requests."""
        return self.name

    def generate_until(self, requests: list[Any], disable_tqdm: bool = False) -> list[str]:
        """Answers to prompts, each up to the first of its stop strings."""
        groups: dict[str, list[int]] = {}
        for number, request in enumerate(requests):
            groups.setdefault(repr(sorted(request.args[1].items())), []).append(number)
        texts: dict[int, str] = {}
        with tqdm(total=len(requests), disable=disable_tqdm, desc="lacuna") as bar:
            for numbers in groups.values():
                asked = dict(requests[numbers[0]].args[1])
                prompts = [requests[number].args[0] for number in numbers]
                for number, result in zip(numbers, self._generate(prompts, asked), strict=True):
                    texts[number] = result
                    self.cache_hook.add_partial("generate_until", requests[number].args, result)
                    bar.update()
        return [texts[number] for number in range(len(requests))]

    def _generate(self, prompts: Sequence[str], asked: dict[str, Any]) -> Any:
        until = asked.get("until") or []
        stop = [until] if isinstance(until, str) else [one for one in until if one]
        options: dict[str, Any] = {
            **{name: value for name, value in asked.items() if name not in IGNORED},
            **self.options,
        }
        if not {"gen_length", "max_tokens"} & options.keys() and "max_gen_toks" in asked:
            options["max_tokens"] = asked["max_gen_toks"]
        for result in self.model.map(prompts, raw=True, stop=stop or None, batch=self.batch, **options):
            yield result.text

    def loglikelihood(self, requests: list[Any], disable_tqdm: bool = False) -> list[tuple[float, bool]]:
        """LLaDA's Monte Carlo estimate for each continuation, and whether the model would write it."""
        answers = []
        for request, found in zip(
            requests, self._scores([request.args for request in requests], disable_tqdm), strict=True
        ):
            greedy = self.checks_greedy and self._is_greedy(*request.args)
            answers.append((found, greedy))
            self.cache_hook.add_partial("loglikelihood", request.args, answers[-1])
        return answers

    def _scores(self, pairs: Sequence[tuple[str, str]], disable_tqdm: bool) -> Iterator[float]:
        """The estimate for each continuation of a context; canvases of several share forward passes."""
        with tqdm(total=len(pairs), disable=disable_tqdm, desc="lacuna") as bar:
            for first in range(0, len(pairs), TOGETHER):
                some = pairs[first : first + TOGETHER]
                found = score(
                    self.model, some, raw=True, batch=self.batch, samples=self.samples, guidance=self.guidance
                )
                yield from (one.loglikelihood for one in found)
                bar.update(len(some))

    def _is_greedy(self, context: str, continuation: str) -> bool:
        begin = self.model.encode(context.rstrip()) if context.strip() else []
        return is_greedy(self.model, begin, self.model.encode(context + continuation)[len(begin) :])

    def loglikelihood_rolling(self, requests: list[Any], disable_tqdm: bool = False) -> list[float]:
        """The estimate for whole texts."""
        return list(self._scores([("", request.args[0]) for request in requests], disable_tqdm))


def main() -> None:
    """The harness's own command."""
    from lm_eval.__main__ import cli_evaluate

    cli_evaluate()


if __name__ == "__main__":
    main()
