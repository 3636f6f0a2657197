"""Stories about equal groups, rates and measures: so many of these per one of those."""

from . import vocabulary as v
from .story import Reject


def routine(g):
    """So much a day, for weeks."""
    p, w, k = g.person(), g.n(2, 8), g.n(2, 12)
    verb, x = g.pick(
        ("reads", "pages"),
        ("drinks", "glasses of water"),
        ("runs", "miles"),
        ("writes", "lines"),
        ("solves", "puzzles"),
        ("does", "push-ups"),
        ("learns", "words"),
        ("eats", "carrots"),
        ("takes", "photos"),
    )
    g.ask(
        f"{p} {verb} {k} {x} every day.",
        f"{p} {verb} {k} {x} a day.",
        f"Each day {p} {verb} {k} {x}.",
    )
    days = g.mul(w, 7, f"{w} weeks have @ days.", "That is @ days.")
    n = g.mul(days, k, f"{p} {verb} @ {x}.", f"In {w} weeks that is @ {x}.")
    if g.missing() > 0:
        e = g.n(3, 99)
        g.ask(
            f"In the holidays {p.he} {verb} {e} more.",
            f"On top of that, {p.he} {verb} {e} {x} in the holidays.",
        )
        n = g.add((n, e), f"With the holidays that is @ {x}.", f"Altogether that makes @ {x}.")
    g.ask(
        f"How many {x} is that in {w} weeks?",
        f"How many {x} is that in total in {w} weeks?",
        f"How many {x} in {w} weeks?",
    )


def reading(g):
    p, d, k, b = g.person(), g.n(8, 60), g.n(3, 9), g.n(2, 12)
    left = b * g.n(2, 20)
    total, extra = d * k + left, 0
    if g.target > 3:
        extra = g.n(5, 80)
    if total + extra > 999:
        raise Reject
    g.ask(
        f"{p} is reading a book with {total + extra} pages. {p.He} reads {d} pages a day for {k} days.",
        f"A book has {total + extra} pages. For {k} days {p} reads {d} pages a day.",
    )
    n = g.mul(d, k, f"In {k} days {p.he} reads @ pages.", f"{p} has read @ pages.")
    if extra:
        g.ask(
            f"On the next day {p.he} reads {extra} pages.",
            f"The day after {p.he} reads {extra} pages.",
        )
        n = g.add((n, extra), "With the next day that is @ pages.", f"Then {p.he} has read @ pages.")
    rest = g.sub(
        total + extra,
        n,
        "There are @ pages left.",
        "That leaves @ pages.",
        f"{p} still has to read @ pages.",
    )
    if g.missing() > 0:
        g.ask(
            f"Then {p.he} reads {b} pages a day. How many more days does {p.he} need?",
            f"After that {p.he} reads only {b} pages a day. In how many more days will {p.he} finish the book?",
        )
        g.div(rest, b, f"{p.He} needs @ more days.", f"At {b} pages a day it takes @ days.")
    else:
        g.ask("How many pages are left?", f"How many pages does {p.he} still have to read?")


def factory(g):
    x = v.plural(g.pick(*v.GOODS, "tire", "bottle", "chip", "brick", "clock", "bolt"))
    m, h, t = g.n(2, 9), g.n(3, 20), g.n(2, 9)
    g.ask(
        f"A factory has {m} machines. Each machine makes {h} {x} per hour and runs for {t} hours a day.",
        f"In a factory, {m} machines each make {h} {x} an hour. They run {t} hours a day.",
    )
    if g.maybe():
        n = g.mul(m, h, f"Together the machines make @ {x} per hour.", f"Every hour they make @ {x}.")
        n = g.mul(n, t, f"In a day they make @ {x}.", f"In {t} hours that is @ {x}.")
    else:
        n = g.mul(h, t, f"One machine makes @ {x} a day.", f"In {t} hours a machine makes @ {x}.")
        n = g.mul(m, n, f"All the machines make @ {x} a day.", f"The {m} machines make @ {x}.")
    if g.missing() > 0:
        k = g.n(2, min(120, n - 2))
        g.ask(
            f"Each day {k} of the {x} are broken.",
            f"Each day {k} of the {x} have to be thrown away.",
        )
        n = g.sub(n, k, f"There are @ good {x}.", f"That leaves @ {x}.")
    if g.missing() > 0:
        k = g.divisor(n)
        g.ask(
            f"The good ones are packed in boxes of {k}. How many boxes are needed each day?",
            f"How many boxes of {k} {x} are filled each day?",
        )
        n = g.div(n, k, "They fill @ boxes.", "That is @ boxes.")
        if g.missing() > 0 and n < 100:
            w = g.n(2, 9)
            g.question[-1] = g.pick(
                f"The good ones are packed in boxes of {k} and a box sells for ${w}. How much money does the factory get each day?",
                f"Boxes of {k} {x} are sold for ${w} each. How much is that a day?",
            )
            g.mul(n, w, "The boxes sell for @.", "The factory gets @.", u="$")
    else:
        g.ask(f"How many {x} does the factory make in a day?", f"How many good {x} are made each day?")


def building(g):
    x, y = g.pick(
        ("building", "floors"),
        ("hotel", "floors"),
        ("tower", "levels"),
        ("school", "floors"),
        ("ship", "decks"),
    )
    a, b, c = g.n(2, 9), g.n(3, 20), g.n(2, 9)
    u, w = g.pick(
        ("rooms", "windows"),
        ("rooms", "lamps"),
        ("offices", "desks"),
        ("rooms", "beds"),
        ("halls", "doors"),
    )
    g.ask(
        f"A {x} has {a} {y} with {b} {u} each. Every one of the {u} has {c} {w}.",
        f"There are {a} {y} in a {x}, {b} {u} on each of the {y} and {c} {w} in each of the {u}.",
    )
    n = g.mul(a, b, f"There are @ {u}.", f"The {x} has @ {u}.")
    if g.target > 2:
        k = g.n(2, n - 2)
        g.ask(f"{k} of the {u} are closed.", f"But {k} of the {u} are empty and have no {w}.")
        n = g.sub(n, k, f"That leaves @ {u}.", f"So @ {u} count.")
    n = g.mul(n, c, f"They have @ {w}.", f"In total there are @ {w}.")
    if g.missing() > 0:
        k = g.n(2, min(150, n - 1))
        if g.maybe():
            g.ask(f"Then {k} more {w} are added.", f"{k} new {w} are put in.")
            n = g.add((n, k), f"With the new ones there are @ {w}.", f"Then there are @ {w}.")
        else:
            g.ask(f"{k} of the {w} are broken.", f"{k} of the {w} are taken away.")
            n = g.sub(n, k, f"That leaves @ {w}.", f"Then @ {w} are left.")
    if g.missing() > 0:
        k = g.divisor(n)
        g.ask(f"The {w} are checked by {k} workers, each checking the same number. How many {w} does each one check?")
        g.div(n, k, f"Each one checks @ {w}.", f"That is @ {w} for each.")
    else:
        g.ask(
            f"How many {w} are there?",
            f"How many {w} is that in total?",
            f"How many {w} are there now?",
        )


def recipe(g):
    p, x = g.person(), g.pick("cake", "pie", "loaf", "soup", "salad", "lasagna", "stew", "pudding")
    u, w = g.rng.sample(
        [
            "cups of flour",
            "eggs",
            "spoons of sugar",
            "cups of milk",
            "potatoes",
            "tomatoes",
            "ounces of cheese",
            "apples",
        ],
        2,
    )
    a, b, n = g.n(2, 9), g.n(2, 9), g.n(3, 25)
    g.ask(
        f"One {x} needs {a} {u} and {b} {w}. {p} makes {n} of them.",
        f"{p} needs {a} {u} and {b} {w} for one {x} and wants to make {n}.",
    )
    if g.target == 2:
        have = g.n(2, n * a - 1)
        g.ask(
            f"{p.He} has {have} {u}. How many more {u} does {p.he} need?",
            f"If {p.he} already has {have} {u}, how many more are needed?",
        )
        t = g.mul(n, a, f"{p} needs @ {u}.", f"For {n} that is @ {u}.")
        g.sub(t, have, f"{p.He} needs @ more {u}.", "So @ more are needed.")
        return
    ca, cb = g.n(2, 6), g.n(2, 6)
    g.ask(
        f"The {u} cost ${ca} each and the {w} cost ${cb} each.",
        f"Each of the {u} costs ${ca} and each of the {w} costs ${cb}.",
    )
    if g.target == 3:
        g.ask(f"How much does one {x} cost?", f"How much does {p.he} pay for one {x}?")
    s = g.mul(a, ca, f"The {u} for one cost @.", f"For the {u} {p.he} pays @.", u="$")
    t = g.mul(b, cb, f"The {w} for one cost @.", f"For the {w} {p.he} pays @.", u="$")
    t = g.add((s, t), f"One {x} costs @.", "Together that is @.", u="$")
    if g.target > 3:
        t = g.mul(n, t, f"{n} of them cost @.", f"{p} pays @.", u="$")
        if g.missing() > 0:
            k = t + g.n(5, 99)
            g.ask(
                f"{p.He} had ${k}. How much money is left?",
                f"How much is left of the ${k} {p.he} had?",
            )
            g.sub(k, t, f"{p.He} has @ left.", "That leaves @.", u="$")
        else:
            g.ask(f"How much does {p.he} pay?", f"How much does {p} spend on all of them?")


def tank(g):
    x = g.pick("tank", "pool", "barrel", "tub", "pond")
    n, i, o, m = g.n(10, 300), g.n(6, 40), g.n(1, 5), g.n(3, 12)
    g.ask(
        f"A {x} holds {n} liters of water. A pipe adds {i} liters per minute while {o} liters per minute leak out.",
        f"There are {n} liters in a {x}. Every minute {i} liters flow in and {o} liters flow out.",
    )
    a = g.sub(i, o, f"The {x} gains @ liters per minute.", "Each minute the water grows by @ liters.")
    if g.maybe(0.6):
        b = g.mul(a, m, f"In {m} minutes it gains @ liters.", f"After {m} minutes @ liters are added.")
        n = g.add((n, b), "Then there are @ liters.", f"The {x} then holds @ liters.")
        if g.missing() > 0:
            k = g.n(5, n - 2)
            g.ask(
                f"After {m} minutes, {k} liters are used. How many liters are left?",
                f"How many liters are left if {k} liters are taken out after {m} minutes?",
            )
            g.sub(n, k, "That leaves @ liters.", "There are @ liters left.")
        else:
            g.ask(
                f"How many liters are in the {x} after {m} minutes?",
                f"How much water does the {x} hold after {m} minutes?",
            )
    else:
        full = n + a * m
        if a > 12 or full > 999:
            raise Reject
        g.ask(
            f"After how many minutes does it hold {full} liters?",
            f"How many minutes does it take to reach {full} liters?",
        )
        b = g.sub(full, n, "It needs @ more liters.", "@ liters are missing.")
        g.div(b, a, "That takes @ minutes.", "So it takes @ minutes.")


def fence(g):
    p, a, b = g.person(), g.n(5, 49), g.n(4, 49)
    x = g.pick("garden", "yard", "field", "park", "playground")
    if g.maybe(0.6):
        w = g.n(2, 9)
        g.ask(
            f"{p} wants to build a fence around a {x} that is {a} meters long and {b} meters wide.",
            f"A {x} is {a} meters long and {b} meters wide. {p} puts a fence around it.",
        )
        t = g.add((a, b), "Length and width together are @ meters.", "Half of the way around is @ meters.")
        t = g.mul(t, 2, "The fence is @ meters long.", "All the way around it is @ meters.")
        if g.missing() > 1:
            gate = g.n(2, 9)
            g.ask(f"{p.He} leaves a gap of {gate} meters for a gate.")
            t = g.sub(t, gate, "Without the gate it is @ meters.", "The gap leaves @ meters.")
        if t < 100 and g.missing() > 0:
            g.ask(
                f"One meter of fence costs ${w}. How much does the fence cost?",
                f"How much does {p.he} pay if a meter costs ${w}?",
            )
            g.mul(t, w, "The fence costs @.", f"{p} pays @.", u="$")
        else:
            g.ask("How many meters of fence are needed?", "How long is the fence?")
        return
    a, b, k = g.n(4, 12), g.n(3, 12), g.n(2, 9)
    y = g.pick("tiles", "stones", "plants", "seeds")
    g.ask(
        f"A {x} is {a} meters long and {b} meters wide. {p} needs {k} {y} per square meter.",
        f"{p} covers a {x} of {a} by {b} meters with {k} {y} per square meter.",
    )
    s = g.mul(a, b, "The area is @ square meters.", f"The {x} has @ square meters.")
    t = g.mul(s, k, f"{p} needs @ {y}.", f"That takes @ {y}.")
    if g.missing() > 0:
        h = g.n(2, t - 1)
        g.ask(
            f"{p.He} already has {h} {y}. How many more does {p.he} need?",
            f"How many {y} are missing if {p.he} has {h}?",
        )
        g.sub(t, h, f"{p.He} needs @ more {y}.", f"So @ {y} are missing.")
    else:
        g.ask(f"How many {y} does {p.he} need?", f"How many {y} is that?")


def practice(g):
    p = g.person()
    x = g.pick(
        "practices the piano",
        "studies",
        "runs",
        "swims",
        "paints",
        "plays chess",
        "trains",
        "reads",
    )
    a, b = g.n(10, 90, 5), g.n(20, 95, 5)
    d = g.pick(5, 5, 4, 3)
    days = {5: "on each of the 5 weekdays", 4: "on 4 days of the week", 3: "on 3 days of the week"}[d]
    rest, times = {
        5: ("on each of the 2 weekend days", 2),
        4: ("on each of the other 3 days", 3),
        3: ("on Sunday", 1),
    }[d]
    g.ask(
        f"{p} {x} for {a} minutes {days} and for {b} minutes {rest}.",
        f"{days.capitalize()}, {p} {x} for {a} minutes, and {rest} for {b} minutes.",
    )
    s = g.mul(a, d, "The first part is @ minutes.", f"On {d} days that is @ minutes.")
    t = b if times == 1 else g.mul(b, times, "The other days add @ minutes.", "For the other days it is @ minutes.")
    n = g.add((s, t), "In a week that is @ minutes.", f"Altogether {p.he} spends @ minutes a week.")
    if g.missing() > 0:
        k = g.n(5, min(n - 1, 200))
        g.ask(
            f"This week {p.he} was ill and did {k} minutes less. How many minutes was that?",
            f"Next week it will be {k} minutes less. How many minutes is that?",
        )
        g.sub(n, k, "That leaves @ minutes.", "So it is @ minutes.")
    else:
        g.ask("How many minutes is that in a week?", f"How many minutes does {p.he} spend per week?")


def teams(g):
    t, n, c = g.n(3, 12), g.n(4, 25), g.n(1, 3)
    x = g.pick("soccer", "chess", "basketball", "hockey", "science", "math", "dance", "rugby")
    coach = "1 coach" if c == 1 else f"{c} coaches"
    g.ask(
        f"There are {t} {x} teams with {n} players and {coach} each.",
        f"{t} {x} teams come to a contest. Every team has {n} players and {coach}.",
    )
    k = g.add((n, c), "Each team has @ people.", f"With {coach} a team has @ people.")
    b = g.mul(t, k, "There are @ people.", "In total that is @ people.")
    if g.missing() > 0:
        k = g.n(5, 120)
        if g.maybe() and b > 30:
            k = g.n(3, b - 10)
            g.ask(f"{k} of the people go home early.", f"{k} of them have to leave.")
            b = g.sub(b, k, "That leaves @ people.", "Then @ people are still there.")
        else:
            g.ask(f"There are also {k} guests.", f"{k} guests come too.")
            b = g.add((b, k), "With the guests there are @ people.", "Altogether there are @ people.")
    end = g.pick("tables", "bottles") if g.missing() > 0 else "ask"
    if end == "tables":
        k = g.divisor(b, 4)
        g.ask(
            f"{k} people can sit at each table. How many tables are needed?",
            f"How many tables for {k} people do they need?",
        )
        g.div(b, k, "They need @ tables.", "That makes @ tables.")
    elif end == "bottles" and b < 100:
        k = g.n(2, 9)
        g.ask(
            f"Everyone gets {k} bottles of water. How many bottles are needed?",
            f"How many bottles of water are needed if each person gets {k}?",
        )
        g.mul(b, k, "They need @ bottles.", "That is @ bottles.")
    else:
        g.ask(
            "How many people are there?",
            "How many people is that in total?",
            "How many people are there now?",
        )


def rope(g):
    p, x = g.person(), g.pick("rope", "ribbon", "cable", "string", "wire", "pipe", "fabric")
    k, m, left, c = g.n(3, 12), g.n(2, 20), g.n(3, 90), g.n(2, 9)
    n = k * m + left
    g.ask(
        f"{p} has {n} meters of {x}. {p.He} cuts off {k} pieces of {m} meters each.",
        f"{p} cuts {k} pieces of {m} meters from {n} meters of {x}.",
    )
    a = g.mul(k, m, "The pieces use @ meters.", f"{p} cuts off @ meters.")
    b = g.sub(n, a, "There are @ meters left.", "That leaves @ meters.")
    if g.missing() > 0:
        j = g.n(1, b - 2)
        g.ask(
            f"Then {p.he} uses {j} meters more.",
            f"{p.He} gives {j} meters of the rest to {g.person()}.",
        )
        b = g.sub(b, j, "Then there are @ meters.", "After that @ meters are left.")
    if g.missing() > 0:
        g.ask(
            f"The rest is sold for ${c} per meter. How much money does {p.he} get?",
            f"How much is the rest worth at ${c} per meter?",
        )
        g.mul(b, c, "The rest is worth @.", f"{p.He} gets @.", u="$")
    else:
        g.ask(f"How many meters of {x} are left?", "How many meters are left?")
