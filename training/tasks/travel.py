"""Stories about speeds and distances."""

from . import vocabulary as v
from .story import Reject


def distance(g):
    p = g.person()
    verb, low, high = g.pick(("drives", 30, 75), ("cycles", 8, 25), ("walks", 2, 5), ("sails", 5, 20), ("rides", 8, 30))
    a, s, b, t = g.n(low, high), g.n(2, 7), g.n(low, high), g.n(2, 6)
    unit = g.pick("miles", "kilometers")
    g.ask(
        f"{p} {verb} at {a} {unit} per hour for {s} hours and then at {b} {unit} per hour for {t} hours.",
        f"{p} {verb} for {s} hours at {a} {unit} per hour. Then {p.he} {verb} {t} more hours at {b} {unit} per hour.",
        f"{p} {verb} {s} hours at {a} {unit} an hour and {t} hours at {b} {unit} an hour.",
    )
    x = g.mul(a, s, f"In the first part {p.he} covers @ {unit}.", f"First {p.he} goes @ {unit}.")
    y = g.mul(b, t, f"In the second part {p.he} covers @ {unit}.", f"Then {p.he} goes @ {unit}.")
    n = g.add(
        (x, y),
        f"Together that is @ {unit}.",
        f"In total {p.he} goes @ {unit}.",
        f"The trip so far is @ {unit}.",
    )
    if g.missing() > 1 and g.maybe():
        k = g.n(5, 90)
        g.ask(f"After a break {p.he} goes another {k} {unit}.", f"Then {p.he} does {k} more {unit}.")
        n = g.add((n, k), f"After the break it is @ {unit}.", f"That makes @ {unit}.")
    if g.missing() > 0:
        k = g.n(5, 200)
        if n + k > 999:
            raise Reject
        g.ask(
            f"The whole trip to the {g.pick(*v.PLACES)} is {n + k} {unit}. How many {unit} are left?",
            f"How far is {p.he} from the end of {p.his} trip if it is {n + k} {unit} long?",
        )
        n = g.sub(n + k, n, f"There are @ {unit} left.", f"That leaves @ {unit}.")
    else:
        g.ask(
            f"How many {unit} does {p.he} go in total?",
            f"How far does {p} travel?",
            f"How many {unit} is that?",
        )


def trip(g):
    """One speed only."""
    x = g.pick("train", "car", "bus", "truck", "boat", "cyclist")
    speed, t, unit = g.n(10, 90), g.n(2, 9), g.pick("miles", "kilometers", "km")
    g.ask(
        f"A {x} travels at {speed} {unit} per hour for {t} hours.",
        f"A {x} goes {speed} {unit} per hour. It travels for {t} hours.",
    )
    n = g.mul(speed, t, f"The {x} travels @ {unit}.", f"In {t} hours that is @ {unit}.")
    if g.missing() > 1:
        k = g.n(5, 150)
        g.ask(f"After a stop it goes {k} {unit} more.", f"Then it travels another {k} {unit}.")
        n = g.add((n, k), f"After the stop that is @ {unit}.", f"Together that is @ {unit}.")
    if g.missing() > 0:
        whole = n + g.n(5, 200)
        g.ask(
            f"The whole way is {whole} {unit}. How many {unit} are left?",
            f"How far is it still if the whole way is {whole} {unit}?",
        )
        g.sub(whole, n, f"There are @ {unit} left.", f"That leaves @ {unit}.")
    else:
        g.ask("How far does it go?", f"How many {unit} does it travel?", f"How many {unit} is that?")


def commute(g):
    p, d, k = g.person(), g.n(2, 40), g.n(3, 6)
    place, verb = (
        g.pick("school", "work", "the gym", "the office"),
        g.pick("walks", "drives", "bikes", "rides"),
    )
    g.ask(
        f"{p} {verb} {d} miles to {place} and {d} miles back, {k} days a week.",
        f"{p} lives {d} miles from {place}. {p.He} goes there and back {k} days a week.",
    )
    n = g.mul(d, 2, f"Each day {p.he} travels @ miles.", "There and back is @ miles.")
    n = g.mul(n, k, "In a week that is @ miles.", f"{p.He} travels @ miles a week.")
    if g.missing() > 1 or g.maybe(0.2):
        e = g.n(3, 90)
        g.ask(
            f"At the weekend {p.he} travels another {e} miles.",
            f"On Sunday {p.he} goes {e} more miles.",
        )
        n = g.add((n, e), "With the weekend that is @ miles.", "Adding the weekend gives @ miles.")
    if g.missing() > 0 and n < 100:
        w = g.n(2, 9)
        g.ask(
            f"How many miles does {p.he} travel in {w} weeks?",
            f"How many miles is that in {w} weeks?",
        )
        g.mul(n, w, f"In {w} weeks {p.he} travels @ miles.", f"For {w} weeks it is @ miles.")
    else:
        g.ask(f"How many miles does {p.he} travel in a week?", f"How far does {p} travel each week?")
