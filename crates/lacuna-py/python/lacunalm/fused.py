"""A kernel of Triton that reads rows of logits once. torch brings Triton on Linux; it takes a C compiler."""
# pyright: reportMissingParameterType=false

from typing import Any

import torch
import triton
import triton.language as tl

_LANES = 8192
"""Logits of a row that are read at a time: each lane takes one of them, then the next that is as far behind it."""
_NONE: tl.constexpr = tl.constexpr(-1e30)
"""The logit of a token that may not be chosen. Not being infinite, it has no weight, and makes nothing that is not a number."""


@triton.jit
def _reduce(logits, asked, allowed, out, stride, width, count, LANES: tl.constexpr):
    """Writes what `reduce.beliefs` returns of a row. Sums leave out the best, and are relative to it."""
    number = tl.program_id(0)
    row = logits + tl.load(asked + number) * stride
    lane = tl.arange(0, LANES)
    best = tl.full([LANES], _NONE, tl.float32)
    second = tl.full([LANES], _NONE, tl.float32)
    others = tl.zeros([LANES], tl.float32)
    weighted = tl.zeros([LANES], tl.float32)
    token = tl.full([LANES], 2147483647, tl.int32)
    spoilt = tl.zeros([LANES], tl.int32)
    for begin in range(0, width, LANES):
        at = begin + lane
        there = at < width
        logit = tl.load(row + at, mask=there, other=float("-inf")).to(tl.float32)
        spoilt = spoilt | (logit != logit).to(tl.int32)
        may = tl.load(allowed + at, mask=there, other=0) != 0
        logit = tl.where(may & (logit > _NONE), logit, _NONE)
        rises = logit > best
        below = logit - best
        weight = tl.exp(-tl.abs(below))
        weighted = tl.where(rises, weight * (weighted - below * (1.0 + others)), weighted + below * weight)
        others = tl.where(rises, weight * (1.0 + others), others + weight)
        second = tl.where(rises, best, tl.maximum(second, logit))
        token = tl.where(rises, at, token)
        best = tl.where(rises, logit, best)
    top = tl.max(best, axis=0)
    # Of equals the lower token.
    first = tl.min(tl.where(best == top, token, 2147483647), axis=0)
    mine = token == first
    below = best - top
    weight = tl.exp(below)
    rest = tl.sum(tl.where(mine, others, weight * (1.0 + others)), axis=0)
    spread = tl.sum(tl.where(mine, weighted, weight * (weighted + below * (1.0 + others))), axis=0)
    runner_up = tl.max(tl.where(mine, second, best), axis=0)
    named = tl.load(asked + 2 * count + number)
    scored = tl.where(tl.load(allowed + named) != 0, tl.load(row + named).to(tl.float32), float("-inf"))
    place = out + number * 8
    tl.store(place, first.to(tl.float32))
    tl.store(place + 1, top)
    tl.store(place + 2, tl.where(top > _NONE, top, float("-inf")))
    tl.store(place + 3, tl.where(runner_up > _NONE, runner_up, float("-inf")))
    tl.store(place + 4, scored)
    tl.store(place + 5, rest)
    tl.store(place + 6, spread)
    tl.store(place + 7, tl.where(tl.max(spoilt, axis=0) != 0, float("nan"), 0.0))


def reduce_rows(logits: torch.Tensor, asked: torch.Tensor, allowed: torch.Tensor) -> torch.Tensor:
    """What `reduce.beliefs` returns, of logits whose rows are in one piece; `allowed` has 1 for each token that may be chosen."""
    count = asked.shape[1]
    out = torch.empty((count, 8), dtype=torch.float32, device=logits.device)
    launch: Any = _reduce
    # Triton launches on the current GPU, which may be another one.
    with torch.cuda.device_of(logits):
        launch[(count,)](
            logits, asked, allowed, out, logits.stride(0), logits.shape[1], count, LANES=_LANES, num_warps=16
        )
    return out
