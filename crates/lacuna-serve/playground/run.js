/** The model of a run: its first canvas, what every step changed, and what the canvas was at any moment. */

import { isEnd, isSpecial } from "./tokens.js";

/**
 * @typedef {object} Commit One decision.
 * @property {number} position
 * @property {number} token
 * @property {string | null} text null if the trace does not tell
 * @property {number | null} probability
 * @property {number | null} entropy in nats
 * @property {number | null} score what the order ranked it by
 * @property {number} step counted from 0
 *
 * @typedef {object} Step
 * @property {number} block
 * @property {number | null} nfe forward passes so far
 * @property {number | null} seconds since the run began
 * @property {Commit[]} committed
 * @property {number[]} remasked
 * @property {Map<number, number> | null} dependency scores of the positions that were masked before this step
 * @property {{low: number, high: number} | null} range what its bars are scaled to
 *
 * @typedef {"running" | "done" | "stopped" | "failed" | "loaded"} Status
 */

const LEAST_RANGE = 0.02;

export class Run {
  /** @type {Step[]} */
  steps = [];
  /** @type {Status} */
  status = "running";
  /** What the server said at the end, or what was loaded. */
  record = null;
  /** Whether it took anything back. */
  revises = false;

  /** @param {object} start the first event of `/v1/steps` */
  constructor(start) {
    this.model = start.model ?? null;
    this.strategy = start.strategy ?? "?";
    this.layers = start.layers ?? [];
    this.kind = start.kind ?? "answer";
    this.from = start.prompt_tokens ?? 0;
    this.mask = start.mask_token;
    this.blockLength = start.block_length ?? null;
    /** @type {{token: number, text: string | null, gap: boolean}[]} */
    this.canvas = start.canvas;
    /** For every position, what it became and after how many steps. @type {{after: number, commit: Commit | null}[][]} */
    this.histories = start.canvas.map(() => []);
    this.gaps = start.canvas.flatMap((cell, position) => (cell.gap ? [position] : []));
    this.ends = new Set();
  }

  /** @param {object} data a `step` event */
  add(data) {
    const index = this.steps.length;
    const committed = data.committed.map((commit) => ({
      position: commit.position,
      token: commit.token,
      text: commit.text ?? null,
      probability: commit.probability ?? null,
      entropy: commit.entropy ?? null,
      score: commit.score ?? null,
      step: index,
    }));
    for (const commit of committed) {
      this.histories[commit.position]?.push({ after: index + 1, commit });
      if (commit.text !== null && isEnd(commit.text)) this.ends.add(commit.token);
    }
    const remasked = data.remasked ?? [];
    this.revises ||= remasked.length > 0;
    for (const position of remasked) this.histories[position]?.push({ after: index + 1, commit: null });
    const dependency = data.dependency?.length ? new Map(data.dependency) : null;
    this.steps.push({
      block: data.block ?? 0,
      nfe: data.nfe ?? null,
      seconds: data.seconds ?? null,
      committed,
      remasked,
      dependency,
      range: dependency && rangeOf(dependency.values()),
    });
  }

  /** @param {object} record the `done` event */
  finish(record) {
    this.record = record;
    this.status = "done";
  }

  get length() {
    return this.steps.length;
  }

  get running() {
    return this.status === "running";
  }

  /** How many steps may be shown. One is held back while the run goes on: its scores show where it will go. */
  get shown() {
    return this.running ? Math.max(0, this.length - 1) : this.length;
  }

  get seconds() {
    return this.record?.seconds ?? this.steps.at(-1)?.seconds ?? 0;
  }

  /** When a step was done. A trace without times is taken to be even. */
  secondsAt(steps) {
    if (steps === 0) return 0;
    return this.steps[steps - 1].seconds ?? (this.seconds * steps) / this.length;
  }

  nfeAt(steps) {
    if (steps === 0) return 0;
    if (steps === this.length && this.record?.nfe) return this.record.nfe;
    return this.steps[steps - 1].nfe ?? (this.record ? Math.round((this.record.nfe * steps) / this.length) : steps);
  }

  /** How many steps were done at a time. */
  stepsAt(seconds) {
    let steps = 0;
    while (steps < this.length && this.secondsAt(steps + 1) <= seconds + 1e-9) steps += 1;
    return steps;
  }

  /**
   * What a position holds after so many steps: null if it is masked.
   * @returns {Commit | null}
   */
  at(position, steps) {
    const history = this.histories[position];
    for (let entry = history.length - 1; entry >= 0; entry -= 1) {
      if (history[entry].after <= steps) return history[entry].commit;
    }
    return null;
  }

  /** The token that a position will hold in the end, as far as is known: what its slot is as wide as. */
  settled(position) {
    return this.histories[position].findLast((entry) => entry.commit)?.commit ?? null;
  }

  decidedAt(steps) {
    return this.gaps.reduce((count, position) => count + (this.at(position, steps) ? 1 : 0), 0);
  }

  isEnd(commit) {
    return this.ends.has(commit.token);
  }

  /** The block of a position, or null if there is only one. */
  blockOf(position) {
    if (!this.blockLength || position < this.from) return null;
    return Math.floor((position - this.from) / this.blockLength);
  }

  /** A position as a person counts it: the first after the prompt is 1. */
  place(position) {
    return position - this.from + 1;
  }

  get places() {
    return this.canvas.length - this.from;
  }

  /**
   * The masked positions before a step, those that pay most attention to what is there first.
   * @returns {{position: number, score: number, rank: number, commit: Commit | null}[]}
   */
  ranking(step) {
    const { dependency, committed } = this.steps[step] ?? {};
    if (!dependency) return [];
    const chosen = new Map(committed.map((commit) => [commit.position, commit]));
    return [...dependency]
      .sort(([a, first], [b, second]) => second - first || a - b)
      .map(([position, score], index) => ({ position, score, rank: index + 1, commit: chosen.get(position) ?? null }));
  }

  /** The visible text after so many steps. What is masked shows as a low line. */
  textAt(steps) {
    if (steps === this.length && typeof this.record?.text === "string") return this.record.text;
    let text = "";
    for (let position = this.from; position < this.canvas.length; position += 1) {
      const cell = this.canvas[position];
      const commit = cell.gap ? this.at(position, steps) : null;
      if (commit && this.kind === "answer" && this.isEnd(commit)) break;
      const piece = cell.gap ? (commit ? commit.text : "▁") : cell.text;
      text += piece === null || isSpecial(piece) ? "" : piece;
    }
    return text;
  }

  /** Tokens whose text is unknown. */
  get unspelled() {
    const given = this.canvas.filter((cell) => !cell.gap);
    const made = this.steps.flatMap((step) => step.committed);
    return [...new Set([...given, ...made].filter(({ text }) => text === null).map(({ token }) => token))];
  }

  /** What is worth saying about the first so many steps, in one or two sentences. */
  story(steps) {
    const done = this.steps.slice(0, steps);
    const order = done.flatMap((step) => step.committed);
    if (order.length === 0) return `All ${this.gaps.length} places are open.`;
    const firstWord = order.findIndex((commit) => !this.isEnd(commit));
    const empty = new Set(order.slice(0, firstWord < 0 ? undefined : firstWord).map(({ position }) => position)).size;
    const takenBack = done.reduce((count, step) => count + step.remasked.length, 0);
    const widest = Math.max(...done.map((step) => step.committed.length));
    const sentences = [];
    if (firstWord < 0) {
      sentences.push(`${this.decidedAt(steps)} of ${this.gaps.length} places are declared to be end of text, and there is no word yet.`);
    } else if (empty >= this.gaps.length / 4) {
      sentences.push(`Before its first word it had declared ${empty} of ${this.gaps.length} places to be end of text.`);
      sentences.push(`${this.gaps.length - empty} were left for the answer.`);
    } else {
      const at = widest > 1 ? `up to ${widest} at once` : "one at a time";
      sentences.push(`${count(order.length, "decision")} in ${count(steps, "step")}, ${at}.`);
    }
    if (takenBack > 0) sentences.push(`${takenBack} taken back.`);
    return sentences.join(" ");
  }

  /** The run as `lacuna generate --format json` records it, with what this page knows besides. */
  toRecord() {
    const record = this.record ?? {
      text: this.textAt(this.length),
      tokens: this.canvas.slice(this.from).map((cell, index) => this.at(this.from + index, this.length)?.token ?? cell.token),
      nfe: this.nfeAt(this.length),
      rows_read: 0,
      kind: this.kind,
      strategy: this.strategy,
      layers: this.layers,
      prompt_tokens: this.from,
      seconds: this.seconds,
      tokens_per_second: 0,
      canvas: this.canvas.map((cell) => cell.token),
      mask_token: this.mask,
    };
    const steps = this.steps.map((step) => ({
      block: step.block,
      unmasked: step.committed.map(({ position, token }) => [position, token]).sort(([a], [b]) => a - b),
      remasked: step.remasked,
      nfe: step.nfe,
      seconds: step.seconds,
      details: step.committed.map(({ position, token, text, probability, entropy, score }) => ({ position, token, text, probability, entropy, score })),
      dependency: step.dependency ? [...step.dependency] : null,
    }));
    const known = this.canvas.filter((cell) => !cell.gap && cell.text !== null).map((cell) => [cell.token, cell.text]);
    return { ...record, steps, model: this.model, block_length: this.blockLength, texts: Object.fromEntries(known) };
  }

  /**
   * A recorded run. One of the command line tells no probabilities, and no texts of single tokens: those come from `texts`.
   * @param {object} record
   * @param {Map<number, string>} texts
   * @returns {Run}
   */
  static fromRecord(record, texts = new Map()) {
    check(record);
    const run = new Run({
      model: record.model,
      strategy: record.strategy,
      layers: record.layers,
      kind: record.kind,
      prompt_tokens: record.prompt_tokens,
      mask_token: record.mask_token,
      block_length: record.block_length,
      canvas: record.canvas.map((token) => ({ token, text: texts.get(token) ?? null, gap: token === record.mask_token })),
    });
    for (const step of record.steps) {
      const details = new Map((step.details ?? []).map((commit) => [commit.position, commit]));
      run.add({
        ...step,
        committed: step.unmasked.map(([position, token]) => ({ position, token, text: texts.get(token), ...details.get(position) })),
      });
    }
    const last = record.tokens.at(-1);
    if (run.kind === "answer" && run.ends.size === 0 && last !== record.mask_token) run.ends.add(last);
    run.record = record;
    run.status = "loaded";
    return run;
  }
}

/** Where a score lies in a range, from 0 to 1. */
export function standing(score, { low, high }) {
  return (score - low) / (high - low);
}

/** From the least to the greatest score, or a little more where they hardly differ. */
function rangeOf(scores) {
  let [low, high] = [Infinity, -Infinity];
  for (const score of scores) {
    low = Math.min(low, score);
    high = Math.max(high, score);
  }
  return { low: Math.min(low, high - LEAST_RANGE), high };
}

function count(number, thing) {
  return `${number} ${thing}${number === 1 ? "" : "s"}`;
}

/** Refuses what is no record, with a sentence that says why. */
function check(record) {
  const lists = ["tokens", "steps", "canvas"];
  const missing = lists.find((name) => !Array.isArray(record?.[name]));
  if (missing) throw new Error(`it has no list "${missing}"`);
  if (!(record.prompt_tokens >= 0 && record.prompt_tokens < record.canvas.length)) throw new Error("its prompt is longer than its canvas");
  const inside = (position) => Number.isInteger(position) && record.canvas[position] === record.mask_token;
  const legal = (step) =>
    Array.isArray(step.unmasked) &&
    step.unmasked.every(([position, token]) => inside(position) && Number.isInteger(token)) &&
    (step.remasked ?? []).every(inside);
  const broken = record.steps.findIndex((step) => !legal(step));
  if (broken >= 0) throw new Error(`step ${broken + 1} changes a position that is no gap of its canvas`);
}
