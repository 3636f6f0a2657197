"""Writes a solution as different people would, from the bare result to every thought.

The question does not say which: as in real instruction data, the length of an answer cannot be known
from its question. Most answers show every step, many merge some of them into one equation or leave
some out, and very few give nothing but the result.
"""

import re

BARE = 0.02  # answers without any step
COMPLETE = 0.55  # answers that show every step
TOKENS = 112  # longer answers are written again, more tersely

OPENERS = [
    "Let's solve this step by step.",
    "Let's think step by step.",
    "We work it out in steps.",
    "Step by step:",
]
FIRST = ["First,", "To begin,", "First of all,"]
NEXT = ["Then,", "Next,", "After that,", "Now,"]
LAST = ["Finally,", "In the end,", "At last,"]
STARTS = re.compile(
    r"(The|There|Then|So|That|This|They|After|Together|Altogether|In|Every|Each|It|One|All|Now|Next|At|"
    r"With|He|She|Half|Twice|Three|Four|When|On|For|Everyone|Still|By|Adding|Taking|Length|Without|Your|His|Her) "
)


def about_tokens(text):
    """Roughly the number of tokens: digits and spaces before them count one each."""
    return len(re.findall(r" ?[A-Za-z']+| (?=\d)|\d|\n| ?[^\sA-Za-z\d]", text))


def hidden_steps(rng, count):
    """Steps that this author does not write down."""
    if rng.random() < COMPLETE:
        return set()
    share = rng.random() ** 1.5
    chance = lambda step: share / 3 if step == count - 1 else share
    hidden = {step for step in range(count) if rng.random() < chance(step)}
    return hidden if len(hidden) < count else hidden - {count - 1}


def equations(rng, steps, hidden):
    """The written steps as (step, left-hand side). The expression of a hidden step may stand in place
    of its value where that is used; otherwise the value just appears."""
    uses = [sum(getattr(x, "step", None) == i for s in steps for x in s.operands) for i in range(len(steps))]
    merged = {i for i in hidden if uses[i] == 1 and rng.random() < 0.5}

    def left(step):
        def operand(position, x):
            inner = getattr(x, "step", None)
            if inner not in merged:
                return str(x)
            strong = steps[inner].operator in "*/%"
            bare = step.operator in "+-" and (strong or position == 0)
            return left(steps[inner]) if bare else f"({left(steps[inner])})"

        positions = iter(range(len(step.operands)))
        return step.left(lambda x: operand(next(positions), x))

    return [(s, left(s)) for i, s in enumerate(steps) if i not in hidden]


def lower(sentence):
    """The sentence as it continues after a connecting word."""
    sentence = re.sub(r"^(Then|So|Now|After that) (?=[a-z@\d])", "", sentence)
    return sentence[0].lower() + sentence[1:] if STARTS.match(sentence) else sentence


def attempt(rng, story, terse):
    result = f"#### {story.steps[-1].value}"
    if rng.random() < BARE:
        return result
    written = equations(rng, story.steps, hidden_steps(rng, len(story.steps)))
    style = rng.random()
    if terse or style < 0.15:
        return "\n".join([f"{left} = {s.unit}{s.value}" for s, left in written] + [result])
    lines = [s.sentence.replace("@", f"{left} = {s.unit}{s.value}") for s, left in written]
    if style > 0.85 and len(lines) > 1:
        words = [rng.choice(FIRST)] + [rng.choice(NEXT) for _ in lines[2:]] + [rng.choice(LAST)]
        lines = [f"{word} {lower(line)}" for word, line in zip(words, lines)]
    if rng.random() < 0.08:
        lines.insert(0, rng.choice(OPENERS))
    elif rng.random() < 0.06:
        lines.insert(0, story.question[0])
    if rng.random() < 0.12:
        lines.append(
            rng.choice(["The answer is {}.", "So the answer is {}.", "Answer: {}."]).format(story.steps[-1].value)
        )
    return "\n".join(lines + [result])


def solution(rng, story):
    for terse in (False, False, False, True):
        text = attempt(rng, story, terse)
        if about_tokens(text) <= TOKENS:
            break
    return text
