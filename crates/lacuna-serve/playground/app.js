/** The page: what is asked, by which strategies, and the moment that is shown. */

import * as api from "./api.js";
import { css, onSystemTheme, theme, timeColour } from "./colour.js";
import { Compose } from "./compose.js";
import { byId, tell } from "./dom.js";
import { EXAMPLES, exampleOf } from "./examples.js";
import { Lane } from "./lane.js";
import { Player } from "./player.js";
import { Run } from "./run.js";
import * as share from "./share.js";
import { Catalogue } from "./strategies.js";
import { Timeline } from "./timeline.js";
import { hideTip } from "./tip.js";

const MOST_LANES = 4;
const sized = new Intl.NumberFormat("en", { notation: "compact", compactDisplay: "long", maximumSignificantDigits: 3 });

const catalogue = new Catalogue();
const player = new Player();
const timeline = new Timeline(player);
const compose = new Compose({
  changed: edited,
  run,
  example: (example) => {
    take(example);
    remember();
  },
});
const narrow = window.matchMedia("(max-width: 40rem)");
const calm = window.matchMedia("(prefers-reduced-motion: reduce)");

/** @type {Lane[]} */
let lanes = [];
/** @type {AbortController | null} */
let running = null;

function addLane(choice) {
  const lane = new Lane(catalogue, choice, { changed: remember, removed: removeLane, seek: (of, steps) => player.seekStep(of, steps), inspected });
  lanes.push(lane);
  byId("lanes").append(lane.root);
  return lane;
}

function removeLane(lane) {
  if (lanes.length === 1) return;
  lanes = lanes.filter((other) => other !== lane);
  lane.root.remove();
  arrange();
  remember();
  player.show(runs(), player.at);
}

function setLanes(choices) {
  for (const lane of lanes) lane.root.remove();
  lanes = [];
  choices.slice(0, MOST_LANES).forEach(addLane);
  arrange();
}

function arrange() {
  // On a phone the canvases of two lanes are to be seen together; the panels wait until they are asked for.
  for (const lane of lanes) lane.unfold(!narrow.matches || lanes.length === 1);
  byId("lanes").dataset.count = lanes.length;
  byId("lane-add").hidden = lanes.length >= MOST_LANES;
}

function runs() {
  return lanes.map((lane) => lane.run).filter(Boolean);
}

/** Before anything was run the lanes show what will be filled. */
function preview() {
  for (const lane of lanes) if (!lane.run) lane.clear(compose.slots, compose.asked);
}

function edited() {
  remember();
  preview();
}

function remember() {
  const told = lanes.map(({ name, choice }) => ({ name, parameters: choice.parameters }));
  history.replaceState(null, "", share.toHash(compose.settings, told));
}

/** @param {import("./examples.js").Example} example */
function take(example) {
  stop();
  compose.settings = {
    mode: example.mode,
    prompt: example.prompt ?? "",
    question: example.question ?? "",
    text: example.text ?? "",
    gen_length: example.length ?? "",
    temperature: "",
    seed: "",
    eos: "",
    early_stop: true,
  };
  compose.problem(null);
  notice(null);
  compose.mark(example);
  setLanes(example.lanes.map(([name, parameters = {}]) => catalogue.choice(name, parameters)));
  player.show([]);
  preview();
}

/** Takes over what a link says. */
function restore({ settings, lanes: told }) {
  stop();
  compose.settings = settings;
  const wanted = told.length > 0 ? told : [{ name: "dos+eb", parameters: {} }];
  setLanes(wanted.map(({ name, parameters }) => catalogue.choice(name, parameters)));
  player.show([]);
  preview();
}

function bodies() {
  const asked = compose.fields(catalogue.model.chat ?? true);
  return lanes.map((lane) => ({ ...asked, ...catalogue.fields(lane.choice), watch: true }));
}

async function run() {
  stop();
  notice(null);
  for (const part of [compose, ...lanes]) {
    const { wrong } = part;
    part.problem(wrong?.message ?? null, wrong?.param);
    if (wrong) return part.focus(wrong.param);
  }
  const expected = compose.settings.mode === "prompt" ? (exampleOf(compose.settings.prompt)?.answer ?? null) : null;
  const control = new AbortController();
  running = control;
  busy(true);
  hideTip();
  player.pause();
  for (const lane of lanes) lane.clear(compose.slots, compose.asked, true);
  player.show([]);
  status("Running.");
  const requests = bodies();
  await Promise.all(lanes.map((lane, index) => follow(lane, requests[index], expected, control)));
  if (running === control) {
    running = null;
    busy(false);
  }
  if (calm.matches && !control.signal.aborted) player.seek(Infinity);
  refresh();
  if (runs().length > 0 && !control.signal.aborted) status(lanes.map(spoken).join(" "));
}

/** Brings the canvases into view if they are not. */
function reveal() {
  const below = lanes.some((lane) => lane.find(".canvas").getBoundingClientRect().bottom > innerHeight - 150);
  if (below) byId(narrow.matches ? "lanes" : "reading").scrollIntoView({ behavior: calm.matches ? "auto" : "smooth", block: "start" });
}

/** Runs one lane and keeps what comes. */
async function follow(lane, body, expected, control) {
  let run = null;
  try {
    for await (const { name, data } of api.steps(body, control.signal)) {
      if (name === "start") {
        run = new Run(data);
        learnEnds(run);
        lane.show(run, expected);
        if (player.runs.length === 0) reveal();
        player.show(runs(), player.at);
        if (!calm.matches) player.play();
      } else if (name === "step") {
        run.add(data);
      } else if (name === "done") {
        run.finish(data);
      }
      live();
    }
  } catch (error) {
    if (run) run.status = error.name === "AbortError" ? "stopped" : "failed";
    else lane.clear(compose.slots, compose.asked);
    if (error.name !== "AbortError") report(lane, error);
  }
  live();
}

/** The server knows better than the look of a token whether it ends a text. */
function learnEnds(run) {
  const { mask_token, end_tokens = [] } = catalogue.model;
  if (run.mask === mask_token) for (const token of end_tokens) run.ends.add(token);
}

/** Something came. It is drawn soon, however much comes until then. */
let due = false;
function live() {
  if (due) return;
  due = true;
  setTimeout(() => {
    due = false;
    if (calm.matches && running) player.seek(player.edge);
    else refresh();
  }, 100);
}

function stop() {
  if (!running) return;
  running.abort();
  running = null;
  busy(false);
  status("Stopped.");
}

function busy(is) {
  byId("stop").hidden = !is;
  byId("run").setAttribute("aria-busy", is);
  document.body.classList.toggle("busy", is);
}

function refresh() {
  for (const lane of lanes) if (lane.run) lane.update(player.stepsOf(lane.run));
  byId("legend-back").hidden = !runs().some((run) => run.revises);
  timeline.update();
}

/** Puts an error where it belongs: beside a field, on its lane, or beside the button. */
function report(lane, error) {
  const everyone = error.status === 0 || error.status === 401 || error.status === 429 || error.status >= 500;
  if (everyone) return notice(error);
  const tooLong = error.code === "context_length_exceeded" && (compose.settings.mode === "gaps" ? "text" : "prompt");
  if (compose.problem(error.message, tooLong || error.param)) return;
  lane.problem(error.message, error.param);
}

/** @param {api.ApiError | null} error */
function notice(error) {
  const place = byId("notice");
  place.hidden = !error;
  if (!error) return;
  const locked = error.status === 401;
  const wait = error.retryAfter ? ` Try again in ${error.retryAfter} s.` : "";
  place.querySelector("p").textContent = locked ? "This server wants an API key." : error.message + wait;
  byId("key-field").hidden = !locked;
  byId("retry").hidden = error.status === 400;
  if (locked) byId("key").focus();
  else place.scrollIntoView({ block: "nearest" });
}

function spoken(lane) {
  if (!lane.run) return "";
  const { run: of } = lane;
  return `${of.strategy}: ${of.nfeAt(of.length)} passes, ${of.seconds.toFixed(2)} seconds. ${of.textAt(of.length)}.`;
}

function status(text) {
  byId("status").textContent = text;
}

let toastTimer = 0;
function toast(text) {
  tell(byId("toast"), text);
  clearTimeout(toastTimer);
  toastTimer = setTimeout(() => tell(byId("toast"), null), 2600);
}

function inspected(position) {
  for (const lane of lanes) lane.highlight(position);
}

/** Asks how tokens of a trace are written, if the server's model is the one that it may be from. */
async function spell(record, tokens) {
  const { mask_token, context = 0 } = catalogue.model;
  if (record.mask_token !== mask_token || tokens.length >= context) return new Map();
  return api.spell(tokens).catch(() => new Map());
}

async function load(file) {
  let loaded;
  try {
    loaded = await share.read(await file.text(), spell);
  } catch (error) {
    return notice(new api.ApiError(`${file.name} is no trace: ${error.message}.`, { status: 400 }));
  }
  stop();
  notice(null);
  const shown = loaded.slice(0, MOST_LANES);
  setLanes(shown.map((one) => catalogue.choice(one.strategy, one.blockLength ? { block_length: `${one.blockLength}` } : {})));
  shown.forEach((one, index) => {
    learnEnds(one);
    lanes[index].show(one, null);
  });
  player.show(shown);
  player.seek(Infinity);
  toast(loaded.length > MOST_LANES ? `The first ${MOST_LANES} of ${loaded.length} runs are shown.` : `Loaded ${file.name}.`);
}

function keys(event) {
  const { key, target } = event;
  if ((event.ctrlKey || event.metaKey) && key === "Enter") {
    event.preventDefault();
    return run();
  }
  if (byId("help").open) return;
  if (key === "Escape") {
    hideTip();
    return stop();
  }
  if (event.ctrlKey || event.metaKey || event.altKey || target.closest("textarea, input:not([type=range], [type=radio], [type=checkbox]), select")) return;
  if (key === "?") return byId("help").showModal();
  if (player.runs.length === 0) return;
  const actions = {
    ArrowLeft: () => player.step(-1),
    ArrowRight: () => player.step(1),
    Home: () => timeline.go(0),
    End: () => timeline.go(Infinity),
    " ": () => player.toggle(),
  };
  const presses = key === " " && target.closest("button, summary, input, a");
  const picks = key.startsWith("Arrow") && target.closest("[type=radio]");
  if (!actions[key] || presses || picks) return;
  event.preventDefault();
  actions[key]();
}

function repaint() {
  const scale = byId("scale").getContext("2d");
  for (let x = 0; x < scale.canvas.width; x += 1) {
    scale.fillStyle = css(timeColour(x / (scale.canvas.width - 1)));
    scale.fillRect(x, 0, 1, 1);
  }
  for (const lane of lanes) lane.repaint();
  timeline.update();
}

function switchTheme() {
  const chosen = theme() === "dark" ? "light" : "dark";
  document.documentElement.dataset.theme = chosen;
  try {
    localStorage.setItem("lacuna.theme", chosen);
  } catch {
    // It holds until the page is closed, then.
  }
  repaint();
}

function describeModel() {
  const { model } = catalogue;
  const size = model.parameters && `${sized.format(model.parameters)} parameters`;
  const facts = [model.id, model.family, size, model.layers && `${model.layers} layers`];
  byId("model").textContent = facts.filter(Boolean).join(" · ");
}

/** Asks the server what it has. The page works without an answer. */
async function learn() {
  try {
    await catalogue.load();
  } catch (error) {
    if (error.status !== 404) notice(error);
    return;
  }
  for (const lane of lanes) lane.offer();
  describeModel();
}

function start() {
  compose.offer(EXAMPLES);
  const linked = share.fromHash(location.hash);
  if (linked) restore(linked);
  else take(EXAMPLES[0]);
  if (/Mac|iPhone|iPad/.test(navigator.platform)) byId("run-key").textContent = "⌘ ⏎";
  repaint();
  learn();
}

player.addEventListener("change", refresh);
onSystemTheme(repaint);
document.addEventListener("keydown", keys);
document.addEventListener("scroll", hideTip, { passive: true });
document.addEventListener("click", (event) => {
  if (event.target.closest(".canvas, .prompt, .plot")) return;
  hideTip();
  inspected(null);
});
window.addEventListener("hashchange", () => {
  const linked = share.fromHash(location.hash);
  if (linked) restore(linked);
});
byId("theme").addEventListener("click", switchTheme);
byId("help-open").addEventListener("click", () => byId("help").showModal());
byId("stop").addEventListener("click", stop);
byId("lane-add").addEventListener("click", () => {
  const taken = new Set(lanes.map(({ name }) => name));
  const next = ["dos+eb", "confidence+eb", "fast-dllm", "random+eb"].find((name) => !taken.has(name)) ?? "dos";
  addLane(catalogue.choice(next)).clear(compose.slots, compose.asked);
  arrange();
  remember();
});
byId("retry").addEventListener("click", () => {
  if (!byId("key-field").hidden) api.setKey(byId("key").value);
  learn();
  run();
});
byId("key").addEventListener("keydown", (event) => {
  if (event.key !== "Enter") return;
  event.preventDefault();
  byId("retry").click();
});
byId("copy-curl").addEventListener("click", async () => {
  toast((await share.copy(share.toCurl(bodies(), api.hasKey()))) ? "Copied. Paste it into a terminal." : "The browser did not let me copy it.");
});
byId("copy-link").addEventListener("click", async () => {
  remember();
  toast((await share.copy(location.href)) ? "Copied the link to these settings." : "Copy it from the address bar.");
});
byId("export").addEventListener("click", () => {
  if (runs().length === 0) return toast("There is nothing to export yet. Press Run first.");
  share.save(runs());
});
byId("load").addEventListener("click", () => byId("file").click());
byId("file").addEventListener("change", (event) => {
  const [file] = event.target.files;
  event.target.value = "";
  if (file) load(file);
});
document.addEventListener("dragover", (event) => event.dataTransfer.types.includes("Files") && event.preventDefault());
document.addEventListener("drop", (event) => {
  const [file] = event.dataTransfer.files;
  if (!file) return;
  event.preventDefault();
  load(file);
});

start();
