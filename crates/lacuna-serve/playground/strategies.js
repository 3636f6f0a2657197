/** What strategies are made of, and how a lane's choice becomes a request. */

import { strategies } from "./api.js";

/**
 * @typedef {object} Part
 * @property {string} name
 * @property {string} about one line, lower case
 * @property {string} [is] what a preset stands for
 *
 * @typedef {object} Choice What one lane decodes with.
 * @property {string} order an order or a preset
 * @property {string} pace
 * @property {string} revision
 * @property {Record<string, string>} parameters as typed; an empty one is left to the server
 */

/** Used until the server has told its own, and for what it leaves out. */
const CATALOGUE = {
  orders: [
    { name: "dos", about: "first the position that pays most attention to what is already there" },
    { name: "confidence", about: "first the position whose best token is most probable" },
    { name: "entropy", about: "first the position with the least uncertain distribution" },
    { name: "margin", about: "first the position whose best token is furthest ahead of the second" },
    { name: "random", about: "any position" },
  ],
  paces: [
    { name: "top1", about: "one at a time" },
    { name: "top2", about: "two at a time" },
    { name: "top4", about: "four at a time" },
    { name: "eb", about: "as many at once as the entropy bound allows" },
    { name: "threshold", about: "and all whose confidence reaches a threshold" },
    { name: "score-threshold", about: "and all whose score in the order reaches a threshold" },
    { name: "factor", about: "as many as are confident enough to be decided together" },
    { name: "klass", about: "all that are confident and have kept still" },
    { name: "schedule", about: "a fixed number of steps" },
    { name: "draft", about: "all above a threshold, up to a share of what is masked" },
    { name: "adaptive", about: "all above the mean confidence so far" },
  ],
  revisions: [
    { name: "verify", about: "reopening what the model doubts when it does not see it" },
    { name: "backtrack", about: "reopening what has lost confidence" },
  ],
  presets: [
    { name: "llada", is: "confidence+schedule", about: "LLaDA’s own sampler: the most confident first, in a fixed number of steps" },
    { name: "fast-dllm", is: "confidence+threshold", about: "Fast-dLLM: all that are confident enough at once" },
    { name: "klass", is: "confidence+klass", about: "KLASS: all that are confident and have kept still" },
    { name: "wino", is: "confidence+draft+verify", about: "WINO: draft widely, then reopen what does not hold" },
    { name: "saber", is: "confidence+adaptive+backtrack", about: "Saber: more at once as confidence grows, with backtracking" },
  ],
};

/** Which part of a strategy each parameter belongs to; a parameter of no part belongs to every strategy. */
export const PARAMETERS = [
  { name: "block_length", label: "Block length", hint: "one block", about: "Decode in blocks of so many tokens, from left to right" },
  { name: "layer", label: "Attention layer", hint: "the model’s own", of: ["dos"], about: "Layers whose attention is used: 4, or 2,4, or 2-5, or all" },
  { name: "gamma", label: "Entropy bound γ", hint: "0.01", of: ["eb"], about: "Nats of uncertainty that one step may take on" },
  { name: "threshold", label: "Threshold", hint: "0.95", of: ["threshold", "score-threshold", "draft"], about: "The confidence or score to reach" },
  { name: "factor", label: "Factor", hint: "1", of: ["factor"], about: "How much uncertainty all tokens of a step may have together" },
  { name: "conf_threshold", label: "Confidence", hint: "0.9", of: ["klass"], about: "The confidence to exceed" },
  { name: "kl_threshold", label: "Divergence", hint: "0.01", of: ["klass"], about: "The divergence from the step before to stay below" },
  { name: "history", label: "History", hint: "2", of: ["klass"], about: "For how many steps it must stay below" },
  { name: "steps", label: "Steps", hint: "one for each token", of: ["schedule", "klass"], about: "Steps for the whole text" },
  { name: "threshold_back", label: "Doubt", hint: "0.9", of: ["verify"], about: "Tokens with less support than this are reopened" },
  { name: "saber_n", label: "At least", hint: "2", of: ["adaptive"], about: "The least number of tokens in a step" },
];

const NUMERIC = new Set(PARAMETERS.map(({ name }) => name).filter((name) => name !== "layer"));

export class Catalogue {
  parts = CATALOGUE;
  /** Facts about the model. @type {Record<string, any>} */
  model = {};

  /** Asks the server. What it does not tell stays as it was. */
  async load() {
    const told = await strategies();
    for (const kind of Object.keys(CATALOGUE)) {
      const parts = (told[kind] ?? []).map(part).filter(Boolean);
      if (parts.length > 0) this.parts = { ...this.parts, [kind]: merge(CATALOGUE[kind], parts) };
    }
    this.model = told.model ?? {};
  }

  isPreset(name) {
    return this.parts.presets.some((preset) => preset.name === name);
  }

  /** The name that the server knows a choice by. */
  nameOf({ order, pace, revision }) {
    if (this.isPreset(order)) return order;
    return [order, pace, revision].filter(Boolean).join("+");
  }

  /** @returns {Choice} */
  choice(name, parameters = {}) {
    if (this.isPreset(name)) return { order: name, pace: "", revision: "", parameters };
    const parts = name.split("+");
    const find = (kind) => parts.find((part, index) => index > 0 && this.parts[kind].some((known) => known.name === part)) ?? "";
    const pace = parts.find((part, index) => index > 0 && /^top\d+$/.test(part)) ?? find("paces");
    return { order: parts[0], pace: pace || "top1", revision: find("revisions"), parameters };
  }

  /** The parts that a choice is made of. */
  partsOf(choice) {
    const preset = this.parts.presets.find(({ name }) => name === choice.order);
    return preset ? (preset.is ?? "").split("+") : [choice.order, choice.pace, choice.revision].filter(Boolean);
  }

  /** The order alone, also of a preset. */
  orderOf(choice) {
    return this.partsOf(choice)[0];
  }

  parametersOf(choice) {
    const parts = this.partsOf(choice);
    return PARAMETERS.filter(({ of }) => !of || of.some((part) => parts.includes(part)));
  }

  /** What a choice does, in a sentence. */
  explain(choice) {
    const preset = this.parts.presets.find(({ name }) => name === choice.order);
    if (preset) return sentence([`${preset.about} (${preset.is})`]);
    const about = (kind, name) => this.parts[kind].find((known) => known.name === name)?.about;
    return sentence([about("orders", choice.order), about("paces", choice.pace), about("revisions", choice.revision)]);
  }

  /** What cannot be sent: a field and a sentence, or null. */
  wrong(choice) {
    const odd = this.parametersOf(choice).find(({ name }) => NUMERIC.has(name) && Number.isNaN(Number(choice.parameters[name] || 0)));
    return odd ? { param: odd.name, message: `“${choice.parameters[odd.name]}” is no number.` } : null;
  }

  /** The fields of a request that a choice sets. */
  fields(choice) {
    const fields = { strategy: this.nameOf(choice) };
    for (const { name } of this.parametersOf(choice)) {
      const typed = (choice.parameters[name] ?? "").trim();
      if (typed !== "") fields[name] = NUMERIC.has(name) ? Number(typed) : typed;
    }
    return fields;
  }
}

function part(told) {
  if (typeof told === "string") return { name: told };
  if (typeof told?.name !== "string") return null;
  const known = { name: told.name };
  const about = told.about ?? told.description;
  if (about) known.about = about;
  const is = told.is ?? told.strategy ?? told.expands_to;
  if (is) known.is = is;
  return known;
}

/** Our words for what both know, theirs for the rest; nothing that the server does not know. */
function merge(ours, theirs) {
  const known = new Set(theirs.map(({ name }) => name));
  const kept = ours.filter(({ name }) => known.has(name) || /^top\d+$/.test(name));
  const ourNames = new Set(ours.map(({ name }) => name));
  const added = theirs.filter(({ name }) => !ourNames.has(name) && /^[a-z][a-z0-9-]*$/.test(name) && !/^top/.test(name));
  return [...kept.map((one) => ({ ...theirs.find(({ name }) => name === one.name), ...one })), ...added];
}

function sentence(clauses) {
  const said = clauses.filter(Boolean).join(", ");
  return said ? `${said[0].toUpperCase()}${said.slice(1)}.` : "";
}
