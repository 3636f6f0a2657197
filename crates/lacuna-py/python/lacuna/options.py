"""Options of every way to decode. This file is generated from the catalogue."""

from collections.abc import Sequence
from typing import Literal, TypedDict


class Options(TypedDict, total=False):
    """Decoding options. Those that are left out, or None, are as the model recommends, else they have their defaults."""

    strategy: str | None
    """<order>[+<pace>][+<revision>], or a preset. It must be a text. Default: the model's own, else dos+eb."""
    max_tokens: int | None
    """upper bound on the tokens of the answer; the canvas starts at the model's recommended length and grows by
    as much while no end comes. It must be a whole number from 1 to 16777216. Default: no limit but
    gen_length."""
    gen_length: int | None
    """exact number of masked positions to decode. It must be a whole number from 1 to 16777216. Default: the
    model's own, else 128."""
    window: str | None
    """which masked positions may be filled now. It must be one of blocks, sliding. Default: blocks."""
    cache: str | None
    """which positions a forward pass computes; the keys and values of the others are taken from earlier passes,
    which is faster and approximate. It must be one of none, prefix, dual, dkv. Default: none."""
    order_temperature: float | None
    """temperature at which the order is drawn; 0 takes the highest score. It must be 0 or more and at most 1000.
    Default: 0."""
    temperature: float | None
    """temperature at which tokens are drawn; 0 takes the most probable token. It must be 0 or more and at most
    1000. Default: 0."""
    top_p: float | None
    """draw only from the most probable tokens that together reach this probability; no effect at temperature 0
    unless sampling is dream. It must be more than 0 and at most 1. Default: 1."""
    top_k: int | None
    """draw only from this many most probable tokens; no effect at temperature 0 unless sampling is dream. It
    must be a whole number from 0 to 16777216. Default: all tokens."""
    sampling: Literal["llada", "dream"] | None
    """meaning of temperature: llada draws the token but ranks by untempered confidence, dream tempers both. It
    must be one of llada, dream. Default: the model's own."""
    guidance: float | None
    """scale of classifier-free guidance; above 0 every step takes two forward passes. It must be 0 or more and
    at most 1000. Default: 0."""
    suppress_eos: bool | None
    """never choose the end-of-text token (LLaDA's logits_eos_inf). It must be true or false. Default: false."""
    defer_eos: bool | None
    """commit end-of-text and end-of-turn tokens last (LLaDA's confidence_eos_eot_inf). It must be true or false.
    Default: false."""
    early_stop: bool | None
    """stop once everything before the first end token is decided; the text is the same. It must be true or
    false. Default: true."""
    seed: int | None
    """seed of all random draws. It must be a whole number, 0 or more. Default: 0."""
    layer: int | Sequence[int] | str | None
    """dos: layers whose attention is used, from 0: 4, or 2,4, or 2-5, or all; several are averaged. It must be a
    layer such as 4, a list such as 2,4, a range such as 2-5, or all. Default: the model's own, else a sixth
    of the way up."""
    heads: int | Sequence[int] | None
    """dos: attention heads that are averaged, from 0. It must be a list of distinct whole numbers, such as 0,3.
    Default: all."""
    gamma: float | None
    """eb: entropy bound in nats: sum H - max H <= gamma. It must be 0 or more and at most 1000000. Default:
    0.01."""
    min_joint: float | None
    """cumulative: least product of the probabilities of all tokens of a step. It must be more than 0 and at most
    1. Default: 0.9."""
    threshold: float | None
    """threshold, score-threshold, threshold-or-schedule, draft: confidence to reach; for score-threshold the
    order's score to reach. It must be more than 0 and at most 1. Default: 0.95; required; a schedule instead;
    0.6."""
    steps: int | None
    """threshold-or-schedule, klass, schedule: steps for the whole canvas; klass falls back to their schedule. It
    must be a whole number from 1 to 65536. Default: one per token."""
    factor: float | None
    """factor: uncertainty that all tokens of a step may have together. It must be more than 0 and at most 10000.
    Default: 1."""
    conf_threshold: float | None
    """klass: confidence to exceed. It must be 0 or more and at most 1. Default: 0.9."""
    kl_threshold: float | None
    """klass: divergence from the step before to stay below. It must be more than 0 and at most 100. Default:
    0.01."""
    history: int | None
    """klass: number of steps for which it must stay below. It must be a whole number from 1 to 1024. Default: 2."""
    schedule: Literal["llada", "dream"] | None
    """schedule: how the tokens are spread over the steps. It must be one of llada, dream. Default: llada."""
    eps: float | None
    """schedule: last timestep of schedule dream. It must be more than 0 and less than 1. Default: 0.001."""
    saber_n: int | None
    """adaptive, backtrack: least number of tokens in a step. It must be a whole number from 1 to 65536. Default:
    2."""
    threshold_back: float | None
    """verify: tokens with less support than this are reopened. It must be 0 or more and at most 1. Default: 0.9."""
    block_length: int | None
    """blocks, sliding: positions in a block; for a sliding window its length at the start. It must be a whole
    number from 1 to 16777216. Default: one block; required."""
    max_window: int | None
    """sliding: most positions that are open from the first masked one on. It must be a whole number, 1 or more,
    or -1 for no limit. Default: no limit."""
    cache_reload: int | None
    """dkv: steps of a block between two passes that compute everything; 1 computes everything always. It must be
    a whole number from 1 to 65536. Default: 2."""
