/** The ranking before a step: why it goes where it goes. */

import { element } from "./dom.js";
import { standing } from "./run.js";
import { number, percent } from "./tip.js";
import { named } from "./tokens.js";

const TOP = 6;
const ROWS = 8;

export class WhyView {
  /** @param {HTMLElement} root */
  constructor(root) {
    this.headline = root.querySelector(".headline");
    this.list = root.querySelector("ol");
  }

  clear() {
    this.headline.textContent = "Before each step: which slots pay most attention to what is there, and which are chosen.";
    this.list.replaceChildren(...Array.from({ length: ROWS }, () => element("li", "empty")));
  }

  /**
   * Shows the step that comes next, or at the end the last one.
   * @param {import("./run.js").Run} run
   * @param {string} order what the strategy ranks by
   */
  update(run, steps, order) {
    if (run.length === 0) return this.clear();
    const step = Math.min(steps, run.length - 1);
    const ranking = run.ranking(step);
    this.headline.replaceChildren(...headline(run, step, steps, order, ranking));
    const rows = ranking.length > 0 ? ranked(ranking) : run.steps[step].committed.slice(0, ROWS).map((commit) => ({ commit, position: commit.position }));
    this.list.replaceChildren(...rows.map((row) => line(run, row, run.steps[step].range)));
    while (this.list.childElementCount < ROWS) this.list.append(element("li", "empty"));
  }
}

/** The top of the ranking and, if they are not there, the first of the chosen. */
function ranked(ranking) {
  const chosen = ranking.filter(({ commit }) => commit);
  const below = chosen.filter(({ rank }) => rank > ROWS);
  if (below.length === 0 || chosen.length - below.length >= TOP) return ranking.slice(0, ROWS);
  const kept = below.slice(0, chosen.length === below.length ? 3 : ROWS - TOP);
  return [...ranking.slice(0, ROWS - kept.length), ...kept];
}

function headline(run, step, steps, order, ranking) {
  const { committed } = run.steps[step];
  const title = element("strong", "", steps < run.length ? `Next, step ${step + 1}: ` : `Last, step ${step + 1}: `);
  const count = committed.length === 1 ? "one slot" : `${committed.length} slots`;
  if (committed.length === 0) return [title, "nothing is decided."];
  if (ranking.length === 0) return [title, `${count}. This trace has no dependency scores.`];
  const best = ranking.find(({ commit }) => commit);
  const from = `of ${ranking.length}`;
  if (order === "dos") return [title, `${count} ${from}, from the top: where the model looks most at what is there.`];
  const [surest] = [...committed].sort((a, b) => (b.probability ?? 0) - (a.probability ?? 0));
  const because = {
    confidence: `where the model is surest (${percent(surest.probability ?? 0)})`,
    entropy: "where the model is least uncertain",
    margin: "where the best token is furthest ahead",
    random: "by lot",
  }[order];
  return [title, `${count} ${from}${because ? `, ${because}` : ""}. The best of them is number ${best?.rank ?? "?"} by attention.`];
}

function line(run, { position, score, rank, commit }, range) {
  const row = element("li", commit ? "chosen" : "");
  row.append(
    element("span", "rank", rank === undefined ? "" : `${rank}`),
    element("span", "what", commit ? element("code", run.isEnd(commit) ? "ends" : "", named(commit.text ?? `${commit.token}`)) : element("i", "slot")),
    element("span", "where", `place ${run.place(position)}`),
  );
  const bar = element("span", "meter", element("i", ""));
  bar.firstElementChild.style.width = score === undefined ? "0" : `${(4 + 96 * standing(score, range)).toFixed(1)}%`;
  row.append(bar, element("span", "score", score === undefined ? "" : number(score)));
  row.append(element("span", "sure", commit?.probability != null ? percent(commit.probability) : ""));
  return row;
}
