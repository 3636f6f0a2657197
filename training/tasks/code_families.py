"""Families of small Python tasks: each fills in a task's English, its code by style and its key.

Most are compositions source -> filter -> map -> reduce over lists, ranges, digits, pairs, characters
or words; the rest are functions by cases, while loops and a few classics.
"""

from .code_phrases import (
    ADJ,
    CHAR_MAPS,
    CHARS,
    INTS,
    IS,
    LISTS,
    MAPS,
    PAIR_IS,
    PAIR_VAL,
    PAIRS,
    PRED,
    REDUCERS,
    SCALAR,
    STRS,
    WORD_MAPS,
    WORDS,
)
from .code_task import reduce_code


def numbers(t):
    """source -> filter -> map -> reduce over integers."""
    v, nouns = "x", ["numbers", "integers", "elements", "values"]
    kind = t.pick("list", "list", "list", "list", "slice", "range", "digits")
    if kind in ("list", "slice"):
        xs = t.pick(*LISTS)
        t.params, t.args = [xs], lambda: [t.ints()]
        src, where, skey = (
            xs,
            t.pick(f"in {xs}", f"in {xs}", f"of {xs}", f"in the list {xs}"),
            "list",
        )
        if kind == "slice":
            k = t.n(2, 5)
            what, cut = t.pick(
                ("the first {k} elements of", "[:{k}]"),
                ("the last {k} elements of", "[-{k}:]"),
                ("all but the first {k} elements of", "[{k}:]"),
                ("all but the last {k} elements of", "[:-{k}]"),
                ("every second element of", "[::2]"),
                ("every third element of", "[::3]"),
            )
            src, where, skey = (
                f"{xs}{cut.format(k=k)}",
                f"among {what.format(k=k)} {xs}",
                cut.format(k=k),
            )
    elif kind == "range":
        n = t.pick(*INTS)
        t.params, t.args, nouns = [n], lambda: [t.num(0, 25)], ["numbers", "integers"]
        src, where, skey = t.pick(
            (f"range(1, {n} + 1)", f"from 1 to {n}", "1..n"),
            (f"range({n})", f"from 0 to {n} - 1", "0..n-1"),
            (f"range(1, {n})", f"from 1 to {n} - 1", "1..n-1"),
        )
        v = "i"
    else:
        n = t.pick(*INTS)
        t.params, t.args, nouns = [n], lambda: [t.n(1, 99999)], ["digits"]
        src, where, skey = f"map(int, str({n}))", f"of {n}", "digits"
        v = "d"
    noun = t.pick(*nouns)

    # zero, one or two filters: an adjective and/or a predicate
    adj, pred, conds, fkey = "", "", [], []
    style = t.pick("none", "adj", "pred", "pred", "both")
    if style in ("adj", "both"):
        adj, c = t.pick(*(ADJ[:2] if noun == "digits" else ADJ))
        conds.append(c.format(v=v))
        fkey.append(c)
    if style in ("pred", "both"):
        forms, c, (lo, hi) = t.pick(*(PRED[:5] if noun == "digits" else PRED))
        k = t.n(1, 8) if noun == "digits" else t.n(lo, hi)
        kw = dict(k=k, m=k + t.n(2, 15))
        pred = t.pick(forms[0], *forms).format(**kw)
        conds.append(c.format(v=v, **kw))
        fkey.append(c.format(v="x", **kw))
    cond = " and ".join(conds)
    bare = f"{adj} {noun}".strip()
    if not pred:
        bare += f" {where}"
    elif kind == "slice" or (
        kind in ("list", "range") and t.maybe(0.4) and forms[0].split()[0] not in ("at", "not", "multiples")
    ):
        bare += f" {pred} {where}" if "multiples" not in pred and "at " not in pred else f" that are {pred} {where}"
    else:
        bare += f" {where} that are {pred}"
    np = f"the {bare}"

    hows = [
        "sum",
        "sum",
        "product",
        "list",
        "list",
        "sorted",
        "descending",
        "max",
        "min",
        "distinct",
        "running",
        "join",
    ]
    how = t.pick(*hows, *(["count", "count", "first", "any", "all"] if cond else []))
    e, mkey, it, sep = v, "x", np, None
    if how in ("any", "all"):
        what = " and ".join(filter(None, [adj, pred]))
        one, many = (
            f"any {noun[:-1]} {where} is {what.replace('multiples', 'a multiple')}",
            f"all {noun} {where} are {what}",
        )
        t.what = t.pick(
            f"whether {one if how == 'any' else many}",
            f"True if {one if how == 'any' else many} and False otherwise",
        )
    elif how != "count" and t.maybe(0.65):
        forms, c, const = t.pick(*MAPS)
        k = t.n(*const) if const else None
        e, mkey, it = c.format(v=v, k=k), c.format(v="x", k=k), t.pick(*forms).format(np=np, k=k)
    if how == "join":
        sep = (t.pick("-", ",", " ", "_", "+", "/", "; "), False)
        t.what = t.pick(
            f"a string with {it} separated by '{sep[0]}'",
            f"{it} joined into a string with '{sep[0]}'",
        )
    elif not t.what:
        t.what = t.pick(*REDUCERS[how]).format(it=it, bare=bare)
    t.styles = reduce_code(src, v, e, cond, how, sep)
    t.key = f"num|{skey}|{'&'.join(fkey)}|{mkey}|{how}{sep or ''}"


def pairs(t):
    """Two lists side by side, or a list with its indexes."""
    how = t.pick("sum", "list", "count", "max", "min", "list")
    if t.maybe(0.6):
        a, b = t.pick(*PAIRS[1:])
        t.params, kind = [f"{a}s", f"{b}s"], "zip"
        t.args = lambda: (lambda n: [t.ints(n), t.ints(n)])(t.n(2, 6))
        src, unit, of = (
            f"zip({a}s, {b}s)",
            "pair",
            f"{a}, {b} of corresponding elements of {a}s and {b}s",
        )
    else:
        a, b, kind, xs = "i", "x", "enumerate", t.pick(*LISTS)
        t.params, t.args = [xs], lambda: [t.ints()]
        src, unit, of = f"enumerate({xs})", "element", f"x of {xs} with index i"
    cond = ckey = only = ""
    if how == "count" or t.maybe(0.5):
        words, c = t.pick(*PAIR_IS)
        kw = dict(k=t.n(-5, 20), d=t.n(2, 9))
        only, cond, ckey = (
            f" where {words.format(a=a, b=b, **kw)}",
            c.format(a=a, b=b, **kw),
            c.format(a="a", b="b", **kw),
        )
    words, c = t.pick(*PAIR_VAL[:-3])
    kw = dict(d=t.n(2, 9))
    val, e, ekey = (
        words.format(a=a, b=b, **kw),
        c.format(a=a, b=b, **kw),
        c.format(a="a", b="b", **kw),
    )
    t.what = {
        "sum": f"the sum of {val} over every {unit} {of}{only}",
        "list": f"a list of {val} for each {unit} {of}{only}",
        "count": f"the number of {unit}s {of}{only}",
        "max": f"the largest value of {val} over every {unit} {of}{only}, or None if there are none",
        "min": f"the smallest value of {val} over every {unit} {of}{only}, or None if there are none",
    }[how]
    t.styles = reduce_code(src, f"{a}, {b}", e, cond, how)
    t.key = f"pair|{kind}|{ckey}|{'' if how == 'count' else ekey}|{how}"


def characters(t):
    s = t.pick(*STRS)
    t.params, t.args = [s], lambda: [t.sentence()]
    i, j = t.n(0, len(CHARS) - 1), t.n(0, len(CHAR_MAPS) - 1)
    kw = dict(c=t.pick(*"abcdefghilmnoprstuw"), d=t.n(2, 5), p=t.pick(*"-_.*!"))
    noun, cond = t.fill(*CHARS[i], v="c", **kw)
    how = t.pick("join", "join", "join", "count" if cond else "join", "list", "reverse", "distinct")
    if how in ("count", "distinct"):
        j = 0
    extra, e = t.fill(*CHAR_MAPS[j], v="c", **kw)
    sep = t.pick("", "", "-", " ", ",", "_")
    if how == "count":
        t.what = t.pick(f"the number of {noun} in {s}", f"how many {noun} there are in {s}")
    elif how == "distinct":
        t.what = t.pick(f"the number of distinct {noun} in {s}", f"how many different {noun} there are in {s}")
    elif how == "list":
        t.what = t.pick(f"a list of the {noun} of {s}{extra}", f"a list with the {noun} in {s}{extra}")
    else:
        order = " in reverse order" if how == "reverse" else ""
        join = f", joined with '{sep}'" if sep else ""
        t.what = t.pick(
            f"a string made of the {noun} of {s}{order}{extra}{join}",
            f"a string with the {noun} in {s}{order}{extra}{join}",
        )
    src = f"reversed({s})" if how == "reverse" else s
    t.styles = reduce_code(src, "c", e, cond, "join" if how == "reverse" else how, (sep, True))
    ckey = (CHARS[i][1] or "").replace("{c}", kw["c"])
    t.key = f"char|{ckey}|{e}|{how}|{sep if how in ('join', 'reverse') else ''}"


def words(t):
    s = t.pick(*STRS, "words", "names")
    if s in ("words", "names"):
        t.params, t.args, src, where = [s], lambda: [t.sentence().split()], s, f"in the list {s}"
    else:
        t.params, t.args, src, where = (
            [s],
            lambda: [t.sentence()],
            f"{s}.split()",
            t.pick(f"in {s}", f"of {s}", f"in the string {s}"),
        )
    i, j, kw = (
        t.n(0, len(WORDS) - 1),
        t.n(0, len(WORD_MAPS) - 1),
        dict(d=t.n(2, 7), c=t.pick(*"abcdefghilmnoprstuw")),
    )
    post, cond = t.fill(*WORDS[i], v="w", **kw)
    bare = f"words {where}{' ' if post else ''}{post}"
    it, e = t.fill(WORD_MAPS[j][0].replace("{np}", "the " + bare), WORD_MAPS[j][1], v="w", **kw)
    length = e == "len(w)"
    how = t.pick(
        "list",
        "list",
        "sorted",
        "distinct",
        *(["sum", "sum", "max", "min"] if length else ["join", "join", "join"]),
        *(["count", "first"] if cond else []),
    )
    if how == "count":
        e, it = "w", "the " + bare
    sep = (t.pick("-", " ", ",", "_", "", "+"), True)
    if how == "join":
        t.what = f"{it}, joined with '{sep[0]}'" if sep[0] else f"{it}, joined into one string"
    else:
        t.what = (
            t.pick(*REDUCERS[how])
            .format(it=it, bare=bare)
            .replace("ascending", "alphabetical" if not length else "ascending")
        )
    t.styles = reduce_code(src, "w", e, cond, how, sep)
    t.key = f"word|{'list' if src == s else 'str'}|{cond}|{e}|{how}|{sep[0] if how == 'join' else ''}"


def piecewise(t):
    """One or two integers and two or three cases."""
    two = t.maybe(0.4)
    if two:
        a, b = t.pick(*PAIRS)
        t.params, t.args, kw0, tests, vals = (
            [a, b],
            lambda: [t.num(-9, 25), t.num(-9, 25)],
            dict(a=a, b=b),
            PAIR_IS,
            PAIR_VAL,
        )
        canon = dict(a="a", b="b")
    else:
        v = t.pick(*INTS)
        t.params, t.args, kw0, tests, vals = [v], lambda: [t.num(-12, 30)], dict(v=v), IS, SCALAR
        canon = dict(v="n")
    k = t.pick(2, 2, 2, 3)
    cs, es, key = [], [], []
    ci, ei = t.r.sample(range(len(tests)), k - 1), t.r.sample(range(len(vals)), k)
    for pool, idx, out in ((tests, ci, cs), (vals, ei, es)):
        for i in idx:
            kw = dict(
                k=t.n(-5, 20),
                d=t.n(2, 9),
                w=t.pick("yes", "no", "small", "big", "even", "odd", "low", "high", "ok"),
            )
            out.append(t.fill(*pool[i], **kw0, **kw))
            key.append(pool[i][1].format(**canon, **kw))
    if k == 2:
        t.what = t.pick(
            f"{es[0][0]} if {cs[0][0]} and {es[1][0]} otherwise",
            f"{es[0][0]} if {cs[0][0]}, otherwise {es[1][0]}",
            f"{es[0][0]} when {cs[0][0]}, or else {es[1][0]}",
        )
        t.styles["line"] = [f"return {es[0][1]} if {cs[0][1]} else {es[1][1]}"]
        t.styles["loop"] = [f"if {cs[0][1]}:", f"    return {es[0][1]}", f"return {es[1][1]}"]
    else:
        t.what = t.pick(
            f"{es[0][0]} if {cs[0][0]}, {es[1][0]} if {cs[1][0]}, and {es[2][0]} otherwise",
            f"{es[0][0]} when {cs[0][0]}, else {es[1][0]} when {cs[1][0]}, else {es[2][0]}",
        )
        t.styles["loop"] = [
            f"if {cs[0][1]}:",
            f"    return {es[0][1]}",
            f"if {cs[1][1]}:",
            f"    return {es[1][1]}",
            f"return {es[2][1]}",
        ]
    t.key = "case|" + "|".join(key)


def whiles(t):
    """Repeat a step on n until a bound is reached."""
    n, m = t.pick(*INTS), t.n(1, 30)
    t.params, t.args = [n], lambda: [t.num(0, 200)]
    op, step = t.pick(("divided by {d} (rounded down)", "{n} //= {d}"), ("decreased by {k}", "{n} -= {k}"))
    d, k = t.n(2, 9), t.n(2, 25)
    test, cmp = t.pick((f"greater than {m}", ">"), (f"at least {m}", ">="))
    head, step = f"while {n} {cmp} {m}:", step.format(n=n, d=d, k=k)
    op = op.format(d=d, k=k)
    kind = t.pick("steps", "final", "visited", "total")
    if kind == "steps":
        t.what = t.pick(
            f"how many times {n} can be {op} while it is {test}",
            f"the number of times {n} has to be {op} as long as it is {test}",
        )
        body = ["steps = 0", head, f"    {step}", "    steps += 1", "return steps"]
    elif kind == "final":
        t.what = t.pick(
            f"the value of {n} after it is repeatedly {op} while it is {test}",
            f"{n} after it was {op} again and again while {test}",
        )
        body = [head, f"    {step}", f"return {n}"]
    elif kind == "visited":
        t.what = f"the list of values that {n} takes while it is {test} when it is repeatedly {op}"
        body = ["result = []", head, f"    result.append({n})", f"    {step}", "return result"]
    else:
        t.what = f"the sum of the values that {n} takes while it is {test} when it is repeatedly {op}"
        body = ["total = 0", head, f"    total += {n}", f"    {step}", "return total"]
    t.styles = {"while": body}
    t.key = f"while|{cmp}{m}|{step.replace(n, 'n')}|{kind}"
