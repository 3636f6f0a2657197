/** The parts of strategies, as the server lists them, and the request that a lane's choice makes. */

import { strategies } from "./api.js";

/**
 * @typedef {object} Part An order, a pace or a revision.
 * @property {string} name
 * @property {string} about one line
 * @property {string[]} [needs] what an order or a pace needs beyond the canvas
 * @property {string} [is] what a preset stands for
 * @property {Record<string, any>} [values] parameters that a preset sets
 * @property {Record<string, any>} example the fields of a request for a short run that shows it
 *
 * @typedef {{name: string, title: string, about: string, parts: Part[]}} Section
 *
 * @typedef {object} Parameter
 * @property {string} name
 * @property {string} about
 * @property {"number" | "integer" | "boolean" | "string" | "layers" | "integers" | "choice"} type
 * @property {any} default
 * @property {string} usual shown where nothing is typed
 * @property {number | null} [minimum]
 * @property {number | null} [maximum]
 * @property {string[]} [choices]
 * @property {string[]} of the parts that use it; none if it goes with every strategy
 *
 * @typedef {object} Choice What one lane decodes with.
 * @property {string} name as the server knows it: order+pace+revision, or a preset
 * @property {Record<string, string>} parameters as typed; an empty one is left to the server
 *
 * @typedef {{order: string, pace: string, revision: string, preset: Part | null}} Made
 */

/** Set for all lanes beside the prompt, or by the page itself. */
const SHARED = ["strategy", "max_tokens", "gen_length", "temperature", "seed", "suppress_eos", "defer_eos", "early_stop"];
/** The first of a family whose members differ in a number: of `top1` these are offered. */
const FAMILY = /^(\D+)1$/;
const MEMBERS = [1, 2, 4];

export class Catalogue {
  /** @type {Part[]} */
  orders = [];
  /** @type {Part[]} */
  paces = [];
  /** @type {Part[]} */
  revisions = [];
  /** @type {Part[]} */
  presets = [];
  /** @type {Parameter[]} */
  parameters = [];
  /** Lists of parts, and the presets. @type {Section[]} */
  sections = [];
  /** The question that the parts' examples answer, and the number that is right. */
  question = "";
  answer = "";
  /** Facts about the model. @type {Record<string, any>} */
  model = {};

  /** Asks the server. */
  async load() {
    const told = await strategies();
    const { orders, revisions, presets, parameters, model, question, answer } = told;
    const sections = told.sections.map((section) => ({ ...section, parts: told[section.name] }));
    const family = (pace) => {
      const [, word] = FAMILY.exec(pace.name) ?? [];
      return word ? MEMBERS.map((count) => ({ ...pace, name: `${word}${count}` })) : [pace];
    };
    Object.assign(this, {
      orders,
      revisions,
      presets,
      parameters,
      model,
      question,
      answer,
      sections,
      paces: told.paces.flatMap(family),
    });
  }

  /** The parts that a name stands for. @returns {Made} */
  made(name) {
    const preset = this.presets.find((known) => known.name === name) ?? null;
    const [order, ...rest] = (preset?.is ?? name).split("+");
    const revision = rest.find((part) => this.revisions.some((known) => known.name === part)) ?? "";
    return { order, pace: rest.find((part) => part !== revision) ?? this.paces[0]?.name ?? "", revision, preset };
  }

  /** The name of a strategy that is made of these. */
  nameOf({ order, pace, revision }) {
    return [order, pace, revision].filter(Boolean).join("+");
  }

  /** The parameters that a lane with this choice can set. @param {Choice} choice @returns {Parameter[]} */
  parametersOf({ name, parameters }) {
    const { order, pace, revision, preset } = this.made(name);
    const member = pace.replace(/\d+$/, "1");
    const named = (part) => parameters[part] || preset?.values?.[part] || this.parameter(part)?.default;
    const parts = [order, pace, member, revision, named("window"), named("length"), named("cache")];
    const fits = ({ of }) => of.length === 0 || of.some((part) => parts.includes(part));
    return this.parameters.filter((parameter) => fits(parameter) && !SHARED.includes(parameter.name));
  }

  /** @param {string} name @returns {Parameter | undefined} */
  parameter(name) {
    return this.parameters.find((parameter) => parameter.name === name);
  }

  /** A strategy in one sentence. */
  explain(name) {
    const { order, pace, revision, preset } = this.made(name);
    if (preset) return sentence([`${preset.about} (${preset.is})`]);
    const about = (parts, part) => parts.find((known) => known.name === part)?.about;
    const clauses = [about(this.orders, order), about(this.paces, pace), about(this.revisions, revision)];
    return sentence(clauses);
  }

  /** The first value that cannot be sent: a field and a sentence, or null. @param {Choice} choice */
  wrong({ name, parameters }) {
    for (const parameter of this.parametersOf({ name, parameters })) {
      const message = fault(parameter, parameters[parameter.name]);
      if (message) return { param: parameter.name, message };
    }
    return null;
  }

  /** The choice that fields of a request make. @param {Record<string, any>} fields @returns {Choice} */
  choiceOf({ strategy, gen_length, ...values }) {
    return { name: strategy, parameters: Object.fromEntries(Object.entries(values).map(([name, value]) => [name, String(value)])) };
  }

  /** The fields of a request that a choice sets. @param {Choice} choice */
  fields({ name, parameters }) {
    /** @type {Record<string, any>} */
    const fields = { strategy: name };
    for (const parameter of this.parametersOf({ name, parameters })) {
      const typed = parameters[parameter.name]?.trim();
      if (typed) fields[parameter.name] = valueOf(parameter, typed);
    }
    return fields;
  }
}

/** A parameter's name as a label. */
export function labelOf({ name }) {
  const words = name.replaceAll("_", " ");
  return words[0].toUpperCase() + words.slice(1);
}

/** The fault of a typed value in a sentence, or null. An empty one is left to the server. @param {Partial<Parameter> | undefined} parameter */
export function fault(parameter, typed) {
  const text = typed?.trim() ?? "";
  if (text === "" || !parameter) return null;
  const { type, minimum, maximum, choices } = parameter;
  if (type === "choice" && !choices.includes(text)) return `“${text}” is none of ${choices.join(", ")}.`;
  if (type === "integers" && !/^\d+(\s*,\s*\d+)*$/.test(text)) return `“${text}” is no list of numbers, such as 0, 3.`;
  if (type !== "number" && type !== "integer") return null;
  const value = Number(text);
  if (!Number.isFinite(value)) return `“${text}” is no number.`;
  if (type === "integer" && !Number.isSafeInteger(value)) return `“${text}” is no whole number.`;
  if (minimum !== null && value < minimum) return `It must be ${minimum} or more.`;
  if (maximum !== null && value > maximum) return `It must be ${maximum} or less.`;
  return null;
}

/** The JSON value of a typed one. */
function valueOf({ type }, typed) {
  if (type === "number" || type === "integer") return Number(typed);
  if (type === "boolean") return typed === "true";
  if (type === "integers") return typed.split(",").map(Number);
  return typed;
}

function sentence(clauses) {
  const said = clauses.filter(Boolean).join(", ");
  return said ? `${said[0].toUpperCase()}${said.slice(1)}.` : "";
}
