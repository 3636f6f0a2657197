"""Models of transformers, and others that look like them, decoded as they are."""

from collections.abc import Sequence
from typing import Any, Unpack

from ._native import Result, Run, is_list_of_prompts
from .options import Options
from .sampler import decode_batch, each, logits_and_attention


def wrap(
    model: Any,
    tokenizer: Any = None,
    *,
    mask_token: int | None = None,
    end_tokens: Sequence[int] | None = None,
    shifted: bool | None = None,
    layers: int | None = None,
) -> "Wrapped":
    """Takes a model object, say of `AutoModel.from_pretrained`, that predicts masked tokens and sees in both directions; or a function
    `predict(canvases)` as `decode_batch` takes it, with its `mask_token`, `end_tokens` and number of `layers`.

    The mask token, the end tokens and whether a position is predicted from the one before it are taken from the model's
    configuration and the tokenizer, if they are not given: LLaDA and Dream need nothing.
    """
    return Wrapped(model, tokenizer, mask_token=mask_token, end_tokens=end_tokens, shifted=shifted, layers=layers)


class Wrapped:
    """A model object with the ways of `Model` to decode.

    For orders that use attention, that of the layers they ask for is taken by a hook where the model calls
    torch.nn.functional.scaled_dot_product_attention, as LLaDA, Dream and most others do; a model that does not is asked for
    `output_attentions`. Logits and attention are reduced on the model's device.
    """

    def __init__(
        self,
        model: Any,
        tokenizer: Any = None,
        *,
        mask_token: int | None = None,
        end_tokens: Sequence[int] | None = None,
        shifted: bool | None = None,
        layers: int | None = None,
    ) -> None:
        self.model, self.tokenizer = model, tokenizer
        self.config = getattr(model, "config", None)
        mask = _first(mask_token, self._setting("mask_token_id"), getattr(tokenizer, "mask_token_id", None))
        if mask is None:
            raise ValueError("neither the model's configuration nor the tokenizer names a mask token: give mask_token=")
        self.mask_token = int(mask)
        ends = _first(end_tokens, self._setting("eos_token_id"), getattr(tokenizer, "eos_token_id", None), [])
        self.end_tokens = [int(end) for end in (ends if isinstance(ends, Sequence) else [ends])]
        self.shifted = bool(_first(shifted, str(self._setting("model_type")).lower() == "dream"))
        named = (self._setting(name) for name in ("num_hidden_layers", "n_layers", "num_layers", "n_layer"))
        count = _first(layers, *named)
        self.layers = None if count is None else int(count)

    def _setting(self, name: str) -> Any:
        return getattr(self.config, name, None)

    def generate(
        self, prompt: str | Sequence[int] | Sequence[str] | Sequence[Sequence[int]], **options: Unpack[Options]
    ) -> Any:
        """Answers a prompt, or each of a list, as `decode_batch` does; text goes through the tokenizer and its chat template.

        The result's `tokens` are there always; `text(result)` is what the tokenizer makes of them. `help(lacunalm.Options)` explains
        the options.
        """
        several = is_list_of_prompts(prompt)
        prompts = list(prompt) if several else [prompt]
        results = self.decode([self.encode(one) for one in prompts], **options)
        return results if several else results[0]

    def decode(self, prompts: Sequence[Sequence[int]], **options: Unpack[Options]) -> list[Result]:
        """Decodes prompts, or texts with masks, of token ids."""
        layers = self._layers_of(options)
        return decode_batch(
            lambda canvases: self.answers(canvases, layers),
            prompts,
            mask_token=self.mask_token,
            end_tokens=self.end_tokens,
            layers=self.layers,
            shifted=self.shifted,
            **options,
        )

    def answers(self, canvases: list[list[int]], layers: list[int]) -> list[tuple[Any, Any]]:
        """One forward pass: for each canvas its logits, and the attention of these layers if there are any."""
        if hasattr(self.model, "parameters"):
            from . import hooks

            return hooks.forward(self.model, canvases, layers)
        return [logits_and_attention(one) for one in each(self.model(canvases), [len(canvas) for canvas in canvases])]

    def _layers_of(self, options: Options) -> list[int]:
        """The layers whose attention a strategy uses."""
        about: Any = {
            name: value for name, value in options.items() if name not in ("gen_length", "max_tokens", "block_length")
        }
        about |= {"layers": self.layers, "shifted": self.shifted, "end_tokens": self.end_tokens}
        return Run([self.mask_token], mask_token=self.mask_token, **about).layers

    def encode(self, prompt: Any) -> list[int]:
        """The tokens of a prompt: in the tokenizer's chat template if it has one; token ids stay as they are."""
        if not isinstance(prompt, str):
            return list(prompt.tolist() if hasattr(prompt, "tolist") else prompt)
        if self.tokenizer is None:
            raise ValueError("a prompt that is text needs a tokenizer: wrap(model, tokenizer)")
        if getattr(self.tokenizer, "chat_template", None):
            chat = [{"role": "user", "content": prompt}]
            text = self.tokenizer.apply_chat_template(chat, add_generation_prompt=True, tokenize=False)
            return list(self.tokenizer(text, add_special_tokens=False)["input_ids"])
        return list(self.tokenizer(prompt)["input_ids"])

    def text(self, result: Result) -> str:
        """The text of a result, up to its end."""
        if self.tokenizer is None:
            raise ValueError("there is no tokenizer: wrap(model, tokenizer)")
        ends = [result.tokens.index(end) for end in self.end_tokens if end in result.tokens]
        return str(
            self.tokenizer.decode(result.tokens[: min(ends, default=len(result.tokens))], skip_special_tokens=True)
        )


def _first(*values: Any) -> Any:
    """The first that is given."""
    return next((value for value in values if value is not None), None)
