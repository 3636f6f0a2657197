"""The parts that every Python task shares: drawing random values, and turning a reduction into code."""

from .code_phrases import VOCAB


class Task:
    def __init__(self, rng):
        self.r, self.params, self.styles = rng, [], {}
        self.edges, self.hits = [], []  # numbers and words that the tests should try
        self.what = self.key = self.args = None  # English, canonical composition, sampler of arguments
        self.name = None  # where the family wants a certain one

    def pick(self, *options):
        return self.r.choice(options)

    def maybe(self, p=0.5):
        return self.r.random() < p

    def n(self, lo, hi):
        return self.r.randint(lo, hi)

    def num(self, lo, hi):
        """A number for a test, often one at the edge of a condition."""
        return self.r.choice(self.edges) if self.edges and self.maybe(0.3) else self.n(lo, hi)

    def ints(self, n=None):
        return [self.num(-12, 30) for _ in range(self.pick(0, 3, 4, 5, 6, 7, 8) if n is None else n)]

    def sentence(self):
        return " ".join(
            self.r.choice(self.hits if self.hits and self.maybe(0.4) else VOCAB) for _ in range(self.n(2, 6))
        )

    def fill(self, text, code, **kw):
        """Draws one set of constants for an English phrase and its code."""
        kw = {
            "k": self.n(-5, 20),
            "d": self.n(2, 9),
            "c": self.pick(*"abcdefghilmnoprstuw"),
            "p": self.pick(*"-_.*!"),
            "w": self.pick("yes", "no", "small", "big", "even", "odd", "low", "high", "ok"),
            **kw,
        }
        return text.format(**kw), code and code.format(**kw)


def reduce_code(src, v, e, cond, how, sep=None):
    """Bodies (list of lines) of a reduction over `e for v in src if cond`, by coding style."""
    gen = f"{e} for {v} in {src}" + (f" if {cond}" if cond else "")
    plain = e == v and not cond

    def loop(init, *update, ret):
        ind = "    " if cond else ""
        test = [f"    if {cond}:"] if cond else []
        return [
            *init,
            f"for {v} in {src}:",
            *test,
            *[f"    {ind}{u}" for u in update],
            f"return {ret}",
        ]

    if how == "sum":
        return {
            "line": [f"return sum({src if plain else gen})"],
            "loop": loop(["total = 0"], f"total += {e}", ret="total"),
        }
    if how == "count":
        return {
            "line": [f"return sum(1 for {v} in {src} if {cond})"],
            "loop": loop(["count = 0"], "count += 1", ret="count"),
        }
    if how == "product":
        return {"loop": loop(["result = 1"], f"result *= {e}", ret="result")}
    if how == "list":
        return {
            "line": [f"return list({src})" if plain else f"return [{gen}]"],
            "loop": loop(["result = []"], f"result.append({e})", ret="result"),
        }
    if how in ("sorted", "descending"):
        rev = ", reverse=True" if how == "descending" else ""
        inner = f"[{gen}]" if rev and not plain else src if plain else f"{gen}"
        return {
            "line": [f"return sorted({inner}{rev})"],
            "loop": loop(["result = []"], f"result.append({e})", ret=f"sorted(result{rev})"),
        }
    if how in ("max", "min"):
        op = ">" if how == "max" else "<"
        return {
            "line": [f"return {how}(({gen}), default=None)"],
            "loop": loop(
                ["best = None"],
                f"value = {e}",
                f"if best is None or value {op} best:",
                "    best = value",
                ret="best",
            ),
        }
    if how == "distinct":
        return {
            "line": [f"return len(set({src if plain else gen}))"],
            "loop": loop(["seen = set()"], f"seen.add({e})", ret="len(seen)"),
        }
    if how == "running":
        return {"loop": loop(["total = 0", "result = []"], f"total += {e}", "result.append(total)", ret="result")}
    if how == "first":
        return {
            "line": [f"return next(({gen}), None)"],
            "loop": loop([], f"return {e}", ret="None"),
        }
    if how == "any":
        return {
            "line": [f"return any({cond} for {v} in {src})"],
            "loop": loop([], "return True", ret="False"),
        }
    if how == "all":
        return {
            "line": [f"return all({cond} for {v} in {src})"],
            "loop": [
                f"for {v} in {src}:",
                f"    if not ({cond}):",
                "        return False",
                "return True",
            ],
        }
    if how == "join":
        text = e if sep[1] else f"str({e})"
        gen = gen.replace(e, text, 1)
        return {
            "line": [f"return '{sep[0]}'.join({src if plain and sep[1] else gen})"],
            "loop": loop(["parts = []"], f"parts.append({text})", ret=f"'{sep[0]}'.join(parts)"),
        }
    raise ValueError(how)
