/** What is known about one position at one moment, shown beside it. */

import { byId, element } from "./dom.js";
import { named } from "./tokens.js";

/** Shows what a run knows about a position after so many steps. */
export function showTip(run, position, steps, anchor) {
  const tip = byId("tip");
  const facts = describe(run, position, steps);
  tip.replaceChildren(
    element("p", "title", element("code", "", facts.title), element("span", "soft", facts.where)),
    element("dl", "", ...facts.rows.map(([term, value]) => element("div", "", element("dt", "", term), element("dd", "", value)))),
  );
  tip.hidden = false;
  place(tip, anchor.getBoundingClientRect());
}

export function hideTip() {
  byId("tip").hidden = true;
}

/** What the tip says, in one line, for those who hear it. */
export function speak(run, position, steps) {
  const { title, where, rows } = describe(run, position, steps);
  return [`${title}, ${where}`, ...rows.map(([term, value]) => `${term} ${value}`)].join("; ");
}

function describe(run, position, steps) {
  if (position < run.from) return { title: named(run.canvas[position].text), where: "prompt", rows: [] };
  const where = `place ${run.place(position)} of ${run.places}`;
  if (!run.canvas[position].gap) return { title: named(run.canvas[position].text), where, rows: [["given", "part of the text"]] };
  const commit = run.at(position, steps);
  if (!commit) return { title: "undecided", where, rows: undecided(run, position, steps) };
  const rows = [["decided in", `step ${commit.step + 1} of ${run.length}`]];
  if (run.blockLength) rows.push(["block", `${run.steps[commit.step].block + 1}`]);
  if (commit.probability !== null) rows.push(["probability", percent(commit.probability)]);
  if (commit.entropy !== null) rows.push(["entropy", `${number(commit.entropy)} nats`]);
  rows.push(...dependency(run, position, commit.step));
  if (commit.probability === null && rows.length === 1) rows.push(["", "The trace tells no more."]);
  return { title: commit.text === null ? `token ${commit.token}` : named(commit.text), where, rows };
}

function undecided(run, position, steps) {
  const rows = [];
  if (steps > 0 && run.steps[steps - 1].remasked.includes(position)) rows.push(["taken back in", `step ${steps}`]);
  if (steps >= run.length) return [...rows, ["", run.running ? "still to come" : "was not needed"]];
  rows.push(...dependency(run, position, steps));
  if (run.steps[steps].committed.some((commit) => commit.position === position)) rows.push(["chosen", "in the next step"]);
  return rows;
}

function dependency(run, position, step) {
  const place = run.ranking(step).find((ranked) => ranked.position === position);
  if (!place) return [];
  return [["dependency", `${number(place.score)}, rank ${place.rank} of ${run.steps[step].dependency.size}`]];
}

export function percent(probability) {
  if (probability > 0.9995 && probability < 1) return ">99.9%";
  return `${(100 * probability).toFixed(1)}%`;
}

export function number(value) {
  return value > 0 && value < 0.001 ? "<0.001" : value.toFixed(3);
}

function place(tip, anchor) {
  const margin = 8;
  const { width, height } = tip.getBoundingClientRect();
  const left = Math.min(Math.max(anchor.left + anchor.width / 2 - width / 2, margin), innerWidth - width - margin);
  const above = anchor.top - height - margin;
  tip.style.left = `${left}px`;
  tip.style.top = `${above >= margin ? above : anchor.bottom + margin}px`;
}
