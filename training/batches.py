"""Noised batches from the parts that data.py writes.

Which tokens are masked decides in which orders the model can decode later. LLaDA masks every token of
the answer with the same probability; a small model trained only so is lost when it must decode from
left to right or by blocks, because a revealed beginning with nothing behind it almost never occurs.
So a sample gets one of four shapes of mask:

    random  every token with probability t, t uniform                  any order
    prefix  everything from some place on                              left to right
    block   a part of one window, and everything behind it             block after block
    gap     one span, with both sides visible                          filling in
"""

import glob
import random

import numpy as np
import torch

WIDTH = 16  # prompts of a batch differ by less than this, so nothing is padded and attention needs no mask
SHAPES = {"random": 0.42, "prefix": 0.22, "block": 0.28, "gap": 0.08}
FAR = 0.1  # weight of the tokens that lie far behind a revealed prefix, where nothing can be known yet
NEAR = 32


def mask_answers(position, prompt, answer, rand):
    """Masks for samples whose prompts and answers have the given lengths: (masked, weight), [n, T].

    `rand(*shape)` draws uniform numbers. Positions behind the answer hold EOS and belong to it.
    """
    n, width = len(prompt), len(position)
    offset = position - prompt[:, None]  # place within the answer
    inside = offset >= 0
    shape = torch.searchsorted(
        torch.tensor(list(SHAPES.values()), device=prompt.device).cumsum(0), rand(n)
    )[:, None]
    noise = rand(n, width)

    ratio = (torch.arange(n, device=prompt.device) + rand(n)) / n  # stratified: less variance
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
    return masked, masked * torch.where(far, FAR, 1.0)


class Batches:
    """Draws batches of about `tokens` tokens from all parts written so far, which live on the device."""

    def __init__(self, folder, device, tokens, config, seed):
        self.folder, self.device, self.tokens, self.config = folder, device, tokens, config
        self.rng, self.generator = random.Random(seed), torch.Generator(device).manual_seed(seed)
        self.loaded, self.data, self.lengths = set(), [], []

    def load_new_parts(self):
        """Takes in the parts that have appeared since the last call."""
        paths = [p for p in sorted(glob.glob(f"{self.folder}/part-*.npz")) if p not in self.loaded]
        if not paths:
            return
        self.loaded.update(paths)
        parts = [np.load(p) for p in paths]
        self.data.append(
            torch.from_numpy(np.concatenate([z["tokens"] for z in parts])).to(self.device)
        )
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
        self.buckets = {  # by whether only short answers are wanted
            short: {
                int(b): to_device(
                    np.flatnonzero((bucket == b) & (answer <= (56 if short else 999)))
                )
                for b in np.unique(bucket)
            }
            for short in (False, True)
        }

    def __len__(self):
        return sum(x.shape[1] for x in self.lengths)

    def draw(self, canvas):
        """(noised ids, targets of the last positions, their weights). Answers fill a canvas with EOS."""
        buckets = {b: i for b, i in self.buckets[canvas < 128].items() if len(i)}
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
        masked, weight = mask_answers(position, self.prompt[i], self.answer[i], rand)
        weight = weight / weight.sum()
        keep = canvas + WIDTH  # all answers lie in the last positions
        noised = torch.where(masked, self.config.mask_token_id, ids)
        return noised, ids[:, -keep:].contiguous(), weight[:, -keep:].contiguous()
