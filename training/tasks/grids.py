"""Sudoku of 6 x 6 and 9 x 9 cells, and Latin squares.

A Sudoku here can be solved by singles alone: at every moment some cell has only one possible digit, or
some digit only one possible cell in a row, column or box. Which cells are forced by what is decided is
thus known at every step. A Latin square (5 x 5, few clues) has many completions, each as good as any.

Puzzles that differ only by renaming digits or by exchanging rows, columns, bands and stacks are the same
puzzle: `key` does not change under these, so no twin of a held-out puzzle is trained on.
"""

BOXES = {6: (2, 3), 9: (3, 3)}  # rows and columns of a box
CLUES = {6: (9, 15), 9: (32, 46)}
LATIN, LATIN_CLUES = 5, (4, 9)
VARIANTS = 8  # of each puzzle in training


class Geometry:
    """The units (rows, columns, boxes) of a grid, and those of each cell."""

    def __init__(self, size, box):
        self.size, self.box, cells = size, box, range(size * size)
        self.row = [c // size for c in cells]
        self.column = [size + c % size for c in cells]
        units = [self.row, self.column]
        if box:
            h, w = box
            per_band = size // w
            boxes = [2 * size + c // size // h * per_band + c % size // w for c in cells]
            units.append(boxes)
        self.of = list(zip(*units))
        self.units = [[] for _ in range(len(units) * size)]
        for c in cells:
            for u in self.of[c]:
                self.units[u].append(c)


SUDOKU = {size: Geometry(size, box) for size, box in BOXES.items()}
SQUARE = Geometry(LATIN, None)


def full_grid(rng, geometry):
    """A random complete grid, cell after cell with the fewest choices first."""
    size, everything = geometry.size, (1 << geometry.size) - 1
    grid, used = [0] * size**2, [0] * len(geometry.units)

    def fill():
        best, choices = None, None
        for c, digit in enumerate(grid):
            if not digit:
                free = everything
                for u in geometry.of[c]:
                    free &= ~used[u]
                count = free.bit_count()
                if best is None or count < choices.bit_count():
                    best, choices = c, free
                    if count <= 1:
                        break
        if best is None:
            return True
        digits = [d for d in range(size) if choices >> d & 1]
        rng.shuffle(digits)
        for d in digits:
            grid[best] = d + 1
            for u in geometry.of[best]:
                used[u] |= 1 << d
            if fill():
                return True
            for u in geometry.of[best]:
                used[u] &= ~(1 << d)
        grid[best] = 0
        return False

    fill()
    return grid


def solvable_by_singles(grid, geometry):
    """True if naked and hidden singles complete the grid."""
    everything = (1 << geometry.size) - 1
    used = [0] * len(geometry.units)
    for c, digit in enumerate(grid):
        if digit:
            for u in geometry.of[c]:
                used[u] |= 1 << (digit - 1)
    open_cells = {c for c, digit in enumerate(grid) if not digit}

    def put(c, bit):
        open_cells.discard(c)
        for u in geometry.of[c]:
            used[u] |= bit

    while open_cells:
        found, free = False, {}
        for c in list(open_cells):
            choices = everything
            for u in geometry.of[c]:
                choices &= ~used[u]
            if choices & (choices - 1) == 0:
                if not choices:
                    return False
                put(c, choices)
                found = True
            else:
                free[c] = choices
        if found:
            continue
        for u, unit in enumerate(geometry.units):
            once = twice = 0
            for c in unit:
                if c in open_cells:
                    twice |= once & free[c]
                    once |= free[c]
            for c in unit:
                bit = free.get(c, 0) & once & ~twice & ~used[u] if c in open_cells else 0
                if bit:
                    put(c, bit & -bit)
                    found = True
        if not found:
            return False
    return True


def puzzle(rng, size):
    """(clues, solution) of a Sudoku that singles solve."""
    geometry = SUDOKU[size]
    solution = full_grid(rng, geometry)
    clues, wanted = list(solution), rng.randint(*CLUES[size])
    cells = list(range(size**2))
    rng.shuffle(cells)
    left = len(cells)
    for c in cells:
        if left == wanted:
            break
        clues[c] = 0
        if solvable_by_singles(clues, geometry):
            left -= 1
        else:
            clues[c] = solution[c]
    return clues, solution


def invariant(clues, size):
    """A text that is the same for all symmetric variants of a puzzle."""
    (h, w), cells = BOXES[size], range(size)
    given = lambda r, c: clues[r * size + c] > 0
    rows = [sum(given(r, c) for c in cells) for r in cells]
    columns = [sum(given(r, c) for r in cells) for c in cells]
    parts = lambda counts, n: sorted(tuple(sorted(counts[i : i + n])) for i in range(0, size, n))
    digits = sorted(clues.count(d + 1) for d in cells)
    return f"{size}|{parts(rows, h)}|{parts(columns, w)}|{digits}".replace(" ", "")


def variant(rng, size):
    """A random symmetry: maps a grid to the same grid in other words."""
    h, w = BOXES[size]

    def lines(n):
        bands = [list(range(i, i + n)) for i in range(0, size, n)]
        rng.shuffle(bands)
        for band in bands:
            rng.shuffle(band)
        return [line for band in bands for line in band]

    rows, columns = lines(h), lines(w)
    digits = [0, *rng.sample(range(1, size + 1), size)]
    cells = [r * size + c for r in rows for c in columns]
    return lambda grid: [digits[grid[c]] for c in cells]


def text(grid, size):
    return "\n".join("".join(map(str, grid[i : i + size])) for i in range(0, size**2, size))


def stated(task, size, clues, solution, key):
    return {
        "prompt": f"{task}:\n{text(clues, size)}",
        "answer": text(solution, size),
        "key": key,
    }


def sudoku(task, size, clues, solution):
    return stated(task, size, clues, solution, invariant(clues, size))


class Sudokus:
    """Training problems: every puzzle in many variants, since making one takes long."""

    def __init__(self, size):
        self.size, self.left = size, 0

    def draw(self, rng, task, is_held_out):
        if not self.left:
            self.left = VARIANTS
            while True:
                self.clues, self.solution = puzzle(rng, self.size)
                if not is_held_out(invariant(self.clues, self.size)):
                    break
        self.left -= 1
        turn = variant(rng, self.size)
        return sudoku(task, self.size, turn(self.clues), turn(self.solution))


def latin(rng, task):
    solution = full_grid(rng, SQUARE)
    shown = set(rng.sample(range(LATIN**2), rng.randint(*LATIN_CLUES)))
    clues = [digit if c in shown else 0 for c, digit in enumerate(solution)]
    return stated(task, LATIN, clues, solution, text(clues, LATIN))
