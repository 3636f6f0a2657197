"""Parts of every word problem: sentences of a question and steps of its solution.

A step keeps its operands, and an operand that is itself the result of a step remembers which one. So
`solution.py` can write the same solution with all of its steps, or with some merged or left out.
"""

from dataclasses import dataclass

from . import vocabulary as v

PERCENT = {10: 10, 20: 5, 25: 4, 30: 10, 40: 5, 50: 2, 60: 5, 75: 4, 80: 5}
"""Percentage -> the base must be a multiple of this for an integer result."""


class Reject(Exception):
    """The numbers drawn do not work out: draw again."""


class Quantity(int):
    """The result of a step."""

    step = None


@dataclass
class Step:
    operator: str
    operands: tuple
    value: int
    unit: str  # "$" or nothing, written before the value
    sentence: str  # in which "@" stands for the equation

    def left(self, written=str):
        """The left-hand side, each operand written by the given function."""
        if self.operator == "%":
            return f"{written(self.operands[0])} * {self.operands[1]} / 100"
        return f" {self.operator} ".join(map(written, self.operands))


class Person:
    def __init__(self, name, male):
        self.name = name
        self.he, self.his, self.him = ("he", "his", "him") if male else ("she", "her", "her")
        self.He, self.His = self.he.capitalize(), self.his.capitalize()

    def __str__(self):
        return self.name


class Story:
    """Collects a question and its solution. Scenarios draw everything random from here.

    In the scenarios g is the story, p a person, x a noun, and a, b, c, k, n, t, w are numbers. The
    methods that compute take phrasings of the step, in which "@" stands for the equation, and return
    the result.

    The bounds on the operands make each single step one that a small model can learn by heart or by
    digits, while the chains of steps are far too many to be learned.
    """

    def __init__(self, rng, target):
        self.rng, self.target = rng, target  # target: about how many steps are wanted
        self.question, self.steps, self.names = [], [], set()

    def pick(self, *options):
        return self.rng.choice(options)

    def maybe(self, probability=0.5):
        return self.rng.random() < probability

    def n(self, low, high, step=1):
        if high < low:
            raise Reject
        return self.rng.randrange(low, high + 1, step)

    def person(self):
        while True:
            male = self.maybe()
            name = self.rng.choice(v.MALE if male else v.FEMALE)
            if self.maybe(0.03):
                name = v.invented(self.rng).capitalize()
            if name not in self.names:
                self.names.add(name)
                return Person(name, male)

    def noun(self, *pools):
        """A countable thing, in the plural."""
        return v.plural(v.invented(self.rng) if self.maybe(0.03) else self.pick(*self.pick(*pools)))

    def percentage(self, base):
        """A percentage of which the base has an integer share."""
        options = [p for p, multiple in PERCENT.items() if base % multiple == 0]
        if not options:
            raise Reject
        return self.pick(*options)

    def divisor(self, value, low=2, high=12):
        options = [k for k in range(low, high + 1) if value % k == 0 and value // k > 1]
        if not options:
            raise Reject
        return self.pick(*options)

    def missing(self):
        """Number of steps that are still wanted."""
        return self.target - len(self.steps)

    def ask(self, *options):
        self.question.append(self.pick(*options))

    def _step(self, operator, operands, value, unit, sentences):
        if value != int(value) or not 0 < value < 1000:
            raise Reject
        self.steps.append(Step(operator, operands, int(value), unit, self.pick(*sentences)))
        result = Quantity(value)
        result.step = len(self.steps) - 1
        return result

    def add(self, terms, *sentences, u=""):
        if len(terms) > 2 and max(terms) > (250 if len(terms) == 3 else 99):
            raise Reject
        return self._step("+", tuple(terms), sum(terms), u, sentences)

    def sub(self, a, b, *sentences, u=""):
        return self._step("-", (a, b), a - b, u, sentences)

    def mul(self, a, b, *sentences, u=""):
        low, high = sorted((a, b))
        if low > 12 or high > (99 if low < 10 else 60):
            raise Reject
        return self._step("*", (a, b), a * b, u, sentences)

    def div(self, a, b, *sentences, u=""):
        if b > 12 or a > 720:
            raise Reject
        return self._step("/", (a, b), a / b, u, sentences)

    def part(self, a, percent, *sentences, u=""):
        if a > 400:
            raise Reject
        return self._step("%", (a, percent), a * percent / 100, u, sentences)
