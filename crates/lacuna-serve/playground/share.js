/** Export and import: links, commands and traces. */

import { Run } from "./run.js";

/**
 * @typedef {object} Hand A change that the visitor made.
 * @property {number} lane
 * @property {number} steps taken before it
 * @property {{position: number, token: number}[]} committed
 * @property {number[]} remasked
 */

const MODES = ["prompt", "gaps", "strategies"];

/**
 * The settings as the hash of an address.
 * @param {Partial<import("./compose.js").Settings>} settings
 * @param {import("./catalogue.js").Choice[]} lanes
 * @param {number | null} at the step to open at: whoever follows the link sees it run and stop there
 * @param {Hand[]} hands the visitor's own decisions, in their order
 */
export function toHash(settings, lanes, at = null, hands = []) {
  const parts = new URLSearchParams();
  for (const [name, value] of Object.entries(settings)) {
    const other = {
      prompt: ["question", "text", "part"],
      gaps: ["prompt", "gen_length", "part"],
      strategies: ["question", "text"],
    }[settings.mode];
    if (value !== "" && value !== true && !other.includes(name)) parts.set(name, String(value));
  }
  for (const { name, parameters } of lanes) {
    const set = Object.entries(parameters).filter(([, value]) => value !== "");
    parts.append("lane", [name, ...set.map(([key, value]) => `${key}=${value}`)].join(";"));
  }
  if (at !== null) parts.set("at", String(at));
  for (const { lane, steps, committed, remasked } of hands) {
    const changes = [...committed.map(({ position, token }) => `${position}=${token}`), ...remasked.map(String)];
    parts.append("hand", [lane, steps, ...changes].join(";"));
  }
  return `#${parts}`;
}

/** @returns {{settings: any, lanes: import("./catalogue.js").Choice[], at: number | null, hands: Hand[]} | null} */
export function fromHash(hash) {
  if (hash.length < 2) return null;
  const parts = new URLSearchParams(hash.slice(1));
  const lanes = parts.getAll("lane").map((lane) => {
    const [name, ...set] = lane.split(";");
    const pairs = set.map((pair) => pair.split("=")).filter(([, value]) => value !== undefined);
    return { name, parameters: /** @type {Record<string, string>} */ (Object.fromEntries(pairs)) };
  });
  /** @type {any} */
  const settings = {
    mode: MODES.find((mode) => mode === parts.get("mode")) ?? "prompt",
    early_stop: parts.get("early_stop") !== "false",
  };
  for (const name of ["part", "prompt", "question", "text", "gen_length", "temperature", "seed", "eos"])
    settings[name] = parts.get(name) ?? "";
  const at = Number(parts.get("at") ?? NaN);
  const hands = parts.getAll("hand").map((hand) => {
    const [lane, steps, ...changes] = hand.split(";");
    const pairs = changes.map((change) => change.split("=").map(Number));
    return {
      lane: Number(lane),
      steps: Number(steps),
      committed: pairs.filter((pair) => pair.length > 1).map(([position, token]) => ({ position, token })),
      remasked: pairs.filter((pair) => pair.length === 1).map(([position]) => position),
    };
  });
  return { settings, lanes, at: at >= 0 ? at : null, hands };
}

/** Commands that do what the page does. A key is never written out. */
export function toCurl(bodies, withKey) {
  const address = new URL("v1/steps", location.href);
  address.hash = "";
  const key = withKey ? ` \\\n  -H "Authorization: Bearer $LACUNA_API_KEY"` : "";
  return bodies
    .map(
      (body) =>
        `curl -N ${quoted(address.href)} \\\n  -H 'Content-Type: application/json'${key} \\\n  -d ${quoted(JSON.stringify(body))}`,
    )
    .join("\n");
}

function quoted(text) {
  return `'${text.replaceAll("'", `'\\''`)}'`;
}

/** @returns {Promise<boolean>} whether it was copied */
export async function copy(text) {
  try {
    await navigator.clipboard.writeText(text);
    return true;
  } catch {
    return copyBySelection(text);
  }
}

/** Pages that are not on localhost and not encrypted have no clipboard. */
function copyBySelection(text) {
  const area = document.createElement("textarea");
  area.value = text;
  area.className = "hidden";
  document.body.append(area);
  area.select();
  const copied = document.execCommand("copy");
  area.remove();
  return copied;
}

/** Saves runs as a file that `lacuna replay` reads: one record a line. */
export function save(runs) {
  const lines = runs.map((run) => `${JSON.stringify(run.toRecord())}\n`);
  const link = document.createElement("a");
  link.href = URL.createObjectURL(new Blob(lines, { type: "application/json" }));
  link.download = `lacuna-${runs.map((run) => run.strategy.replaceAll("+", "-")).join("-vs-")}.${runs.length > 1 ? "jsonl" : "json"}`;
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 10_000);
}

/**
 * Reads runs from a file: a record, a list of them, or one a line.
 * @param {string} text
 * @param {(record: any, tokens: number[]) => Promise<Map<number, string>>} spell tells the texts of tokens
 * @returns {Promise<Run[]>}
 */
export async function read(text, spell) {
  const records = parse(text);
  if (records.length === 0) throw new Error("it is empty");
  const runs = [];
  for (const [index, record] of records.entries()) {
    try {
      const run = Run.fromRecord(record);
      /** @type {[number, string][]} */
      const known = Object.entries(record.texts ?? {}).map(([token, text]) => [Number(token), text]);
      const unknown = run.unspelled.filter((token) => !(record.texts && token in record.texts));
      const texts = unknown.length > 0 ? await spell(record, unknown) : new Map();
      runs.push(Run.fromRecord(record, new Map([...known, ...texts])));
    } catch (error) {
      throw new Error(records.length > 1 ? `run ${index + 1}: ${error.message}` : error.message, { cause: error });
    }
  }
  return runs;
}

function parse(text) {
  try {
    return [JSON.parse(text)].flat();
  } catch {
    const lines = text.split("\n").filter((line) => line.trim() !== "");
    try {
      return lines.map((line) => JSON.parse(line));
    } catch (cause) {
      throw new Error("it is not JSON", { cause });
    }
  }
}
