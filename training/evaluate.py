"""Scores a checkpoint on held-out problems with many decoders.

    python training/evaluate.py --model models/mini [--problems DIR] [--count 512] [--seconds 110]

Rows run in the order of `plan` until the time is up, so the most telling ones come first. Besides the
decoders, it measures what the steps are worth: the same problems when only the result is asked for,
and when the answer is forced to begin with `####`.
"""

import argparse
import collections
import json
import time

import torch
import torch._dynamo
from decode import decode, texts
from grade import grade, load_problems
from model import load_checkpoint
from tasks.words import REQUESTS
from tokenizer import chat
from tokenizers import Tokenizer

CANVAS = 128


def plan(layers, gammas):
    """Decoders as dictionaries; layer "best" is the best of the dos rows so far with that block."""
    row = lambda strategy, block, sampler="top1", **more: dict(strategy=strategy, block=block, sampler=sampler, **more)
    both, plain = (32, CANVAS), ["confidence", "entropy", "margin"]
    rows = [row("confidence", block) for block in both]
    rows += [row("confidence", CANVAS, bare="asked"), row("left", CANVAS, bare="forced")]
    rows += [row(strategy, block, "eb", gamma=gammas[0]) for block in both for strategy in plain]
    rows += [row("dos", block, "eb", gamma=gammas[0], layer=i) for block in both for i in range(layers)]
    rows += [row("dos", block, layer="best") for block in both] + [row("left", CANVAS)]
    rows += [row(strategy, block, "eb", gamma=g) for g in gammas[1:] for block in both for strategy in plain]
    rows += [row("dos", block, "eb", gamma=g, layer="best") for g in gammas[1:] for block in both]
    return rows + [row(strategy, block) for strategy in ("entropy", "margin", "random") for block in both]


def name(row):
    text = row["strategy"] + (f" layer {row['layer']}" if "layer" in row else "")
    return text + (f", result {row['bare']}" if "bare" in row else "")


def summary(problems, right, passes, lengths):
    """Means per task, and for word problems the accuracy by the number of steps they take."""
    scores, steps = {}, collections.defaultdict(list)
    for task in ("words", "code"):
        index = [i for i, p in enumerate(problems) if p["task"] == task]
        mean = lambda values: sum(values[i] for i in index) / max(1, len(index))
        scores[task] = dict(accuracy=mean(right), passes=mean(passes), length=mean(lengths))
    for p, r in zip(problems, right):
        if p["task"] == "words":
            steps[p["key"].count(";") + 1].append(r)
    scores["words"]["by_steps"] = {k: sum(v) / len(v) for k, v in sorted(steps.items())}
    return scores


def show(row, seconds):
    w, c = row["words"], row["code"]
    sampler = row["sampler"] + (f" {row['gamma']:g}" if "gamma" in row else "")
    print(
        f"{name(row):28} {sampler:9} {row['block']:5d} "
        f"| {w['accuracy']:6.1%} {c['accuracy']:6.1%} | {w['passes']:6.1f} {c['passes']:6.1f} "
        f"| {w['length']:5.1f} {c['length']:5.1f} | {seconds:.1f}"
    )


def best_layer(results, block):
    rows = [r for r in results if r["strategy"] == "dos" and r["block"] == block]
    total = lambda r: r["words"]["accuracy"] + r["code"]["accuracy"]
    return max(rows, key=total)["layer"] if rows else 0


def arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", required=True)
    parser.add_argument("--problems", help="folder of words.jsonl and code.jsonl (default: the checkpoint)")
    parser.add_argument("--count", type=int, default=512, help="problems per task")
    parser.add_argument("--seconds", type=float, default=110)
    parser.add_argument("--gammas", type=float, nargs="*", default=[0.01, 0.1, 0.5])
    parser.add_argument("--sampler", help="only the rows of the plan with this one")
    parser.add_argument("--rows", type=int, help="only the first so many rows of the plan")
    parser.add_argument("--compile", action="store_true", help="worth it for many problems")
    parser.add_argument("--out", help="where to write the results as JSON")
    return parser.parse_args()


def main():
    args = arguments()
    deadline = time.time() + args.seconds
    model = load_checkpoint(args.model, "cuda" if torch.cuda.is_available() else "cpu")
    if args.compile:
        torch.set_float32_matmul_precision("high")
        torch._dynamo.config.suppress_errors = True  # a failed compilation runs eager
        model.compile_blocks()
    tokenizer = Tokenizer.from_file(f"{args.model}/tokenizer.json")
    encode = lambda text: tokenizer.encode(text, add_special_tokens=False).ids
    problems = load_problems(args.problems or args.model, args.count)
    rows = plan(model.cfg.n_layers, args.gammas)
    rows = [row for row in rows if args.sampler in (None, row["sampler"])][: args.rows]
    results = []
    print(f"{args.count} problems per task")
    print(f"{'':28} {'sampler':9} block |  words   code |   passes w, c | length w, c | s")
    for row in rows:
        start = time.time()
        if row.get("layer") == "best":
            row["layer"] = best_layer(results, row["block"])
        bare = row.get("bare")
        chosen = [p for p in problems if p["task"] == "words"] if bare else problems
        suffix = " " + REQUESTS[0] if bare == "asked" else ""
        out = decode(
            model,
            [encode(chat(p["prompt"] + suffix)) for p in chosen],
            strategy=row["strategy"],
            layer=row.get("layer"),
            sampler=row["sampler"],
            block=row["block"],
            canvas=CANVAS,
            gamma=row.get("gamma", 0),
            begin=encode("####") if bare == "forced" else (),
            deadline=deadline,
        )
        if out is None:
            print(f"time is up after {len(results)} of {len(rows)} rows")
            break
        answers, lengths = texts(tokenizer, out[0], model.cfg.eos_token_id)
        right = grade(chosen, answers)
        results.append({**row, **summary(chosen, right, out[1].tolist(), lengths)})
        show(results[-1], time.time() - start)
        if args.out:
            with open(args.out, "w") as file:
                json.dump({"count": args.count, "canvas": CANVAS, "rows": results}, file, indent=1)
    print("\naccuracy on words by number of steps")
    for row in results[:4]:
        accuracies = row["words"]["by_steps"].items()
        print(f"{name(row):28} {row['block']:5d} ", {k: round(v, 3) for k, v in accuracies})


if __name__ == "__main__":
    main()
