"""Numbers that callers give, checked."""

import math
from collections.abc import Sequence
from typing import Any

MOST = (1 << 64) - 1


def whole(name: str, number: Any, least: int = 0, most: int = MOST) -> int:
    """A whole number of any type, numpy's and torch's among them."""
    try:
        if _is_bool(number):
            raise TypeError
        found = int(number.__index__())
    except (AttributeError, TypeError):
        raise TypeError(f"{name} must be a whole number, but it is {_shown(number)}") from None
    if not least <= found <= most:
        limits = f"{least} or more, and have at most 64 bits" if most == MOST else f"from {least} to {most}"
        raise ValueError(f"{name} is {found}, but it must be {limits}")
    return found


def positive(name: str, number: Any) -> int:
    """A whole number, 1 or more."""
    return whole(name, number, 1)


def several(given: Any) -> list[Any]:
    """The values of a list, a tuple or an array; anything else is one value."""
    if hasattr(given, "tolist"):
        given = given.tolist()
    return list(given) if isinstance(given, Sequence) and not isinstance(given, (str, bytes)) else [given]


def finite(name: str, number: Any) -> float:
    """A number that is neither infinite nor NaN."""
    try:
        if _is_bool(number) or not (hasattr(number, "__float__") or hasattr(number, "__index__")):
            raise TypeError
        found = float(number)
    except (TypeError, ValueError, RuntimeError):
        raise TypeError(f"{name} must be a number, but it is {_shown(number)}") from None
    except OverflowError:
        found = math.inf
    if not math.isfinite(found):
        raise ValueError(f"{name} is {found}, but it must be a finite number")
    return found


def _is_bool(number: Any) -> bool:
    return isinstance(number, bool) or str(getattr(number, "dtype", "")).endswith("bool")


def _shown(value: Any) -> str:
    """A value in a message: itself if it is short, else its type."""
    text = repr(value)
    plain = isinstance(value, (bool, int, float, complex, str, bytes, list, tuple, dict)) and "\n" not in text
    return text if plain and len(text) <= 40 else f"of type {type(value).__name__}"
