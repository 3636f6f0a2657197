"""Whether answers are right: the number after ####, or all unit tests passing."""

import json
import os
import re
import subprocess
import sys


def load_problems(folder, count=None):
    """The held-out problems of both tasks, the first `count` of each."""
    problems = []
    for task in ("words", "code"):
        with open(f"{folder}/{task}.jsonl") as file:
            problems += [{"task": task, **json.loads(line)} for line in file][:count]
    return problems


def grade(problems, answers):
    """One boolean per problem."""
    code = [i for i, p in enumerate(problems) if p["task"] == "code"]
    right = dict(
        zip(code, run_programs([answers[i] + "\n" + "\n".join(problems[i]["tests"]) for i in code]))
    )
    for i, p in enumerate(problems):
        if p["task"] == "words":
            match = re.search(r"#### ?(-?\d+)\s*$", answers[i])
            right[i] = bool(match) and int(match[1]) == p["final"]
    return [right[i] for i in range(len(problems))]


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
