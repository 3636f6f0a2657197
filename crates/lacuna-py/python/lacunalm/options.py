"""Options of every way to decode. This file is generated from the catalogue."""

from collections.abc import Sequence
from typing import Any, Literal, TypedDict


class Seedless(TypedDict, total=False):
    """Decoding options but for the seed."""

    strategy: str | None
    """<order>[+<pace>][+<revision>], or a preset. It must be a text. Default: the model's own, else dos+eb."""
    max_tokens: int | None
    """upper bound on the tokens of the answer; the canvas starts at gen_length if length is daedal, else at the
    model's recommended length, and grows by as much while no end comes. It must be a whole number from 1 to
    16777216. Default: no limit but gen_length; 2048 with length daedal."""
    gen_length: int | None
    """exact number of masked positions to decode; with length daedal the number at the start. It must be a whole
    number from 1 to 16777216. Default: the model's own, else 128."""
    draft: str | None
    """text that the answer begins with, which a revision may change. It must be a text. Default: none."""
    max_gap: int | None
    """most tokens of a gap of unknown length, written <gap>. It must be a whole number from 1 to 128. Default:
    16."""
    window: str | None
    """which masked positions may be filled now. It must be one of blocks, causal-blocks, sub-blocks, sliding.
    Default: blocks."""
    length: str | None
    """how many positions the canvas has. It must be one of fixed, daedal. Default: fixed."""
    cache: str | None
    """which positions a forward pass computes; the keys and values of the others are taken from earlier passes,
    which is faster, and approximate unless attention is block-causal. It must be one of none, blocks, prefix,
    dual, dkv, dllm, d2. Default: none."""
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
    regex: str | None
    """regular expression that the answer matches as a whole; in a text with gaps, each gap. It must be a text.
    Default: none."""
    choices: Sequence[str] | None
    """texts of which the answer, or each gap, is one. It must be a list of texts, such as yes,no. Default: none."""
    json: bool | None
    """the answer, or each gap, is a JSON object. It must be true or false. Default: false."""
    json_schema: str | dict[str, Any] | None
    """JSON schema that the answer, or each gap, is valid by. It must be the text of a file. Default: none."""
    grammar: str | dict[str, Any] | None
    """context-free grammar of the answer, or of each gap, in llama.cpp's notation (GBNF). It must be the text of
    a file. Default: none."""
    early_stop: bool | None
    """stop once everything before the first end token is decided; the text is the same. It must be true or
    false. Default: true."""
    top_logprobs: int | None
    """number of most probable tokens to return, with their log-probabilities, for every token at the step that
    decided it. It must be a whole number from 0 to 20. Default: 0."""
    layer: int | Sequence[int] | str | None
    """dos, certain-dos, dos-gain: layers whose attention is used, from 0: 4, or 2,4, or 2-5, or all; several are
    averaged. It must be a layer such as 4, a list such as 2,4, a range such as 2-5, or all. Default: the
    model's own, else a sixth of the way up."""
    heads: int | Sequence[int] | None
    """dos, certain-dos, dos-gain: attention heads that are averaged, from 0. It must be a list of distinct whole
    numbers, such as 0,3. Default: all."""
    frequencies: str | dict[str, Any] | None
    """prior: frequencies of tokens in a corpus: JSON with num_token and p_baseline_dict, as PC-Sampler has them.
    It must be the text of a file. Default: required."""
    position_decay: float | None
    """prior: how fast the weight of a position falls along the block; 0 does not prefer early positions. It must
    be 0 or more and at most 1000. Default: 0.25."""
    frequency_cap: float | None
    """prior: upper bound on -p ln f, with f the frequency of the token. It must be more than 0 and at most
    1000000. Default: 10."""
    places: int | Sequence[int] | None
    """given: masked positions in the order to fill them, counted from the first one at 0; those that are not
    named come last. It must be a list of distinct whole numbers, such as 0,3. Default: required."""
    gamma: float | None
    """eb, eb-steps: entropy bound in nats: sum H - max H <= gamma. It must be 0 or more and at most 1000000.
    Default: 0.01."""
    steps: int | None
    """eb-steps, threshold-or-schedule, klass, schedule, prophet, plan, replan, core: steps for the whole canvas;
    klass falls back to their schedule. It must be a whole number from 1 to 65536. Default: one per token."""
    min_joint: float | None
    """cumulative: least product of the probabilities of all tokens of a step. It must be more than 0 and at most
    1. Default: 0.9."""
    threshold: float | None
    """threshold, score-threshold, threshold-or-schedule, quota, localleap, credit, hierarchy, draft, regroup:
    confidence to reach; for score-threshold the order's score to reach. It must be more than 0 and at most 1.
    Default: threshold: 0.95; score-threshold: required; threshold-or-schedule: a schedule instead; quota:
    none: the share alone; localleap: 0.9; credit: 0.9; hierarchy: none; draft: 0.6; regroup: none."""
    block_steps: int | None
    """quota: steps of a block; each commits at least its even share of the block. It must be a whole number from
    1 to 65536. Default: one per position of the block."""
    min_commit: int | None
    """quota: least number of tokens in a step. It must be a whole number from 1 to 65536. Default: the share by
    block_steps."""
    relaxed_threshold: float | None
    """localleap: confidence to reach near a position that reaches threshold. It must be 0 or more and at most 1.
    Default: 0.75."""
    radius: int | None
    """localleap: largest distance to a position that reaches threshold. It must be a whole number from 0 to
    65536. Default: 4."""
    credit_weight: float | None
    """credit: factor of ln(1 + credit), which is added to a token's logit. It must be 0 or more and at most
    1000. Default: 0.7."""
    credit_power: float | None
    """credit: exponent of the probability that the best token gathers as credit in a step. It must be 0 or more
    and at most 1000. Default: 0.2."""
    credit_decay: float | None
    """credit: share of the credit that is left after a step. It must be 0 or more and at most 1. Default: 0.8."""
    unroll: int | None
    """credit, hierarchy: most passes before a block is tested for masks; above 1 some passes may find nothing to
    do, as in dInfer. It must be a whole number from 1 to 1024. Default: 1."""
    expected_tpf: int | None
    """credit, hierarchy: tokens that a pass is expected to commit: masks / expected_tpf passes are made before a
    block is tested. It must be a whole number from 1 to 65536. Default: 8."""
    graph_layers: int | Sequence[int] | None
    """dawn: layers whose attention makes the graph, from 0. It must be a list of distinct whole numbers, such as
    0,3. Default: the last four."""
    tau_sink: float | None
    """dawn: mean attention above which a position is a sink, to which nothing depends. It must be 0 or more and
    at most 1. Default: 0.01."""
    tau_edge: float | None
    """dawn: attention from which on a position depends on another. It must be 0 or more and at most 1. Default:
    0.07."""
    tau_induce: float | None
    """dawn: confidence to reach if a position depends on a sure token. It must be 0 or more and at most 1.
    Default: 0.7."""
    tau_low: float | None
    """dawn: confidence to reach by positions that do not depend on each other. It must be 0 or more and at most
    1. Default: 0.7."""
    low_threshold: float | None
    """hierarchy, regroup: confidence that the best of a run must exceed. It must be 0 or more and at most 1.
    Default: none."""
    remask_threshold: float | None
    """hierarchy, regroup: confidence below which a decided position counts as masked. It must be 0 or more and
    at most 1. Default: hierarchy: none; regroup: 0.4."""
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
    schedule: Literal["llada", "dream", "linear", "rnd1"] | None
    """schedule: how the tokens are spread over the steps. It must be one of llada, dream, linear, rnd1. Default:
    the model's own, else llada."""
    eps: float | None
    """schedule: last timestep of schedule dream. It must be more than 0 and less than 1. Default: 0.001."""
    answer_offset: int | None
    """prophet: first of the five positions of the answer, counted from the first masked one. It must be a whole
    number from 0 to 16777216. Default: required."""
    gap_early: float | None
    """prophet: mean logit gap of a sure answer in the first third of the steps. It must be 0 or more and at most
    1000000. Default: 7.5."""
    gap_mid: float | None
    """prophet: the same in the second third. It must be 0 or more and at most 1000000. Default: 5."""
    gap_late: float | None
    """prophet: the same in the last third. It must be 0 or more and at most 1000000. Default: 2.5."""
    saber_n: int | None
    """adaptive, backtrack: least number of tokens in a step. It must be a whole number from 1 to 65536. Default:
    2."""
    threshold_back: float | None
    """verify: tokens with less support than this are reopened. It must be 0 or more and at most 1. Default: 0.9."""
    remdm_start: float | None
    """remdm: share of a block that is decided before tokens are reopened. It must be 0 or more and at most 1.
    Default: 0.875."""
    remdm_k: int | None
    """remdm: tokens that are reopened at once. It must be a whole number from 1 to 65536. Default: 1."""
    remdm_loops: int | None
    """remdm: times that tokens of a block are reopened. It must be a whole number from 0 to 65536. Default: 32."""
    core_rule: Literal["core", "margin_remask"] | None
    """core: tokens that are replaced: the least likely ones, or those where the second pass is least sure. It
    must be one of core, margin_remask. Default: core."""
    revise_every: int | None
    """core: steps between two revisions. It must be a whole number from 1 to 65536. Default: 8."""
    revise_candidates: int | None
    """core: tokens with the smallest margins that are masked together in the second pass. It must be a whole
    number from 1 to 65536. Default: 32."""
    revise_most: int | None
    """core: tokens that a revision replaces at most. It must be a whole number from 1 to 65536. Default: 1."""
    edit_threshold: float | None
    """edit: confidence that another token must exceed to replace one. It must be 0 or more and at most 1.
    Default: 0.5."""
    max_edit_steps: int | None
    """edit: most steps of a block after its last mask was decided. It must be a whole number from 0 to 65536.
    Default: 16."""
    block_length: int | None
    """blocks, causal-blocks, sub-blocks, sliding: positions in a block, and in a block of block-causal
    attention; for a sliding window its length at the start. It must be a whole number from 1 to 16777216.
    Default: blocks: the model's blocks, else one block; causal-blocks: the model's blocks, else 32;
    sub-blocks: the model's blocks, else 32; sliding: required."""
    whole_blocks: bool | None
    """blocks: the canvas of a block-causal model is rounded up to whole blocks; what is decoded beyond
    gen_length is not shown. It must be true or false. Default: true."""
    sub_block_length: int | None
    """sub-blocks: positions in a sub-block; a block's sub-blocks are decoded from left to right. It must be a
    whole number from 1 to 16777216. Default: 8."""
    max_window: int | None
    """sliding: most positions that are open from the first masked one on. It must be a whole number, 1 or more,
    or -1 for no limit. Default: no limit."""
    end_token: int | None
    """daedal: token whose confidence at the end of the canvas tells that there is room enough; the model's
    end-of-text token if it has one. It must be a whole number from 0 to 2147483648. Default: required."""
    end_check: int | None
    """daedal: positions at the end of the canvas with the end token whose confidence is averaged. It must be a
    whole number from 1 to 65536. Default: 32."""
    end_confidence: float | None
    """daedal: confidence in the end below which masks are appended before the first token is decided. It must be
    0 or more and at most 1. Default: 0.5."""
    expand_confidence: float | None
    """daedal: confidence in the end below which a step makes several masks of its least confident one. It must
    be 0 or more and at most 1. Default: 0.9."""
    expand_below: float | None
    """daedal: confidence below which a mask may become several. It must be 0 or more and at most 1. Default:
    0.1."""
    expand_by: int | None
    """daedal: masks that are appended at a time, and that one mask becomes. It must be a whole number from 2 to
    65536. Default: 8."""
    block_passes: Literal["after", "before"] | None
    """blocks: after: the prompt is stored first, and every block when it is finished (SDAR); before: what stands
    before a block is stored when the block begins (BD3LM). It must be one of after, before. Default: after."""
    open_blocks: bool | None
    """blocks: a pass that stores a block decides the first token of the next, if the model is shifted (Fast-dLLM
    v2). It must be true or false. Default: false."""
    sub_block_cache: bool | None
    """blocks: passes compute the sub-block alone once its first token is decided; approximate (Fast-dLLM v2). It
    must be true or false. Default: false."""
    cache_reload: int | None
    """dkv: steps of a block between two passes that compute everything; 1 computes everything always. It must be
    a whole number from 1 to 65536. Default: 2."""
    prompt_interval: int | None
    """dllm: passes between two that compute the prompt; 1 computes it always. It must be a whole number from 1
    to 65536. Default: 50."""
    gen_interval: int | None
    """dllm: passes between two that compute everything behind the prompt; 1 computes it always. It must be a
    whole number from 1 to 65536. Default: 8."""
    transfer_ratio: float | None
    """dllm: share of the positions behind the prompt that the passes between compute: those whose values have
    changed most. It must be 0 or more and at most 1. Default: 0.25."""
    rollout_p: float | None
    """d2: share of the attention, through all layers, that flows to the positions that are computed for its
    sake. It must be 0 or more and at most 1. Default: 0.1."""
    current_k: int | None
    """d2: masks that a pass computes: the confident ones near decided positions. It must be a whole number from
    1 to 16777216. Default: 32."""
    sigma: float | None
    """d2: width of the bell curve by which decided positions count as near. It must be more than 0 and at most
    1000000. Default: 10."""
    inflate_w: int | None
    """d2: distance of two computed positions up to which everything between them is computed, too; 0 does not.
    It must be a whole number from 0 to 65536. Default: 4."""


class Options(Seedless, total=False):
    """Decoding options. Those that are left out, or None, are as the model recommends, else they have their defaults."""

    seed: int | None
    """seed of all random draws. It must be a whole number, 0 or more. Default: 0."""
