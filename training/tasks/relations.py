"""Stories about quantities that are given by their relation to others."""

from . import vocabulary as v


def relation(g, a, b, n, x, verb):
    """The number of b's things in terms of a's: returns the sentence and the number."""
    kind = g.pick(
        "more",
        "more",
        "fewer" if n > 12 else "more",
        "times",
        "half" if n % 2 == 0 else "times",
        "times and more",
    )
    if kind == "more":
        k = g.n(2, 80)
        return f"{b} {verb} {k} more {x} than {a}.", g.add((n, k), f"{b} {verb} @ {x}.", f"For {b} it is @ {x}.")
    if kind == "fewer":
        k = g.n(2, n - 4)
        return f"{b} {verb} {k} fewer {x} than {a}.", g.sub(n, k, f"{b} {verb} @ {x}.", f"For {b} it is @ {x}.")
    if kind == "times":
        k = g.n(2, 3 if n > 40 else 5)
        return f"{b} {verb} {v.TIMES[k]} as many {x} as {a}.", g.mul(
            n, k, f"{b} {verb} @ {x}.", f"For {b} it is @ {x}."
        )
    if kind == "half":
        return f"{b} {verb} half as many {x} as {a}.", g.div(n, 2, f"{b} {verb} @ {x}.", f"For {b} it is @ {x}.")
    k, d = g.n(2, 3), g.n(2, 30)
    m = g.mul(
        n,
        k,
        f"{v.TIMES[k].capitalize()} as many as {a} is @ {x}.",
        f"{v.TIMES[k].capitalize()} that is @.",
    )
    if g.maybe() or m - d < 3:
        return f"{b} {verb} {d} more than {v.TIMES[k]} as many {x} as {a}.", g.add(
            (m, d), f"{b} {verb} @ {x}.", f"So {b} {verb} @ {x}."
        )
    return f"{b} {verb} {d} fewer than {v.TIMES[k]} as many {x} as {a}.", g.sub(
        m, d, f"{b} {verb} @ {x}.", f"So {b} {verb} @ {x}."
    )


def compare(g):
    """Two to four people, each related to the one before."""
    people, x = [g.person()], g.noun(v.THINGS, v.FOODS)
    verb = g.pick("has", "has", "collects", "sells", "buys", "picks", "makes")
    ns = [g.n(6, 90)]
    told = [f"{people[0]} {verb} {ns[0]} {x}."]
    while len(people) < 2 or (g.missing() > 1 and len(people) < 4):
        people.append(g.person())
        sentence, n = relation(g, people[-2], people[-1], ns[-1], x, verb)
        told.append(sentence)
        ns.append(n)
    if g.maybe(0.3) and len(people) > 2:  # the same facts, told backwards
        told = told[1:] + told[:1]
    g.question += told
    if g.maybe(0.25) and ns[0] != ns[-1]:
        (high, more), (low, less) = sorted([(ns[0], people[0]), (ns[-1], people[-1])], key=lambda pair: -pair[0])
        g.ask(
            f"How many more {x} than {less} does {more} have?"
            if verb == "has"
            else f"What is the difference between {more} and {less}?"
        )
        g.sub(high, low, "The difference is @.", f"{more} is ahead by @.")
        return
    n = g.add(
        ns,
        f"Together that is @ {x}.",
        f"In total there are @ {x}.",
        f"Altogether that makes @ {x}.",
    )
    if g.missing() > 0:
        k = g.divisor(n)
        g.ask(
            f"All the {x} are put into {k} boxes, the same number in each. How many {x} are in each box?",
            f"They share all of them equally with others, so that {k} people get the same number. How many {x} does each one get?",
        )
        g.div(
            n,
            k,
            f"That is @ {x} each.",
            f"Each one gets @ {x}." if "people" in g.question[-1] else f"Each box has @ {x}.",
        )
    else:
        g.ask(
            f"How many {x} is that altogether?",
            f"How many {x} are there in total?",
            f"How many {x} do they have together?" if verb == "has" else f"How many {x} is that in total?",
        )


def ages(g):
    a, b = g.person(), g.person()
    n = g.n(4, 40)
    kind = g.pick("older", "younger" if n > 8 else "older", "times")
    g.ask(f"{a} is {n} years old.", f"{a} is {n}.")
    if kind == "older":
        k = g.n(2, 30)
        g.ask(f"{b} is {k} years older than {a}.", f"{a} is {k} years younger than {b}.")
        m = g.add((n, k), f"{b} is @ years old.", f"{b}'s age is @.")
    elif kind == "younger":
        k = g.n(2, n - 3)
        g.ask(f"{b} is {k} years younger than {a}.", f"{a} is {k} years older than {b}.")
        m = g.sub(n, k, f"{b} is @ years old.", f"{b}'s age is @.")
    else:
        k = g.n(2, 4)
        g.ask(f"{b} is {v.TIMES[k]} as old as {a}.")
        m = g.mul(n, k, f"{b} is @ years old.", f"{b}'s age is @.")
    everyone, who = [n, m], f"{a} and {b}"
    if g.missing() > 1:
        c, k = g.person(), g.n(2, 25)
        g.ask(f"{c} is {k} years older than {b}.", f"{c} was born {k} years before {b}.")
        everyone.append(g.add((m, k), f"{c} is @ years old.", f"{c}'s age is @."))
        who = f"{a}, {b} and {c}"
    if g.missing() > 1:
        y = g.n(2, 15)
        g.ask(
            f"What will be the sum of the ages of {who} in {y} years?",
            f"How old will {who} be together in {y} years?",
        )
        t = g.add(everyone, "Now they are @ years old together.", "The sum of the ages now is @.")
        k = g.mul(
            len(everyone),
            y,
            f"In {y} years this adds @ years.",
            f"{len(everyone)} people get @ years older.",
        )
        g.add((t, k), "So the sum will be @.", "That makes @.")
    else:
        g.ask(f"How old are {who} together?", f"What is the sum of the ages of {who}?")
        g.add(everyone, "Together they are @ years old.", "The sum is @.")


def average(g):
    p, k = g.person(), g.pick(3, 3, 4)
    mean = g.n(8, 90)
    xs = [max(1, mean + g.n(-7, 7)) for _ in range(k - 1)]
    xs.append(max(1, mean * k - sum(xs)))
    unit, verb, part = g.pick(
        ("points", "scores", "games"),
        ("pages", "reads", "days"),
        ("miles", "runs", "trips"),
        ("laps", "swims", "sessions"),
    )
    listing = ", ".join(map(str, xs[:-1])) + f" and {xs[-1]}"
    g.ask(
        f"{p} {verb} {listing} {unit} in {k} {part}.",
        f"In {k} {part}, {p} {verb} {listing} {unit}.",
    )
    t = g.add(xs, f"In total {p.he} {verb} @ {unit}.", f"The sum is @ {unit}.")
    m = g.div(t, k, f"The average is @ {unit}.", f"So on average {p.he} {verb} @ {unit}.")
    if g.missing() > 0:
        o, d = g.person(), g.n(2, 40)
        g.ask(f"The average of {o} is {d} {unit} higher than the average of {p}. What is the average of {o}?")
        m = g.add((m, d), f"The average of {o} is @ {unit}.", f"{o} has @ {unit} on average.")
        if g.missing() > 0 and m < 100:
            j = g.n(3, 9)
            g.question[-1] = (
                f"The average of {o} is {d} {unit} higher than the average of {p}. How many {unit} is that in {j} {part} of {o}?"
            )
            g.mul(m, j, f"In {j} {part} that is @ {unit}.", f"So {o} {verb} @ {unit}.")
    else:
        g.ask(f"What is {p.his} average?", f"How many {unit} is that on average?")


def classroom(g):
    n = g.n(20, 200, g.pick(4, 5, 10))
    c = g.percentage(n)
    x, y = g.pick(("girls", "boys"), ("boys", "girls"), ("children", "adults"), ("beginners", "others"))
    place = g.pick("class", "school club", "choir", "camp", "team", "course")
    g.ask(
        f"There are {n} people in a {place}. {c}% of them are {x} and the rest are {y}.",
        f"A {place} has {n} people. {c}% of them are {x}, the rest are {y}.",
    )
    a = g.part(n, c, f"There are @ {x}.", f"The number of {x} is @.")
    b = g.sub(n, a, f"There are @ {y}.", f"The rest, @, are {y}.")
    if g.missing() > 0:
        if g.maybe():
            k = g.n(2, 60)
            g.ask(f"Then {k} more {y} join.", f"{k} more {y} come.")
            b = g.add((b, k), f"With the new ones there are @ {y}.", f"Now there are @ {y}.")
        else:
            k = g.n(1, b - 1)
            g.ask(f"Then {k} of the {y} leave.", f"{k} of the {y} go home.")
            b = g.sub(b, k, f"That leaves @ {y}.", f"Then there are @ {y}.")
    if g.missing() > 0 and b < 100:
        k, t = g.n(2, 9), g.pick("pencils", "books", "cards", "apples", "cookies", "bottles")
        g.ask(
            f"Each of the {y} gets {k} {t}. How many {t} are needed?",
            f"How many {t} do the {y} need if each one gets {k}?",
        )
        n = g.mul(b, k, f"They need @ {t}.", f"The {y} get @ {t}.")
        if g.missing() > 0:
            h = g.n(2, n - 1)
            g.ask(
                f"There are already {h} {t}, so how many more {t} are needed?",
                f"How many {t} are missing if there are {h}?",
            )
            del g.question[-2]
            g.question.insert(-1, f"Each of the {y} gets {k} {t}.")
            g.sub(n, h, "So @ more are needed.", f"That leaves @ {t} to get.")
    else:
        g.ask(f"How many {y} are there?", f"How many {y} is that?", f"How many {y} are there now?")
