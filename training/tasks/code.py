"""Small Python functions requested in English, with unit tests.

`key` names what the function computes (not its phrasing, identifiers or coding style), so that a split
by a hash of the key holds out whole functions: no held-out task is a training task in other words.
"""

import re

from .code_classics import classic
from .code_families import characters, numbers, pairs, piecewise, whiles, words
from .code_phrases import NAMES, VOCAB
from .code_task import Task
from .vocabulary import invented

FAMILIES = [numbers] * 11 + [pairs] * 2 + [characters] * 2 + [words] * 2 + [piecewise] * 3 + [whiles]
CLASSIC_SHARE = 0.06

FRAMES = [
    "Write a python function `{sig}` that returns {what}.",
    "Write a Python function {sig} that returns {what}.",
    "write a function {sig} that returns {what}",
    "Write a function called {name} that takes {args} and returns {what}.",
    "Define a function `{sig}` which returns {what}.",
    "Implement `{sig}` so that it returns {what}.",
    "Please write a python function {name} with {args} as input that returns {what}.",
    "Create a python function `{sig}` returning {what}.",
    "I need a function {sig} that returns {what}.",
    "Code a function `{sig}`: it should return {what}.",
]
NAMELESS = [
    "Write a function that returns {what}.",
    "Write a Python function that returns {what}.",
    "write a python function returning {what}",
]  # for classics, which have a usual name
HINTS = {
    "line": ["Write it in one line.", "Use a single return statement.", "Make it a one-liner."],
    "loop": ["Use a loop.", "Use a for loop.", "Write an explicit loop."],
    "case": ["Use if statements.", "Use an if statement."],
}


def problem(rng, tests=False):
    """One task; with tests=True, one that can be held out, with 5 assert lines made by running the answer."""
    while True:
        task = Task(rng)
        family = classic if not tests and rng.random() < CLASSIC_SHARE else rng.choice(FAMILIES)
        family(task)
        name = task.name or (rng.choice(NAMES) if rng.random() < 0.9 else invented_name(rng))
        if name in task.params:
            continue
        style = "line" if "line" in task.styles and rng.random() < 0.6 else list(task.styles)[-1]
        hint = ""
        if len(task.styles) > 1 and rng.random() < 0.4:
            hint = " " + rng.choice(HINTS["case" if style == "loop" and family is piecewise else style])
        signature = f"{name}({', '.join(task.params)})"
        frame = rng.choice(NAMELESS if task.name and rng.random() < 0.25 else FRAMES)
        prompt = frame.format(sig=signature, name=name, args=" and ".join(task.params), what=task.what) + hint
        code = answer(rng, task, name, signature, style)
        problem = {"prompt": prompt, "answer": code, "key": task.key}
        if tests:
            problem["tests"] = unit_tests(task, name, code)
            if not problem["tests"]:
                continue
        return problem


def invented_name(rng):
    """A name never seen before, so that names are copied and not guessed."""
    return "_".join(invented(rng) for _ in range(rng.choice((1, 2))))


def answer(rng, task, name, signature, style):
    """The function, sometimes with a docstring or a comment: the request does not say which."""
    body, roll = list(task.styles[style]), rng.random()
    if roll < 0.25:
        body.insert(0, f'"""Return {task.what}."""')
    code = f"def {signature}:\n" + "\n".join("    " + line for line in body)
    return f"# {name} returns {task.what}.\n{code}" if roll > 0.85 else code


def unit_tests(task, name, code, count=5):
    """Calls on random arguments, many at the edges of the conditions in the code; None if they tell nothing."""
    scope = {}
    exec(code, scope)
    task.edges = [int(k) + d for k in re.findall(r"-?\d+", code.split("\n", 1)[1]) for d in (-1, 0, 1)]
    task.hits = [word for c in re.findall(r"'([a-z])'", code) for word in VOCAB if c in word]
    for _ in range(8):
        cases = []
        for _ in range(count):
            arguments = task.args()
            cases.append((f"{name}({', '.join(map(repr, arguments))})", repr(scope[name](*arguments))))
        if len({value for _, value in cases}) > 1:
            return [f"assert {call} == {value}" for call, value in cases]
    return None
