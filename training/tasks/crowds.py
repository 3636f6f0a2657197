"""Stories about people who come and go, and about stocks that shrink and grow."""

from . import vocabulary as v


def passengers(g):
    """People getting on and off, or coming and going."""
    vehicle = g.maybe(0.6)
    x = g.pick("bus", "train", "ferry", "tram", "boat") if vehicle else g.pick(*v.PLACES)
    n, people = (
        g.n(10, 180),
        g.pick("people", "passengers") if vehicle else g.pick("people", "visitors"),
    )
    g.ask(
        f"A {x} leaves with {n} {people} on board."
        if vehicle
        else f"There are {n} {people} at the {x} in the morning.",
        f"There are {n} {people} on a {x}." if vehicle else f"In the morning {n} {people} are at the {x}.",
    )
    when = (
        ["the first stop", "the second stop", "the third stop"] if vehicle else ["ten o'clock", "noon", "three o'clock"]
    )
    for time in when[: max(1, min(3, g.missing() // 2))]:
        off, on = g.n(2, n - 2), g.n(2, 80)
        if g.maybe(0.75):
            g.ask(
                f"At {time}, {off} people get off and {on} people get on."
                if vehicle
                else f"At {time}, {off} {people} leave and {on} come.",
                f"At {time} {off} {people} leave and {on} enter.",
                f"At {time} {off} leave and {on} more arrive.",
            )
            n = g.sub(
                n,
                off,
                f"When {off} leave, there are @ {people}.",
                f"That leaves @ {people}.",
                f"At {time} @ {people} stay.",
            )
        else:
            g.ask(f"At {time}, {on} more people get on." if vehicle else f"At {time}, {on} more {people} come.")
        n = g.add(
            (n, on),
            f"After {time} there are @ {people}.",
            f"Then @ {people} are there.",
            f"With the {on} new ones that is @ {people}.",
        )
    kind = g.pick("ask", "half", "fare") if g.missing() > 0 else "ask"
    if kind == "half":
        k = g.divisor(n, 2, 5)
        g.ask(
            f"{v.FRACTIONS[k].capitalize()} of the {people} are children. How many children are there?",
            f"Then {v.FRACTIONS[k]} of the {people} are children. How many children is that?",
        )
        g.div(n, k, "The number of children is @.", "There are @ children.")
    elif kind == "fare":
        w = g.n(2, 9)
        g.ask(
            f"Each of the {people} then pays ${w}. How much money is that?",
            f"How much do they pay in total at ${w} each?",
        )
        g.mul(n, w, "They pay @.", "In total that is @.", u="$")
    else:
        g.ask(
            f"How many {people} are there now?",
            f"How many {people} are there in the end?",
            f"How many {people} are on the {x} now?" if vehicle else f"How many {people} are still at the {x}?",
        )


def stock(g):
    """Shelves of something, taken and brought back."""
    s, b = g.n(3, 12), g.n(10, 60)
    place, x = g.pick(
        ("library", "books"),
        ("shop", "records"),
        ("museum", "paintings"),
        ("school", "books"),
        ("warehouse", "boxes"),
        ("store", "toys"),
        ("bakery", "loaves"),
        ("pharmacy", "bottles"),
    )
    u = {"paintings": "rooms"}.get(x, "shelves")
    g.ask(
        f"A {place} has {s} {u} with {b} {x} {'in' if u == 'rooms' else 'on'} each.",
        f"There are {s} {u} in a {place}, and each holds {b} {x}.",
    )
    n = g.mul(s, b, f"There are @ {x}.", f"The {place} has @ {x}.", f"At first there are @ {x}.")
    days = ["Monday", "Tuesday", "Wednesday", "Thursday", "Friday"]
    while g.missing() > 0 and days:
        day = days.pop(0)
        if n > 30 and g.maybe(0.6):
            k = g.n(5, n - 5)
            g.ask(
                f"On {day} {k} {x} are taken out.",
                f"On {day}, {k} of the {x} are sold.",
                f"On {day} {k} of the {x} leave the {place}.",
            )
            n = g.sub(
                n,
                k,
                f"After {day} there are @ {x}.",
                f"That leaves @ {x}.",
                f"Then @ {x} are left.",
            )
        else:
            k = g.n(3, 99)
            g.ask(
                f"On {day} {k} {x} are brought in.",
                f"On {day}, {k} new {x} arrive.",
                f"{k} more {x} come on {day}.",
            )
            n = g.add(
                (n, k),
                f"After {day} there are @ {x}.",
                f"So the {place} has @ {x}.",
                f"That makes @ {x}.",
            )
    g.ask(
        f"How many {x} are in the {place} now?",
        f"How many {x} does the {place} have then?",
        f"How many {x} does the {place} have in the end?",
    )
