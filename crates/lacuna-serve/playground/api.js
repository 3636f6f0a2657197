/** The server, as the page uses it. */

/** A failed request, with the server's message if there is one. */
export class ApiError extends Error {
  /**
   * @param {string} message
   * @param {{status?: number, param?: string | null, code?: string | null, retryAfter?: number | null}} [details] status 0: no answer
   */
  constructor(message, { status = 0, param = null, code = null, retryAfter = null } = {}) {
    super(message);
    this.name = "ApiError";
    this.status = status;
    this.param = param;
    this.code = code;
    this.retryAfter = retryAfter;
  }
}

/** The key is kept as long as the page is open, and nowhere else. */
let key = "";

export function setKey(value) {
  key = value.trim();
}

export function hasKey() {
  return key !== "";
}

/** The catalogue of strategies, and properties of the model. */
export async function strategies() {
  return (await request("v1/strategies")).json();
}

/**
 * Starts a run and yields its events as they come.
 * @param {object} body
 * @param {AbortSignal} signal
 * @returns {AsyncGenerator<{name: string, data: any}>}
 */
export async function* steps(body, signal) {
  const response = await request("v1/steps", {
    method: "POST",
    headers: { "Content-Type": "application/json", Accept: "text/event-stream" },
    body: JSON.stringify(body),
    signal,
  });
  try {
    for await (const event of events(response.body)) {
      if (event.name === "error") throw errorOf(event.data, 500);
      yield event;
      if (event.name === "done") return;
    }
  } catch (error) {
    if (error instanceof ApiError || error.name === "AbortError") throw error;
    throw new ApiError("The connection broke in the middle of the run.");
  }
  throw new ApiError("The server ended the run before it was done.");
}

/**
 * The model's beliefs and attention at one open slot.
 * @param {{tokens: number[], position: number, attention?: boolean, candidates?: number, layer?: number[], suppressed?: number[], text?: string}} body
 * @param {AbortSignal} [signal]
 */
export async function probe(body, signal) {
  const headers = { "Content-Type": "application/json" };
  return (await request("v1/probe", { method: "POST", headers, body: JSON.stringify(body), signal })).json();
}

/** The run that plays when the page opens: one record a line. */
export async function recorded() {
  return (await request("recorded.jsonl")).text();
}

/**
 * The text of each token. It comes from the first event of a run with these tokens as prompt; the run itself is aborted.
 * @param {number[]} tokens
 * @returns {Promise<Map<number, string>>}
 */
export async function spell(tokens) {
  const control = new AbortController();
  for await (const { name, data } of steps({ prompt: tokens, gen_length: 1, watch: false }, control.signal)) {
    if (name !== "start") continue;
    control.abort();
    return new Map(data.canvas.filter((cell) => !cell.gap).map(({ token, text }) => [token, text]));
  }
  return new Map();
}

/** @param {string} path @param {RequestInit} [options] */
async function request(path, options = {}) {
  /** @type {Record<string, string>} */
  const headers = { .../** @type {Record<string, string>} */ (options.headers) };
  if (key) headers.Authorization = `Bearer ${key}`;
  let response;
  try {
    response = await fetch(path, { ...options, headers });
  } catch (error) {
    if (error.name === "AbortError") throw error;
    throw new ApiError("The server does not answer. Is `lacuna serve` still running?");
  }
  if (!response.ok) {
    const body = await response.json().catch(() => ({}));
    throw errorOf(body, response.status, Number(response.headers.get("Retry-After")) || null);
  }
  return response;
}

function errorOf(body, status, retryAfter = null) {
  const error = body?.error ?? body ?? {};
  const said = typeof error.message === "string" ? sentence(error.message) : `The server answered with status ${status}.`;
  const message = status === 429 ? "The server is busy: its queue is full." : said;
  return new ApiError(message, { status, param: error.param ?? null, code: error.code ?? null, retryAfter });
}

function sentence(text) {
  return text.charAt(0).toUpperCase() + text.slice(1) + (/[.!?]$/.test(text) ? "" : ".");
}

/** Server-sent events, read from the body of a fetch. */
async function* events(body) {
  const reader = body.pipeThrough(new TextDecoderStream()).getReader();
  let pending = "";
  for (;;) {
    const { done, value } = await reader.read();
    if (done) return;
    const blocks = (pending + value.replaceAll("\r", "")).split("\n\n");
    pending = blocks.pop();
    for (const block of blocks) {
      const event = parse(block);
      if (event) yield event;
    }
  }
}

function parse(block) {
  let name = "message";
  const data = [];
  for (const line of block.split("\n")) {
    const colon = line.indexOf(":");
    if (colon <= 0) continue;
    const value = line.slice(colon + 1).replace(/^ /, "");
    if (line.startsWith("event")) name = value;
    if (line.startsWith("data")) data.push(value);
  }
  if (data.length === 0 || data[0] === "[DONE]") return null;
  return { name, data: JSON.parse(data.join("\n")) };
}
