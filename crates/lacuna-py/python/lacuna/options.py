"""What every way to decode can be told."""

from collections.abc import Sequence
from typing import Literal, TypedDict


class Options(TypedDict, total=False):
    """How to decode. What is left out, or None, is as the model recommends, else as it is usual."""

    strategy: str | None
    """`<order>[+<pace>][+<revision>]` or a preset; usually `dos+eb`."""
    gen_length: int | None
    """How many tokens to generate; usually 128."""
    block_length: int | None
    """How many tokens a block has; usually one block."""
    layer: int | Sequence[int] | str | None
    """`dos`: the layers whose attention is averaged: 4, [2, 4], "2-5" or "all"."""
    heads: Sequence[int] | None
    """`dos`: the heads that are averaged in each layer; usually all."""
    steps: int | None
    """`schedule` and `klass`: steps for the whole text; usually one for each token."""
    schedule: Literal["llada", "dream"] | None
    """`schedule`: how tokens are spread over the steps; usually as LLaDA does."""
    eps: float | None
    """`schedule` as Dream's: the last timestep; usually 0.001."""
    gamma: float | None
    """`eb`: the entropy bound in nats; usually 0.01."""
    threshold: float | None
    """`threshold` (0.95), `draft` (0.6), `score-threshold`: what is to be reached."""
    threshold_back: float | None
    """`verify`: the support that a token needs; usually 0.9."""
    factor: float | None
    """`factor`: the factor; usually 1."""
    conf_threshold: float | None
    """`klass`: the confidence to exceed; usually 0.9."""
    kl_threshold: float | None
    """`klass`: the divergence to stay below; usually 0.01."""
    history: int | None
    """`klass`: for how many steps; usually 2."""
    saber_n: int | None
    """`adaptive` and `backtrack`: the least number of tokens in a step; usually 2."""
    order_temperature: float | None
    """The temperature at which the order is drawn; usually 0, which takes the best."""
    temperature: float | None
    """The temperature at which tokens are drawn; usually 0, which takes the most probable."""
    top_p: float | None
    """Draw only from the most probable tokens that together reach this."""
    top_k: int | None
    """Draw only from this many tokens."""
    sampling: Literal["llada", "dream"] | None
    """Whose meaning of temperature is meant; usually that of the model's family."""
    guidance: float | None
    """Classifier-free guidance; it takes a second forward pass for each step."""
    suppress_eos: bool | None
    """Never choose the end-of-text token."""
    defer_eos: bool | None
    """Commit end-of-text and end-of-turn tokens last."""
    early_stop: bool | None
    """Whether to stop when everything before the first end is decided; usually so."""
    seed: int | None
    """Where random draws start from; usually 0."""
    cache: Literal["none", "prefix", "dual"] | None
    """What the steps of a block take from its first one instead of computing it again. Not exact, and only with `Model`."""
