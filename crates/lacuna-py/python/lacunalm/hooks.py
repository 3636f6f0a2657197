"""Attention of a model that does not hand it out."""

from typing import Any

import torch
from torch.nn import functional
from torch.overrides import TorchFunctionMode


class Attention(TorchFunctionMode):
    """Computes the attention weights of some layers, wherever a model calls torch's scaled dot product attention."""

    def __init__(self, layers: list[int]) -> None:
        super().__init__()
        self.layers = layers
        self.calls = 0
        self.seen: dict[int, torch.Tensor] = {}

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if func is functional.scaled_dot_product_attention:
            if self.calls in self.layers:
                self.seen[self.calls] = weights(*args, **(kwargs or {}))
            self.calls += 1
        return func(*args, **(kwargs or {}))


def weights(
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    attn_mask: torch.Tensor | None = None,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    scale: float | None = None,
    enable_gqa: bool = False,
) -> torch.Tensor:
    """The weights [batch, heads, length, length] that scaled dot product attention gives to each position."""
    if is_causal:
        raise ValueError(
            "the model's attention is causal: it does not see masks to the right, so it cannot be decoded here"
        )
    if key.shape[-3] != query.shape[-3]:
        key = key.repeat_interleave(query.shape[-3] // key.shape[-3], -3)
    scores = query.float() @ key.float().transpose(-2, -1) * (query.shape[-1] ** -0.5 if scale is None else scale)
    if attn_mask is not None:
        scores = scores.masked_fill(~attn_mask, -torch.inf) if attn_mask.dtype == torch.bool else scores + attn_mask
    return scores.softmax(-1)


def forward(model: Any, canvases: list[list[int]], layers: list[int]) -> list[tuple[Any, Any]]:
    """For each canvas its logits, and the attention of these layers if there are any.

    Canvases of one length share a forward pass. Nothing is padded: what a model makes of padding is its own affair.
    """
    answers: list[Any] = [None] * len(canvases)
    for length in {len(canvas) for canvas in canvases}:
        numbers = [number for number, canvas in enumerate(canvases) if len(canvas) == length]
        logits, seen = _forward(model, [canvases[number] for number in numbers], layers)
        for row, number in enumerate(numbers):
            attention = {layer: weights[row] for layer, weights in seen.items()}
            answers[number] = (logits[row], attention or None)
    return answers


def _forward(model: Any, canvases: list[list[int]], layers: list[int]) -> tuple[torch.Tensor, dict[int, torch.Tensor]]:
    tokens = torch.tensor(canvases, device=next(model.parameters()).device)
    watch = Attention(layers)
    with torch.inference_mode():
        if not layers:
            return model(tokens).logits, {}
        with watch:
            logits = model(tokens).logits
        if watch.calls == 0:
            output = model(tokens, output_attentions=True)
            return output.logits, dict(enumerate(output.attentions or ()))
    return logits, watch.seen
