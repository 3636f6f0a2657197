"""Pictures of a run: a plot, and a view for notebooks."""

import json
import re
from html import escape
from typing import Any

from ._native import Result

_COLOURS = [(31, 119, 180), (148, 103, 189), (255, 127, 14)]
"""From what was decided first to what was decided last."""
_OPEN, _END = "░", "·"


def plot(result: Result, axes: Any = None) -> Any:
    """When each position was decided (over: the step; colour: the probability of its token), as matplotlib's axes."""
    from matplotlib import pyplot

    rows = result.records()
    if axes is None:
        _, axes = pyplot.subplots(figsize=(9, 3.5), layout="constrained")
    points = axes.scatter(
        [row["position"] - result.prompt_tokens for row in rows],
        [row["step"] for row in rows],
        c=[row["probability"] for row in rows],
        vmin=0,
        vmax=1,
        s=14,
    )
    reopened = [(at - result.prompt_tokens, number) for number, step in enumerate(result.steps) for at in step.reopened]
    if reopened:
        axes.scatter(*zip(*reopened), marker="x", color="red", s=18, label="reopened")
        axes.legend()
    axes.set(xlabel="position", ylabel="step", title=f"{result.strategy}: {_passes(result)}")
    axes.figure.colorbar(points, ax=axes, label="probability")
    return axes


def html(result: Result) -> str:
    """The canvas with each token in its place, coloured by the step that decided it; a slider goes through the steps."""
    count, cells = len(result.steps), []
    for states in _states(result):
        _, _, shown, colour = next((state for state in states if state[1] == count + 1), (0, 0, _OPEN, "#999"))
        data = escape(json.dumps(states))
        cells.append(f'<span data-states="{data}" style="color:{colour}">{escape(shown)}</span>')
    script = (
        "const v=this.value*1;this.nextElementSibling.textContent=`step ${v} of "
        f"{count}`;"
        "this.closest('div').querySelectorAll('[data-states]').forEach(c=>{"
        "const s=JSON.parse(c.dataset.states).find(s=>s[0]<=v&&v<s[1]);"
        "c.textContent=s?s[2]:'\\u2591';c.style.color=s?s[3]:'#999';c.style.fontWeight=s&&v&&s[0]==v?'bold':'normal'})"
    )
    return (
        '<div style="font-family:ui-monospace,monospace">'
        f'<label><input type="range" min="0" max="{count}" value="{count}" style="width:20em;vertical-align:middle" '
        f'oninput="{escape(script)}"> <output>step {count} of {count}</output></label> '
        f"<small>{escape(result.strategy)}, {_passes(result)}</small>"
        f'<pre style="white-space:pre-wrap">{"".join(cells)}</pre></div>'
    )


def svg(result: Result, *, columns: int = 44) -> str:
    """A picture of the run: the canvas before the first step, after a third and two thirds of them, and at the end."""
    if columns < 1:
        raise ValueError(f"columns is {columns}, but it must be 1 or more")
    count, states = len(result.steps), _states(result)
    panels = []
    for moment in dict.fromkeys([0, count // 3, 2 * count // 3, count]):
        lines: list[list[tuple[str, str, bool]]] = [[]]
        filled = 0
        for some in states:
            since, _, text, colour = next((s for s in some if s[0] <= moment < s[1]), (-1, 0, _OPEN, "#999"))
            for piece in text.splitlines(keepends=True):
                shown = piece.rstrip("\r\n")
                if filled and filled + len(shown) > columns:
                    lines.append([])
                    filled = 0
                lines[-1].append((shown, colour, since == moment > 0))
                filled += len(shown)
                if piece != shown:
                    lines.append([])
                    filled = 0
        panels.append((moment, lines))
    width, height = round(8.43 * columns) + 32, 20 * (max(len(lines) for _, lines in panels) + 2) + 32
    across, weight = min(2, len(panels)), ("normal", "bold")
    drawn = []
    for number, (moment, lines) in enumerate(panels):
        x, y = number % across * (width + 16), number // across * (height + 16)
        drawn.append(f'<g transform="translate({x} {y})"><rect x="1" y="1" width="{width}" height="{height}" rx="8"/>')
        drawn.append(f'<text x="16" y="36" font-weight="bold">step {moment}</text>')
        for row, line in enumerate(lines):
            spans = "".join(
                f'<tspan fill="{colour}" font-weight="{weight[new]}">{escape(text)}</tspan>'
                for text, colour, new in line
            )
            drawn.append(f'<text x="16" y="{76 + 20 * row}" xml:space="preserve">{spans}</text>')
        drawn.append("</g>")
    whole = across * (width + 16), -(-len(panels) // across) * (height + 16)
    style = (
        "text{font:14px ui-monospace,Menlo,Consolas,monospace;white-space:pre;fill:#333}rect{fill:#fff;stroke:#ddd}"
        "@media(prefers-color-scheme:dark){text{fill:#ddd}rect{fill:#16181c;stroke:#333}}"
    )
    head = f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {whole[0]} {whole[1]}" width="{whole[0]}">'
    return "\n".join([f"{head}<style>{style}</style>", *drawn, "</svg>"]) + "\n"


def _passes(result: Result) -> str:
    return "1 forward pass" if result.nfe == 1 else f"{result.nfe} forward passes"


def _states(result: Result) -> list[list[tuple[int, int, str, str]]]:
    """For each position behind the prompt what stood there: from which step on, up to which, the text, and its colour: that of
    plain text for what was there before the first step."""
    record = json.loads(result.to_json())
    start, count = record["prompt_tokens"], len(result.steps)
    visible = record["text"] or ""

    def shown(text: str, token: int) -> str:
        """A token's text, or its id if there is none. What is like <|endoftext|> and not part of the visible text is one character."""
        return _END if re.fullmatch(r"<[^<>\s]+>", text) and text not in visible else text or str(token)

    given = dict(record.get("given") or [])
    spans: dict[int, list[tuple[int, int, str]]] = {}
    open_since: dict[int, tuple[int, str]] = {
        position: (0, shown(given.get(position, ""), token))
        for position, token in enumerate(record["canvas"])
        if token != record["mask_token"]
    }
    for number, step in enumerate(record["steps"], 1):
        texts = {detail["position"]: shown(detail["text"], detail["token"]) for detail in step.get("details") or []}
        for position, token in step["unmasked"] + step.get("edited", []):
            if position in open_since:
                spans.setdefault(position, []).append((open_since[position][0], number, open_since[position][1]))
            open_since[position] = (number, texts.get(position, str(token)))
        for position in step["remasked"]:
            if position in open_since:
                since, text = open_since.pop(position)
                spans.setdefault(position, []).append((since, number, text))
        if resized := step.get("resized"):
            at, more = resized["at"], len(resized["tokens"])
            spans = {position + more * (position >= at): states for position, states in spans.items()}
            open_since = {position + more * (position >= at): state for position, state in open_since.items()}
    for position, (since, text) in open_since.items():
        spans.setdefault(position, []).append((since, count + 1, text))
    places = range(start, start + len(record["tokens"]))
    return [[(*state, _colour(state[0], count)) for state in spans.get(place, [])] for place in places]


def _colour(step: int, count: int) -> str:
    if step == 0:
        return "inherit"
    at = (step - 1) / max(count - 1, 1) * (len(_COLOURS) - 1)
    low = min(int(at), len(_COLOURS) - 2)
    mixed = (round(a + (b - a) * (at - low)) for a, b in zip(_COLOURS[low], _COLOURS[low + 1]))
    return "rgb({},{},{})".format(*mixed)
