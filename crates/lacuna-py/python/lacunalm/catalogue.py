"""The catalogue of strategies and options."""

from textwrap import fill

from ._native import describe_options, describe_strategies
from .options import Options

OPTIONS: dict[str, str] = dict(describe_options())
"""The options, and what each is."""
_PARTS = {kind: dict(parts) for kind, parts in describe_strategies()}
ORDERS: dict[str, str] = _PARTS["orders"]
"""The orders: which masked position comes first."""
PACES: dict[str, str] = _PARTS["paces"]
"""The paces: how many positions to fill in one step."""
REVISIONS: dict[str, str] = _PARTS["revisions"]
"""The revisions: which filled positions to open again."""
PRESETS: dict[str, str] = _PARTS["presets"]
"""Published methods and what they are made of."""


def _listed(parts: dict[str, str]) -> str:
    """Names and what they are, in lines."""
    indented = [
        fill(f"{name}: {about}", 110, initial_indent="  ", subsequent_indent="      ") for name, about in parts.items()
    ]
    return "\n".join(indented)


def strategies() -> str:
    """A text that explains every order, pace, revision, window, cache and preset, registered ones included."""
    parts = [f"{kind.capitalize()}:\n{_listed(dict(some))}" for kind, some in describe_strategies()]
    return "A strategy is <order>[+<pace>][+<revision>], or a preset.\n\n" + "\n\n".join(parts) + "\n"


# Docstrings of fields do not exist at run time: `help(Options)` would show none of them.
Options.__doc__ = f"{Options.__doc__}\n\n{_listed(OPTIONS)}\n"
