"""Multi-step arithmetic word problems with solutions in the format of GSM8K.

`key` is the chain of equations of the full solution. Splitting by a hash of it means that the chain of
operations and numbers of a held-out problem occurs nowhere in training, whatever the scenario, the
names, the things and the phrasing.
"""

import re

from . import counting, crowds, groups, money, relations, travel
from .solution import solution
from .story import Reject, Story
from .vocabulary import NUMBERS

SCENARIOS = [counting.collection] * 14 + [crowds.passengers] * 2 + [crowds.stock]
SCENARIOS += [money.wallet] * 6 + [money.shopping] * 3 + [money.purchase] * 2 + [money.profit] * 2
SCENARIOS += [money.tickets] * 2 + [money.discount] * 2 + [money.saving]
SCENARIOS += [travel.distance] * 2 + [travel.trip, groups.routine, travel.commute]
SCENARIOS += [groups.reading] * 2 + [groups.factory] * 2 + [groups.building] + [groups.recipe] * 2
SCENARIOS += [groups.tank, groups.fence, groups.practice, groups.teams, groups.rope]
SCENARIOS += [relations.compare] * 4 + [relations.ages, relations.average] + [relations.classroom] * 2
STEPS = {1: 3, 2: 14, 3: 28, 4: 28, 5: 17, 6: 10}  # number of steps -> percent of problems
REQUESTS = [
    "Answer with the number only.",
    "Give only the final answer.",
    "Only the result, please.",
    "Just give the number.",
    "No explanation, only the answer.",
]
ASKED_BARE = 0.03


def spelled(rng, text):
    """The text with some of its small numbers in words."""
    word = lambda m: NUMBERS[int(m[0])] if 1 < int(m[0]) <= 12 and rng.random() < 0.7 else m[0]
    return re.sub(r"(?<![\d$'])\b\d{1,2}\b(?![\d%'])", word, text)


def draw_story(rng, steps=STEPS):
    target = rng.choices(list(steps), steps.values())[0]
    while True:
        story = Story(rng, target)
        try:
            rng.choice(SCENARIOS)(story)
        except Reject:
            continue
        if len(story.steps) == target:
            return story


def problem(rng, requests=True):
    """One problem. With `requests`, a few of the questions ask for the bare result, and get it."""
    story = draw_story(rng)
    question, final = " ".join(story.question), story.steps[-1].value
    if rng.random() < 0.06:
        question = spelled(rng, question)
    if requests and rng.random() < ASKED_BARE:
        question, answer = f"{question} {rng.choice(REQUESTS)}", f"#### {final}"
    else:
        answer = solution(rng, story)
    key = ";".join(step.left().replace(" ", "") for step in story.steps)
    return {"prompt": question, "answer": answer, "final": final, "key": key}
