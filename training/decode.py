"""Decoding by unmasking: which positions to fill first (strategy), and how many at a time (sampler).

Strategies score the masked positions of the current block:

    random, left    any order, or from left to right
    confidence      probability of the best token
    entropy         negated entropy of the prediction
    margin          probability of the best token minus that of the second
    dos             attention that the position pays, in one layer, to positions already unmasked

Samplers: top1 fills the best position; eb the longest prefix of the ranking whose entropies add up,
without the largest, to at most gamma.
"""

import time

import torch

STRATEGIES = ["confidence", "entropy", "margin", "random", "left", "dos"]


def pad_prompts(prompts, eos, device):
    """Left-padded ids and the mask of real tokens. RoPE is relative, so the shift changes nothing."""
    width = -(-max(map(len, prompts)) // 16) * 16
    ids = torch.tensor([[eos] * (width - len(p)) + p for p in prompts], device=device)
    real = torch.tensor([[False] * (width - len(p)) + [True] * len(p) for p in prompts], device=device)
    return ids, real


def scores(strategy, probabilities, confidence, best, entropy, attention, known, rng):
    if strategy == "random":
        return torch.rand(confidence.shape, device=confidence.device, generator=rng)
    if strategy == "left":
        return -torch.arange(confidence.shape[1], device=confidence.device).float().expand(confidence.shape)
    if strategy == "confidence":
        return confidence
    if strategy == "entropy":
        return -entropy
    if strategy == "margin":
        return confidence - probabilities.scatter(2, best[..., None], 0).amax(-1)
    return (attention @ known[..., None])[..., 0]


def choose(sampler, score, entropy, allowed, gamma):
    """The positions to fill now. `score` is -inf where not allowed."""
    chosen = torch.zeros_like(allowed)
    if sampler == "top1":
        return chosen.scatter_(1, score.argmax(1, keepdim=True), True)
    order = score.argsort(dim=1, descending=True, stable=True)
    ranked = entropy.masked_fill(~allowed, float("inf")).gather(1, order)
    fits = ranked.cumsum(1) - ranked.cummax(1).values <= gamma  # inf - inf is nan, which compares false
    fits[:, 0] = True
    return chosen.scatter_(1, order, fits)


@torch.no_grad()
def decode(
    model,
    prompts,
    strategy="confidence",
    layer=None,
    sampler="top1",
    block=128,
    canvas=128,
    gamma=0.01,
    begin=(),
    seed=0,
    deadline=None,
):
    """Greedy decoding of a batch: (answers [n, canvas], forward passes [n]), or None past the deadline.

    `begin` holds token ids that every answer must begin with.
    """
    config, device = model.cfg, next(model.parameters()).device
    mask = config.mask_token_id
    ids, real = pad_prompts(prompts, config.eos_token_id, device)
    n, width = ids.shape
    x = torch.cat([ids, ids.new_full((n, canvas), mask)], 1)
    for i, token in enumerate(begin):
        x[:, width + i] = token
    visible = torch.cat([real, real.new_ones(n, canvas)], 1)
    position, passes = (
        torch.arange(canvas, device=device),
        torch.zeros(n, dtype=torch.long, device=device),
    )
    rng = torch.Generator(device).manual_seed(seed)
    while True:
        rows = (x[:, width:] == mask).any(1).nonzero()[:, 0]
        if not len(rows):
            return x[:, width:], passes
        if deadline and time.time() > deadline:
            return None
        if len(rows) == 1:  # a batch of one would be compiled anew
            rows = rows.repeat(2)
        passes[rows] += 1
        part, keys = x[rows], visible[rows]
        masked = part[:, width:] == mask
        with torch.autocast(device.type, torch.bfloat16, enabled=device.type == "cuda"):
            out = model(part, last=canvas, key_mask=keys, attn_layer=layer if strategy == "dos" else None)
        logits, attention = out if strategy == "dos" else (out, None)
        logits[..., mask] = float("-inf")
        probabilities = logits.softmax(-1)
        confidence, best = probabilities.max(-1)
        entropy = None
        if strategy == "entropy" or sampler == "eb":
            entropy = torch.special.entr(probabilities).sum(-1)
        known = ((part != mask) & keys).float()
        score = scores(strategy, probabilities, confidence, best, entropy, attention, known, rng)
        current = masked.int().argmax(1) // block  # the first block with a mask, per sample
        allowed = masked & (position // block == current[:, None])
        score = score.masked_fill(~allowed, float("-inf"))
        chosen = choose(sampler, score, entropy, allowed, gamma)
        part[:, width:] = torch.where(chosen, best, part[:, width:])
        x[rows] = part


def texts(tokenizer, answers, eos):
    """Answers as text up to the first EOS, and their lengths in tokens."""
    rows = [r[: r.index(eos)] if eos in r else r for r in answers.tolist()]
    return tokenizer.decode_batch(rows, skip_special_tokens=False), [len(r) for r in rows]
