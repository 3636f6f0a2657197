"""Logits and attention, reduced by torch on the device where they are.

A GPU works on a step for less time than the host takes to launch many small kernels and to wait for each of their results. So
there are few of them, what a step needs goes to the device in one copy, and what it gives comes back in one.
"""

from collections.abc import Sequence
from functools import lru_cache
from typing import Any

import torch

_CHUNK = 1 << 25
"""About as many logits are worked on at a time."""


def beliefs(
    logits: torch.Tensor,
    numbers: bytearray,
    unguided: tuple[torch.Tensor, float] | None,
    sampling: tuple[Sequence[int], Sequence[int], tuple[float, bool] | None],
    is_scored: bool,
) -> Any:
    """For each row: its token; the logits of the token, of the best, of the second best and of the scored token; the sums of
    exp(logit - best) and of (logit - best) exp(logit - best) over all but the best; NaN if a logit is.

    `numbers` are three 64-bit integers for each row, one kind after the other: which row, the key of its draws, the scored token.

    The best is left out of the sums: what the others weigh beside it would be lost to rounding.
    """
    suppressed, deferred, temperature = sampling
    # Draws take several times the memory.
    step = max(1, (_CHUNK if temperature is None else _CHUNK >> 2) // logits.shape[-1])
    with torch.inference_mode():
        asked = torch.frombuffer(numbers, dtype=torch.int64).to(logits.device).view(3, -1)
        plain = unguided is None and temperature is None and not deferred and logits.stride(-1) == 1
        if plain and (fused := _fused(logits.device)):
            return fused(logits, asked, _allowed(tuple(suppressed), logits.shape[-1], logits.device)).cpu().numpy()
        found = []
        for begin in range(0, asked.shape[1], step):
            index, keys, scored = asked[:, begin : begin + step]
            rows = logits.index_select(0, index).float()
            if unguided is not None:
                other = unguided[0].index_select(0, index).float()
                rows = other + (unguided[1] + 1.0) * (rows - other)
            found.append(
                _reduce(rows, tuple(suppressed), tuple(deferred), temperature, keys, scored if is_scored else None)
            )
        return (found[0] if len(found) == 1 else torch.cat(found)).cpu().numpy()


def _reduce(
    rows: torch.Tensor,
    suppressed: tuple[int, ...],
    deferred: tuple[int, ...],
    temperature: tuple[float, bool] | None,
    keys: torch.Tensor,
    scored: torch.Tensor | None,
) -> torch.Tensor:
    columns = _tokens(suppressed, rows.device)
    spoilt = rows.index_select(-1, columns).amax(dim=-1) if suppressed else None
    rows.index_fill_(-1, columns, -torch.inf)
    if temperature is not None and temperature[1]:
        rows = (rows.double() / temperature[0]).float()
    token = None
    if temperature is not None:
        scale = 1.0 if temperature[1] else temperature[0]
        noisy = rows.double() + scale * _gumbel(keys, rows)
        token = torch.where(rows > -torch.inf, noisy, -torch.inf).argmax(dim=-1, keepdim=True)
    elif deferred:
        token = rows.argmax(dim=-1, keepdim=True)
    if deferred:
        rows.index_fill_(-1, _tokens(deferred, rows.device), -torch.inf)
    best, place = rows.max(dim=-1, keepdim=True)
    own = best if token is None else rows.gather(-1, token)
    named = best if scored is None else rows.gather(-1, scored[:, None])
    second, next_place = rows.scatter_(-1, place, -torch.inf).max(dim=-1, keepdim=True)
    shares = rows.softmax(dim=-1)
    others = (second - best).exp() / shares.gather(-1, next_place)
    entropy = torch.special.entr(shares, out=shares).sum(dim=-1, keepdim=True)
    weighted = torch.special.xlogy(others, others) - others * entropy
    chosen = (place if token is None else token).float()
    return torch.cat(
        [chosen, own, best, second, named, others, weighted, best if spoilt is None else spoilt[:, None]], dim=-1
    )


@lru_cache
def _fused(device: torch.device) -> Any:
    """The kernel that reads logits once, where there is one for the device and Triton can compile it; else None."""
    if device.type != "cuda":
        return None
    try:
        from .fused import reduce_rows

        row = torch.zeros((1, 2), device=device)
        reduce_rows(row, torch.zeros((3, 1), dtype=torch.int64, device=device), _allowed((), 2, device))
    # Triton may be missing, or the C compiler that it needs, or the GPU too old: of all of them torch knows better.
    except Exception:
        return None
    return reduce_rows


@lru_cache(64)
def _allowed(suppressed: tuple[int, ...], width: int, device: torch.device) -> torch.Tensor:
    """1 for each token that may be chosen."""
    return torch.ones(width, dtype=torch.int8, device=device).index_fill_(0, _tokens(suppressed, device), 0)


@lru_cache(64)
def _tokens(tokens: tuple[int, ...], device: torch.device) -> torch.Tensor:
    """Token ids on a device, where they are asked for again at every step."""
    return torch.tensor(tokens, dtype=torch.int64, device=device)


def _gumbel(keys: torch.Tensor, rows: torch.Tensor) -> torch.Tensor:
    """The draws of the Rust crate: number `lane` of a row is a hash of its key and the lane."""
    lanes = _mix(torch.arange(rows.shape[-1], device=rows.device))
    hashed = _mix(keys[:, None] ^ lanes)
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


def attention_to(attention: torch.Tensor, unmasked: bytearray, heads: Sequence[int]) -> Any:
    """The attention that each position pays to these positions, averaged over `heads`, or over all of them; ready scores stay.

    `unmasked` are 64-bit integers.
    """
    with torch.inference_mode():
        attention = attention.detach()
        if heads:
            attention = attention[list(heads)]
        if attention.dim() == 3:
            attention = attention.mean(dim=0, dtype=torch.float32)
        attention = attention.float()
        if attention.dim() == 2:
            # torch makes no tensor of an empty buffer.
            index = torch.frombuffer(unmasked, dtype=torch.int64) if unmasked else torch.zeros(0, dtype=torch.int64)
            attention = attention.index_select(-1, index.to(attention.device)).sum(dim=-1)
        return attention.cpu().numpy()
