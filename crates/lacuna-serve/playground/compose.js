/** The question: a prompt or a text with gaps, and the settings that all lanes share. */

import { fault } from "./catalogue.js";
import { byId, element, tell } from "./dom.js";
import { exampleOf } from "./examples.js";

/**
 * @typedef {object} Settings
 * @property {"prompt" | "gaps" | "strategies"} mode
 * @property {string} part the part that is explained
 * @property {string} prompt
 * @property {string} question
 * @property {string} text
 * @property {string} gen_length
 * @property {string} temperature
 * @property {string} seed
 * @property {"" | "defer" | "suppress"} eos
 * @property {boolean} early_stop
 */

const DEFAULT_LENGTH = 64;
const NUMBERS = ["gen_length", "temperature", "seed"];
/** Tasks that the embedded model was trained on. */
const EMBEDDED = {
  id: "lacuna-mini",
  knows: "lacuna-mini is small: it knows arithmetic word problems and small Python functions, and nothing else.",
};

export class Compose {
  /**
   * @param {import("./catalogue.js").Catalogue} catalogue
   * @param {{changed: () => void, explain: () => void, run: () => void, example: (example: import("./examples.js").Example) => void}} on
   */
  constructor(catalogue, on) {
    this.catalogue = catalogue;
    this.form = byId("compose");
    this.form.addEventListener("submit", (event) => {
      event.preventDefault();
      on.run();
    });
    this.form.addEventListener("input", (/** @type {any} */ event) => {
      if (event.target.id === "gap-size" || event.target.id === "key") return;
      this.#mode();
      this.problem(null);
      this.mark(null);
      this.hint();
      if (event.target.value === "strategies" && event.target.name === "mode") on.explain();
      else on.changed();
    });
    byId("gap-insert").addEventListener("click", () => {
      const text = byId("text");
      text.setRangeText(`<gap:${Math.max(1, Number(byId("gap-size").value) || 1)}>`, text.selectionStart, text.selectionEnd, "end");
      text.focus();
      on.changed();
    });
    this.on = on;
  }

  /** @param {import("./examples.js").Example[]} examples */
  offer(examples) {
    const chips = examples.map((example) => {
      const chip = element("button", "chip", example.name);
      chip.type = "button";
      chip.title = example.about ?? example.prompt ?? "";
      chip.addEventListener("click", () => this.on.example(example));
      return chip;
    });
    byId("examples").replaceChildren(...chips);
  }

  /** Says which example this is, and what to look at. @param {import("./examples.js").Example | null} example */
  mark(example) {
    for (const chip of byId("examples").children) chip.setAttribute("aria-pressed", String(chip.textContent === example?.name));
    byId("example-about").textContent = example?.about ?? "";
  }

  /** Says what the model can do, where the prompt is the visitor's own. */
  hint() {
    const { mode } = this.settings;
    const { asked } = this;
    const own = mode !== "strategies" && asked.trim() !== "" && !exampleOf(asked) && !byId("example-about").textContent;
    if (own && this.catalogue.model.id === EMBEDDED.id) byId("example-about").textContent = EMBEDDED.knows;
  }

  #field(name) {
    return this.form.elements.namedItem(name);
  }

  /** @returns {any} */
  get settings() {
    const typed = (name) => this.#field(name).value;
    return {
      mode: typed("mode"),
      part: typed("part"),
      prompt: typed("prompt"),
      question: typed("question"),
      text: typed("text"),
      gen_length: typed("gen_length").trim(),
      temperature: typed("temperature").trim(),
      seed: typed("seed").trim(),
      eos: typed("eos"),
      early_stop: this.#field("early_stop").checked,
    };
  }

  /** @param {any} settings some of the {@link Settings} */
  set settings(settings) {
    for (const [name, value] of Object.entries(settings)) {
      if (typeof value === "boolean") this.#field(name).checked = value;
      else if (value !== undefined) this.#field(name).value = value;
    }
    this.#mode();
  }

  #mode() {
    const { mode } = this.settings;
    for (const part of this.form.querySelectorAll("[data-mode]")) part.hidden = !part.dataset.mode.split(" ").includes(mode);
  }

  /**
   * The fields of a request that all lanes share.
   * @param {boolean} chat whether the model has a chat template; one that has none gets the prompt as it is
   */
  fields(chat) {
    const settings = this.settings;
    const asked = this.asked;
    /** @type {Record<string, any>} */
    const fields = chat ? { messages: [{ role: "user", content: asked }] } : { prompt: asked };
    if (settings.mode === "gaps") {
      if (asked.trim() === "") delete fields[chat ? "messages" : "prompt"];
      fields.text = settings.text;
    }
    for (const name of NUMBERS) {
      if (settings[name] === "" || (name === "gen_length" && settings.mode === "gaps")) continue;
      fields[name] = Number(settings[name]);
    }
    if (settings.eos === "defer") fields.defer_eos = true;
    if (settings.eos === "suppress") fields.suppress_eos = true;
    if (!settings.early_stop) fields.early_stop = false;
    return fields;
  }

  /** The first invalid setting: its field and a sentence; null if all are valid. */
  get wrong() {
    const settings = this.settings;
    const { mode, prompt, text } = settings;
    for (const param of NUMBERS) {
      const message = fault({ type: "number", ...this.catalogue.parameter(param) }, settings[param]);
      if (message) return { param, message };
    }
    if (mode !== "gaps" && prompt.trim() === "") return { param: "prompt", message: "Write something to answer first." };
    if (mode === "gaps" && !/<gap:\d+>/.test(text))
      return { param: "text", message: "There is no gap in it. Write one as <gap:5>." };
    return null;
  }

  /** Number of slots, as far as it is known. */
  get slots() {
    const { mode, text, gen_length } = this.settings;
    if (mode !== "gaps") return Math.min(Math.max(Number(gen_length) || DEFAULT_LENGTH, 1), 1024);
    const gaps = [...text.matchAll(/<gap:(\d+)>/g)].map(([, length]) => Number(length));
    return Math.min(
      gaps.reduce((sum, length) => sum + length, 0),
      1024,
    );
  }

  /** The text before the slots. */
  get asked() {
    const { mode, prompt, question } = this.settings;
    return mode === "gaps" ? question : prompt;
  }

  focus(name) {
    this.#field(name).focus();
  }

  /** Says what is wrong, beside the field that it is about. @returns {boolean} whether there is such a field */
  problem(message, param = null) {
    for (const place of this.form.querySelectorAll(".field .problem")) tell(place, null);
    if (!message) return true;
    const alias = { messages: this.settings.mode === "gaps" ? "question" : "prompt", defer_eos: "eos", suppress_eos: "eos" };
    const field = param && this.form.querySelector(`[data-field="${CSS.escape(alias[param] ?? param)}"]`);
    if (!field) return false;
    field.closest("details")?.setAttribute("open", "");
    tell(field.querySelector(".problem"), message);
    return true;
  }
}
