"""Decoding for masked diffusion language models (LLaDA, Dream and their kin).

Two things are here. `Model` is an engine: it loads a checkpoint, or the small one that is part of the package, and answers
prompts. `decode`, `decode_batch` and `Run` are the sampler alone: they decode with the logits, and for `dos` the attention, of a
model of your own; `wrap` does so for a model of transformers. `evaluate` measures either on benchmarks.

    >>> import lacunalm as lacuna
    >>> lacuna.Model().generate("Sara has 24 pens and gives 9 away. How many are left?").text
    'Sara still has 24 - 9 = 15 pens.\\n#### 15'

`help(lacunalm.Options)` explains every option, `lacunalm.strategies()` every strategy. `lacunalm.ray` decodes on a cluster.
"""

from ._native import (
    Candidates,
    Commit,
    Error,
    Frame,
    RankedPositions,
    Result,
    Run,
    Seen,
    Step,
    Stream,
    __version__,
    main,
    register_order,
    register_pace,
)
from .catalogue import OPTIONS, ORDERS, PACES, PRESETS, REVISIONS, strategies
from .evaluation import evaluate
from .likelihood import Score, ScoredToken
from .model import Cancelled, Model
from .options import Options
from .sampler import decode, decode_batch
from .wrapper import Wrapped, wrap

__all__ = [
    "OPTIONS",
    "ORDERS",
    "PACES",
    "PRESETS",
    "REVISIONS",
    "Cancelled",
    "Candidates",
    "Commit",
    "Error",
    "Frame",
    "Model",
    "Options",
    "RankedPositions",
    "Result",
    "Run",
    "Score",
    "ScoredToken",
    "Seen",
    "Step",
    "Stream",
    "Wrapped",
    "__version__",
    "decode",
    "decode_batch",
    "evaluate",
    "main",
    "register_order",
    "register_pace",
    "strategies",
    "wrap",
]
