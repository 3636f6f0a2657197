/** The recorded run that plays when the page opens, told in three captions. */

import { byId, element } from "./dom.js";

/**
 * @typedef {object} Caption
 * @property {number} step from when it is shown
 * @property {string} text
 */

/**
 * The story of the two recorded runs. Every number is counted in them.
 * @param {import("./run.js").Run} sure the one that decides first what the model is surest of
 * @param {import("./run.js").Run} looking the one that decides first what looks most at what is there
 * @returns {Caption[]}
 */
export function captions(sure, looking) {
  const isWord = (commit) => !sure.isEnd(commit);
  const first = sure.steps.findIndex((step) => step.committed.some(isWord));
  const lost = sure.steps.slice(0, first).reduce((sum, step) => sum + step.committed.length, 0);
  const answer = (run) => /####\s*(\S+)/.exec(run.textAt(run.length))?.[1] ?? "nothing";
  return [
    {
      step: 0,
      text: `The same model and question, ${sure.gaps.length} empty slots. ${sure.strategy} decides first the slots that the model is surest of, ${looking.strategy} those that look most at what is already there.`,
    },
    {
      step: Math.max(1, Math.round(first / 2)),
      text: `Surest of all is the end: ${lost} of ${sure.gaps.length} slots become end of text before the first word. ${looking.strategy} calculates, step by step.`,
    },
    {
      step: Math.max(first + 1, looking.length),
      text: `No room was left to calculate: ${answer(sure)}, and wrong. Same model, other order: ${answer(looking)} is right, in ${looking.nfeAt(looking.length)} passes instead of ${sure.nfeAt(sure.length)}.`,
    },
  ];
}

export class Story {
  /** @type {Caption[]} */
  #captions = [];
  #shown = -1;

  /** @param {(step: number) => void} seek */
  constructor(seek) {
    this.seek = seek;
    this.place = byId("caption");
    this.dots = byId("captions");
    this.lead = byId("lead");
  }

  get telling() {
    return this.#captions.length > 0;
  }

  /** @param {import("./run.js").Run[]} runs */
  begin([sure, looking]) {
    this.#captions = captions(sure, looking);
    this.#shown = -1;
    const dots = this.#captions.map(({ step }, index) => {
      const dot = element("button", "dot", `${index + 1}`);
      dot.type = "button";
      dot.setAttribute("aria-label", `Caption ${index + 1} of ${this.#captions.length}`);
      dot.addEventListener("click", () => this.seek(step));
      return dot;
    });
    this.dots.replaceChildren(...dots);
    this.#swap(true);
    this.update(0);
  }

  /** Goes on to what belongs to a moment. */
  update(at) {
    if (!this.telling) return;
    const index = this.#captions.findLastIndex(({ step }) => step <= at + 1e-9);
    if (index === this.#shown) return;
    this.#shown = index;
    this.place.textContent = this.#captions[index].text;
    [...this.dots.children].forEach((dot, number) => dot.setAttribute("aria-current", String(number === index)));
  }

  /** Something else is shown now. */
  end() {
    if (!this.telling) return;
    this.#captions = [];
    this.#swap(false);
  }

  #swap(telling) {
    this.dots.hidden = this.place.hidden = !telling;
    this.lead.hidden = telling;
  }
}
