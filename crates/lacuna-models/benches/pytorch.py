"""One decoding step in plain PyTorch, with the operations of the models' published code, to hold beside `lacuna bench`.

    python pytorch.py --shape llada-8b --length 640 [--batch 8] [--way sampling|attention|compiled]
    python pytorch.py --shape sdar-8b|llada2-mini --prefix 640 [--batch 8]

Random bf16 weights; the best of several steps, on the host's clock. Of a block-causal model a step is one block behind a prefix
whose keys and values are cached.

sampling    eager, scaled_dot_product_attention, and what the official loops do: argmax and a softmax (LLaDA: in f64) over all logits
attention   the same with every layer's attention returned, and the dependency scores of one of them
compiled    the forward pass alone, through torch.compile
"""

import argparse
import time
from dataclasses import dataclass

import torch
from torch import nn
from torch.nn import functional as F


@dataclass
class Experts:
    count: int
    active: int
    width: int
    groups: int
    kept_groups: int
    scale: float


@dataclass
class Shape:
    layers: int
    hidden: int
    heads: int
    key_value_heads: int
    mlp: int
    vocabulary: int
    mask: int
    theta: float
    block: int = 0  # positions of a block; 0 if attention is full
    rotary: int = 128  # leading values of a head that are rotated
    head_norms: bool = False
    experts: Experts | None = None  # in all layers but the first


SHAPES = {
    "llada-8b": Shape(32, 4096, 32, 32, 12288, 126464, 126336, 5e5),
    "sdar-8b": Shape(36, 4096, 32, 8, 12288, 151936, 151669, 1e6, block=4, head_norms=True),
    "llada2-mini": Shape(
        20, 2048, 16, 4, 5120, 157184, 156895, 6e5, block=32, rotary=64, head_norms=True,
        experts=Experts(256, 8, 512, 8, 4, 2.5),
    ),
}  # fmt: skip
HEAD = 128


def weights(rows, columns, dtype=torch.bfloat16):
    return nn.Parameter(torch.empty(rows, columns, device="cuda", dtype=dtype).normal_(std=0.02), False)


def ones(width):
    return nn.Parameter(torch.ones(width, device="cuda", dtype=torch.bfloat16), False)


def rotated(x, cosines, sines):
    turned, rest = x[..., : cosines.shape[-1]], x[..., cosines.shape[-1] :]
    low, high = turned.chunk(2, -1)
    return torch.cat([turned * cosines + torch.cat([-high, low], -1) * sines, rest], -1)


class Network(nn.Module):
    def __init__(self, hidden, width):
        super().__init__()
        self.gate, self.up, self.down = weights(width, hidden), weights(width, hidden), weights(hidden, width)

    def forward(self, x):
        return F.linear(F.silu(F.linear(x, self.gate)) * F.linear(x, self.up), self.down)


class Mixture(nn.Module):
    """LLaDA2's experts: chosen within groups, rows sorted by expert, a loop over the experts that are used."""

    def __init__(self, shape):
        super().__init__()
        self.experts = shape.experts
        self.router = weights(self.experts.count, shape.hidden, torch.float32)
        self.bias = nn.Parameter(torch.zeros(self.experts.count, device="cuda"), False)
        self.networks = nn.ModuleList(Network(shape.hidden, self.experts.width) for _ in range(self.experts.count))
        self.shared = Network(shape.hidden, self.experts.width)
        self.used = 0

    def choose(self, x):
        its = self.experts
        scores = torch.sigmoid(F.linear(x.float(), self.router))
        preferences = scores + self.bias
        groups = preferences.view(len(x), its.groups, -1).topk(2, -1)[0].sum(-1)
        kept = torch.zeros_like(groups).scatter_(1, groups.topk(its.kept_groups, -1, sorted=False)[1], 1)
        allowed = kept.unsqueeze(-1).expand(-1, -1, its.count // its.groups).reshape(len(x), -1).bool()
        chosen = preferences.masked_fill(~allowed, -torch.inf).topk(its.active, -1, sorted=False)[1]
        chances = scores.gather(1, chosen)
        return chosen, chances / (chances.sum(-1, keepdim=True) + 1e-20) * its.scale

    def forward(self, hidden):
        x = hidden.view(-1, hidden.shape[-1])
        chosen, share = self.choose(x)
        counts = (
            torch.zeros(len(x), self.experts.count, device="cuda", dtype=chosen.dtype).scatter_(1, chosen, 1).sum(0)
        )
        order = chosen.view(-1).argsort()
        rows, counts = x[order // self.experts.active], counts.cpu().tolist()
        self.used = sum(count > 0 for count in counts)
        pieces = rows.split(counts)
        found = torch.cat([net(piece) for net, piece in zip(self.networks, pieces, strict=True) if len(piece)])
        back = torch.empty_like(found)
        back[order] = found
        mixed = (back.view(*chosen.shape, -1).float() * share.unsqueeze(-1)).sum(1).to(x.dtype)
        return mixed.view_as(hidden) + self.shared(hidden)


class Block(nn.Module):
    def __init__(self, shape, layer):
        super().__init__()
        self.shape = shape
        query, key = shape.heads * HEAD, shape.key_value_heads * HEAD
        self.query, self.key, self.value = (weights(width, shape.hidden) for width in (query, key, key))
        self.output = weights(shape.hidden, query)
        self.feed_forward = Mixture(shape) if shape.experts and layer > 0 else Network(shape.hidden, shape.mlp)
        self.attention_norm, self.mlp_norm = ones(shape.hidden), ones(shape.hidden)
        self.query_norm, self.key_norm = (ones(HEAD), ones(HEAD)) if shape.head_norms else (None, None)

    def forward(self, hidden, cosines, sines, cached, returned):
        (batch, length, width), shape = hidden.shape, self.shape
        x = F.rms_norm(hidden, (width,), self.attention_norm, 1e-5)
        query, key, value = (F.linear(x, w).view(batch, length, -1, HEAD) for w in (self.query, self.key, self.value))
        if shape.head_norms:
            query, key = (
                F.rms_norm(query, (HEAD,), self.query_norm, 1e-6),
                F.rms_norm(key, (HEAD,), self.key_norm, 1e-6),
            )
        query, key, value = (part.transpose(1, 2) for part in (query, key, value))
        query, key = rotated(query, cosines, sines), rotated(key, cosines, sines)
        if cached is not None:
            key, value = torch.cat([cached[0], key], 2), torch.cat([cached[1], value], 2)
        if returned is None:
            mixed = F.scaled_dot_product_attention(query, key, value, enable_gqa=shape.heads != shape.key_value_heads)
        else:
            scores = query @ key.transpose(-1, -2) / HEAD**0.5
            returned.append(F.softmax(scores, -1, dtype=torch.float32).to(query.dtype))
            mixed = returned[-1] @ value
        hidden = hidden + F.linear(mixed.transpose(1, 2).reshape(batch, length, -1), self.output)
        return hidden + self.feed_forward(F.rms_norm(hidden, (width,), self.mlp_norm, 1e-5))


class Model(nn.Module):
    def __init__(self, shape, prefix, length, batch):
        super().__init__()
        self.shape = shape
        self.embedding, self.head = weights(shape.vocabulary, shape.hidden), weights(shape.vocabulary, shape.hidden)
        self.norm = ones(shape.hidden)
        self.blocks = nn.ModuleList(Block(shape, layer) for layer in range(shape.layers))
        frequencies = shape.theta ** (-torch.arange(0, shape.rotary, 2, device="cuda").float() / shape.rotary)
        positions = torch.arange(prefix, prefix + length, device="cuda").float()
        angles = torch.outer(positions, frequencies).repeat(1, 2)
        self.cosines, self.sines = angles.cos().bfloat16(), angles.sin().bfloat16()
        self.cached = [None] * shape.layers
        if prefix > 0:
            size = (2, batch, shape.key_value_heads, prefix, HEAD)
            self.cached = [torch.randn(size, device="cuda", dtype=torch.bfloat16) for _ in self.blocks]

    def forward(self, tokens, returned=None):
        hidden = F.embedding(tokens, self.embedding)
        for block, cached in zip(self.blocks, self.cached, strict=True):
            hidden = block(hidden, self.cosines, self.sines, cached, returned)
        return F.linear(F.rms_norm(hidden, (self.shape.hidden,), self.norm, 1e-5), self.head)


def sample(logits, tokens, shape):
    """Fills the masked position of each canvas of which the model is surest."""
    masked = tokens == shape.mask
    best = logits.argmax(-1)
    wide = logits.to(torch.float32 if shape.block else torch.float64)
    confidence = F.softmax(wide, -1).gather(-1, best.unsqueeze(-1)).squeeze(-1)
    confidence = torch.where(masked, confidence, -torch.inf)
    filled = tokens.clone()
    for canvas in range(len(tokens)):
        _, chosen = confidence[canvas].topk(1)
        filled[canvas, chosen] = best[canvas, chosen]
    return filled


@torch.inference_mode()
def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--shape", choices=SHAPES, default="llada-8b")
    parser.add_argument("--length", type=int, default=640, help="positions of a canvas with full attention")
    parser.add_argument(
        "--prefix", type=int, default=640, help="cached positions before the block of a block-causal model"
    )
    parser.add_argument("--batch", type=int, default=1)
    parser.add_argument("--way", choices=["sampling", "attention", "compiled"], default="sampling")
    parser.add_argument("--repetitions", type=int, default=20)
    options = parser.parse_args()
    shape = SHAPES[options.shape]
    if shape.block and options.way == "attention":
        parser.error("attention is returned by models with full attention")
    prefix, length = (options.prefix, shape.block) if shape.block else (0, options.length)
    model = Model(shape, prefix, length, options.batch)
    tokens = torch.full((options.batch, length), shape.mask, device="cuda")
    if not shape.block:
        tokens[:, : length // 2] = torch.arange(length // 2, device="cuda") * 7919 % 100000
    forward = torch.compile(model) if options.way == "compiled" else model

    def step():
        returned = [] if options.way == "attention" else None
        logits = forward(tokens, returned)
        if options.way == "compiled":
            return
        if returned:
            (returned[shape.layers // 6].mean(1) * (tokens != shape.mask).unsqueeze(1)).sum(-1)
        sample(logits, tokens, shape)

    times = []
    for _ in range(3 + options.repetitions):
        torch.cuda.synchronize()
        begun = time.perf_counter()
        step()
        torch.cuda.synchronize()
        times.append(time.perf_counter() - begun)
    used = [block.feed_forward.used for block in model.blocks if isinstance(block.feed_forward, Mixture)]
    experts = f", {sum(used) / len(used):.0f} experts used in a layer" if used else ""
    canvas = f"{length} behind {prefix}" if shape.block else f"{length}"
    print(
        f"{options.shape}, {options.way}, {options.batch} x {canvas}: {1e3 * min(times[3:]):.2f} ms{experts}, "
        f"PyTorch {torch.__version__}"
    )


main()
