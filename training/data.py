"""Problems to train on and problems to test on.

    python training/data.py --heldout 512 --seed 0 --out models/mini     words.jsonl and code.jsonl
    python training/data.py --train 4000000 --seed 1 --out DIR           part-*.npz, tokenized
    python training/data.py --show 5                                     a look at every kind
    python training/data.py --kind orders ...                            the tasks of models/orders instead

One key in 32, by its hash, is held out: training never draws it, whatever the seed, and the held-out
sets consist of nothing else. So another seed makes a fresh benchmark of the same kind at any time.

Training examples are written in parts, each of which appears under its final name only when it is
complete, so that a training run can start on the first ones while the others are being made.
"""

import argparse
import json
import multiprocessing
import os
import random
import zlib

from tasks import code, orders, words
from tasks.solution import TOKENS, about_tokens

HELD_OUT = 32  # one key in this many is never trained on
MAX_ANSWER = 120  # tokens, so that a canvas of 128 always ends in EOS
MAX_PROMPT = 256
PART = 20_000  # examples
KINDS = {"mini": ("words", "code"), "orders": tuple(orders.SHARES)}


def is_held_out(key):
    return not key.startswith("classic|") and zlib.crc32(key.encode()) % HELD_OUT == 0


def training_problem(rng, words_share):
    while True:
        problem = words.problem(rng) if rng.random() < words_share else code.problem(rng)
        if not is_held_out(problem["key"]):
            return problem


def problem_of(task, rng):
    if task == "words":
        return words.problem(rng, requests=False)
    return code.problem(rng, tests=True) if task == "code" else orders.problem(rng, task)


def held_out_problems(task, count, seed):
    """`count` held-out problems with different keys."""
    rng, problems, seen = random.Random(f"{task} {seed}"), [], set()
    while len(problems) < count:
        problem = problem_of(task, rng)
        if is_held_out(problem["key"]) and problem["key"] not in seen and about_tokens(problem["answer"]) <= TOKENS:
            seen.add(problem["key"])
            problems.append({"id": f"{task}-{seed}-{len(problems)}", **problem})
    return problems


def write_held_out(kind, out, count, seed):
    os.makedirs(out, exist_ok=True)
    for task in KINDS[kind]:
        with open(f"{out}/{task}.jsonl", "w") as file:
            file.writelines(json.dumps(problem) + "\n" for problem in held_out_problems(task, count, seed))


def write_part(job):
    """Generates and tokenizes one part: all sequences back to back, and the lengths of their two halves."""
    # Held-out problems are made without them.
    import numpy as np
    from tokenizer import Encoder

    kind, out, seed, words_share, folder = job
    rng, encoder = random.Random(seed), Encoder(folder)
    if kind == "orders":
        source = orders.Source(rng, is_held_out)
        problems = [source.draw() for _ in range(PART)]
    else:
        problems = [training_problem(rng, words_share) for _ in range(PART)]
    pairs = encoder.pairs([(p["prompt"], p["answer"]) for p in problems])
    pairs = [(p, a) for p, a in pairs if len(a) <= MAX_ANSWER and len(p) <= MAX_PROMPT]
    tokens = np.fromiter((t for p, a in pairs for t in (*p, *a)), dtype=np.int16)
    path = f"{out}/part-{seed.replace(' ', '-')}.npz"
    with open(path + ".partial", "wb") as file:
        np.savez(
            file,
            tokens=tokens,
            prompt=np.array([len(p) for p, _ in pairs], np.int16),
            answer=np.array([len(a) for _, a in pairs], np.int16),
        )
    os.rename(path + ".partial", path)
    return len(pairs)


def write_training_set(kind, out, count, seed, words_share, folder, processes):
    os.makedirs(out, exist_ok=True)
    jobs = [(kind, out, f"{seed} {i}", words_share, folder) for i in range(-(-count // PART))]
    with multiprocessing.get_context("fork").Pool(processes) as pool:
        written = sum(pool.imap_unordered(write_part, jobs))
    print(f"data: {written} examples in {len(jobs)} parts")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    what = parser.add_mutually_exclusive_group(required=True)
    what.add_argument("--heldout", type=int, metavar="N", help="problems per task")
    what.add_argument("--train", type=int, metavar="N", help="examples, about")
    what.add_argument("--show", type=int, metavar="N", help="print that many of each kind")
    parser.add_argument("--kind", choices=KINDS, default="mini")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--out")
    parser.add_argument("--words", type=float, default=0.85, help="share of word problems in training")
    parser.add_argument("--tokenizer", default="models/mini", help="folder with tokenizer.json")
    parser.add_argument("--processes", type=int, default=os.cpu_count())
    args = parser.parse_args()
    if args.show:
        for task in KINDS[args.kind]:
            for p in held_out_problems(task, args.show, args.seed):
                print(p["prompt"], p["answer"], *p.get("tests", ()), f"[{p['key']}]", "", sep="\n")
    elif args.heldout:
        write_held_out(args.kind, args.out, args.heldout, args.seed)
    else:
        write_training_set(
            args.kind,
            args.out,
            args.train,
            args.seed,
            args.words,
            args.tokenizer,
            args.processes,
        )


if __name__ == "__main__":
    main()
