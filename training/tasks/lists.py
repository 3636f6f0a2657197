"""Lists of digits to copy, reverse, sort or shuffle: ParallelBench's list operations.

Copying and reversing decide every position by itself. Of a shuffled list the positions depend on each
other and on nothing else: decided all at once they are a permutation with probability n!/n^n.
"""

SHORTEST, LONGEST = 6, 10


def problem(rng, task):
    length = rng.randint(SHORTEST, LONGEST)
    digits = rng.sample(range(10), length) if task == "shuffle" else rng.choices(range(10), k=length)
    answer = {
        "copy": lambda: digits,
        "reverse": lambda: digits[::-1],
        "sort": lambda: sorted(digits),
        "shuffle": lambda: rng.sample(digits, length),
    }[task]()
    text = lambda values: "".join(map(str, values))
    return {"prompt": f"{task}: {text(digits)}", "answer": text(answer), "key": text(digits)}
