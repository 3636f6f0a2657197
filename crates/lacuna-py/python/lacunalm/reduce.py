"""Beliefs of rows of logits, computed by torch on the device where the logits are."""

from functools import lru_cache
from typing import Any

import torch

_CHUNK = 1 << 25
"""About as many logits are worked on at a time."""
_FAR = -128.0
"""The exponential of this is 0 in single precision."""


def beliefs(
    logits: torch.Tensor,
    wanted: list[int],
    unguided: tuple[torch.Tensor, float] | None,
    sampling: tuple[list[int], list[int], tuple[float, bool] | None],
    keys: list[int],
    scored: list[int] | None,
) -> tuple[int, list[list[float]]]:
    """The width of the logits, and for each row: its token; the logits of the token, of the best, of the second best and of the scored
    token; the sum of all exp(logit - best), and that of (logit - best) exp(logit - best); 1 if the row has something that is not a number.

    Exponentials are in single precision, sums in double, as in `Row::belief` of the Rust crate. A step waits for launches of small
    kernels more than for their work, so that there are few of them; what is left to compute of a row is done by the caller.
    """
    width = logits.shape[-1]
    suppressed, deferred, temperature = sampling
    # Draws take several times the memory.
    step = max(1, (_CHUNK if temperature is None else _CHUNK >> 2) // width)
    found = []
    with torch.inference_mode():
        numbers = torch.tensor([wanted, scored or wanted]).to(logits.device)
        for begin in range(0, len(wanted), step):
            index, named = numbers[:, begin : begin + step]
            rows = logits.index_select(0, index).float()
            if unguided is not None:
                other = unguided[0].index_select(0, index).float()
                rows = other + (unguided[1] + 1.0) * (rows - other)
            row_keys = keys[begin : begin + step]
            found.append(_reduce(rows, suppressed, deferred, temperature, row_keys, named if scored else None))
        return width, (found[0] if len(found) == 1 else torch.cat(found)).tolist()


def _reduce(
    rows: torch.Tensor,
    suppressed: list[int],
    deferred: list[int],
    temperature: tuple[float, bool] | None,
    keys: list[int],
    scored: torch.Tensor | None,
) -> torch.Tensor:
    columns = _tokens(tuple(suppressed), rows.device)
    # Suppressed or not, what is not a number spoils the row.
    spoilt = rows.index_select(-1, columns).isnan().any(dim=-1)
    rows.index_fill_(-1, columns, -torch.inf)
    if temperature is not None and temperature[1]:
        rows = (rows.double() / temperature[0]).float()
    token = None
    if temperature is not None:
        scale = 1.0 if temperature[1] else temperature[0]
        noisy = rows.double() + scale * _gumbel(keys, rows)
        token = torch.where(rows > -torch.inf, noisy, -torch.inf).argmax(dim=-1)
    elif deferred:
        token = rows.argmax(dim=-1)
    if deferred:
        rows.index_fill_(-1, _tokens(tuple(deferred), rows.device), -torch.inf)
    top, place = rows.max(dim=-1, keepdim=True)
    best = top[:, 0]
    own = best if token is None else rows.gather(-1, token[:, None])[:, 0]
    named = best if scored is None else rows.gather(-1, scored[:, None])[:, 0]
    # What is far below has no weight; not being infinite, it adds nothing to the entropy.
    below = (rows - top).clamp_(min=_FAR)
    weight = below.exp()
    total = weight.sum(dim=-1, dtype=torch.float64)
    weighted = below.mul_(weight).sum(dim=-1, dtype=torch.float64)
    second = rows.scatter_(-1, place, -torch.inf).amax(dim=-1)
    chosen = place[:, 0] if token is None else token
    # Doubles hold the others as they are.
    return torch.stack([total, weighted, chosen, own, best, second, named, spoilt], dim=-1)


@lru_cache(64)
def _tokens(tokens: tuple[int, ...], device: torch.device) -> torch.Tensor:
    """Token ids on a device, where they are asked for again at every step."""
    return torch.tensor(tokens, dtype=torch.int64, device=device)


def _gumbel(keys: list[int], rows: torch.Tensor) -> torch.Tensor:
    """The draws of the Rust crate: number `lane` of a row is a hash of its key and the lane."""
    lanes = _mix(torch.arange(rows.shape[-1], device=rows.device))
    signed = [key - (1 << 64) if key >= 1 << 63 else key for key in keys]
    hashed = _mix(torch.tensor(signed, device=rows.device)[:, None] ^ lanes)
    uniform = (_shift(hashed, 11).double() + 0.5) * 2.0**-53
    gumbel: torch.Tensor = -(-uniform.log()).log()
    return gumbel


def _mix(x: Any) -> Any:
    """The finalizer of SplitMix64; integers wrap around."""
    x = x + (0x9E3779B97F4A7C15 - (1 << 64))
    x = (x ^ _shift(x, 30)) * (0xBF58476D1CE4E5B9 - (1 << 64))
    x = (x ^ _shift(x, 27)) * (0x94D049BB133111EB - (1 << 64))
    return x ^ _shift(x, 31)


def _shift(x: Any, bits: int) -> Any:
    """A shift that fills with zeros, which torch's does not for negative numbers."""
    return (x >> bits) & ((1 << (64 - bits)) - 1)
