"""Noised batches from the parts that data.py writes.

Which tokens are masked decides in which orders the model can decode later. LLaDA masks every token of
the answer with the same probability; a small model trained only so is lost when it must decode from
left to right or by blocks, because a revealed beginning with nothing behind it almost never occurs.
So a sample gets one of four shapes of mask:

    random  every token with probability t, t uniform                  any order
    prefix  everything from some place on                              left to right
    block   a part of one window, and everything behind it             block after block
    gap     one span, with both sides visible                          filling in

The controls are trained with `random` alone, as LLaDA is, and with its weight 1/t if asked.
"""

import glob
import random

import numpy as np
import torch

WIDTH = 16  # prompts of a batch differ by less than this, so nothing is padded and attention needs no mask
MIXED = {"random": 0.42, "prefix": 0.22, "block": 0.28, "gap": 0.08}
UNIFORM = {"random": 1.0, "prefix": 0.0, "block": 0.0, "gap": 0.0}
LEAST = 0.001  # smallest t where samples are weighted by 1/t
FAR = 0.1  # weight of the tokens that lie far behind a revealed prefix, where nothing can be known yet
NEAR = 32


def mask_answers(position, prompt, answer, rand, shapes=MIXED, weighted=False):
    """Masks for samples whose prompts and answers have the given lengths: (masked, weight), [n, T].

    `rand(*shape)` draws uniform numbers. Positions behind the answer hold EOS and belong to it. `weighted`
    gives the samples of the random shape LLaDA's weight 1/t.
    """
    n, width = len(prompt), len(position)
    offset = position - prompt[:, None]  # place within the answer
    inside = offset >= 0
    shape = torch.searchsorted(torch.tensor(list(shapes.values()), device=prompt.device).cumsum(0), rand(n))[:, None]
    noise = rand(n, width)

    ratio = (torch.arange(n, device=prompt.device) + rand(n)) / n  # stratified: less variance
    if weighted:
        ratio = LEAST + (1 - LEAST) * ratio
    everywhere = noise < ratio[:, None]

    cut = (rand(n) * (answer + 4)).long()[:, None]
    prefix = offset >= cut

    window = torch.tensor([16, 32, 32, 64], device=prompt.device)[(rand(n) * 4).long()][:, None]
    start = cut // window * window
    block = (offset >= start + window) | ((offset >= start) & (noise < rand(n)[:, None]))

    gap = prefix & (offset < cut + 1 + (rand(n) * 40).long()[:, None])

    masked = inside & torch.where(
        shape == 0, everywhere, torch.where(shape == 1, prefix, torch.where(shape == 2, block, gap))
    )
    far = ((shape == 1) & (offset >= cut + NEAR)) | ((shape == 2) & (offset >= start + window))
    weight = masked * torch.where(far, FAR, 1.0)
    if weighted:
        weight = torch.where(shape == 0, weight / ratio[:, None], weight)
    return masked, weight


class Batches:
    """Draws batches of about `tokens` tokens from all parts written so far, which live on the device.

    `canvases` maps the lengths of canvases to the lengths of the answers that are written on them, the
    longest included; `masks` are further arguments of `mask_answers`.
    """

    def __init__(self, folder, device, tokens, config, seed, canvases, **masks):
        self.folder, self.device, self.tokens, self.config = folder, device, tokens, config
        self.canvases, self.masks = canvases, masks
        self.rng, self.generator = random.Random(seed), torch.Generator(device).manual_seed(seed)
        self.loaded, self.data, self.lengths = set(), [], []

    def load_new_parts(self):
        """Takes in the parts that have appeared since the last call."""
        paths = [p for p in sorted(glob.glob(f"{self.folder}/part-*.npz")) if p not in self.loaded]
        if not paths:
            return
        self.loaded.update(paths)
        parts = [np.load(p) for p in paths]
        self.data.append(torch.from_numpy(np.concatenate([z["tokens"] for z in parts])).to(self.device))
        self.lengths += [np.stack([z["prompt"], z["answer"]]).astype(np.int64) for z in parts]
        self.data = [torch.cat(self.data)]
        prompt, answer = np.concatenate(self.lengths, axis=1)
        start = np.concatenate([[0], np.cumsum(prompt + answer)[:-1]])
        to_device = lambda x: torch.from_numpy(np.ascontiguousarray(x)).to(self.device)
        self.start, self.prompt, self.answer = (
            to_device(start),
            to_device(prompt),
            to_device(answer),
        )
        bucket = -(-prompt // WIDTH)
        self.buckets = {
            canvas: {
                int(b): to_device(np.flatnonzero((bucket == b) & (answer >= shortest) & (answer <= longest)))
                for b in np.unique(bucket)
            }
            for canvas, (shortest, longest) in self.canvases.items()
        }

    def __len__(self):
        return sum(x.shape[1] for x in self.lengths)

    def draw(self, canvas):
        """(noised ids, targets of the last positions, their weights). Answers fill a canvas with EOS."""
        buckets = {b: i for b, i in self.buckets[canvas].items() if len(i)}
        # a batch holds tokens / T examples, so this makes every example equally likely
        sizes = {b: b * WIDTH + canvas for b in buckets}
        b = self.rng.choices(list(buckets), [len(i) * sizes[b] for b, i in buckets.items()])[0]
        width, pool = sizes[b], buckets[b]
        n = max(1, self.tokens // width)
        rand = lambda *shape: torch.rand(*shape, device=self.device, generator=self.generator)
        i = pool[torch.randint(len(pool), (n,), device=self.device, generator=self.generator)]
        position = torch.arange(width, device=self.device)
        at = (self.start[i, None] + position).clamp_(max=len(self.data[0]) - 1)
        size = (self.prompt[i] + self.answer[i])[:, None]
        ids = torch.where(position < size, self.data[0][at].long(), self.config.eos_token_id)
        masked, weight = mask_answers(position, self.prompt[i], self.answer[i], rand, **self.masks)
        weight = weight / weight.sum()
        keep = canvas + WIDTH  # all answers lie in the last positions
        noised = torch.where(masked, self.config.mask_token_id, ids)
        return noised, ids[:, -keep:].contiguous(), weight[:, -keep:].contiguous()
