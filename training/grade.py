"""Grading of answers: the number after ####, all unit tests passing, or the only possible text
(of shuffled lists and Latin squares one of many)."""

import glob
import json
import os
import re
import subprocess
import sys


def load_problems(folder, count=None):
    """The held-out problems of all tasks in a folder, the first `count` of each."""
    problems = []
    for path in sorted(glob.glob(f"{folder}/*.jsonl")):
        task = os.path.basename(path).removesuffix(".jsonl")
        with open(path) as file:
            problems += [{"task": task, **json.loads(line)} for line in file][:count]
    return problems


def grade(problems, answers):
    """One boolean per problem."""
    code = [i for i, p in enumerate(problems) if p["task"] == "code"]
    right = dict(zip(code, run_programs([answers[i] + "\n" + "\n".join(problems[i]["tests"]) for i in code])))
    for i, p in enumerate(problems):
        if "final" in p:
            match = re.search(r"#### ?(-?\d+)" + ("" if p["task"] == "first" else r"\s*$"), answers[i])
            right[i] = bool(match) and int(match[1]) == p["final"]
        elif p["task"] == "shuffle":
            right[i] = sorted(answers[i]) == sorted(p["answer"])
        elif p["task"] == "latin":
            right[i] = is_latin(answers[i].split("\n"), p["prompt"].split("\n")[1:])
        elif p["task"] != "code":
            right[i] = answers[i] == p["answer"]
    return [right[i] for i in range(len(problems))]


def is_latin(rows, clues):
    """True if every row and column holds every digit once and the clues are kept."""
    digits = [str(i + 1) for i in range(len(clues))]
    return [len(row) for row in rows] == [len(row) for row in clues] and (
        all(sorted(line) == digits for line in (*rows, *zip(*rows)))
        and all(c in ("0", d) for row, clue in zip(rows, clues) for d, c in zip(row, clue))
    )


def run_programs(programs):
    if not programs:
        return []
    sandbox = os.path.join(os.path.dirname(os.path.abspath(__file__)), "sandbox.py")
    done = subprocess.run(
        [sys.executable, sandbox],
        input=json.dumps(programs),
        text=True,
        capture_output=True,
        check=True,
    )
    return json.loads(done.stdout)
