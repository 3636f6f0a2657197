/** Details of one position at one step, shown beside it. */

import { byId, element } from "./dom.js";
import { QUANTITIES, standing } from "./quantity.js";
import { isSpecial, named, number, percent } from "./tokens.js";

const LOOKS = 5; // words that a slot looks at, in a line

/**
 * @typedef {{token: number, text: string, probability: number | null}} Candidate
 * @typedef {{entropy: number, candidates: Candidate[], attention: [number, number][] | null}} Probed
 */

/**
 * Shows what a run knows about a position after so many steps.
 * @param {import("./run.js").Run} run
 * @param {Element | {getBoundingClientRect(): DOMRect}} anchor
 * @param {Probed | null} probed what the server said about the slot
 */
export function showTip(run, position, steps, anchor, probed = null) {
  const tip = byId("tip");
  const facts = describe(run, position, steps);
  tip.replaceChildren(
    element("p", "title", element("code", "", facts.title), element("span", "soft", facts.where)),
    element("dl", "", ...facts.rows.map(([term, value]) => element("div", "", element("dt", "", term), element("dd", "", value)))),
  );
  if (probed) tip.append(...candidates(run, steps, probed));
  if (facts.open) tip.append(element("p", "soft hint", "Click to decide it yourself"));
  tip.hidden = false;
  place(tip, anchor.getBoundingClientRect());
}

export function hideTip() {
  byId("tip").hidden = true;
}

/** The tip's text in one line, for screen readers. */
export function speak(run, position, steps) {
  const { title, where, rows, open } = describe(run, position, steps);
  return [`${title}, ${where}`, ...rows.map(([term, value]) => `${term} ${value}`), ...(open ? ["Enter decides it"] : [])].join(
    "; ",
  );
}

function describe(run, position, steps) {
  if (position < run.from) return { title: named(run.canvas[position].text), where: "prompt", rows: [], open: false };
  const where = `place ${run.place(position)} of ${run.places}`;
  const given = run.canvas[position];
  if (!given.gap) return { title: named(given.text), where, rows: [["given", "part of the text"]], open: false };
  const commit = run.at(position, steps);
  if (!commit) return { title: "undecided", where, rows: undecided(run, position, steps), open: steps < run.length };
  const rows = [[commit.hand ? "decided by you in" : "decided in", `step ${commit.step + 1} of ${run.length}`]];
  if (run.blockLength) rows.push(["block", `${run.steps[commit.step].block + 1}`]);
  if (commit.probability !== null) rows.push(["probability", percent(commit.probability)]);
  if (commit.entropy !== null) rows.push(["entropy", `${number(commit.entropy)} nats`]);
  rows.push(...stands(run, position, commit.step, ["attention"]));
  if (commit.probability === null && rows.length === 1 && !commit.hand) rows.push(["", "The trace tells no more."]);
  return { title: commit.text === null ? `token ${commit.token}` : named(commit.text), where, rows, open: false };
}

function undecided(run, position, steps) {
  const rows = [];
  if (steps > 0 && run.steps[steps - 1].remasked.includes(position)) rows.push(["taken back in", `step ${steps}`]);
  if (steps >= run.length) return [...rows, ["", run.running ? "still to come" : "was not needed"]];
  rows.push(...stands(run, position, steps, ["attention", "confidence", "entropy"]));
  if (run.steps[steps].committed.some((commit) => commit.position === position)) rows.push(["chosen", "in the next step"]);
  return rows;
}

/** Its numbers before a step, and how they rank. */
function stands(run, position, step, names) {
  return names.flatMap((name) => {
    const found = standing(run.steps[step], name, position);
    if (!found) return [];
    const value = name === "confidence" ? percent(found.value) : number(found.value);
    return [[QUANTITIES[name].label, `${value}, rank ${found.rank} of ${found.count}`]];
  });
}

function candidates(run, steps, { candidates: found, attention }) {
  const rows = found.map(({ token, text, probability }) => {
    const meter = element("span", "meter", element("i", ""));
    meter.firstElementChild.style.width = `${Math.max(1, 100 * probability).toFixed(1)}%`;
    return element(
      "li",
      "",
      element("code", "", run.ends.has(token) ? "end of text" : named(text)),
      meter,
      element("span", "", percent(probability)),
    );
  });
  const words = attention?.map(([position]) => textAt(run, position, steps)).filter((text) => text !== null && !isSpecial(text));
  const looks = words?.slice(0, LOOKS).map(named);
  const list = [element("p", "soft", "could become"), element("ol", "candidates", ...rows)];
  return looks?.length ? [...list, element("p", "soft looks", `looks at ${looks.join("  ")}`)] : list;
}

function textAt(run, position, steps) {
  return run.canvas[position].gap ? (run.at(position, steps)?.text ?? "▁") : run.canvas[position].text;
}

function place(tip, anchor) {
  const margin = 8;
  const { width, height } = tip.getBoundingClientRect();
  const left = Math.min(Math.max(anchor.left + anchor.width / 2 - width / 2, margin), innerWidth - width - margin);
  const below = anchor.bottom + margin + height <= innerHeight - margin;
  const above = anchor.top - height - margin;
  tip.style.left = `${left}px`;
  tip.style.top = `${below ? anchor.bottom + margin : Math.max(margin, above)}px`;
}
