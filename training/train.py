"""Trains the model for a number of minutes and exports it.

    python training/train.py --data PARTS --tokenizer models/mini --out CHECKPOINT --minutes 6

The loss is the cross entropy of the masked tokens of the answer, every one counting the same (LLaDA's
weight 1/t, which `--weighted` brings back, would starve the first steps of decoding, which have the most
to decide). `--init` continues from a checkpoint; the learning rate then warms up and decays again.
"""

import argparse
import copy
import math
import os
import shutil
import time
from contextlib import nullcontext

import torch
import torch.nn.functional as F
from batches import MIXED, UNIFORM, Batches
from decode import decode, texts
from grade import grade, load_problems
from model import Config, LLaDA, load_checkpoint, save_checkpoint
from muon import Muon
from tokenizer import EOS, MASK, chat
from tokenizers import Tokenizer

SHAPES = {  # of the models: width, heads, layers, hidden size of the MLP
    "mini": dict(d_model=320, n_heads=5, n_layers=8, mlp_hidden_size=896),
    "orders": dict(d_model=256, n_heads=4, n_layers=8, mlp_hidden_size=704),
    "tiny": dict(d_model=64, n_heads=1, n_layers=2, mlp_hidden_size=128),
}
CANVASES = {  # length: how often it is trained on, and the shortest and longest answers
    "mini": {128: (16, 0, 120), 64: (2, 0, 56), 256: (1, 0, 120), 192: (1, 0, 120)},
    "orders": {64: (3, 0, 63), 96: (1, 64, 95)},
}


class Optimizer:
    """Muon for the matrices of the blocks, AdamW for embeddings, head and norms."""

    def __init__(self, model, rate, muon_rate, weight_decay):
        matrices = [p for name, p in model.named_parameters() if p.dim() == 2 and "blocks" in name]
        chosen = {id(p) for p in matrices}
        rest = [p for p in model.parameters() if id(p) not in chosen]
        groups = [
            {"params": [p for p in rest if p.dim() == 2]},
            {"params": [p for p in rest if p.dim() < 2], "weight_decay": 0.0},
        ]
        self.parameters, self.rate, self.muon_rate = list(model.parameters()), rate, muon_rate
        self.adamw = torch.optim.AdamW(groups, lr=rate, betas=(0.9, 0.98), weight_decay=weight_decay)
        self.muon = Muon(matrices, weight_decay=weight_decay)

    def step(self, scale):
        torch.nn.utils.clip_grad_norm_(self.parameters, 1.0)
        for group in self.adamw.param_groups:
            group["lr"] = self.rate * scale
        self.adamw.step()
        self.muon.step(self.muon_rate * scale)
        for p in self.parameters:
            p.grad = None


def schedule(progress, warmup=0.03):
    """Warm-up, then a cosine."""
    return min(1, progress / warmup) * (0.02 + 0.98 * 0.5 * (1 + math.cos(math.pi * progress)))


def objective(logits, targets, weight):
    loss = F.cross_entropy(logits.float().flatten(0, 1), targets.flatten(), reduction="none")
    return (loss * weight.flatten()).sum()


def wait_for_parts(batches, count):
    """Blocks until data.py has written the first parts."""
    start = time.time()
    while True:
        batches.load_new_parts()
        if len(batches.loaded) >= count:
            return
        if time.time() - start > 120:
            raise SystemExit(f"no training data in {batches.folder}")
        time.sleep(0.5)


def quick_score(model, tokenizer, problems, canvases):
    """Accuracy per task with entropy-bounded decoding by blocks, as text. An answer gets the canvas that
    such answers are trained on most often."""
    encode = lambda text: tokenizer.encode(text, add_special_tokens=False).ids
    scores = []
    for task in sorted({p["task"] for p in problems}):
        chosen = [p for p in problems if p["task"] == task]
        longest = max(len(encode(p["answer"])) for p in chosen)
        fits = {c: often for c, (often, low, high) in canvases.items() if low <= longest <= high}
        prompts = [encode(chat(p["prompt"])) for p in chosen]
        canvas = max(fits, key=fits.get)
        answers, passes = decode(model, prompts, "confidence", sampler="eb", block=32, canvas=canvas)
        right = grade(chosen, texts(tokenizer, answers, model.cfg.eos_token_id)[0])
        nfe = passes.float().mean()
        scores.append(f"{task} {sum(right) / len(right):.1%} ({nfe:.0f} forwards)")
    return ", ".join(scores)


def arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", required=True, help="folder of part-*.npz, which may still be filling")
    parser.add_argument("--tokenizer", required=True, help="folder of tokenizer.json and the held-out problems")
    parser.add_argument("--problems", help="folder of the held-out problems, if it is another")
    parser.add_argument("--out", required=True)
    parser.add_argument("--init", help="checkpoint to continue from")
    parser.add_argument("--shape", choices=SHAPES, default="mini")
    parser.add_argument("--canvases", choices=CANVASES, default="mini")
    parser.add_argument(
        "--uniform", action="store_true", help="mask as LLaDA does, every token alike, and no other way"
    )
    parser.add_argument("--weighted", action="store_true", help="weigh samples by 1/t, as LLaDA does")
    parser.add_argument("--minutes", type=float, default=6, help="of training, after compilation")
    parser.add_argument("--deadline", type=float, help="unix time at which the checkpoint must be written")
    parser.add_argument("--parts", type=int, default=10, help="of the data to wait for at the start")
    parser.add_argument("--tokens", type=int, default=65536, help="per micro-batch")
    parser.add_argument("--accumulate", type=int, default=2, help="micro-batches per step, of different lengths")
    parser.add_argument("--rate", type=float, default=2e-3, help="learning rate of AdamW")
    parser.add_argument("--muon-rate", type=float, default=0.02)
    parser.add_argument("--weight-decay", type=float, default=0.05)
    parser.add_argument(
        "--average",
        type=float,
        default=0.998,
        help="decay of the averaged weights, which are exported",
    )
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--check", type=int, default=128, help="held-out problems per task decoded on the way")
    return parser.parse_args()


def main():
    args = arguments()
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    torch.manual_seed(args.seed)
    torch.set_float32_matmul_precision("high")
    tokenizer = Tokenizer.from_file(f"{args.tokenizer}/tokenizer.json")
    config = Config(
        vocab_size=tokenizer.get_vocab_size(),
        mask_token_id=tokenizer.token_to_id(MASK),
        eos_token_id=tokenizer.token_to_id(EOS),
        **SHAPES[args.shape],
    )
    model = LLaDA(config).to(device).train()
    if args.init:
        model.load_state_dict(load_checkpoint(args.init).state_dict())
    averaged = copy.deepcopy(model).eval().requires_grad_(False)
    problems = load_problems(args.problems or args.tokenizer, args.check)
    canvases = CANVASES[args.canvases]
    batches = Batches(
        args.data,
        device,
        args.tokens,
        config,
        args.seed,
        {canvas: lengths for canvas, (_, *lengths) in canvases.items()},
        shapes=UNIFORM if args.uniform else MIXED,
        weighted=args.weighted,
    )
    wait_for_parts(batches, args.parts)
    size = sum(p.numel() for p in model.parameters()) / 1e6
    print(f"{size:.2f}M parameters, first {len(batches)} examples, {device}")

    amp = torch.autocast(device.type, torch.bfloat16) if device.type == "cuda" else nullcontext()
    loss_of = objective

    def backward(canvas):
        noised, targets, weight = batches.draw(canvas)
        with amp:
            loss = loss_of(model(noised, last=targets.shape[1]), targets, weight) / args.accumulate
        loss.backward()
        return loss.detach()

    if device.type == "cuda":
        start, loss_of = time.time(), torch.compile(objective, dynamic=True)
        model.compile_blocks()
        for canvas in canvases:
            backward(canvas)
        torch.cuda.synchronize()
        model.zero_grad(set_to_none=True)
        print(f"compiled in {time.time() - start:.1f} s")
    optimizer = Optimizer(model, args.rate, args.muon_rate, args.weight_decay)

    budget = args.minutes * 60
    if args.deadline:
        budget = max(1.0, min(budget, args.deadline - time.time() - 5))
    print(f"training for {budget:.0f} s")
    start = mark = time.time()
    step = seen = marked = 0
    losses, checks, often = [], [0.4, 0.75, 0.99], [share for share, *_ in canvases.values()]
    while (progress := (time.time() - start) / budget) < 1:
        scale, loss = schedule(progress), 0.0
        for _ in range(args.accumulate):
            loss = loss + backward(batches.rng.choices(list(canvases), often)[0])
            seen += args.tokens
        optimizer.step(scale)
        step += 1
        with torch.no_grad():
            decay = min(args.average, (1 + step) / (10 + step))
            torch._foreach_lerp_(list(averaged.parameters()), optimizer.parameters, 1 - decay)
        losses.append(loss)
        if step % 20 == 0:
            loss.item()  # keeps the clock honest: waits for the device
        if time.time() - mark > 10 or step == 1:
            mean = torch.stack(losses).mean().item()
            rate = (seen - marked) / (time.time() - mark) / 1e6
            speed = f"{rate:.2f}M tokens/s  {len(batches)} examples"
            print(f"step {step:6d}  {time.time() - start:4.0f} s  loss {mean:.4f}  {speed}")
            losses = []
            batches.load_new_parts()
            mark, marked = time.time(), seen
        if checks and progress >= checks[0]:
            checks.pop(0)
            try:  # never lose a run over this
                print(f"step {step:6d}  held-out {quick_score(averaged, tokenizer, problems, canvases)}")
            except Exception as error:
                print(f"check failed: {type(error).__name__}: {error}")
            mark, marked = time.time(), seen
    took = time.time() - start
    print(f"{step} steps, {seen / 1e6:.0f}M tokens in {took:.0f} s: {seen / took / 1e6:.2f}M tokens/s")

    save_checkpoint(averaged.state_dict(), config, args.out)
    if not os.path.samefile(args.tokenizer, args.out):
        for name in ("tokenizer.json", "tokenizer_config.json"):
            shutil.copy(f"{args.tokenizer}/{name}", args.out)
    print(f"exported to {args.out}")


if __name__ == "__main__":
    main()
