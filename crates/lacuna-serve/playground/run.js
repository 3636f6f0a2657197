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
 * @property {boolean} hand whether the visitor decided it
 *
 * @typedef {object} Beliefs What the model believed at every open slot before a step; NaN (or -1) where there was none.
 * @property {Int32Array} token the most probable one
 * @property {Float32Array} first its probability
 * @property {Float32Array} second the probability of the next
 * @property {Float32Array} entropy in nats
 *
 * @typedef {object} Step Arrays have an entry for each position of the canvas.
 * @property {number} block
 * @property {number | null} nfe forward passes so far
 * @property {number | null} seconds of computing so far
 * @property {Commit[]} committed
 * @property {number[]} remasked
 * @property {Float32Array | null} dependency scores of the positions that were masked before this step
 * @property {Beliefs | null} beliefs
 * @property {Float32Array | null} scores of the candidates, as the order ranked them
 * @property {boolean} hand whether the visitor took it
 *
 * @typedef {"running" | "done" | "stopped" | "failed" | "loaded" | "recorded"} Status
 */

export class Run {
  /** @type {Step[]} */
  steps = [];
  /** @type {Status} */
  status = "running";
  /** The record that the server sent at the end, or that was loaded. @type {any} */
  record = null;
  /** Spelling of tokens that were candidates only. @type {Map<number, string>} */
  texts = new Map();
  /** Cost before the visitor changed the run. */
  before = { nfe: 0, seconds: 0 };
  /** Steps that are worth looking at, in the server's words. @type {{step: number, text: string}[]} */
  moments = [];
  /** True if it took anything back. */
  revises = false;

  /** @param {any} start the first event of `/v1/steps` */
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

  /** @param {any} data a `step` event */
  add(data) {
    const index = this.steps.length;
    const hand = data.hand ?? false;
    for (const [token, text] of Object.entries(data.texts ?? {})) this.texts.set(Number(token), text);
    const committed = data.committed.map((commit) => ({
      position: commit.position,
      token: commit.token,
      text: commit.text ?? null,
      probability: commit.probability ?? null,
      entropy: commit.entropy ?? null,
      score: commit.score ?? null,
      step: index,
      hand,
    }));
    for (const commit of committed) {
      this.histories[commit.position]?.push({ after: index + 1, commit });
      if (commit.text !== null && isEnd(commit.text)) this.ends.add(commit.token);
    }
    const remasked = data.remasked ?? [];
    this.revises ||= remasked.length > 0 && !hand;
    for (const position of remasked) this.histories[position]?.push({ after: index + 1, commit: null });
    this.steps.push({
      block: data.block ?? 0,
      nfe: data.nfe ?? null,
      seconds: data.computed ?? data.seconds ?? null,
      committed,
      remasked,
      dependency: this.#scores(data.dependency),
      beliefs: this.#beliefs(data.beliefs),
      scores: this.#scores(data.scores),
      hand,
    });
    if (data.resized) this.#resize(data.resized);
  }

  /**
   * Makes room for what the last step inserted, in all that has been: a canvas that grows has its last length from the start.
   * Commits beyond the new length are dropped.
   * @param {{at: number, tokens: number[], length: number}} change
   */
  #resize({ at, tokens, length }) {
    const count = tokens.length;
    const move = (position) => (position < at ? position : position + count);
    const kept = (position) => position < length;
    const step = this.steps.length - 1;
    const inserted = tokens.flatMap((token, index) =>
      token === this.mask
        ? []
        : [
            {
              position: at + index,
              token,
              text: this.textOf(token),
              probability: null,
              entropy: null,
              score: null,
              step,
              hand: false,
            },
          ],
    );
    const cells = tokens.map(() => ({ token: this.mask, text: "", gap: true }));
    this.canvas = [...this.canvas.slice(0, at), ...cells, ...this.canvas.slice(at)].slice(0, length);
    this.gaps = this.canvas.flatMap((cell, position) => (cell.gap ? [position] : []));
    this.steps = this.steps.map((told, index) => ({
      ...told,
      committed: [
        ...told.committed.map((commit) => ({ ...commit, position: move(commit.position) })),
        ...(index === step ? inserted : []),
      ].filter(({ position }) => kept(position)),
      remasked: told.remasked.map(move).filter(kept),
      dependency: told.dependency && stretched(told.dependency, at, count, length),
      scores: told.scores && stretched(told.scores, at, count, length),
      beliefs: told.beliefs && {
        token: stretched(told.beliefs.token, at, count, length),
        first: stretched(told.beliefs.first, at, count, length),
        second: stretched(told.beliefs.second, at, count, length),
        entropy: stretched(told.beliefs.entropy, at, count, length),
      },
    }));
    this.histories = this.canvas.map(() => []);
    this.steps.forEach(({ committed, remasked }, index) => {
      for (const commit of committed) this.histories[commit.position].push({ after: index + 1, commit });
      for (const position of remasked) this.histories[position].push({ after: index + 1, commit: null });
    });
  }

  /** @param {[number, number][] | null | undefined} pairs */
  #scores(pairs) {
    if (!pairs?.length) return null;
    const scores = new Float32Array(this.canvas.length).fill(NaN);
    for (const [position, score] of pairs) scores[position] = score;
    return scores;
  }

  /** @param {[number, number, number, number, number][] | null | undefined} told @returns {Beliefs | null} */
  #beliefs(told) {
    if (!told?.length) return null;
    const numbers = () => new Float32Array(this.canvas.length).fill(NaN);
    const beliefs = { token: new Int32Array(this.canvas.length).fill(-1), first: numbers(), second: numbers(), entropy: numbers() };
    for (const [position, token, first, second, entropy] of told) {
      beliefs.token[position] = token;
      beliefs.first[position] = first;
      beliefs.second[position] = second;
      beliefs.entropy[position] = entropy;
    }
    return beliefs;
  }

  /** Spelling of a token, if it is known. */
  textOf(token) {
    return this.texts.get(token) ?? null;
  }

  /** The canvas after so many steps, as the server knows it. */
  tokensAt(steps) {
    return this.canvas.map((cell, position) => (cell.gap ? (this.at(position, steps)?.token ?? this.mask) : cell.token));
  }

  /**
   * The same run up to a moment, changed there by hand; what follows is still to come.
   * @param {number} steps
   * @param {{committed: {position: number, token: number, text: string}[], remasked: number[]}} change
   */
  branch(steps, change) {
    const run = new Run({
      model: this.model,
      strategy: this.strategy,
      layers: this.layers,
      kind: this.kind,
      prompt_tokens: this.from,
      mask_token: this.mask,
      block_length: this.blockLength,
      canvas: this.canvas,
    });
    run.ends = new Set(this.ends);
    run.texts = new Map(this.texts);
    run.revises = this.steps.slice(0, steps).some((step) => step.remasked.length > 0 && !step.hand);
    run.steps = this.steps.slice(0, steps);
    run.histories = this.histories.map((history) => history.filter(({ after }) => after <= steps));
    const { nfe, seconds, block } = run.steps.at(-1) ?? { nfe: 0, seconds: 0, block: 0 };
    run.add({ ...change, nfe, seconds, block, hand: true });
    run.before = { nfe: nfe ?? 0, seconds: seconds ?? 0 };
    return run;
  }

  /** Takes over a step of the run that goes on from a branch. */
  go(data) {
    const { nfe, seconds } = this.before;
    this.add({ ...data, nfe: nfe + data.nfe, computed: seconds + (data.computed ?? data.seconds) });
  }

  /** The visitor's decisions, each with the number of steps before it. */
  get hands() {
    return this.steps.flatMap(({ hand, committed, remasked }, steps) => (hand ? [{ steps, committed, remasked }] : []));
  }

  /** True if the visitor decided some of it. */
  get hand() {
    return this.steps.some((step) => step.hand);
  }

  /** @param {any} record the `done` event */
  finish(record) {
    this.record = this.hand ? null : record;
    this.moments = this.hand ? [] : (record.moments ?? []);
    this.status = "done";
  }

  get length() {
    return this.steps.length;
  }

  get running() {
    return this.status === "running";
  }

  /** Number of steps that may be shown. While the run goes on, the last is held back: its scores announce it. */
  get shown() {
    return this.running ? Math.max(0, this.length - 1) : this.length;
  }

  get seconds() {
    return this.steps.at(-1)?.seconds ?? this.record?.seconds ?? 0;
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

  /** Number of steps that were done after `seconds`. */
  stepsAt(seconds) {
    let steps = 0;
    while (steps < this.length && this.secondsAt(steps + 1) <= seconds + 1e-9) steps += 1;
    return steps;
  }

  /**
   * The commit at a position after `steps` steps; null if it is masked.
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

  /** The visible text after so many steps. What is masked shows as a low line. */
  textAt(steps) {
    if (steps === this.length && !this.running && typeof this.record?.text === "string") return this.record.text;
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

  /** A caption for the run after `steps` steps: its last moment so far, or counts. */
  story(steps) {
    const moment = this.moments.findLast(({ step }) => step <= steps);
    if (moment) return moment.text;
    const done = this.steps.slice(0, steps);
    const order = done.flatMap((step) => (step.hand ? [] : step.committed));
    if (order.length === 0) return `All ${this.gaps.length} places are open.`;
    const firstWord = order.findIndex((commit) => !this.isEnd(commit));
    const empty = new Set(order.slice(0, firstWord < 0 ? undefined : firstWord).map(({ position }) => position)).size;
    const takenBack = done.reduce((sum, step) => sum + (step.hand ? 0 : step.remasked.length), 0);
    const widest = done.reduce((most, step) => Math.max(most, step.committed.length), 0);
    const sentences = [];
    if (firstWord < 0) {
      sentences.push(
        `${this.decidedAt(steps)} of ${this.gaps.length} places are declared to be end of text, and there is no word yet.`,
      );
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
    const told = this.record ?? {};
    const tokens = this.tokensAt(this.length).slice(this.from);
    const steps = this.steps.map((step) => ({
      block: step.block,
      unmasked: step.committed.map(({ position, token }) => [position, token]).sort(([a], [b]) => a - b),
      remasked: step.remasked,
      nfe: step.nfe,
      seconds: step.seconds,
      details: step.committed.map(({ position, token, text, probability, entropy, score }) => ({
        position,
        token,
        text: text ?? "",
        probability,
        entropy,
        score,
      })),
      dependency: step.dependency ? pairs(step.dependency) : null,
      beliefs: step.beliefs ? present(step.beliefs.first).map((position) => believed(step.beliefs, position)) : undefined,
      scores: step.scores ? pairs(step.scores) : undefined,
      hand: step.hand || undefined,
    }));
    const known = this.canvas.filter((cell) => !cell.gap && cell.text !== null).map((cell) => [cell.token, cell.text]);
    return {
      text: told.text ?? this.textAt(this.length),
      tokens: told.tokens ?? tokens,
      nfe: this.nfeAt(this.length),
      rows_read: told.rows_read ?? 0,
      rows_computed: told.rows_computed ?? 0,
      steps,
      kind: this.kind,
      strategy: this.strategy,
      layers: this.layers,
      prompt_tokens: this.from,
      seconds: this.seconds,
      tokens_per_second: told.tokens_per_second ?? 0,
      canvas: this.canvas.map((cell) => cell.token),
      mask_token: this.mask,
      model: this.model,
      block_length: this.blockLength,
      moments: this.moments.length > 0 ? this.moments : undefined,
      written: this.canvas.map((cell) => cell.text),
      texts: Object.fromEntries([...this.texts, ...known]),
    };
  }

  /**
   * A recorded run. One of the command line tells no probabilities, and no texts of single tokens: those come from `texts`.
   * @param {any} record
   * @param {Map<number, string>} texts
   * @returns {Run}
   */
  static fromRecord(record, texts = new Map()) {
    check(record);
    const cell = (token, position) => ({
      token,
      text: record.written?.[position] ?? texts.get(token) ?? null,
      gap: token === record.mask_token,
    });
    const run = new Run({
      model: record.model,
      strategy: record.strategy,
      layers: record.layers,
      kind: record.kind,
      prompt_tokens: record.prompt_tokens,
      mask_token: record.mask_token,
      block_length: record.block_length,
      canvas: record.canvas.map(cell),
    });
    run.texts = new Map(texts);
    for (const step of record.steps) {
      const details = new Map((step.details ?? []).map((commit) => [commit.position, commit]));
      run.add({
        ...step,
        committed: step.unmasked.map(([position, token]) => ({
          position,
          token,
          text: texts.get(token),
          ...details.get(position),
        })),
      });
    }
    const last = record.tokens.at(-1);
    if (run.kind === "answer" && run.ends.size === 0 && last !== record.mask_token) run.ends.add(last);
    run.record = record;
    run.moments = Array.isArray(record.moments) && !run.hand ? record.moments : [];
    run.status = "loaded";
    return run;
  }
}

/** Numbers with room for more: NaN, or -1 where they are whole. @template {Int32Array | Float32Array} T @param {T} numbers @returns {T} */
function stretched(numbers, at, count, length) {
  const Numbers = /** @type {new (length: number) => T} */ (numbers.constructor);
  const longer = new Numbers(numbers.length + count);
  longer.fill(numbers instanceof Int32Array ? -1 : NaN);
  longer.set(numbers.subarray(0, at));
  longer.set(numbers.subarray(at), at + count);
  return /** @type {T} */ (longer.slice(0, length));
}

/** The positions that have a number. */
function present(numbers) {
  return Array.from(numbers.keys()).filter((position) => !Number.isNaN(numbers[position]));
}

function pairs(numbers) {
  return present(numbers).map((position) => [position, rounded(numbers[position])]);
}

function believed({ token, first, second, entropy }, position) {
  return [position, token[position], rounded(first[position]), rounded(second[position]), rounded(entropy[position])];
}

/** Numbers of 32 bits, without the digits that they do not have. */
function rounded(number) {
  return Number(number.toPrecision(5));
}

function count(number, thing) {
  return `${number} ${thing}${number === 1 ? "" : "s"}`;
}

/** Refuses what is no record, with a sentence that says why. */
function check(record) {
  const lists = ["tokens", "steps", "canvas"];
  const missing = lists.find((name) => !Array.isArray(record?.[name]));
  if (missing) throw new Error(`it has no list "${missing}"`);
  if (!(record.prompt_tokens >= 0 && record.prompt_tokens < record.canvas.length))
    throw new Error("its prompt is longer than its canvas");
  const dependencies = (step) => (step.dependency ?? []).every((pair) => Array.isArray(pair) && pair[0] < record.canvas.length);
  const inside = (position) => Number.isInteger(position) && record.canvas[position] === record.mask_token;
  const legal = (step) =>
    Array.isArray(step?.unmasked) &&
    dependencies(step) &&
    step.unmasked.every(([position, token]) => inside(position) && Number.isInteger(token)) &&
    (step.remasked ?? []).every(inside);
  const broken = record.steps.findIndex((step) => !legal(step));
  if (broken >= 0) throw new Error(`step ${broken + 1} changes a position that is not a gap of its canvas`);
}
