/** Quantities that slots can be ranked by. For each quantity the tallest bar is the slot that it would choose first. */

/**
 * @typedef {"attention" | "confidence" | "entropy" | "margin" | "score"} Name
 *
 * @typedef {object} Quantity
 * @property {string} label
 * @property {string} about what a bar shows, in a few words
 * @property {string} why what the first of the ranking is, for a sentence
 * @property {(step: import("./run.js").Step) => Float32Array | null} of one number for each position; NaN where there is none
 * @property {boolean} least whether the least comes first
 * @property {boolean} absolute whether bars are scaled from 0 to 1, not from the least to the greatest of a step
 */

/** @type {Record<Name, Quantity>} */
export const QUANTITIES = {
  attention: {
    label: "attention",
    about: "attention paid to what is there",
    why: "looks most at what is already there",
    of: (step) => step.dependency,
    least: false,
    absolute: false,
  },
  confidence: {
    label: "confidence",
    about: "probability of the best token",
    why: "is surest of its token",
    of: (step) => step.beliefs?.first ?? null,
    least: false,
    absolute: true,
  },
  entropy: {
    label: "entropy",
    about: "certainty: tall is little entropy",
    why: "is least uncertain",
    of: (step) => step.beliefs?.entropy ?? null,
    least: true,
    absolute: false,
  },
  margin: {
    label: "margin",
    about: "lead of the best token over the second",
    why: "has the best token furthest ahead",
    of: (step) => step.beliefs && difference(step.beliefs.first, step.beliefs.second),
    least: false,
    absolute: true,
  },
  score: {
    label: "score",
    about: "score by which the strategy ranks",
    why: "has the highest score",
    of: (step) => step.scores,
    least: false,
    absolute: false,
  },
};

const LEAST_RANGE = 0.02;
/** @type {Name[]} */
const COMMON = ["attention", "confidence", "entropy"];

/** The quantity that an order ranks by: one of those above, or else its own score. @returns {Name} */
export function quantityOf(order) {
  if (order === "dos") return "attention";
  return order in QUANTITIES ? order : "score";
}

/** Those to choose from in a lane with this order. */
export function choices(order) {
  return [...new Set([...COMMON, quantityOf(order)])];
}

/** @type {WeakMap<import("./run.js").Step, Partial<Record<Name, Float32Array | null>>>} */
const drawn = new WeakMap();

/**
 * Heights of the bars before a step, from 0 to 1; NaN where there is none.
 * @param {import("./run.js").Step | undefined} step
 * @param {Name} name
 * @returns {Float32Array | null}
 */
export function levels(step, name) {
  if (!step) return null;
  const known = drawn.get(step) ?? {};
  drawn.set(step, known);
  if (!(name in known)) known[name] = scaled(QUANTITIES[name], step);
  return known[name];
}

function scaled({ of, least, absolute }, step) {
  const values = of(step);
  if (!values) return null;
  let [low, high] = [Infinity, -Infinity];
  for (const value of values) {
    if (value < low) low = value;
    if (value > high) high = value;
  }
  if (absolute) [low, high] = [0, 1];
  if (least) low = 0;
  low = Math.min(low, high - LEAST_RANGE);
  return values.map((value) => (least ? high - value : value - low) / (high - low));
}

/**
 * The open slots before a step, first the one that the quantity puts first.
 * @param {import("./run.js").Step} step
 * @param {Name} name
 * @returns {{position: number, value: number, rank: number}[]}
 */
export function ranking(step, name) {
  const { of, least } = QUANTITIES[name];
  const values = step && of(step);
  if (!values) return [];
  const open = Array.from(values.keys()).filter((position) => !Number.isNaN(values[position]));
  open.sort((a, b) => (least ? values[a] - values[b] : values[b] - values[a]) || a - b);
  return open.map((position, index) => ({ position, value: values[position], rank: index + 1 }));
}

/** The value of a slot and its rank, or null. */
export function standing(step, name, position) {
  const { of, least } = QUANTITIES[name];
  const values = step && of(step);
  if (!values || Number.isNaN(values[position])) return null;
  const value = values[position];
  let [rank, count] = [1, 0];
  values.forEach((other, at) => {
    if (Number.isNaN(other)) return;
    count += 1;
    if ((least ? other < value : other > value) || (other === value && at < position)) rank += 1;
  });
  return { value, rank, count };
}

function difference(first, second) {
  return first.map((value, position) => value - second[position]);
}
