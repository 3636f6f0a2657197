/** The ranking of the open slots before a step, and which of them are chosen. */

import { element } from "./dom.js";
import { QUANTITIES, levels, quantityOf, ranking } from "./quantity.js";
import { named, number, percent } from "./tokens.js";

const ROW = 19.2; // pixels
const FEWEST = 4;
const MOST = 16;

export class WhyView {
  /** @param {any} root @param {() => void} resized there is room for more rows, or fewer */
  constructor(root, resized) {
    this.headline = root.querySelector(".headline");
    this.list = root.querySelector("ol");
    this.room = FEWEST;
    new ResizeObserver(([{ contentRect }]) => {
      const room = Math.min(Math.max(Math.floor(contentRect.height / ROW), FEWEST), MOST);
      if (room === this.room) return;
      this.room = room;
      resized();
    }).observe(this.list);
  }

  clear() {
    this.headline.textContent = "Before each step: how the open slots rank, and which are chosen.";
    this.list.replaceChildren();
  }

  /**
   * Shows the step that comes next, or at the end the last one.
   * @param {import("./run.js").Run} run
   * @param {number} steps
   * @param {string} order the strategy's order
   * @param {import("./quantity.js").Name} quantity what the bars show
   */
  update(run, steps, order, quantity) {
    if (run.length === 0) return this.clear();
    const index = Math.min(steps, run.length - 1);
    const step = run.steps[index];
    const chosen = new Map(step.committed.map((commit) => [commit.position, commit]));
    const ranked = ranking(step, quantity);
    const title = element("strong", "", steps < run.length ? `Step ${index + 1} is next: ` : `Step ${index + 1} was the last: `);
    this.headline.replaceChildren(title, sentence(step, order, quantity, ranked, chosen));
    const rows =
      ranked.length > 0
        ? selected(ranked, chosen, this.room)
        : step.committed.slice(0, this.room).map(({ position }) => ({ position }));
    const tall = levels(step, quantity);
    this.list.replaceChildren(...rows.map((row) => line(run, step, row, chosen.get(row.position), tall?.[row.position])));
  }
}

/** The top of the ranking and, if they are not there, the first of the chosen. */
function selected(ranked, chosen, room) {
  const below = ranked.slice(room).filter(({ position }) => chosen.has(position));
  const above = ranked.slice(0, room).filter(({ position }) => chosen.has(position));
  if (below.length === 0 || above.length > room / 2) return ranked.slice(0, room);
  const kept = below.slice(0, above.length === 0 ? 3 : 2);
  return [...ranked.slice(0, room - kept.length), ...kept];
}

function sentence(step, order, quantity, ranked, chosen) {
  if (step.hand) return "you decided it.";
  const count = chosen.size === 1 ? "one slot" : `${chosen.size} slots`;
  if (chosen.size === 0) return "nothing is decided.";
  if (ranked.length === 0) return `${count}. This trace does not tell how they ranked.`;
  const best = ranked.find(({ position }) => chosen.has(position));
  const of = `${count} of ${ranked.length}`;
  if (order === "random") return `${of}, by lot.`;
  const ranks = quantityOf(order);
  const own = ranks === quantity;
  if (own && best?.rank === 1) return `${of}, from the top: the first ${QUANTITIES[quantity].why}.`;
  const place = best ? `the best of them is number ${best.rank} by ${QUANTITIES[quantity].label}` : "";
  return own ? `${of}; ${place}.` : `${of}, ranked by ${ranks === "score" ? order : QUANTITIES[ranks].label}; ${place}.`;
}

function line(run, step, { position, value, rank }, commit, level) {
  const row = element("li", commit ? "chosen" : "");
  const believed = step.beliefs?.token[position] ?? -1;
  const text = commit ? (commit.text ?? `${commit.token}`) : believed >= 0 ? run.textOf(believed) : null;
  const ends = commit ? run.isEnd(commit) : run.ends.has(believed);
  const what = text === null ? element("i", "slot") : element("code", ends ? "ends" : "", ends ? "end of text" : named(text));
  row.append(
    element("span", "rank", rank === undefined ? "" : `${rank}`),
    element("span", "what", what),
    element("span", "where", `place ${run.place(position)}`),
  );
  const bar = element("span", "meter", element("i", ""));
  bar.firstElementChild.style.width = level === undefined ? "0" : `${(3 + 97 * level).toFixed(1)}%`;
  row.append(
    bar,
    element(
      "span",
      "score",
      value === undefined ? (commit?.probability != null ? percent(commit.probability) : "") : number(value),
    ),
  );
  return row;
}
