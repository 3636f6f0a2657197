/** The canvas of a lane: every position in its place, coloured by when it was decided. */

import { css, inkOn, mix, shades, shareOf, timeColour } from "./colour.js";
import { element } from "./dom.js";
import { standing } from "./run.js";
import { isSpecial, pieces } from "./tokens.js";

/**
 * @typedef {object} Cell
 * @property {HTMLElement} home stands for the position in the flow
 * @property {HTMLElement[]} parts a token that breaks a line has several
 * @property {string} key what it is laid out for
 * @property {string} look how it was drawn last
 */

const SHADES = 48; // of time, on the canvas
const LEVELS = 24; // of a bar
const FEW = 100; // cells that may move softly

export class CanvasView {
  /** @type {import("./run.js").Run | null} */
  #run = null;
  /** @type {Map<number, Cell>} */
  #cells = new Map();
  #cursor = null;
  #seen = null;

  /**
   * @param {HTMLElement} root
   * @param {HTMLElement} prompt
   * @param {(inspected: {position: number, anchor: HTMLElement} | null) => void} inspect
   */
  constructor(root, prompt, inspect) {
    this.root = root;
    this.prompt = prompt;
    this.inspect = inspect;
    for (const place of [root, prompt]) {
      // Not "pointerover": a canvas that is scrolled under a resting pointer is not looked at.
      place.addEventListener("pointermove", (event) => this.#point(event.target));
      place.addEventListener("pointerleave", () => this.#look(null));
      place.addEventListener("click", (event) => this.#point(event.target));
    }
    root.addEventListener("keydown", (event) => this.#walk(event));
    root.addEventListener("blur", () => this.#leave());
  }

  /** Slots for a run that has not begun. */
  preview(count, text) {
    this.#run = null;
    this.#cells.clear();
    this.prompt.replaceChildren(text);
    this.root.replaceChildren(...Array.from({ length: count }, () => element("span", "cell open blank", element("span", "token"), element("i", "bar"))));
    this.root.setAttribute("aria-label", `Canvas of ${count} undecided tokens`);
  }

  /** @param {import("./run.js").Run} run */
  show(run) {
    if (run === this.#run) return;
    this.#run = run;
    this.#cells.clear();
    this.#cursor = null;
    this.prompt.replaceChildren(...run.canvas.slice(0, run.from).map((cell, position) => given(cell, position)));
    const flow = [];
    for (let position = run.from; position < run.canvas.length; position += 1) {
      const block = run.blockOf(position);
      if (block !== null && position > run.from && block !== run.blockOf(position - 1)) flow.push(boundary(block));
      const home = element("span", "at");
      home.dataset.position = position;
      this.#cells.set(position, { home, parts: [], key: "", look: "" });
      flow.push(home);
    }
    this.root.classList.toggle("few", this.#cells.size <= FEW);
    this.root.replaceChildren(...flow);
  }

  /** Draws the canvas as it was after so many steps. Only what has changed is touched: there may be a thousand cells. */
  update(steps) {
    const run = this.#run;
    const upcoming = run.steps[steps];
    const chosen = new Set(upcoming?.committed.map(({ position }) => position));
    const reopened = new Set(steps > 0 ? run.steps[steps - 1].remasked : []);
    for (const [position, cell] of this.#cells) {
      const given = run.canvas[position];
      const settled = given.gap ? run.settled(position) : given;
      const commit = given.gap ? run.at(position, steps) : null;
      const open = given.gap && !commit;
      const score = open ? upcoming?.dependency?.get(position) : undefined;
      const look = {
        given: !given.gap,
        open,
        fresh: commit !== null && commit.step === steps - 1,
        end: commit !== null && run.isEnd(commit),
        next: open && chosen.has(position),
        reopened: open && reopened.has(position),
        moment: commit ? Math.round(SHADES * shareOf(commit.step, run.length)) : null,
        height: score === undefined ? 0 : Math.round(LEVELS * (0.12 + 0.88 * standing(score, upcoming.range))),
      };
      this.#lay(cell, settled, commit);
      const key = JSON.stringify(look);
      if (cell.look === key) continue;
      cell.look = key;
      for (const part of cell.parts) dress(part, look);
    }
    const where = steps === run.length ? "in the end" : `after step ${steps} of ${run.length}`;
    this.root.setAttribute("aria-label", `Canvas ${where}: ${run.textAt(steps)}`);
  }

  /** Colours depend on the theme. */
  repaint() {
    for (const cell of this.#cells.values()) cell.look = "";
  }

  /** Marks a position that is looked at elsewhere. */
  highlight(position) {
    for (const part of this.root.querySelectorAll(".hot")) part.classList.remove("hot");
    for (const part of this.#cells.get(position)?.parts ?? []) part.classList.add("hot");
  }

  /** Slots are as wide as what they will hold, as far as that is known, so that nothing moves when it comes. */
  #lay(cell, settled, commit) {
    const early = commit && commit.token !== settled.token;
    const key = early ? `${commit.token} before ${settled.token}` : settled ? String(settled.token) : "?";
    if (cell.key === key) return;
    cell.key = key;
    cell.look = "";
    const lines = early ? [{ text: this.#shown(commit).replaceAll("\n", "⏎"), breaks: false }] : pieces(this.#shown(settled));
    cell.parts = lines.map(({ text }) => {
      const part = element("span", "cell", element("span", "token", text), element("i", "bar"));
      part.classList.toggle("blank", text === "");
      part.classList.toggle("number", settled?.text === null);
      part.classList.toggle("line-end", text.endsWith("⏎"));
      return part;
    });
    cell.home.replaceChildren(...cell.parts.flatMap((part, index) => (lines[index].breaks ? [part, element("i", "break")] : [part])));
  }

  /** Tokens of the model's own language take a place, but have no text. */
  #shown(token) {
    if (!token || this.#run.isEnd(token)) return "";
    if (token.text === null) return `${token.token}`;
    return isSpecial(token.text) ? "" : token.text;
  }

  #point(target) {
    const home = target.closest("[data-position]");
    if (!home || !this.#run) return this.#look(null);
    const anchor = target.closest(".cell") ?? home.firstElementChild ?? home;
    this.#look({ position: Number(home.dataset.position), anchor });
  }

  #look(seen) {
    if (seen?.anchor === this.#seen) return;
    this.#seen = seen?.anchor ?? null;
    this.inspect(seen);
  }

  #walk(event) {
    const direction = { ArrowDown: 1, ArrowUp: -1 }[event.key];
    if (!direction || !this.#run || event.ctrlKey || event.metaKey || event.altKey) return;
    event.preventDefault();
    const [first, last] = [this.#run.from, this.#run.canvas.length - 1];
    const next = this.#cursor === null ? (direction > 0 ? first : last) : this.#cursor + direction;
    this.#cursor = Math.min(Math.max(next, first), last);
    this.#look({ position: this.#cursor, anchor: this.#cells.get(this.#cursor).parts[0] });
  }

  #leave() {
    this.#cursor = null;
    this.#look(null);
  }
}

function given(cell, position) {
  const special = cell.text !== null && isSpecial(cell.text);
  const text = cell.text === null ? `${cell.token} ` : special ? "" : cell.text;
  const shown = element("span", special ? "special" : "", text);
  shown.dataset.position = position;
  return shown;
}

function boundary(block) {
  const mark = element("i", "boundary");
  mark.title = `Block ${block + 1} begins here`;
  return mark;
}

function dress(part, { moment, height, ...states }) {
  for (const [state, is] of Object.entries(states)) part.classList.toggle(state, is);
  part.lastElementChild.style.transform = `scaleY(${height / LEVELS})`;
  if (moment === null) return;
  const colour = timeColour(moment / SHADES);
  const { surface, tint } = shades();
  part.style.setProperty("--time", css(colour));
  part.style.setProperty("--tint", css(mix(surface, colour, tint)));
  part.style.setProperty("--ink", inkOn(colour));
}
