"""lacuna on a Ray cluster: data sets, evaluations, and a server. `pip install '.[ray]'` in a checkout brings what it takes."""

from .data import generate
from .evaluation import evaluate
from .serving import application, serve

__all__ = ["application", "evaluate", "generate", "serve"]
