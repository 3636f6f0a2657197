"""Numbers that callers give, checked."""

import math
from typing import Any


def whole(name: str, number: Any, least: int = 0) -> int:
    """A whole number of any type, from `least` on, of at most 64 bits."""
    try:
        found = int(number.__index__())
    except (AttributeError, TypeError):
        raise TypeError(f"{name} must be a whole number, but it is {number!r}") from None
    if not least <= found < 1 << 64:
        raise ValueError(f"{name} is {found}, but it must be {least} or more, and have at most 64 bits")
    return found


def positive(name: str, number: Any) -> int:
    """A whole number, 1 or more."""
    return whole(name, number, 1)


def finite(name: str, number: Any) -> float:
    """A number that is neither infinite nor NaN."""
    try:
        found = float(number)
    except (TypeError, ValueError, OverflowError):
        raise TypeError(f"{name} must be a number, but it is {number!r}") from None
    if not math.isfinite(found):
        raise ValueError(f"{name} is {found}, but it must be a number")
    return found
