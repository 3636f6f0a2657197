"""Stories about earning, spending and sharing money."""

from . import vocabulary as v
from .counting import tell
from .story import Reject


def purse(g, p):
    """A source of money: returns the amount."""
    kind = g.pick("has", "has", "saves", "job", "sells", "gifts")
    if kind == "has":
        n = g.n(20, 300)
        g.ask(
            f"{p} has ${n}.",
            f"{p} starts the week with ${n}.",
            f"{p} has ${n} in {p.his} piggy bank.",
            f"{p} has saved ${n}.",
            f"{p} had ${n}.",
        )
        return n
    if kind == "saves":
        w, k, unit = g.n(5, 60), g.n(3, 12), g.pick("week", "month")
        g.ask(
            f"{p} saves ${w} a {unit} for {k} {unit}s.",
            f"For {k} {unit}s {p} puts aside ${w} every {unit}.",
        )
        return g.mul(w, k, f"In {k} {unit}s {p.he} saves @.", f"{p} saves @.", u="$")
    if kind == "job":
        h, d, w = g.n(2, 8), g.n(2, 6), g.n(6, 24)
        job = g.pick(*v.WORKERS)
        g.ask(
            f"{p} works as {v.a(job)} for {h} hours a day, {d} days a week, and earns ${w} an hour.",
            f"As {v.a(job)}, {p} is paid ${w} per hour. {p.He} works {h} hours a day for {d} days.",
        )
        if g.maybe():
            k = g.mul(h, d, f"{p} works @ hours.", f"In total {p.he} works @ hours.")
            return g.mul(k, w, f"{p.He} earns @.", f"So {p.his} pay is @.", u="$")
        k = g.mul(h, w, f"{p} earns @ a day.", f"In a day {p.he} makes @.", u="$")
        return g.mul(k, d, f"In {d} days {p.he} earns @.", f"For {d} days that is @.", u="$")
    if kind == "sells":
        a, b, x = g.n(3, 30), g.n(3, 25), v.plural(g.pick(*v.GOODS))
        g.ask(f"{p} sells {a} {x} for ${b} each.", f"{p} makes {a} {x} and sells them for ${b} each.")
        return g.mul(a, b, f"{p} gets @ for the {x}.", f"The {x} bring in @.", u="$")
    a, b, c = g.n(10, 99), g.n(10, 99), g.n(10, 99)
    r, s, t = g.rng.sample(v.RELATIVES, 3)
    if g.maybe():
        g.ask(f"{p} gets ${a} from {p.his} {r} and ${b} from {p.his} {s}.")
        return g.add((a, b), f"{p} gets @.", "Together that is @.", u="$")
    g.ask(f"For {p.his} birthday {p} gets ${a} from {p.his} {r}, ${b} from {p.his} {s} and ${c} from {p.his} {t}.")
    return g.add((a, b, c), f"{p} gets @.", "Altogether that is @.", u="$")


def transaction(g, p, n):
    """One event: returns its verb phrase and the new amount."""
    kind = g.pick(
        "earn",
        "gift",
        *(["spend", "items", "items"] if n > 25 else ["earn"]),
        *(["part"] if n > 25 else []),
    )
    if kind == "earn":
        a, b, job = g.n(2, 9), g.n(5, 25), g.pick(*v.JOBS)
        k = g.mul(a, b, f"{p.He} earns @.", f"{job.capitalize()} brings in @.", u="$")
        n = g.add((n, k), f"{p.He} then has @.", f"Now {p} has @.", "That makes @.", u="$")
        return g.pick(f"works {a} hours {job} for ${b} an hour", f"earns ${b} an hour {job} for {a} hours"), n
    if kind == "gift":
        k, source = g.n(5, 99), g.pick(*v.RELATIVES)
        n = g.add((n, k), f"With that {p.he} has @.", f"{p.He} now has @.", "That makes @.", u="$")
        return g.pick(
            f"gets ${k} from {p.his} {source}",
            f"earns another ${k}",
            f"finds ${k}",
            f"gets ${k} more",
        ), n
    if kind == "spend":
        k, x = g.n(3, n - 5), g.pick(*v.GOODS)
        n = g.sub(
            n,
            k,
            f"After that {p.he} has @.",
            f"{p.He} is left with @.",
            f"Now {p.he} has @.",
            u="$",
        )
        return g.pick(
            f"spends ${k} on {v.a(x)}",
            f"buys {v.a(x)} for ${k}",
            f"spends ${k}",
            f"gives ${k} to {p.his} {g.pick(*v.RELATIVES)}",
        ), n
    if kind == "items":
        a = g.n(2, 9)
        b, x = g.n(2, min(60, (n - 2) // a)), v.plural(g.pick(*v.GOODS))
        k = g.mul(a, b, f"The {x} cost @.", f"{p.He} pays @ for the {x}.", f"{p} spends @.", u="$")
        n = g.sub(n, k, f"{p.He} has @ left.", "That leaves @.", f"Then {p.he} has @.", u="$")
        return g.pick(
            f"buys {a} {x} for ${b} each",
            f"buys {a} {x} that cost ${b} each",
            f"buys {a} {x} at ${b} each",
        ), n
    if g.maybe():
        c = g.percentage(n)
        k = g.part(n, c, f"{c}% of that is @.", f"{p.He} spends @.", u="$")
    else:
        c = g.divisor(n, 2, 5)
        k = g.div(n, c, f"{v.FRACTIONS[c].capitalize()} of that is @.", f"{p.He} spends @.", u="$")
    n = g.sub(n, k, f"{p.He} has @ left.", "That leaves @.", u="$")
    share = f"{c}%" if g.steps[-2].operator == "%" else v.FRACTIONS[c]
    return (
        f"spends {share} of {p.his} money on {g.pick('food', 'clothes', 'rent', 'books', 'a gift', 'games')}",
        n,
    )


def wallet(g):
    p = g.person()
    n, events = purse(g, p), []
    spare = g.pick(0, 1)
    while g.missing() > spare or not events:
        phrase, n = transaction(g, p, n)
        events.append(phrase)
    tell(g, p, events)
    end = g.pick("needs", "share", "buys", "ask") if g.missing() > 0 else "ask"
    if end == "needs" and n < 900:
        x, cost = g.pick(*v.TREASURES), n + g.n(10, 150)
        if cost > 999:
            raise Reject
        g.ask(
            f"{p.He} wants to buy {v.a(x)} that costs ${cost}. How much more money does {p.he} need?",
            f"{v.a(x).capitalize()} costs ${cost}. How many more dollars does {p} need to buy it?",
        )
        g.sub(cost, n, f"{p.He} still needs @.", f"The {x} costs @ more than that.", u="$")
    elif end == "share":
        k, group = g.divisor(n), g.pick(*v.GROUPS)
        g.ask(
            f"{p.He} shares the money equally among {k} {group}. How much does each one get?",
            f"If {p.he} divides the rest equally between {k} {group}, how many dollars does each get?",
        )
        g.div(n, k, "Each one gets @.", "Everyone gets @.", u="$")
    elif end == "buys":
        k, x = g.divisor(n), g.pick(*v.GOODS)
        g.ask(
            f"How many {v.plural(x)} can {p.he} buy with the money if {v.a(x)} costs ${k}?",
            f"{p.He} spends all of it on {v.plural(x)} at ${k} each. How many does {p.he} get?",
        )
        g.div(n, k, f"{p.He} can buy @ {v.plural(x)}.", f"That is enough for @ {v.plural(x)}.")
    else:
        g.ask(
            f"How much money does {p} have now?",
            f"How many dollars does {p.he} have in the end?",
            "How much money is left?",
            f"How much money does {p.he} have left?",
            f"How much does {p.he} have now?",
        )


def shopping(g):
    p, xs = g.person(), g.rng.sample(v.GOODS, 4)
    x, y, z, w = xs
    xs, ys, zs = v.plural(x), v.plural(y), v.plural(z)
    a, b, c, pa, pb, pc = g.n(2, 9), g.n(2, 9), g.n(2, 9), g.n(2, 40), g.n(2, 40), g.n(2, 20)
    three = g.target > 4 and g.maybe()
    if three:
        g.ask(f"{p} buys {a} {xs} for ${pa} each, {b} {ys} for ${pb} each and {c} {zs} for ${pc} each.")
    else:
        g.ask(
            f"{p} buys {a} {xs} for ${pa} each and {b} {ys} for ${pb} each.",
            f"{v.a(x).capitalize()} costs ${pa} and {v.a(y)} costs ${pb}. {p} buys {a} {xs} and {b} {ys}.",
            f"At the store, {p} buys {a} {xs} and {b} {ys}. Each {x} costs ${pa} and each {y} costs ${pb}.",
        )
    terms = [
        g.mul(a, pa, f"The {xs} cost @.", f"{p} spends @ on {xs}.", f"{a} {xs} cost @.", u="$"),
        g.mul(b, pb, f"The {ys} cost @.", f"{p.He} spends @ on {ys}.", f"{b} {ys} cost @.", u="$"),
    ]
    if three:
        terms.append(g.mul(c, pc, f"The {zs} cost @.", f"{p.He} spends @ on {zs}.", u="$"))
    elif g.maybe(0.3):
        k = g.n(3, 60)
        g.ask(f"{p.He} also buys {v.a(w)} for ${k}.", f"{p.He} also gets one {w} that costs ${k}.")
        terms.append(k)
    n = g.add(terms, "Together that is @.", f"In total {p.he} spends @.", "The total is @.", u="$")
    end = g.pick("discount", "change", "share", "ask") if g.missing() > 0 else "ask"
    if end == "discount":
        c = g.percentage(n)
        g.ask(
            f"The store gives {p.him} a {c}% discount on everything.",
            f"{p.He} has a coupon for {c}% off the total.",
        )
        k = g.part(n, c, "The discount is @.", f"{c}% of {n} is @.", u="$")
        n = g.sub(n, k, f"{p.He} pays @.", f"So {p.he} has to pay @.", u="$")
        end = "change" if g.missing() > 0 else "ask"
    if end == "change":
        pay = n + g.n(1, 90) if g.maybe() else (n // 50 + 1) * 50
        g.ask(
            f"{p.He} pays with ${pay}. How much change does {p.he} get?",
            f"If {p.he} had ${pay}, how much money does {p.he} have left?",
        )
        g.sub(pay, n, f"{p.He} has @ left.", f"{p.He} gets back @.", "The change is @.", u="$")
    elif end == "share":
        k = g.divisor(n)
        g.ask(
            f"The cost is shared equally by {k} people. How much does each one pay?",
            f"{k} people split the bill equally. How much is it for each?",
        )
        g.div(n, k, "Each one pays @.", "That is @ for each.", u="$")
    else:
        g.ask(
            f"How much does {p.he} spend in total?",
            f"How much does {p} pay altogether?",
            "What is the total cost?",
            f"How much does {p.he} pay?",
        )


def purchase(g):
    """One kind of thing, as one would type it without much thought."""
    p, x = g.person(), g.pick(*v.GOODS)
    xs, a, price = v.plural(x), g.n(2, 12), g.n(2, 60)
    g.ask(
        f"{v.a(x).capitalize()} costs ${price}. {p} buys {a} {xs}.",
        f"{p} buys {a} {xs} for ${price} each.",
        f"{p} buys {a} {xs}. Each {x} costs ${price}.",
        f"{p} buys {a} {xs} at ${price} each.",
    )
    n = g.mul(a, price, f"The {xs} cost @.", f"{p} pays @.", f"{a} {xs} cost @.", u="$")
    if g.missing() > 1:
        k = g.n(3, 60)
        if g.maybe():
            g.ask(f"Shipping costs ${k}.", f"{p.He} also pays ${k} for delivery.", f"The tax is ${k}.")
            n = g.add((n, k), "With that it is @.", "Altogether that is @.", u="$")
        else:
            k = g.n(2, min(k, n - 1))
            g.ask(f"{p.He} has a coupon for ${k}.", f"{p.He} gets ${k} off.")
            n = g.sub(n, k, "With the coupon it is @.", "That leaves @ to pay.", u="$")
    if g.missing() > 0:
        pay = n + g.n(1, 90) if g.maybe(0.3) else (n // 50 + 1) * 50
        g.ask(
            f"{p.He} pays with ${pay}. How much change does {p.he} get?",
            f"{p.He} had ${pay}. How much money is left?",
            f"How much change does {p.he} get from ${pay}?",
            f"{p.He} pays with a ${pay} bill. How much does {p.he} get back?",
        )
        g.sub(pay, n, f"{p.He} gets back @.", "The change is @.", f"{p.He} has @ left.", u="$")
    else:
        g.ask(
            f"How much does {p.he} pay?",
            "How much is that in total?",
            "What is the total cost?",
            f"How much does {p} spend?",
        )


def profit(g):
    p, x = g.person(), v.plural(g.pick(*v.GOODS, *v.FOODS))
    n, a = g.n(4, 60), g.n(2, 20)
    b = a + g.n(1, 15)
    g.ask(
        f"{p} buys {n} {x} for ${a} each and sells them for ${b} each.",
        f"{p} makes {n} {x}. Each costs ${a} to make and sells for ${b}.",
    )
    if g.maybe(0.6):
        c = g.mul(n, a, f"{p} pays @ for the {x}.", f"The {x} cost @.", u="$")
        s = g.mul(n, b, f"{p.He} gets @ from selling them.", "The sales bring in @.", u="$")
        t = g.sub(s, c, "The profit is @.", f"So {p.he} gains @.", u="$")
    else:
        c = g.sub(b, a, f"On each one {p.he} makes @.", "The profit on one is @.", u="$")
        t = g.mul(n, c, "For all of them that is @.", f"On {n} {x} {p.he} makes @.", u="$")
    if t > 12 and g.missing() > 0:
        f = g.n(3, t - 3)
        g.ask(
            f"{p.He} also pays ${f} for a stand at the market.",
            f"{p.He} also has to pay a fee of ${f}.",
        )
        t = g.sub(t, f, f"After the fee {p.he} has @.", "Taking off the fee leaves @.", u="$")
    if g.missing() > 0:
        k = g.divisor(t)
        g.ask(
            f"{p.He} shares the profit with {k - 1} partners, so that {k} people get the same. How much does each one get?"
            if k > 2
            else f"{p.He} shares the profit equally with a partner. How much does each of the 2 get?"
        )
        g.div(t, k, "Each one gets @.", "For each that is @.", u="$")
    else:
        g.ask(
            f"How much profit does {p.he} make?",
            f"How much money does {p} gain?",
            f"What is {p.his} profit?",
        )


def tickets(g):
    place = g.pick(*v.PLACES, "circus", "concert", "fair", "show")
    a, c, na, nc = g.n(6, 25), g.n(2, 9), g.n(2, 30), g.n(3, 60)
    g.ask(
        f"Tickets for the {place} cost ${a} for adults and ${c} for children. {na} adults and {nc} children go.",
        f"A {place} sells {na} adult tickets at ${a} each and {nc} child tickets at ${c} each.",
    )
    x = g.mul(na, a, "The adult tickets cost @.", "The adults pay @.", u="$")
    y = g.mul(nc, c, "The child tickets cost @.", "The children pay @.", u="$")
    if g.maybe(0.3):
        g.ask(
            "What is the difference between the two amounts?",
            "By how many dollars do the adult and the child tickets differ in total?",
        )
        g.sub(max(x, y), min(x, y), "The difference is @.", "They differ by @.", u="$")
        return
    t = g.add((x, y), "In total that is @.", "Altogether it is @.", "All the tickets cost @.", u="$")
    if g.missing() > 0:
        k = g.n(2, min(t - 1, 150))
        g.ask(f"Because of an offer they get ${k} back.", f"A coupon takes ${k} off the price.")
        t = g.sub(t, k, "After the offer the price is @.", "That leaves @.", u="$")
    if g.missing() > 0:
        k = g.divisor(t)
        g.ask(
            f"The cost is split equally between {k} clubs. How much does each club pay?",
            f"{k} sponsors share it equally. How much is it for each?",
        )
        g.div(t, k, "Each one pays @.", "For each that is @.", u="$")
    else:
        g.ask(
            "How much do they cost in the end?",
            "How much money is that in total?",
            "How much is paid in total?",
        )


def discount(g):
    p, x = g.person(), g.pick(*v.GOODS)
    price, k = g.n(20, 200, 10), g.n(2, 9)
    c = g.percentage(price)
    g.ask(
        f"{v.a(x).capitalize()} normally costs ${price}, but today it is {c}% off.",
        f"The price of {v.a(x)} is ${price}. It is on sale for {c}% off.",
    )
    d = g.part(price, c, "The discount is @.", f"{c}% of {price} is @.", u="$")
    s = g.sub(price, d, "The sale price is @.", "So one costs @.", u="$")
    g.ask(f"{p} buys {k} {v.plural(x)}.", f"{p} wants to buy {k} of them.")
    t = g.mul(k, s, f"{p} pays @.", f"{k} of them cost @.", u="$")
    if g.missing() > 0:
        m = t + g.n(5, 150)
        g.ask(
            f"{p.He} has ${m}. How much does {p.he} have left?",
            f"How much is left if {p.he} had ${m}?",
        )
        g.sub(m, t, f"{p.He} has @ left.", "That leaves @.", u="$")
    else:
        g.ask(
            f"How much does {p.he} pay?",
            f"What does {p.he} have to pay?",
            f"How much does {p} spend?",
        )


def saving(g):
    p, x = g.person(), g.pick(*v.TREASURES)
    w, k, have, s = g.n(5, 50), g.n(3, 12), g.n(5, 99), g.n(3, 60)
    cost = w * k + have
    if cost > 999:
        raise Reject
    g.ask(
        f"{p} wants {v.a(x)} that costs ${cost}. {p.He} already has ${have}. Each week {p.he} earns ${w + s} and spends ${s} of it.",
        f"{p} gets ${w + s} a week and spends ${s} of it. {p.He} has ${have} and is saving for {v.a(x)} that costs ${cost}.",
    )
    g.ask(
        f"How many weeks does {p.he} need to save for the {x}?",
        f"After how many weeks can {p.he} buy the {x}?",
    )
    save = g.sub(w + s, s, f"{p} saves @ a week.", f"Each week {p.he} puts aside @.", u="$")
    need = g.sub(cost, have, f"{p.He} needs @ more.", f"{p.He} still has to save @.", u="$")
    if save > 12:
        raise Reject
    g.div(need, save, "That takes @ weeks.", f"So {p.he} needs @ weeks.")
