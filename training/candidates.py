"""Orders that lacuna does not have, tried on held-out problems: what else could be made of attention?

    python training/candidates.py --model models/orders --out orders.json
    python training/candidates.py --model models/mini --out mini.json

Each takes the attention that a masked position pays in some layers, averaged:

    dos         to all that is unmasked
    since       to what was decided since the start, so not to the prompt
    share       the same, relative to what it pays to the whole answer
    relative    as dos, less what that place pays on the empty canvas, averaged over the problems

and `certain-` before a name multiplies by the probability of the best token; a number behind it is the
power of the attention. Where nothing was decided yet, `since` and `share` go by that probability.

By default the problems set aside for tuning (every fourth) are decoded, one token at a time, words and code
with `eb`; `--part test` takes the others. Words and code are also decoded with ends of text last.
"""

import argparse
import json
import time

import torch
import torch.nn.functional as F
from decode import choose, pad_prompts, texts
from grade import grade, load_problems
from model import load_checkpoint
from tokenizer import chat
from tokenizers import Tokenizer

TASKS = ["last", "first", "forward", "backward", "shuffled", "sudoku", "sudoku9", "words", "code"]
CANVAS = {"words": 128, "sudoku9": 96}
RULES = ["dos", "certain-share", "share", "certain-since", "certain-dos", "certain-dos2", "certain-dos4", "since"]
RULES += ["relative", "certain-relative"]
GAMMA = 0.01


def look(model, ids, canvas, keys, layers):
    """Logits of the last `canvas` positions, and their attention averaged over heads and layers."""
    t, length = model.model.transformer, ids.shape[1]
    rope, start = (model.cos[:length], model.sin[:length]), length - canvas
    x, attention = t.wte(ids), []
    for i, block in enumerate(t.blocks):
        if i in layers:
            attention.append(block.attention(x, rope, keys, start))
        x = block(x, rope, keys)
    with torch.autocast(x.device.type, enabled=False):
        logits = F.linear(t.ln_f(x[:, start:]).float(), t.ff_out.weight.float())
    return logits, torch.stack(attention).mean(0)


def score(rule, attention, known, start, confidence, usual):
    """The scores of a rule, and the dependency of each position."""
    name = rule.removeprefix("certain-").rstrip("0123456789")
    power = int(rule[-1]) if rule[-1].isdigit() else 1
    dos = (attention @ known[..., None])[..., 0]
    since = (attention[..., start:] @ known[:, start:, None])[..., 0]
    if name == "dos":
        value = dos
    elif name == "since":
        value = since + 1e-3
    elif name == "share":
        value = since / attention[..., start:].sum(-1) + 1e-3
    else:
        value = dos - (dos.mean(0) if usual is None else usual)
    if rule.startswith("certain-"):
        # What is relative may be below 0: it shifts the certainty instead.
        value = confidence + value if name == "relative" else confidence * value**power
    elif name in ("since", "share"):
        value = value + 1e-6 * confidence
    return value, dos


@torch.no_grad()
def decode(model, prompts, rule, layers, sampler, canvas, ends_last):
    """Greedy decoding of a batch in one block: (answers, forward passes)."""
    config, device = model.cfg, next(model.parameters()).device
    mask, eos = config.mask_token_id, config.eos_token_id
    ids, real = pad_prompts(prompts, eos, device)
    n, start = ids.shape
    x = torch.cat([ids, ids.new_full((n, canvas), mask)], 1)
    keys = torch.cat([real, real.new_ones(n, canvas)], 1)
    passes, usual = torch.zeros(n, dtype=torch.long, device=device), None
    while (masked := x[:, start:] == mask).any():
        open_rows = masked.any(1)
        passes += open_rows
        with torch.autocast(device.type, torch.bfloat16, enabled=device.type == "cuda"):
            logits, attention = look(model, x, canvas, keys, layers)
        logits[..., mask] = float("-inf")
        probabilities = logits.softmax(-1)
        confidence, best = probabilities.max(-1)
        entropy = torch.special.entr(probabilities).sum(-1)
        known = ((x != mask) & keys).float()
        scores, dos = score(rule, attention, known, start, confidence, usual)
        usual = dos.mean(0) if usual is None else usual
        if ends_last:
            scores = scores - 1e6 * (best == eos)
        scores = scores.masked_fill(~masked, float("-inf"))
        chosen = choose(sampler, scores, entropy, masked, GAMMA) & masked
        x[:, start:] = torch.where(chosen, best, x[:, start:])
    return x[:, start:], passes


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", required=True)
    parser.add_argument("--problems", help="folder of the problems (default: the checkpoint)")
    parser.add_argument("--part", choices=["tune", "test", "all"], default="tune")
    parser.add_argument("--limit", type=int, help="only so many problems of each task")
    parser.add_argument("--tasks", nargs="*", default=TASKS)
    parser.add_argument("--rules", nargs="*", default=RULES)
    parser.add_argument("--layers", nargs="*", default=["all", "6", "0", "7", "3"], help="such as 6, or 2,4, or all")
    parser.add_argument("--seconds", type=float, default=1e9, help="begin nothing after that")
    parser.add_argument("--out", required=True, help="where to write the results as JSON")
    args = parser.parse_args()
    deadline = time.time() + args.seconds
    model = load_checkpoint(args.model, "cuda" if torch.cuda.is_available() else "cpu")
    tokenizer = Tokenizer.from_file(f"{args.model}/tokenizer.json")
    wanted = {"all": (0, 1, 2, 3), "tune": (3,), "test": (0, 1, 2)}[args.part]
    by_task: dict[str, list] = {}
    for problem in load_problems(args.problems or args.model):
        by_task.setdefault(problem["task"], []).append(problem)
    rows = []
    for rule in args.rules:
        for layer in args.layers:
            layers = range(model.cfg.n_layers) if layer == "all" else [int(i) for i in layer.split(",")]
            for task in args.tasks:
                problems = [p for i, p in enumerate(by_task.get(task, [])) if i % 4 in wanted][: args.limit]
                text = task in ("words", "code")
                for ends_last in (False, True) if text else (False,):
                    if not problems or time.time() > deadline:
                        continue
                    prompts = [tokenizer.encode(chat(p["prompt"]), add_special_tokens=False).ids for p in problems]
                    out, passes = decode(
                        model, prompts, rule, layers, "eb" if text else "top1", CANVAS.get(task, 64), ends_last
                    )
                    right = grade(problems, texts(tokenizer, out, model.cfg.eos_token_id)[0])
                    row = dict(task=task, rule=rule, layers=layer, ends_last=ends_last, right=[int(r) for r in right])
                    rows.append({**row, "passes": passes.float().mean().item()})
                    share = sum(right) / len(right)
                    last = ", ends last" if ends_last else ""
                    print(f"{task:9} {rule}{last}, layers {layer}: {share:.1%} of {len(right)}", flush=True)
                    with open(args.out, "w") as file:
                        json.dump({"model": args.model, "part": args.part, "rows": rows}, file)


if __name__ == "__main__":
    main()
