"""Chains of assignments modulo 10, each value computed from the one before it.

The lines of question and answer stand in the order of computing (`forward`), against it (`backward`) or
in any order (`shuffled`), where the value that is needed must be found by its name.
"""

import string

LINES = 6
SIGNS = {"+": lambda a, b: a + b, "-": lambda a, b: a - b, "*": lambda a, b: a * b}


def problem(rng, task):
    names = rng.sample(string.ascii_uppercase, LINES)
    value, lines, key = rng.randrange(10), [], []
    for i, name in enumerate(names):
        sign = rng.choice("+-*")
        number = rng.choice((3, 7, 9) if sign == "*" else range(1, 10))  # nothing that forgets the value
        left = names[i - 1] if i else str(value)
        key.append(f"{value if not i else ''}{sign}{number}")
        value = SIGNS[sign](value, number) % 10
        lines.append((f"{name}={left}{sign}{number}", value))
    places = list(range(LINES))
    if task == "backward":
        places.reverse()
    elif task == "shuffled":
        rng.shuffle(places)
    ordered = [lines[i] for i in places]
    text, at = [f"{line}={value}" for line, value in ordered], {}
    for row, i in enumerate(places):
        end = sum(map(len, text[: row + 1])) + row
        at[i] = [[end - 1, end]]
    return {
        "prompt": f"{task}:\n" + "\n".join(line for line, _ in ordered),
        "answer": "\n".join(text),
        "key": "".join(key),
        "values": [[at[i], [i - 1] if i else []] for i in range(LINES)],
    }
