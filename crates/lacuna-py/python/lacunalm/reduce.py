"""Beliefs of rows of logits, computed by torch on the device where the logits are."""

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
    scored: list[int],
) -> tuple[int, list[list[float]]]:
    """The width of the logits, and for each row its token, the token's probability, the two largest probabilities, the entropy,
    and the probability of the scored token. Rows that are not finite have no finite probability.

    It computes what `Row::believe` of the Rust crate does: exponentials in single precision, sums in double.
    """
    width = logits.shape[-1]
    suppressed, deferred, temperature = sampling
    # Draws take several times the memory.
    step = max(1, (_CHUNK if temperature is None else _CHUNK >> 2) // width)
    found = []
    with torch.inference_mode():
        for begin in range(0, len(wanted), step):
            index = torch.tensor(wanted[begin : begin + step], device=logits.device)
            rows = logits.detach()[index].float()
            if unguided is not None:
                other = unguided[0].detach()[index].float()
                rows = other + (unguided[1] + 1.0) * (rows - other)
            chunk = slice(begin, begin + step)
            found.append(_reduce(rows, suppressed, deferred, temperature, keys[chunk], scored[chunk]))
        return width, torch.cat(found).tolist()


def _reduce(
    rows: torch.Tensor,
    suppressed: list[int],
    deferred: list[int],
    temperature: tuple[float, bool] | None,
    keys: list[int],
    scored: list[int],
) -> torch.Tensor:
    # Suppressed or not, what is not a number spoils the row.
    spoilt = rows[:, suppressed].isnan().any(dim=-1)
    if suppressed:
        rows[:, suppressed] = -torch.inf
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
        rows[:, deferred] = -torch.inf
    top, place = rows.max(dim=-1, keepdim=True)
    token = place[:, 0] if token is None else token
    own = rows.gather(-1, token[:, None])[:, 0].double()
    named = rows.gather(-1, torch.tensor(scored, device=rows.device)[:, None])[:, 0].double()
    # What is far below has no weight; not being infinite, it adds nothing to the entropy.
    below = (rows - top).clamp_(min=_FAR)
    weight = below.exp()
    total = weight.sum(dim=-1, dtype=torch.float64)
    weighted = below.mul_(weight).sum(dim=-1, dtype=torch.float64)
    first, second = top[:, 0].double(), rows.scatter_(-1, place, -torch.inf).amax(dim=-1).double()
    log_total = first + total.log()
    probability = (own - log_total).exp()
    probability[spoilt | ~log_total.isfinite()] = torch.nan
    entropy = (total.log() - weighted / total).clamp(min=0.0)
    columns = [token.double(), probability, (first - log_total).exp(), (second - log_total).exp(), entropy]
    return torch.stack([*columns, (named - log_total).exp()], dim=-1)


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
