"""Stories about a number of things (or people) that changes: most everyday problems are of this kind.

Events are verb phrases ("eats 5 of them"), so that two of them can share a sentence.
"""

from . import vocabulary as v


def tell(g, person, events):
    """Turns verb phrases into sentences, sometimes two in one."""
    first = True
    while events:
        who = (
            g.pick(person.name, person.He, person.He)
            if first
            else g.pick(
                person.He,
                person.He,
                person.He,
                f"Then {person.he}",
                f"After that, {person.he}",
                f"Later, {person.he}",
                f"Then {person}",
                person.name,
            )
        )
        both = len(events) > 1 and g.maybe(0.35)
        phrase = g.pick(" and ", " and then ", ", then ").join(events[:2]) if both else events[0]
        g.ask(f"{who} {phrase}.")
        events, first = events[1 + both :], False


def begin(g, p, food):
    """A story of some things: returns their number and their name."""
    x = g.noun(v.FOODS if food else v.THINGS)
    one = g.pick(*v.PACKS)
    many = v.plural(one)
    kind = g.pick(
        "has",
        "has",
        "packs",
        "packs",
        "packs and loose",
        "days",
        "colors",
        "hourly",
        *(["bakes", "bakes"] if food else ["rows", "hens"]),
    )
    if kind == "has":
        n = g.n(12, 150) if g.maybe(0.8) else g.n(100, 500)
        g.ask(
            f"{p} has {n} {x}.",
            f"{p} starts with {n} {x}.",
            f"{p} owns {n} {x}.",
            f"There are {n} {x} in {p}'s {one}.",
            f"{p} had {n} {x}.",
            f"{p} bought {n} {x}.",
        )
        return n, x
    if kind == "packs":
        a, b = g.n(2, 12), g.n(3, 36)
        g.ask(
            f"{p} has {a} {many} with {b} {x} each.",
            f"{p} has {a} {many} of {x} with {b} {x} in each {one}.",
            f"{p} buys {a} {many} of {x}. Each {one} has {b} {x}.",
            f"{p} has {a} {many}. There are {b} {x} in each {one}.",
            f"There are {a} {many} with {b} {x} in each. They belong to {p}.",
            f"{p} buys {a} {many} of {b} {x} each.",
            f"{p} has {a} {many} of {x}, and every {one} contains {b} of them.",
        )
        return g.mul(
            a,
            b,
            f"{p} has @ {x}.",
            f"There are @ {x}.",
            f"The {many} contain @ {x}.",
            f"{p} starts with @ {x}.",
        ), x
    if kind == "packs and loose":
        a, b, c = g.n(2, 9), g.n(3, 36), g.n(3, 60)
        g.ask(
            f"{p} has {a} {many} with {b} {x} each and {c} loose {x}.",
            f"{p} has {c} {x} on the table and {a} {many} with {b} {x} in each.",
        )
        k = g.mul(a, b, f"The {many} contain @ {x}.", f"In the {many} there are @ {x}.")
        return g.add(
            (k, c),
            f"With the other {c} that is @ {x}.",
            f"{p} has @ {x}.",
            f"In all there are @ {x}.",
        ), x
    if kind == "days":
        days = ["Monday", "Tuesday", "Wednesday", "Thursday"][: g.pick(2, 3, 3)]
        ns = [g.n(5, 95) for _ in days]
        listed = [f"{n} on {day}" for n, day in zip(ns, days)]
        verb = g.pick("collects", "picks" if food else "makes", "sells" if food else "finds")
        g.ask(
            f"{p} {verb} {ns[0]} {x} on {days[0]}, {' and '.join([', '.join(listed[1:-1]), listed[-1]] if listed[1:-1] else listed[1:])}.",
            f"On {days[0]} {p} {verb} {ns[0]} {x}. "
            + " ".join(f"On {day} {p.he} {verb} {n}." for n, day in zip(ns[1:], days[1:])),
        )
        return g.add(
            ns,
            f"In {len(ns)} days {p.he} {verb} @ {x}.",
            f"That is @ {x}.",
            f"Together that makes @ {x}.",
        ), x
    if kind == "colors":
        c = g.rng.sample(
            ["red", "blue", "green", "yellow", "black", "white", "big", "small", "old", "new"],
            g.pick(2, 2, 3),
        )
        ns = [g.n(5, 120) for _ in c]
        listed = [f"{n} {color}" for n, color in zip(ns, c)]
        g.ask(
            f"{p} has {', '.join(listed[:-1])} and {listed[-1]} {x}.",
            f"{p} has {ns[0]} {c[0]} {x}. {p.He} also has {' and '.join(listed[1:])} ones.",
        )
        return g.add(ns, f"{p} has @ {x}.", f"There are @ {x} in all.", f"The number of {x} is @."), x
    if kind == "hourly":
        a, b = g.n(2, 9), g.n(6, 60)
        verb = g.pick("packs", "sorts", "counts", "sells", "washes", "paints")
        unit = g.pick("hour", "day")
        g.ask(
            f"{p} {verb} {b} {x} per {unit} for {a} {unit}s.",
            f"For {a} {unit}s, {p} {verb} {b} {x} every {unit}.",
            f"{p} {verb} {b} {x} an {unit} and works for {a} {unit}s."
            if unit == "hour"
            else f"{p} {verb} {b} {x} a day for {a} days.",
        )
        return g.mul(a, b, f"In {a} {unit}s {p.he} {verb} @ {x}.", f"{p} {verb} @ {x}.", f"That is @ {x}."), x
    if kind == "bakes":
        x = v.plural(g.pick(*v.BAKED))
        a, b = g.n(2, 12), g.n(6, 30)
        g.ask(
            f"{p} bakes {a} trays of {x} with {b} {x} on each tray.",
            f"{p} makes {a} batches of {b} {x}.",
            f"{p} bakes {a} trays of {b} {x} each.",
        )
        return g.mul(a, b, f"{p} bakes @ {x}.", f"There are @ {x}.", f"{p} makes @ {x}."), x
    if kind == "hens":
        birds, c, e, d = g.pick("chickens", "hens", "ducks"), g.n(3, 20), g.n(2, 5), g.n(2, 7)
        g.ask(
            f"{p} has {c} {birds}. Each of them lays {e} eggs a week. {p.He} collects the eggs for {d} weeks.",
            f"On {p}'s farm {c} {birds} lay {e} eggs each per week. {p.He} gathers them for {d} weeks.",
        )
        k = g.mul(c, e, f"The {birds} lay @ eggs a week.", "Every week there are @ eggs.")
        return g.mul(k, d, f"In {d} weeks that is @ eggs.", f"{p} collects @ eggs."), "eggs"
    r, c, plant = g.n(3, 12), g.n(4, 40), g.pick(*v.PLANTS)
    g.ask(
        f"{p} plants {r} rows of {plant} plants with {c} plants in each row.",
        f"In {p}'s garden there are {r} rows with {c} {plant} plants each.",
    )
    return g.mul(r, c, "There are @ plants.", f"{p} has @ plants."), "plants"


def change(g, p, n, x, food, last, now):
    """One event: returns its verb phrase, its kind and the new number. `now` says there was one before."""
    kinds = ["gain", "gain", "pack"] * (n < 700) + ["lose", "lose", "friends"] * (n >= 20)
    kinds += ["part"] + ["more of"] * (n <= 150)
    kind = g.pick(*[k for k in kinds if k != last])
    o, some = g.person(), g.pick(x, x, "of them") if now or g.maybe() else x
    if kind == "gain":
        k = g.n(3, 99)
        verb = g.pick("buys", "gets", "finds", "receives", "picks" if food else "makes", "wins")
        origin = g.pick("", "", f" from {o}")
        n = g.add(
            (n, k),
            f"{p.He} now has @ {x}.",
            f"With the {k} new ones, {p} has @ {x}.",
            f"That makes @ {x}.",
            f"Now there are @ {x}.",
            f"So {p.he} has @.",
        )
        return f"{verb} {k} more{g.pick('', f' {x}')}{origin}", kind, n
    if kind == "lose":
        k = g.n(3, min(n - 5, 300))
        phrase = g.pick(
            f"gives {k} {some} to {o}",
            f"gives {o} {k} {some}",
            f"sells {k} {some}",
            f"gives away {k} {some}",
            f"gives away {k}",
            f"loses {k} {some}",
            f"uses {k} {some}",
            *([f"eats {k} {some}", f"eats {k}"] if food else [f"breaks {k} {some}", f"throws away {k}"]),
        )
        n = g.sub(
            n,
            k,
            f"{p.He} has @ {x} left.",
            f"That leaves {p.him} with @ {x}.",
            f"Then @ {x} are left.",
            f"{p} still has @ {x}.",
            f"Now {p.he} has @.",
        )
        return phrase, kind, n
    if kind == "pack":
        a, b, one = g.n(2, 12), g.n(3, 30), g.pick(*v.PACKS)
        many = v.plural(one)
        phrase = g.pick(
            f"buys {a} {many} of {x} with {b} {x} in each {one}",
            f"receives {a} {many}, each with {b} {x}",
            f"buys {a} more {many} with {b} {x} each",
            f"gets {a} {many} of {b} {x} each from {o}",
        )
        k = g.mul(
            a,
            b,
            f"The {many} contain @ {x}.",
            f"{p} gets @ {x} from the {many}.",
            f"The new {many} have @ {x}.",
        )
        n = g.add((n, k), f"Now {p.he} has @ {x}.", f"So {p} has @ {x}.", f"Then there are @ {x}.")
        return phrase, kind, n
    if kind == "friends":
        a = g.n(2, min(12, n // 4))
        b = g.n(2, min(40, (n - 3) // a))
        group = g.pick(*v.GROUPS)
        phrase = g.pick(
            f"gives {b} {x} to each of {p.his} {a} {group}",
            f"gives {a} {group} {b} {x} each",
            f"fills {a} bags with {b} {x} each and sells them",
            f"{'eats' if food else 'uses'} {b} {x} a day for {a} days",
        )
        gone = (
            "uses"
            if "uses" in phrase
            else "eats"
            if "eats" in phrase
            else "sells"
            if "sells" in phrase
            else "gives away"
        )
        k = g.mul(a, b, f"{p.He} {gone} @ {x}.", f"That is @ {x}.", f"So {p.he} {gone} @ of them.")
        n = g.sub(n, k, f"{p.He} has @ {x} left.", f"So @ {x} remain.", f"That leaves @ {x}.")
        return phrase, kind, n
    verb = g.pick("gives", "sells", "loses")
    to = f" to {o}" if verb == "gives" else ""
    if kind == "part" and n % 2 == 0 and g.maybe(0.4):
        n = g.div(n, 2, f"{p.He} keeps @ {x}.", f"Half of them is @ {x}.", f"That leaves @ {x}.")
        return (
            g.pick(f"{verb} half of the {x}{to}", f"{verb} half of them{to}", f"{verb} half{to}"),
            kind,
            n,
        )
    if kind == "part" and g.maybe():
        k = g.divisor(n, 3, 5)
        gone = g.div(
            n,
            k,
            f"{v.FRACTIONS[k].capitalize()} of them is @ {x}.",
            f"{p.He} {verb}{' away' * (verb == 'gives')} @ {x}.",
        )
        n = g.sub(n, gone, f"{p.He} has @ {x} left.", f"That leaves @ {x}.")
        return (
            g.pick(f"{verb} {v.FRACTIONS[k]} of the {x}{to}", f"{verb} {v.FRACTIONS[k]} of them{to}"),
            kind,
            n,
        )
    if kind == "part":
        c = g.percentage(n)
        gone = g.part(n, c, f"{c}% of {n} is @ {x}.", f"{p.He} {verb}{' away' * (verb == 'gives')} @ {x}.")
        n = g.sub(n, gone, f"{p.He} has @ {x} left.", f"That leaves @ {x}.")
        return g.pick(f"{verb} {c}% of the {x}{to}", f"{verb} {c}% of them{to}"), kind, n
    m = g.pick(2, 2, 3, 4)
    word = {2: "doubles", 3: "triples", 4: "quadruples"}[m]
    n = g.mul(n, m, f"That makes @ {x}.", f"After that {p.he} has @ {x}.", f"Now there are @ {x}.")
    return g.pick(f"{word} the number of {x}", f"{word} {p.his} number of {x}"), kind, n


def finish(g, p, n, x, kind):
    """The question, with a last step before it when one is still missing."""
    end = g.pick("ask", "share", "sell") if g.missing() > 0 or g.maybe(0.15) else "ask"
    if end == "share" and kind != "sold":
        k, group = g.divisor(n), g.pick(*v.GROUPS)
        one = g.pick("pile", "bag", "box", "shelf", "basket")
        many = v.plural(one).replace("shelfs", "shelves")
        if g.maybe():
            g.ask(
                f"{p.He} shares the {x} equally among {k} {group}. How many {x} does each one get?",
                f"{p.He} then splits them equally between {k} {group}. How many {x} does each of them get?",
                f"If {p.he} divides the {x} equally among {k} {group}, how many does each get?",
            )
            g.div(
                n,
                k,
                f"Each one gets @ {x}.",
                f"Everyone gets @ {x}.",
                f"So each of the {group} gets @ {x}.",
            )
        elif g.maybe():
            g.ask(
                f"If {p.he} puts the {x} into {k} equal {many}, how many {x} are in each {one}?",
                f"{p.He} puts them into {k} {many}, the same number in each. How many {x} are in each {one}?",
            )
            g.div(n, k, f"Each {one} has @ {x}.", f"In each {one} there are @ {x}.")
        else:
            g.ask(
                f"{p.He} puts {k} {x} into each {one}. How many {many} does {p.he} need?",
                f"How many {many} does {p.he} fill if {k} {x} go into each {one}?",
            )
            g.div(n, k, f"{p.He} needs @ {many}.", f"That fills @ {many}.")
        return
    if end == "sell":
        w = g.n(2, 9)
        m = g.mul(n, w, f"{p.He} gets @.", f"The {x} sell for @.", "That brings in @.", u="$")
        if g.missing() > 0 and g.maybe(0.7):
            c = g.n(3, min(m - 2, 200))
            g.ask(
                f"{p.He} sells all the {x} for ${w} each after paying ${c} for them. What is {p.his} profit?",
                f"{p.He} sells them for ${w} each and spends ${c} of the money. How many dollars are left?",
            )
            g.sub(m, c, "That leaves @.", f"{p.He} keeps @.", f"So {p.he} has @.", u="$")
        else:
            g.ask(
                f"{p.He} sells the {x} for ${w} each. How much money does {p.he} get?",
                f"If {p.he} sells all of them for ${w} each, how much money does {p.he} make?",
                f"How much are the {x} worth at ${w} each?",
            )
        return
    options = [
        f"How many {x} does {p} have now?",
        f"How many {x} does {p.he} have in the end?",
        f"How many {x} are there now?",
        f"How many {x} does {p} have?",
        f"How many does {p.he} have now?",
    ]
    if kind in ("lose", "friends", "part"):
        options = [
            f"How many {x} are left?",
            "How many are left?",
            f"How many {x} does {p} have left?",
            f"How many {x} does {p.he} have left?",
            *options[:2],
        ]
    elif kind in ("gain", "pack"):
        options += [f"How many {x} does {p} have in total?", f"How many {x} are there in total?"]
    g.ask(*options)


def collection(g):
    p, food = g.person(), g.maybe()
    n, x = begin(g, p, food)
    food = food and x != "plants"
    kind, events = None, []
    spare = g.pick(0, 1)  # leave room for a last step
    while g.missing() > spare or not events:
        phrase, kind, n = change(g, p, n, x, food, kind, bool(events) or len(g.question) > 0)
        events.append(phrase)
    tell(g, p, events)
    finish(g, p, n, x, kind)
