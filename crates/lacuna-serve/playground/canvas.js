/** The canvas of a lane: every position in its place, coloured by when it was decided. */

import { css, inkOn, mix, shades, shareOf, timeColour } from "./colour.js";
import { element } from "./dom.js";
import { levels } from "./quantity.js";
import { isRole, isSpecial, pieces } from "./tokens.js";

/**
 * @typedef {object} Cell
 * @property {HTMLElement} home stands for the position in the flow
 * @property {HTMLElement[]} parts a token that breaks a line has several
 * @property {string} key what it is laid out for
 * @property {number} look the states and the moment that it was drawn for last; -1 if it is to be drawn anew
 * @property {number} level how tall its bar is
 *
 * @typedef {{position: number, anchor: Element}} Seen
 */

const SHADES = 48; // of time, on the canvas
const LEVELS = 16; // of a bar
const FEW = 200; // cells that may move softly
const STATES = ["given", "open", "fresh", "end", "next", "reopened", "hand"];

export class CanvasView {
  /** @type {import("./run.js").Run | null} */
  #run = null;
  /** @type {Map<number, Cell>} */
  #cells = new Map();
  #cursor = null;
  #seen = null;
  #hot = null;

  /**
   * @param {HTMLElement} root
   * @param {HTMLElement} prompt
   * @param {{inspect: (seen: Seen | null) => void, decide: (seen: Seen) => void}} on
   */
  constructor(root, prompt, on) {
    this.root = root;
    this.prompt = prompt;
    this.on = on;
    for (const place of [root, prompt]) {
      // Not "pointerover": a canvas that is scrolled under a resting pointer is not looked at.
      place.addEventListener("pointermove", (event) => event.pointerType !== "touch" && this.#look(this.#found(event.target)));
      place.addEventListener("pointerleave", () => this.#look(null));
    }
    root.addEventListener("click", (event) => {
      const seen = this.#found(event.target);
      this.#look(seen);
      if (seen) this.on.decide(seen);
    });
    root.addEventListener("keydown", (event) => this.#walk(event));
    root.addEventListener("blur", () => this.#leave());
  }

  /** Slots for a run that has not begun. */
  preview(count, text) {
    this.#run = null;
    this.#cells.clear();
    this.prompt.replaceChildren(text);
    this.root.replaceChildren(...Array.from({ length: count }, () => element("span", "cell open blank", element("span", "token"))));
    this.root.setAttribute("aria-label", `Canvas of ${count} undecided tokens`);
  }

  /** @param {import("./run.js").Run} run */
  show(run) {
    if (run === this.#run && run.places === this.#cells.size) return;
    this.#run = run;
    this.#cells.clear();
    this.#cursor = null;
    this.prompt.replaceChildren(...run.canvas.slice(0, run.from).map((cell, position) => given(run.canvas, position)));
    const flow = [];
    for (let position = run.from; position < run.canvas.length; position += 1) {
      const block = run.blockOf(position);
      if (block !== null && position > run.from && block !== run.blockOf(position - 1)) flow.push(boundary(block));
      const home = element("span", "at");
      home.dataset.position = position;
      this.#cells.set(position, { home, parts: [], key: "", look: -1, level: 0 });
      flow.push(home);
    }
    this.root.classList.toggle("few", this.#cells.size <= FEW);
    this.root.replaceChildren(...flow);
    // Of a long prompt the end is seen, which the canvas continues.
    requestAnimationFrame(() => (this.prompt.scrollTop = this.prompt.scrollHeight));
  }

  /**
   * Draws the canvas as it was after so many steps. Only what has changed is touched: there may be a thousand cells.
   * @param {number} steps
   * @param {import("./quantity.js").Name} quantity what the bars show
   */
  update(steps, quantity) {
    const run = this.#run;
    const upcoming = run.steps[steps];
    const tall = levels(upcoming, quantity);
    const chosen = new Set(upcoming?.committed.map(({ position }) => position));
    const reopened = new Set(steps > 0 ? run.steps[steps - 1].remasked : []);
    let latest = null;
    for (const [position, cell] of this.#cells) {
      const { gap } = run.canvas[position];
      const settled = gap ? run.settled(position) : run.canvas[position];
      const commit = gap ? run.at(position, steps) : null;
      const open = gap && !commit;
      const fresh = commit !== null && commit.step === steps - 1;
      const states = [
        !gap,
        open,
        fresh,
        commit !== null && run.isEnd(commit),
        open && chosen.has(position),
        open && reopened.has(position),
        commit?.hand ?? false,
      ];
      const moment = commit ? Math.round(SHADES * shareOf(commit.step, run.length)) : SHADES + 1;
      const level = open && tall && !Number.isNaN(tall[position]) ? Math.round(LEVELS * (0.06 + 0.94 * tall[position])) : 0;
      const look = states.reduce((bits, is, bit) => bits | (is ? 1 << bit : 0), moment << 8);
      if (fresh) latest ??= cell;
      this.#lay(cell, settled, commit);
      if (cell.look !== look) {
        cell.look = look;
        for (const part of cell.parts) dress(part, states, commit ? moment : null);
      }
      if (cell.level !== level) {
        cell.level = level;
        for (const part of cell.parts) raise(part, level);
      }
    }
    if (latest) requestAnimationFrame(() => this.#follow(latest.parts[0]));
    const where = steps === run.length ? "in the end" : `after step ${steps} of ${run.length}`;
    this.root.setAttribute("aria-label", `Canvas ${where}: ${run.textAt(steps)}`);
  }

  /** Keeps what is new in view where the canvas is longer than its place. Measuring waits until all lanes are drawn. */
  #follow(part) {
    const { root } = this;
    if (root.scrollHeight <= root.clientHeight + 2) return;
    const top = part.offsetTop - root.offsetTop;
    const [first, last] = [root.scrollTop, root.scrollTop + root.clientHeight];
    if (top < first || top + part.offsetHeight > last) root.scrollTop = top - root.clientHeight / 2;
  }

  /** Colours depend on the theme. */
  repaint() {
    for (const cell of this.#cells.values()) cell.look = -1;
  }

  /** Marks a position that is looked at elsewhere. */
  highlight(position) {
    for (const part of this.#hot ?? []) part.classList.remove("hot");
    this.#hot = this.#cells.get(position)?.parts ?? null;
    for (const part of this.#hot ?? []) part.classList.add("hot");
  }

  /** The element that draws a position, on the canvas or in the prompt. @returns {Element | null} */
  anchor(position) {
    return this.#cells.get(position)?.parts[0] ?? this.prompt.querySelector(`[data-position="${position}"]`);
  }

  /** Slots are as wide as what they will hold, as far as that is known, so that nothing moves when it comes. */
  #lay(cell, settled, commit) {
    const early = commit && commit.token !== settled.token;
    const key = early ? `${commit.token} before ${settled.token}` : settled ? `${settled.token} ${settled.text}` : "?";
    if (cell.key === key) return;
    cell.key = key;
    cell.look = cell.level = -1;
    const lines = early ? [{ text: this.#shown(commit).replaceAll("\n", "⏎"), breaks: false }] : pieces(this.#shown(settled));
    cell.parts = lines.map(({ text }) => {
      const kinds = ["cell", text === "" && "blank", settled?.text === null && "number", text.endsWith("⏎") && "line-end"];
      const part = element("span", "", element("span", "token", text));
      part.dataset.kind = kinds.filter(Boolean).join(" ");
      return part;
    });
    cell.home.replaceChildren(
      ...cell.parts.flatMap((part, index) => (lines[index].breaks ? [part, element("i", "break")] : [part])),
    );
  }

  /** Tokens of the model's own language take a place, but have no text. */
  #shown(token) {
    if (!token || this.#run.isEnd(token)) return "";
    if (token.text === null) return `${token.token}`;
    return isSpecial(token.text) ? "" : token.text;
  }

  /** @returns {Seen | null} */
  #found(target) {
    const home = target.closest("[data-position]");
    if (!home || !this.#run) return null;
    return { position: Number(home.dataset.position), anchor: target.closest(".cell") ?? home.firstElementChild ?? home };
  }

  #look(seen) {
    if ((seen?.anchor ?? null) === this.#seen) return;
    this.#seen = seen?.anchor ?? null;
    this.on.inspect(seen);
  }

  #walk(event) {
    if (event.key === "Enter" && this.#cursor !== null) {
      event.preventDefault();
      return this.on.decide({ position: this.#cursor, anchor: this.anchor(this.#cursor) });
    }
    const direction = { ArrowDown: 1, ArrowUp: -1 }[event.key];
    if (!direction || !this.#run || event.ctrlKey || event.metaKey || event.altKey) return;
    event.preventDefault();
    const [first, last] = [this.#run.from, this.#run.canvas.length - 1];
    const next = this.#cursor === null ? (direction > 0 ? first : last) : this.#cursor + direction;
    this.#cursor = Math.min(Math.max(next, first), last);
    const anchor = this.anchor(this.#cursor);
    anchor.scrollIntoView({ block: "nearest" });
    this.#look({ position: this.#cursor, anchor });
  }

  #leave() {
    this.#cursor = null;
    this.#look(null);
  }
}

/** A token of the prompt. Who speaks stands apart from what is said. */
function given(cells, position) {
  const { text, token } = cells[position];
  const shown = element("span", "");
  shown.dataset.position = position;
  if (text === null) shown.textContent = `${token} `;
  else if (isSpecial(text)) shown.className = "special";
  else {
    shown.className = isRole(cells, position) ? "role" : "";
    shown.textContent = shown.className ? text.trim() : text;
  }
  return shown;
}

function boundary(block) {
  const mark = element("i", "boundary");
  mark.title = `Block ${block + 1} begins here`;
  return mark;
}

/** Classes are written all at once, and only where they change: this is what a scrubbed canvas spends its time with. */
function dress(part, states, moment) {
  part.className = `${part.dataset.kind} ${STATES.filter((_, index) => states[index]).join(" ")}`;
  if (moment === null) return;
  const colour = timeColour(moment / SHADES);
  const { surface, tint } = shades();
  part.style.setProperty("--time", css(colour));
  part.style.setProperty("--tint", css(mix(surface, colour, tint)));
  part.style.setProperty("--ink", inkOn(colour));
}

function raise(part, level) {
  part.style.setProperty("--level", `${((100 * level) / LEVELS).toFixed(0)}%`);
}
