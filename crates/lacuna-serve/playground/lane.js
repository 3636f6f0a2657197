/** A lane: one strategy, its canvas, what it cost, and why it went where it went. */

import { Arcs } from "./arcs.js";
import { CanvasView } from "./canvas.js";
import { labelOf } from "./catalogue.js";
import { byId, element, tell } from "./dom.js";
import { HeatMap } from "./map.js";
import { QUANTITIES, choices, quantityOf } from "./quantity.js";
import { hideTip, showTip, speak } from "./tip.js";
import { WhyView } from "./why.js";

const RESTING = 140; // milliseconds on a slot before the model is asked about it

/**
 * @typedef {object} Events
 * @property {() => void} changed something else was chosen
 * @property {(lane: Lane) => void} removed
 * @property {(run: import("./run.js").Run, steps: number) => void} seek
 * @property {(position: number | null) => void} inspected
 * @property {(lane: Lane, position: number, steps: number, text?: string) => Promise<import("./tip.js").Probed | null>} probe
 * @property {(lane: Lane, seen: import("./canvas.js").Seen, steps: number) => void} decide
 * @property {(lane: Lane) => void} again
 */

export class Lane {
  /** @type {import("./run.js").Run | null} */
  run = null;
  /** True if something else was chosen since its run was made. */
  stale = false;
  /** The reason for waiting, if it waits. */
  waiting = "";
  /** The number that is right, if it is known. @type {string | null} */
  expected = null;
  #steps = 0;
  #drawn = "";
  /** The slot under the pointer. @type {{position: number, steps: number, anchor: any} | null} */
  #seen = null;
  /** The quantity that the visitor chose for the bars, if it is not the one that the strategy ranks by. @type {import("./quantity.js").Name | null} */
  #wanted = null;
  #timer = 0;

  /**
   * @param {import("./catalogue.js").Catalogue} catalogue
   * @param {import("./catalogue.js").Choice} choice
   * @param {Events} on
   */
  constructor(catalogue, choice, on) {
    this.catalogue = catalogue;
    this.choice = choice;
    this.on = on;
    this.root = byId("lane-template").content.firstElementChild.cloneNode(true);
    this.canvas = new CanvasView(this.find(".canvas"), this.find(".prompt"), {
      inspect: (seen) => this.#inspect(seen && { ...seen, steps: this.#steps }),
      decide: (seen) => this.run && on.decide(this, seen, this.#steps),
    });
    this.arcs = new Arcs(this.root);
    this.why = new WhyView(this.find(".why"), () => this.#again());
    this.map = new HeatMap(this.find(".map"), {
      seek: (steps) => on.seek(this.run, steps),
      inspect: (seen) => this.#inspect(seen),
    });
    for (const name of ["order", "pace", "revision"]) {
      this.find(`.${name}`).addEventListener("change", (event) => this.#choose(name, event.target.value));
    }
    this.find(".bars").addEventListener("change", (event) => this.showBy(event.target.value));
    this.find(".remove").addEventListener("click", () => on.removed(this));
    this.find(".again").addEventListener("click", () => on.again(this));
    this.offer();
    this.clear();
  }

  /** @param {string} selector @returns {any} */
  find(selector) {
    return this.root.querySelector(selector);
  }

  /** The quantity that the bars show. */
  get quantity() {
    return this.#wanted ?? quantityOf(this.#order);
  }

  get #order() {
    return this.catalogue.made(this.run?.strategy ?? this.choice.name).order;
  }

  /** Lets the bars show another quantity. */
  showBy(name) {
    this.#wanted = name;
    this.#bars();
    this.#again();
  }

  /** Offers what the catalogue has. */
  offer() {
    const { catalogue } = this;
    this.find(".order").replaceChildren(group("Orders", catalogue.orders), group("Published methods", catalogue.presets));
    this.find(".pace").replaceChildren(...catalogue.paces.map(option));
    this.find(".revision").replaceChildren(...[{ name: "", about: "" }, ...catalogue.revisions].map(option));
    this.#settle();
  }

  #choose(kind, value) {
    const { order, pace, revision, preset } = this.catalogue.made(this.choice.name);
    const own = preset ? { order, pace, revision: "" } : { order, pace, revision };
    const chosen = this.catalogue.presets.some(({ name }) => kind === "order" && name === value)
      ? value
      : this.catalogue.nameOf({ ...own, [kind]: value });
    this.choice = { ...this.choice, name: chosen };
    this.#wanted = null;
    this.#settle();
    this.#change();
  }

  #settle() {
    const { name } = this.choice;
    const { order, pace, revision, preset } = this.catalogue.made(name);
    select(this.find(".order"), preset ? name : order);
    select(this.find(".pace"), pace);
    select(this.find(".revision"), revision);
    this.root.classList.toggle("preset", preset !== null);
    this.root.setAttribute("aria-label", name);
    const explained = this.catalogue.explain(name);
    this.find(".explain").textContent = explained;
    this.find(".explain").title = explained;
    this.find(".revising").textContent = !preset && revision ? `+ ${revision}` : "";
    const grid = this.find(".tuning .grid");
    grid.replaceChildren(
      grid.firstElementChild,
      ...this.catalogue.parametersOf(this.choice).map((parameter) => this.#field(parameter)),
    );
    this.#summarize();
    this.#bars();
  }

  /** The switch of what the bars show; what the strategy ranks by is marked. */
  #bars() {
    const own = quantityOf(this.#order);
    const made = choices(this.#order).map((name) => {
      const one = option({ name, about: QUANTITIES[name].about });
      one.textContent = name === own ? `${QUANTITIES[name].label} ✓` : QUANTITIES[name].label;
      return one;
    });
    this.find(".bars").replaceChildren(...made);
    this.find(".bars").value = this.quantity;
    this.find(".bars").title = `Tall: ${QUANTITIES[this.quantity].about}. The strategy ranks by the one with the tick.`;
  }

  #summarize() {
    const set = this.catalogue.parametersOf(this.choice).filter(({ name }) => this.choice.parameters[name]);
    const told = set.map((parameter) => `${labelOf(parameter).toLowerCase()} ${this.choice.parameters[parameter.name]}`);
    this.find(".tuning summary").textContent = told.length > 0 ? told.join(" · ") : "Tune";
  }

  /** @param {import("./catalogue.js").Parameter} parameter */
  #field(parameter) {
    const { name, about, usual, choices: named, type } = parameter;
    const offered = type === "boolean" ? ["true", "false"] : type === "choice" ? named : null;
    const input = offered
      ? element("select", "", option({ name: "", about: "" }), ...offered.map((one) => option({ name: one, about: "" })))
      : element("input", "");
    if (offered) input.firstElementChild.textContent = usual;
    Object.assign(input, { name, title: about, value: this.choice.parameters[name] ?? "", autocomplete: "off" });
    if (!offered) input.placeholder = usual ?? "";
    input.addEventListener("change", () => {
      this.choice = { ...this.choice, parameters: { ...this.choice.parameters, [name]: input.value.trim() } };
      // A part has parameters of its own.
      if (type === "choice") {
        this.#settle();
        this.focus(name);
      }
      this.#summarize();
      this.#change();
    });
    const problem = element("span", "problem");
    problem.setAttribute("role", "alert");
    problem.hidden = true;
    const field = element("label", "field", element("span", "", labelOf(parameter)), input, problem);
    field.dataset.field = name;
    return field;
  }

  #change() {
    this.problem(null);
    if (this.run) {
      this.stale = true;
      this.#state();
    }
    this.on.changed();
  }

  /** The first invalid option: its field and a sentence; null if all are valid. */
  get wrong() {
    return this.catalogue.wrong(this.choice);
  }

  focus(name) {
    this.find(`[data-field="${name}"] :is(input, select)`).focus();
  }

  /** Says what is wrong with a request, beside the field that it is about if there is one. */
  problem(message, param = null, again = false) {
    for (const place of this.root.querySelectorAll(".problem")) tell(place, null);
    const field = param && this.find(`[data-field="${CSS.escape(param)}"]`);
    if (field) this.find(".tuning").open = true;
    tell(field ? field.querySelector(".problem") : this.find("header > .problem"), message);
    this.find(".again").hidden = !again && !this.stale;
  }

  /** Slots, and nothing in them yet. */
  clear(count = 0, prompt = "", waiting = "") {
    this.run = null;
    this.waiting = waiting;
    this.stale = false;
    this.find(".again").hidden = true;
    this.arcs.clear();
    this.canvas.preview(count, prompt);
    this.find(".prompt").hidden = prompt === "";
    this.why.clear();
    this.map.clear();
    this.#numbers(0, 0, `0 of ${count}`);
    this.root.classList.remove("reached");
    for (const place of [".verdict", ".whole", ".now", ".story", ".dots"]) this.find(place).textContent = "";
    this.find(".dots").hidden = true;
    this.#state();
    this.#bars();
  }

  /** Waits for something, in words. */
  wait(what) {
    this.waiting = what;
    this.#state();
  }

  /** @param {import("./run.js").Run} run @param {string | null} expected */
  show(run, expected) {
    this.run = run;
    this.stale = false;
    this.expected = expected;
    this.find(".dots").replaceChildren();
    this.find(".again").hidden = true;
    this.#drawn = "";
    this.canvas.show(run);
    this.find(".prompt").hidden = run.from === 0;
    this.#bars();
    this.update(0);
  }

  /** Shows the moment after so many steps. Most frames of a playback change nothing. */
  update(steps) {
    const { run } = this;
    const key = run && `${steps} ${run.length} ${run.status}`;
    if (!run || key === this.#drawn) return;
    this.#drawn = key;
    if (steps !== this.#steps) this.arcs.clear();
    this.#steps = steps;
    this.canvas.update(steps, this.quantity);
    this.why.update(run, steps, this.#order, this.quantity);
    this.map.update(run, steps, this.quantity);
    this.#numbers(run.nfeAt(steps), run.secondsAt(steps), `${run.decidedAt(steps)} of ${run.gaps.length}`);
    this.#outcome(!run.running && steps === run.length);
    this.#state();
    if (this.#seen?.anchor.isConnected && !byId("tip").hidden) showTip(run, this.#seen.position, steps, this.#seen.anchor);
  }

  /** Draws the moment anew. */
  #again() {
    this.#drawn = "";
    this.update(this.#steps);
  }

  #numbers(nfe, seconds, decided) {
    this.find(".nfe b").textContent = `${nfe}`;
    this.find(".nfe span").textContent = nfe === 1 ? "pass" : "passes";
    this.find(".time b").textContent = seconds.toFixed(2);
    this.find(".decided b").textContent = decided;
  }

  /** The text so far, in the room that it will take as far as that is known; what is to be said of it comes at the end. */
  #outcome(reached) {
    const { run } = this;
    this.root.classList.toggle("reached", reached);
    this.find(".whole").textContent = run.textAt(run.length);
    this.find(".now").textContent = run.textAt(this.#steps).replace(/▁+$/, "▁");
    const story = run.story(this.#steps);
    Object.assign(this.find(".story"), { textContent: story, title: story });
    this.#moments();
    const verdict = this.find(".verdict");
    const judged = this.expected !== null && ["done", "recorded"].includes(run.status);
    const said = judged ? /####\s*\$?(-?[\d.]+)/.exec(run.textAt(run.length))?.[1] : undefined;
    verdict.classList.toggle("right", judged && said === this.expected);
    verdict.classList.toggle("wrong", judged && said !== this.expected);
    verdict.textContent = !judged
      ? ""
      : said === this.expected
        ? `${said} is right`
        : `${said ?? "no number"}, not ${this.expected}`;
  }

  /** A dot for each moment of the run, to go there. */
  #moments() {
    const { run } = this;
    const dots = this.find(".dots");
    dots.hidden = run.moments.length === 0;
    if (dots.childElementCount !== run.moments.length) {
      dots.replaceChildren(
        ...run.moments.map(({ step }, index) => {
          const dot = element("button", "dot", `${index + 1}`);
          dot.type = "button";
          dot.title = `Step ${step}`;
          dot.setAttribute("aria-label", `Moment ${index + 1}: step ${step}`);
          dot.addEventListener("click", () => this.run && this.on.seek(this.run, step));
          return dot;
        }),
      );
    }
    const current = run.moments.findLastIndex(({ step }) => step <= this.#steps);
    [...dots.children].forEach((dot, index) => dot.setAttribute("aria-current", String(index === current)));
  }

  #state() {
    const { run } = this;
    const hand = run?.hand ? "with your hand" : "";
    const told = {
      running: "running",
      stopped: "stopped",
      failed: "broken off",
      loaded: "loaded",
      recorded: "recorded",
      done: hand,
    };
    const said = !run ? this.waiting : this.stale ? "changed, run again" : told[run.status];
    const place = this.find(".state");
    if (place.textContent !== said) place.textContent = said;
    this.root.classList.toggle("stale", this.stale);
    if (this.stale) this.find(".again").hidden = false;
    this.root.classList.toggle("by-hand", Boolean(run?.hand));
  }

  #inspect(seen) {
    clearTimeout(this.#timer);
    this.#seen = seen;
    this.arcs.clear();
    this.on.inspected(seen ? seen.position : null);
    const { run } = this;
    if (!seen || !run) return hideTip();
    showTip(run, seen.position, seen.steps, seen.anchor);
    if (document.activeElement === this.find(".canvas")) byId("status").textContent = speak(run, seen.position, seen.steps);
    if (run.canvas[seen.position].gap && !run.at(seen.position, seen.steps))
      this.#timer = window.setTimeout(() => this.#ask(run, seen), RESTING);
  }

  /** Asks what an open slot could become and what it looks at. */
  async #ask(run, seen) {
    const probed = await this.on.probe(this, seen.position, seen.steps).catch(() => null);
    if (!probed || this.#seen !== seen || this.run !== run || byId("tip").hidden) return;
    showTip(run, seen.position, seen.steps, seen.anchor, probed);
    if (probed.attention && seen.anchor.isConnected)
      this.arcs.show(seen.anchor, probed.attention, (position) => this.canvas.anchor(position));
  }

  /** Nothing is looked at any more. */
  leave() {
    this.#inspect(null);
  }

  highlight(position) {
    if (!this.run) return;
    this.canvas.highlight(position);
    this.map.highlight(position !== null && position >= this.run.from ? position : null);
  }

  repaint() {
    this.#drawn = "";
    this.canvas.repaint();
    this.map.repaint();
    this.update(this.#steps);
  }
}

function option({ name, about }) {
  const made = element("option", "", name || "none");
  made.value = name;
  if (about) made.title = about;
  return made;
}

function group(label, parts) {
  const made = element("optgroup", "", ...parts.map(option));
  made.label = label;
  return made;
}

/** Chooses a value, also one that was not offered. */
function select(field, value) {
  if (![...field.options].some((known) => known.value === value)) field.append(option({ name: value, about: "" }));
  field.value = value;
}
