/** Take the wheel: decide a slot yourself, by a candidate of the model's or a word of your own. */

import { byId, element } from "./dom.js";
import { named, percent } from "./tokens.js";

/**
 * @typedef {{committed: {position: number, token: number, text: string}[], remasked: number[]}} Change
 */

export class Wheel {
  #serial = 0;

  constructor() {
    this.root = byId("wheel");
    this.root.addEventListener("keydown", (event) => {
      if (event.key !== "Escape") return;
      event.stopPropagation();
      this.close();
    });
    byId("wheel-close").addEventListener("click", () => this.close());
  }

  get open() {
    return !this.root.hidden;
  }

  close() {
    this.#serial += 1;
    this.root.hidden = true;
    this.back?.focus?.({ preventScroll: true });
  }

  /**
   * Offers what a position can become.
   * @param {object} asked
   * @param {import("./run.js").Run} asked.run
   * @param {number} asked.position
   * @param {number} asked.steps
   * @param {Element} asked.anchor
   * @param {any} asked.back what has the focus afterwards
   * @param {(text?: string) => Promise<any>} asked.probe asks the server about the slot, and how a text is cut into tokens
   * @param {(change: Change) => void} asked.decide
   */
  async show({ run, position, steps, anchor, back, probe, decide }) {
    const serial = (this.#serial += 1);
    this.back = back;
    const commit = run.at(position, steps);
    byId("wheel-title").textContent = commit
      ? `Place ${run.place(position)} is decided`
      : `Decide place ${run.place(position)} yourself`;
    byId("wheel-again").hidden = !commit;
    byId("wheel-own").hidden = Boolean(commit);
    this.#say("");
    const list = byId("wheel-candidates");
    list.replaceChildren();
    const done = (change) => {
      this.close();
      decide(change);
    };
    byId("wheel-again").onclick = () => done({ committed: [], remasked: [position] });
    byId("wheel-word").value = "";
    byId("wheel-own").onsubmit = (event) => {
      event.preventDefault();
      this.#pin(run, position, steps, probe, done);
    };
    this.root.hidden = false;
    this.#place(anchor.getBoundingClientRect());
    (commit ? byId("wheel-again") : byId("wheel-word")).focus({ preventScroll: true });
    if (commit) return;
    try {
      const { candidates } = await probe();
      if (serial !== this.#serial) return;
      list.replaceChildren(...candidates.map((candidate) => this.#candidate(run, position, candidate, done)));
      this.#place(anchor.getBoundingClientRect());
    } catch (error) {
      if (serial === this.#serial) this.#say(error.message);
    }
  }

  #candidate(run, position, { token, text, probability }, done) {
    const button = element(
      "button",
      "candidate",
      element("code", "", run.ends.has(token) ? "end of text" : named(text)),
      element("span", "soft", percent(probability)),
    );
    button.type = "button";
    button.addEventListener("click", () => done({ committed: [{ position, token, text }], remasked: [] }));
    return element("li", "", button);
  }

  /** Puts a word of the visitor's into the slot and as many behind it as the word has tokens. */
  async #pin(run, position, steps, probe, done) {
    const word = byId("wheel-word").value;
    if (word === "") return this.#say("Write a word first.");
    let tokens;
    try {
      ({ tokens } = await probe(word));
    } catch (error) {
      return this.#say(error.message);
    }
    const places = tokens.map((_, index) => position + index);
    const free = (at) => run.canvas[at]?.gap && !run.at(at, steps);
    if (!places.every(free)) return this.#say(`“${word}” has ${tokens.length} tokens, but there is no room for so many here.`);
    done({ committed: tokens.map(({ token, text }, index) => ({ position: position + index, token, text })), remasked: [] });
  }

  #say(message) {
    byId("wheel-problem").textContent = message;
    byId("wheel-problem").hidden = !message;
  }

  #place(anchor) {
    const margin = 8;
    const { width, height } = this.root.getBoundingClientRect();
    const left = Math.min(Math.max(anchor.left + anchor.width / 2 - width / 2, margin), innerWidth - width - margin);
    const below = anchor.bottom + margin + height <= innerHeight - margin;
    this.root.style.left = `${left}px`;
    this.root.style.top = `${below ? anchor.bottom + margin : Math.max(margin, anchor.top - height - margin)}px`;
  }
}
