"""Word problems answered by equations alone, with the result behind them (`last`) or before them (`first`).

Every number has three digits, so a question fixes where each number of the answer stands. The result is
known once the last equation is, and each equation once the results are that it uses: `first` asks for an
order that is not left to right.
"""

from .story import Quantity
from .words import draw_story

STEPS = {2: 30, 3: 40, 4: 30}  # number of steps -> percent of problems
LONGEST = 60  # characters


def equation(step):
    """The numbers and signs of a step, its value among them."""
    operands, signs = list(step.operands), [step.operator] * len(step.operands)
    if step.operator == "%":
        operands, signs = [operands[0], operands[1], 100], ["*", "/"]
    parts = [operands[0]]
    for sign, operand in zip(signs, operands[1:]):
        parts += [sign, operand]
    return [*parts, "=", step.value]


def problem(rng, task):
    while True:
        story = draw_story(rng, STEPS)
        steps = story.steps
        at, needs, text = [[] for _ in steps], [], ""

        def write(part, value=None):
            nonlocal text
            part = part if isinstance(part, str) else f"{int(part):03}"
            if value is not None:
                at[value].append([len(text), len(text) + len(part)])
            text += part

        def result():
            write("#### ")
            write(steps[-1].value, len(steps) - 1)

        if task == "first":
            result()
            write("\n")
        for i, step in enumerate(steps):
            *left, value = equation(step)
            for part in left:
                write(part, part.step if isinstance(part, Quantity) else None)
            write(value, i)
            write("\n" if i + 1 < len(steps) else "")
            needs.append(sorted({x.step for x in step.operands if isinstance(x, Quantity)}))
        if task == "last":
            write("\n")
            result()
        if task == "first":
            at[-1].reverse()  # the place in its own equation comes first
        if len(text) <= LONGEST:
            break
    key = ";".join(step.left().replace(" ", "") for step in steps)
    values = [list(pair) for pair in zip(at, needs)]
    prompt = f"{task}: {' '.join(story.question)}"
    return {"prompt": prompt, "answer": text, "final": int(steps[-1].value), "key": key, "values": values}
