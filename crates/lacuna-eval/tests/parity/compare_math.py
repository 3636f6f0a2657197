"""Compares lacuna's MATH grader with math-verify on MATH500's gold answers, on equivalent rewrites and on near misses.

    pip install math-verify
    python compare_math.py DATA/math500.jsonl path/to/examples/math_pairs

Every pair carries what is true of it, so that where the two disagree one can see who is right.
"""

import json
import re
import subprocess
import sys
from collections import Counter, defaultdict
from fractions import Fraction


def rewrites(gold):
    """The same answer, written otherwise."""
    yield "self", gold
    yield "spaces", " " + gold.replace(",", ", ").replace("+", " + ")
    if "\\frac{" in gold:
        yield "dfrac", gold.replace("\\frac", "\\dfrac")
    match = re.fullmatch(r"(-?)\\[dt]?frac\{(\d+)\}\{(\d+)\}", gold)
    if match:
        sign, top, bottom = match[1], int(match[2]), int(match[3])
        yield "slash", f"{sign}{top}/{bottom}"
        yield "expanded", f"{sign}\\frac{{{3 * top}}}{{{3 * bottom}}}"
        if top > bottom and not sign:
            yield (
                "mixed",
                f"{top // bottom}\\frac{{{top % bottom}}}{{{bottom}}}" if top % bottom else str(top // bottom),
            )
        rest = bottom
        for p in (2, 5):
            while rest % p == 0:
                rest //= p
        if rest == 1:
            value = Fraction(top, bottom)
            digits = len(str(bottom)) * 4
            yield (
                "decimal",
                sign + (f"{float(value):.{digits}f}".rstrip("0").rstrip(".") if digits < 16 else str(float(value))),
            )
    if re.fullmatch(r"-?\d+", gold):
        number = int(gold)
        yield "named", f"x = {gold}"
        yield "point zero", f"{gold}.0"
        yield "unit", f"{gold}\\text{{ units}}"
        yield "fraction", f"\\frac{{{2 * number}}}{{2}}"
        if abs(number) >= 1000:
            yield "grouped", f"{number:,}"
        yield "computed", f"{number - 7} + 7 = {gold}"
        if number >= 1000:
            yield "scientific", f"{number // 1000}.{number % 1000:03}e3"
        if number > 1:
            yield "sum", f"{number - 1} + 1"
            yield "root", f"\\sqrt{{{number * number}}}"
    match = re.fullmatch(r"(\d+) ?\\sqrt\{?(\d+)\}?", gold)
    if match:
        yield "under the root", f"\\sqrt{{{int(match[1]) ** 2 * int(match[2])}}}"
        yield "power", f"{match[1]} \\cdot {match[2]}^{{1/2}}"
    match = re.fullmatch(r"\\sqrt\{(\d+)\}", gold)
    if match:
        yield "rounded beside", f"{gold} \\approx {int(match[1]) ** 0.5:.2f}"
    match = re.fullmatch(r"\((\d+),\\infty\)", gold)
    if match:
        yield "set by condition", f"\\{{x \\mid x > {match[1]}\\}}"
    if "^\\circ" in gold:
        yield "no degree", gold.replace("^\\circ", "")
    if re.fullmatch(r"\([^()]*,[^()]*\)", gold):
        yield "left right", gold.replace("(", "\\left(").replace(")", "\\right)")
    if "\\pi" in gold and re.fullmatch(r"(\d+) ?\\pi", gold):
        yield "pi first", "\\pi \\cdot " + re.match(r"\d+", gold)[0]
    if re.fullmatch(r"-?\d+, ?-?\d+(, ?-?\d+)?", gold) and "!" not in gold:
        yield "reversed list", ",".join(reversed([part.strip() for part in gold.split(",")]))
    if gold.startswith("\\text{"):
        yield "plain text", gold[6:-1]
    if "pmatrix" in gold:
        yield "bmatrix", gold.replace("pmatrix", "bmatrix")
    if (
        re.search(r"[a-z]", re.sub(r"\\[a-z]+|\{[a-z ]*\}", "", gold))
        and "=" not in gold
        and "\\" not in gold
        and "_" not in gold
    ):
        yield "times one", f"1 \\cdot ({gold})"


def misses(gold):
    """Other answers that look like it."""
    digits = list(re.finditer(r"\d", gold))
    if digits:
        for match in (digits[0], digits[-1]):
            other = str((int(match[0]) + 1) % 10) if match[0] != "9" else "8"
            changed = gold[: match.start()] + other + gold[match.end() :]
            yield "digit", changed
    if re.fullmatch(r"-?\d+", gold) and int(gold) != 0:
        yield "negative", str(-int(gold))
        yield "ten times", gold + "0"
        yield "off by half", gold + ".5"
        yield "scientific", gold + "e1"
        yield "miscomputed", f"{int(gold) - 7} + 8 = {int(gold) + 1}"
    if gold.startswith("\\frac{"):
        match = re.fullmatch(r"\\frac\{(\d+)\}\{(\d+)\}", gold)
        if match and match[1] != match[2]:
            yield "upside down", f"\\frac{{{match[2]}}}{{{match[1]}}}"
            yield (
                "rounded",
                f"{int(match[1]) / int(match[2]):.2f}"
                if 100 * int(match[1]) % int(match[2])
                else f"{int(match[1]) / int(match[2]) + 0.01:.2f}",
            )
    match = re.fullmatch(r"\((-?[\d]+), ?(-?[\d]+)\)", gold)
    if match and match[1] != match[2]:
        yield "swapped", f"({match[2]},{match[1]})"
    if "\\infty" in gold or "]" in gold:
        if "]" in gold:
            yield "open", gold.replace("]", ")")
        elif gold.endswith("\\infty)") and "cup" not in gold:
            yield "closed", "[" + gold[1:]
    if "\\sqrt" in gold:
        yield "no root", gold.replace("\\sqrt", "")
    if "\\pi" in gold and gold != "\\pi":
        yield "no pi", gold.replace("\\pi", "")
    if "i" in re.sub(r"\\[a-z]+|\{[a-z ]*\}", "", gold) and re.search(r"\d ?i", gold):
        yield "conjugate", gold.replace("+", "#").replace("-", "+").replace("#", "-")
    if gold.startswith("\\text{"):
        yield "other text", "\\text{nothing}"


def main():
    from math_verify import parse, verify

    golds = list(dict.fromkeys(json.loads(line)["answer"] for line in open(sys.argv[1])))
    pairs = [(True, kind, gold, answer) for gold in golds for kind, answer in rewrites(gold)]
    pairs += [(False, kind, gold, answer) for gold in golds for kind, answer in misses(gold) if answer != gold]
    text = "".join(json.dumps([gold, answer]) + "\n" for _, _, gold, answer in pairs)
    ours = [
        line == "true"
        for line in subprocess.run([sys.argv[2]], input=text, text=True, capture_output=True, check=True).stdout.split()
    ]
    cache = {}
    read = lambda latex: cache.setdefault(latex, parse("$" + latex + "$"))
    theirs = [bool(verify(read(gold), read(answer))) for _, _, gold, answer in pairs]
    counts, differences = defaultdict(Counter), []
    for (truth, kind, gold, answer), a, b in zip(pairs, ours, theirs):
        count = counts["rewrite" if truth else "near miss"]
        count["pairs"] += 1
        count["agree"] += a == b
        count["lacuna right"] += a == truth
        count["math-verify right"] += b == truth
        if a != b or a != truth:
            differences.append((truth, kind, gold, answer, a, b))
    for kind, count in counts.items():
        print(
            f"{kind}: {count['pairs']} pairs, agreement {count['agree'] / count['pairs']:.2%}, "
            f"lacuna right {count['lacuna right']}, math-verify right {count['math-verify right']}"
        )
    for truth, kind, gold, answer, a, b in differences:
        print(f"  {'same' if truth else 'differ'} ({kind}): {gold} | {answer} | lacuna {a}, math-verify {b}")


if __name__ == "__main__":
    main()
