"""One decoding step of LLaDA-8B's shape in plain PyTorch, to hold beside `lacuna bench --shape llada-8b`.

    python pytorch.py --length 640 [--batch 8] [--way sampling|attention|compiled]

Random bf16 weights; the best of several steps, on the host's clock.

sampling    eager, scaled_dot_product_attention, and what LLaDA's own loop does: argmax and a softmax in f64 over all logits
attention   the same with every layer's attention returned, and the dependency scores of one of them
compiled    the forward pass alone, through torch.compile
"""

import argparse
import time

import torch
from torch import nn
from torch.nn import functional as F

LAYERS, WIDTH, HEADS, MLP, VOCABULARY, MASK = 32, 4096, 32, 12288, 126464, 126336


def weights(rows, columns):
    return nn.Parameter(torch.empty(rows, columns, device="cuda", dtype=torch.bfloat16).normal_(std=0.02), False)


def ones(width):
    return nn.Parameter(torch.ones(width, device="cuda", dtype=torch.bfloat16), False)


def rotated(x, cosines, sines):
    low, high = x.chunk(2, -1)
    return x * cosines + torch.cat([-high, low], -1) * sines


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.query, self.key, self.value, self.output = (weights(WIDTH, WIDTH) for _ in range(4))
        self.gate, self.up, self.down = weights(MLP, WIDTH), weights(MLP, WIDTH), weights(WIDTH, MLP)
        self.attention_norm, self.mlp_norm = ones(WIDTH), ones(WIDTH)

    def forward(self, hidden, cosines, sines, returned):
        batch, length, _ = hidden.shape
        x = F.rms_norm(hidden, (WIDTH,), self.attention_norm, 1e-5)
        heads = [
            F.linear(x, w).view(batch, length, HEADS, -1).transpose(1, 2) for w in (self.query, self.key, self.value)
        ]
        query, key, value = rotated(heads[0], cosines, sines), rotated(heads[1], cosines, sines), heads[2]
        if returned is None:
            mixed = F.scaled_dot_product_attention(query, key, value)
        else:
            scores = query @ key.transpose(-1, -2) / query.shape[-1] ** 0.5
            returned.append(F.softmax(scores, -1, dtype=torch.float32).to(query.dtype))
            mixed = returned[-1] @ value
        hidden = hidden + F.linear(mixed.transpose(1, 2).reshape(batch, length, WIDTH), self.output)
        x = F.rms_norm(hidden, (WIDTH,), self.mlp_norm, 1e-5)
        return hidden + F.linear(F.silu(F.linear(x, self.gate)) * F.linear(x, self.up), self.down)


class Model(nn.Module):
    def __init__(self, length):
        super().__init__()
        self.embedding, self.head, self.norm = weights(VOCABULARY, WIDTH), weights(VOCABULARY, WIDTH), ones(WIDTH)
        self.blocks = nn.ModuleList(Block() for _ in range(LAYERS))
        size = WIDTH // HEADS
        frequencies = 500000.0 ** (-torch.arange(0, size, 2, device="cuda").float() / size)
        angles = torch.outer(torch.arange(length, device="cuda").float(), frequencies).repeat(1, 2)
        self.cosines, self.sines = angles.cos().bfloat16(), angles.sin().bfloat16()

    def forward(self, tokens, returned=None):
        hidden = F.embedding(tokens, self.embedding)
        for block in self.blocks:
            hidden = block(hidden, self.cosines, self.sines, returned)
        return F.linear(F.rms_norm(hidden, (WIDTH,), self.norm, 1e-5), self.head)


def sample(logits, tokens):
    """Fills the masked position of each canvas of which the model is surest."""
    masked = tokens == MASK
    best = logits.argmax(-1)
    confidence = F.softmax(logits.to(torch.float64), -1).gather(-1, best.unsqueeze(-1)).squeeze(-1)
    confidence = torch.where(masked, confidence, -torch.inf)
    filled = tokens.clone()
    for canvas in range(len(tokens)):
        _, chosen = confidence[canvas].topk(1)
        filled[canvas, chosen] = best[canvas, chosen]
    return filled


@torch.inference_mode()
def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--length", type=int, default=640)
    parser.add_argument("--batch", type=int, default=1)
    parser.add_argument("--way", choices=["sampling", "attention", "compiled"], default="sampling")
    parser.add_argument("--repetitions", type=int, default=20)
    options = parser.parse_args()
    model = Model(options.length)
    tokens = torch.full((options.batch, options.length), MASK, device="cuda")
    tokens[:, : options.length // 2] = torch.arange(options.length // 2, device="cuda") * 7919 % 100000
    forward = torch.compile(model) if options.way == "compiled" else model

    def step():
        returned = [] if options.way == "attention" else None
        logits = forward(tokens, returned)
        if options.way == "compiled":
            return
        if returned:
            (returned[LAYERS // 6].mean(1) * (tokens != MASK).unsqueeze(1)).sum(-1)
        sample(logits, tokens)

    times = []
    for _ in range(3 + options.repetitions):
        torch.cuda.synchronize()
        begun = time.perf_counter()
        step()
        torch.cuda.synchronize()
        times.append(time.perf_counter() - begun)
    print(
        f"{options.way}, {options.batch} x {options.length}: {1e3 * min(times[3:]):.2f} ms, PyTorch {torch.__version__}"
    )


main()
