/** A lane: one strategy, its canvas, what it cost, and why it went where it went. */

import { CanvasView } from "./canvas.js";
import { byId, element, tell } from "./dom.js";
import { HeatMap } from "./heatmap.js";
import { hideTip, showTip, speak } from "./tip.js";
import { WhyView } from "./why.js";

export class Lane {
  /** @type {import("./run.js").Run | null} */
  run = null;
  /** Whether something else was chosen since its run was made. */
  stale = false;
  /** Whether it has asked and got no answer yet. */
  waiting = false;
  /** The number that is right, if it is known. @type {string | null} */
  expected = null;
  #steps = 0;
  #drawn = "";
  /** What is looked at. @type {{position: number, anchor: HTMLElement} | null} */
  #seen = null;

  /**
   * @param {import("./strategies.js").Catalogue} catalogue
   * @param {import("./strategies.js").Choice} choice
   * @param {{changed: () => void, removed: (lane: Lane) => void, seek: (run: object, steps: number) => void, inspected: (position: number | null) => void}} on
   */
  constructor(catalogue, choice, on) {
    this.catalogue = catalogue;
    this.choice = choice;
    this.on = on;
    this.root = byId("lane-template").content.firstElementChild.cloneNode(true);
    this.canvas = new CanvasView(this.find(".canvas"), this.find(".prompt"), (seen) => this.#inspect(seen && { ...seen, steps: this.#steps }));
    this.why = new WhyView(this.find(".why"));
    this.map = new HeatMap(this.find(".map"), {
      seek: (steps) => on.seek(this.run, steps),
      inspect: (seen) => this.#inspect(seen),
    });
    for (const name of ["order", "pace", "revision"]) {
      this.find(`.${name}`).addEventListener("change", (event) => this.#choose({ [name]: event.target.value }));
    }
    this.find(".remove").addEventListener("click", () => on.removed(this));
    this.offer();
    this.clear();
  }

  find(selector) {
    return this.root.querySelector(selector);
  }

  /** Opens or closes what explains the canvas. */
  unfold(open) {
    for (const panel of [".why", ".map"]) this.find(panel).open = open;
  }

  get name() {
    return this.catalogue.nameOf(this.choice);
  }

  /** Offers what the catalogue has. */
  offer() {
    const { orders, presets, paces, revisions } = this.catalogue.parts;
    this.find(".order").replaceChildren(group("Order", orders), group("Published methods", presets));
    const own = paces.some(({ name }) => name === this.choice.pace) || !this.choice.pace ? paces : [{ name: this.choice.pace }, ...paces];
    this.find(".pace").replaceChildren(...own.map(option));
    this.find(".revision").replaceChildren(option({ name: "" }), ...revisions.map(option));
    this.#settle();
  }

  #choose(change) {
    this.choice = { ...this.choice, ...change };
    if (!this.catalogue.isPreset(this.choice.order) && !this.choice.pace) this.choice.pace = "top1";
    this.#settle();
    this.#change();
  }

  #settle() {
    const { order, pace, revision } = this.choice;
    const preset = this.catalogue.isPreset(order);
    this.find(".order").value = order;
    this.find(".pace").value = pace;
    this.find(".revision").value = revision;
    this.root.classList.toggle("preset", preset);
    this.root.setAttribute("aria-label", this.name);
    this.find(".explain").textContent = this.catalogue.explain(this.choice);
    this.find(".revising").textContent = !preset && revision ? `+ ${revision}` : "";
    const grid = this.find(".tuning .grid");
    grid.replaceChildren(grid.firstElementChild, ...this.catalogue.parametersOf(this.choice).map((parameter) => this.#field(parameter)));
    this.#summarize();
  }

  #summarize() {
    const set = this.catalogue.parametersOf(this.choice).filter(({ name }) => this.choice.parameters[name]);
    const told = set.map(({ name, label }) => `${label.toLowerCase()} ${this.choice.parameters[name]}`);
    this.find(".tuning summary").textContent = ["Parameters", ...told].join(" · ");
  }

  #field({ name, label, hint, about }) {
    const input = element("input", "");
    Object.assign(input, { name, placeholder: hint, title: about, value: this.choice.parameters[name] ?? "", autocomplete: "off" });
    input.addEventListener("change", () => {
      this.choice.parameters = { ...this.choice.parameters, [name]: input.value.trim() };
      this.#summarize();
      this.#change();
    });
    const problem = element("span", "problem");
    problem.setAttribute("role", "alert");
    problem.hidden = true;
    const field = element("label", "field", element("span", "", label), input, problem);
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

  /** What stands in the way of running: a field and a sentence, or null. */
  get wrong() {
    return this.catalogue.wrong(this.choice);
  }

  focus(name) {
    this.find(`[data-field="${name}"] input`).focus();
  }

  /** Says what is wrong with a request, beside the field that it is about if there is one. */
  problem(message, param = null) {
    for (const place of this.root.querySelectorAll(".problem")) tell(place, null);
    const field = param && this.find(`[data-field="${CSS.escape(param)}"]`);
    if (field) this.find(".tuning").open = true;
    tell(field ? field.querySelector(".problem") : this.find("header > .problem"), message);
  }

  /** Slots, and nothing in them yet. */
  clear(count = 0, prompt = "", waiting = false) {
    this.run = null;
    this.waiting = waiting;
    this.stale = false;
    this.canvas.preview(count, prompt);
    this.why.clear();
    this.map.clear();
    this.#numbers(0, 0, `0 of ${count}`);
    this.#asked(prompt ? "Prompt" : "");
    for (const place of [".verdict", ".whole", ".now", ".story"]) this.find(place).textContent = "";
    this.#state();
  }

  /** @param {import("./run.js").Run} run */
  show(run, expected) {
    this.run = run;
    this.stale = false;
    this.expected = expected;
    this.#drawn = "";
    this.canvas.show(run);
    this.#asked(run.from > 0 ? `Prompt, ${run.from} tokens` : "");
    this.update(0);
  }

  /** Shows the moment after so many steps. Most frames of a playback change nothing. */
  update(steps) {
    const { run } = this;
    const key = run && `${steps} ${run.length} ${run.status}`;
    if (!run || key === this.#drawn) return;
    this.#drawn = key;
    this.#steps = steps;
    this.canvas.update(steps);
    this.why.update(run, steps, this.#order());
    this.map.update(run, steps);
    this.#numbers(run.nfeAt(steps), run.secondsAt(steps), `${run.decidedAt(steps)} of ${run.gaps.length}`);
    this.#outcome(!run.running && steps === run.length);
    this.#state();
    if (this.#seen?.anchor.isConnected && !byId("tip").hidden) showTip(run, this.#seen.position, steps, this.#seen.anchor);
  }

  #order() {
    return this.catalogue.orderOf(this.catalogue.choice(this.run.strategy));
  }

  #asked(title) {
    this.find(".asked").hidden = title === "";
    this.find(".asked summary").textContent = title;
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
    this.find(".story").textContent = run.story(this.#steps);
    const verdict = this.find(".verdict");
    const judged = this.expected !== null && run.status === "done";
    const said = judged ? /####\s*\$?(-?[\d.]+)/.exec(run.textAt(run.length))?.[1] : undefined;
    verdict.classList.toggle("right", judged && said === this.expected);
    verdict.classList.toggle("wrong", judged && said !== this.expected);
    verdict.textContent = !judged ? "" : said === this.expected ? `${said} is right` : `${said ?? "nothing"} is wrong, it is ${this.expected}`;
  }

  #state() {
    const { run } = this;
    const said = !run
      ? this.waiting ? "waiting for the server" : ""
      : this.stale
        ? "changed, run again"
        : { running: "running", stopped: "stopped", failed: "broken off", loaded: "loaded", done: "" }[run.status];
    const place = this.find(".state");
    if (place.textContent !== said) place.textContent = said;
    this.root.classList.toggle("stale", this.stale);
  }

  #inspect(seen) {
    this.#seen = seen;
    this.on.inspected(seen ? seen.position : null);
    if (!seen || !this.run) return hideTip();
    showTip(this.run, seen.position, seen.steps, seen.anchor);
    if (document.activeElement === this.find(".canvas")) byId("status").textContent = speak(this.run, seen.position, seen.steps);
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
