"""Tasks whose dependencies are known, for the question which decoding order respects them.

A problem has a prompt that begins with the name of its task, an answer whose layout the prompt fixes, and
where values depend on each other `values`: for each its places in the answer (that of its own equation
first) and the values it needs.
"""

from . import chains, grids, lists, steps

SHARES = {  # of the training examples
    "first": 0.17,
    "last": 0.13,
    "forward": 0.07,
    "backward": 0.08,
    "shuffled": 0.13,
    "sudoku": 0.14,
    "sudoku9": 0.14,
    "latin": 0.06,
    "copy": 0.01,
    "reverse": 0.02,
    "sort": 0.03,
    "shuffle": 0.02,
}
SIZES = {"sudoku": 6, "sudoku9": 9}


def problem(rng, task):
    """One problem."""
    if task in SIZES:
        return grids.sudoku(task, SIZES[task], *grids.puzzle(rng, SIZES[task]))
    if task == "latin":
        return grids.latin(rng, task)
    if task in ("first", "last"):
        return steps.problem(rng, task)
    return (chains if task in ("forward", "backward", "shuffled") else lists).problem(rng, task)


class Source:
    """Training problems, none of them held out."""

    def __init__(self, rng, is_held_out):
        self.rng, self.is_held_out = rng, is_held_out
        self.sudokus = {task: grids.Sudokus(size) for task, size in SIZES.items()}

    def draw(self):
        task = self.rng.choices(list(SHARES), SHARES.values())[0]
        if task in SIZES:
            return self.sudokus[task].draw(self.rng, task, self.is_held_out)
        while True:
            drawn = problem(self.rng, task)
            if not self.is_held_out(drawn["key"]):
                return drawn
