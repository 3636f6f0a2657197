"""The tables of claims and of the candidate in docs/results.md, from folders of `lacuna eval`.

    python training/claims.py --before mini=results/mini --after mini=results/fresh-mini ...

`--before` and `--after` name a model and a folder of its results, for the problems that the claims were made from and for those that
they are tested on. A model may have several folders: of a strategy the run with the most problems counts, and the first of those. What fewer than `--problems`
were decoded of is left out. p is McNemar's exact test on the problems that both decoded, corrected after Holm.
"""

import argparse
import json
import math
from collections import defaultdict
from pathlib import Path

LAST = "confidence+eb, ends last"
PUZZLES = ["last", "first", "sudoku", "sudoku9"]
CLAIMS = [
    ("mini", "words", LAST, "confidence+eb"),
    ("mini", "words", "dos+eb, layer 0", LAST),
    ("mini", "words", "dos+eb, layer 0", "left+eb"),
    ("mini", "words", "dos+eb, layer 0, blocks of 32", "confidence+eb, blocks of 32"),
    ("mini", "code", "confidence+eb", LAST),
]
for model in ["uniform-1", "uniform-2"]:
    CLAIMS += [
        (model, "words", LAST, "dos+eb, layer 0"),
        (model, "words", "confidence+eb, blocks of 32", "dos+eb, layer 0, blocks of 32"),
    ]
for model in ["orders-1", "orders-2"]:
    CLAIMS += [(model, task, "confidence", "dos, layer 6") for task in PUZZLES]
for model in ["orders-1", "orders-2"]:
    CLAIMS += [(model, task, "confidence", "given") for task in ["last", "first"]]
    CLAIMS += [(model, "shuffled", "given", "confidence")]


def name(trial):
    """A strategy with the settings that the claims speak of."""
    settings = trial["settings"]
    parts = [trial["strategy"]]
    parts += ["ends last"] * bool(settings.get("defer_eos")) + ["ends never"] * bool(settings.get("suppress_eos"))
    if "layer" in settings:
        layers = settings["layer"] if isinstance(settings["layer"], list) else [settings["layer"]]
        parts.append("layer " + ", ".join(map(str, layers)) if len(layers) < 8 else "all layers")
    if "heads" in settings:
        parts.append("heads " + ", ".join(map(str, settings["heads"])))
    if trial["block_length"] != trial["gen_length"]:
        parts.append(f"blocks of {trial['block_length']}")
    return ", ".join(parts)


def identity(trial):
    """The end of the name of a trial's file of samples: FNV-1a of the trial without its labels, 32 bits of it."""
    text = json.dumps({**trial, "labels": []}, separators=(",", ":"), ensure_ascii=False)
    value = 0xCBF29CE484222325
    for byte in text.encode():
        value = (value ^ byte) * 0x100000001B3 & 0xFFFFFFFFFFFFFFFF
    return f"{value & 0xFFFFFFFF:08x}.jsonl"


def load(folders, problems):
    """What is right, by model, task and strategy, and in it by problem."""
    right = defaultdict(dict)
    for model, folder in folders:
        files = {path.name.rsplit("-", 1)[-1]: path for path in (folder / "samples").iterdir()}
        for trial in json.loads((folder / "configuration.json").read_text())["trials"]:
            if path := files.get(identity(trial)):
                samples = [json.loads(line) for line in path.read_text().splitlines()]
                key, found = (
                    (model, trial["task"], name(trial)),
                    {sample["row"]: sample["correct"] for sample in samples},
                )
                if len(found) >= problems and len(found) > len(right[key]):
                    right[key] = found
    return right


def compare(a, b):
    """Shares of two strategies that are right, and the problems that only one gets right, with the test's p."""
    rows = a.keys() & b.keys()
    won, lost = sum(a[r] and not b[r] for r in rows), sum(b[r] and not a[r] for r in rows)
    n = won + lost
    p = min(1, 2 * sum(math.comb(n, k) for k in range(min(won, lost) + 1)) / 2**n)
    return [100 * sum(x[r] for r in rows) / len(rows) for x in (a, b)], won, lost, p


def holm(values):
    """p-values, corrected for their number."""
    corrected, most = {}, 0.0
    for rank, index in enumerate(sorted(values, key=values.get)):
        most = max(most, min(1, values[index] * (len(values) - rank)))
        corrected[index] = most
    return corrected


def told(p):
    return "<0.001" if p < 0.001 else f"{p:.3f}"


def cells(compared):
    if compared is None:
        return "– | –"
    (a, b), won, lost, _ = compared
    return f"{a:.1f} : {b:.1f} | +{won} −{lost}".replace("100.0", "100")


def claims(before, after):
    rows = []
    for model, task, better, worse in CLAIMS:
        pair = [
            compare(right[model, task, better], right[model, task, worse])
            if {(model, task, better), (model, task, worse)} <= right.keys()
            else None
            for right in (before, after)
        ]
        rows.append((f"| {model} | `{task}` | {better} over {worse}", pair))
    corrected = holm({index: pair[1][3] for index, (_, pair) in enumerate(rows) if pair[1]})
    print("| model | task | claim | before | | after | | p | Holm |\n|---|---|---|--:|--:|--:|--:|--:|--:|")
    for index, (text, pair) in enumerate(rows):
        p = f"{told(pair[1][3])} | {told(corrected[index])}" if pair[1] else "– | –"
        print(f"{text} | {cells(pair[0])} | {cells(pair[1])} | {p} |")


def candidate(before, after, layer):
    """`certain-dos` with ends last beside the best baseline, on problems or models that it was not chosen on."""
    others = {key: found for key, found in before.items() if key[0] not in ("mini", "orders-1")}
    rows = []
    for when, right in (("before", others), ("after", after)):
        # No order but the oracle solves `shuffled`.
        for model, task in sorted({key[:2] for key in right if key[1] != "shuffled"}):
            pace = "+eb" if task in ("words", "code") else ""
            baselines = [f"confidence{pace}", f"confidence{pace}, ends last", f"left{pace}", f"dos{pace}, layer 0"]
            measured = {b: right[model, task, b] for b in baselines if (model, task, b) in right}
            found = right.get((model, task, f"certain-dos{pace}, ends last, layer {layer}"))
            if found and measured:
                best = max(measured, key=lambda b: sum(measured[b].values()) / len(measured[b]))
                rows.append((f"| {model}, {when} | `{task}` | {best}", compare(found, measured[best])))
    corrected = holm({index: compared[3] for index, (_, compared) in enumerate(rows)})
    print(
        f"\n| model | task | best baseline | certain-dos, layer {layer} : best | | p | Holm |\n|---|---|---|--:|--:|--:|--:|"
    )
    for index, (text, compared) in enumerate(rows):
        print(f"{text} | {cells(compared)} | {told(compared[3])} | {told(corrected[index])} |")


def main():
    def folder(text):
        model, equals, path = text.partition("=")
        if not equals or not (Path(path) / "configuration.json").exists():
            raise argparse.ArgumentTypeError(f"{text} is not MODEL=FOLDER with the results of lacuna eval")
        return model, Path(path)

    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--before", type=folder, action="append", default=[], metavar="MODEL=FOLDER")
    parser.add_argument("--after", type=folder, action="append", default=[], metavar="MODEL=FOLDER")
    parser.add_argument("--problems", type=int, default=256, help="fewest problems of a run")
    parser.add_argument("--layer", type=int, default=6, help="the layer of the candidate")
    arguments = parser.parse_args()
    before, after = (load(folders, arguments.problems) for folders in (arguments.before, arguments.after))
    claims(before, after)
    candidate(before, after, arguments.layer)


if __name__ == "__main__":
    main()
