"""Pictures of a run: a plot, and a view for notebooks."""

import json
from html import escape
from typing import Any

from ._native import Result

_COLOURS = [(31, 119, 180), (148, 103, 189), (255, 127, 14)]
"""From what was decided first to what was decided last."""


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
    axes.set(xlabel="position", ylabel="step", title=f"{result.strategy}: {result.nfe} forward passes")
    axes.figure.colorbar(points, ax=axes, label="probability")
    return axes


def html(result: Result) -> str:
    """The canvas with each token in its place, coloured by the step that decided it; a slider goes through the steps."""
    record = json.loads(result.to_json())
    start, count = record["prompt_tokens"], len(result.steps)
    spans: dict[int, list[tuple[int, int, str]]] = {}
    open_since: dict[int, tuple[int, str]] = {}
    for number, step in enumerate(record["steps"], 1):
        texts = {detail["position"]: detail["text"] or str(detail["token"]) for detail in step.get("details") or []}
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
    last = start + len(record["tokens"])
    cells = []
    for position in range(start, last):
        states = [(since, to, text, _colour(since, count)) for since, to, text in spans.get(position, [])]
        _, _, shown, colour = next((state for state in states if state[1] == count + 1), (0, 0, "░", "#999"))
        data = escape(json.dumps(states))
        cells.append(f'<span data-states="{data}" style="color:{colour}">{escape(shown)}</span>')
    script = (
        "const v=this.value*1;this.nextElementSibling.textContent=`step ${v} of "
        f"{count}`;"
        "this.closest('div').querySelectorAll('[data-states]').forEach(c=>{"
        "const s=JSON.parse(c.dataset.states).find(s=>s[0]<=v&&v<s[1]);"
        "c.textContent=s?s[2]:'\\u2591';c.style.color=s?s[3]:'#999';c.style.fontWeight=s&&s[0]==v?'bold':'normal'})"
    )
    return (
        '<div style="font-family:ui-monospace,monospace">'
        f'<label><input type="range" min="0" max="{count}" value="{count}" style="width:20em;vertical-align:middle" '
        f'oninput="{escape(script)}"> <output>step {count} of {count}</output></label> '
        f"<small>{escape(result.strategy)}, {result.nfe} forward passes</small>"
        f'<pre style="white-space:pre-wrap">{"".join(cells)}</pre></div>'
    )


def _colour(step: int, count: int) -> str:
    at = (step - 1) / max(count - 1, 1) * (len(_COLOURS) - 1)
    low = min(int(at), len(_COLOURS) - 2)
    mixed = (round(a + (b - a) * (at - low)) for a, b in zip(_COLOURS[low], _COLOURS[low + 1]))
    return "rgb({},{},{})".format(*mixed)
