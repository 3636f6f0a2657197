/** A session: what is asked, the lanes that answer it, and the moment that is shown. */

import * as api from "./api.js";
import { Catalogue } from "./catalogue.js";
import { css, timeColour } from "./colour.js";
import { Compose } from "./compose.js";
import { byId, element, tell } from "./dom.js";
import { EXAMPLES, exampleOf } from "./examples.js";
import { Guide } from "./guide.js";
import { Lane } from "./lane.js";
import { Player } from "./player.js";
import { Run } from "./run.js";
import * as share from "./share.js";
import { Story } from "./story.js";
import { Timeline } from "./timeline.js";
import { hideTip } from "./tip.js";
import { Wheel } from "./wheel.js";

const MOST_LANES = 4;
const FIRST = ["dos+eb", "confidence+eb", "fast-dllm", "random+eb"]; // what is offered for another lane
const TRIES = 3; // of a lane that finds the server busy
const LONGEST_WAIT_S = 3; // a busy server that says it will take longer is told about instead
const STORY_SPEED = 0.5; // there are captions to read
const DRAWN_EVERY = 100; // milliseconds, while steps come in
const sized = new Intl.NumberFormat("en", { notation: "compact", compactDisplay: "long", maximumSignificantDigits: 3 });

export const narrow = window.matchMedia("(max-width: 40rem)");
const calm = window.matchMedia("(prefers-reduced-motion: reduce)");

export class Session {
  catalogue = new Catalogue();
  player = new Player();
  timeline = new Timeline(this.player);
  wheel = new Wheel();
  /** @type {Lane[]} */
  lanes = [];
  /** @type {AbortController | null} */
  #running = null;
  #due = false;
  #toast = 0;
  /** The server's answers about slots. @type {WeakMap<Run, Map<string, Promise<any>>>} */
  #probed = new WeakMap();

  constructor() {
    this.compose = new Compose(this.catalogue, {
      changed: () => this.edited(),
      explain: () => this.guide.begin(),
      run: () => this.run(),
      example: (example) => {
        this.take(example);
        this.remember();
      },
    });
    this.guide = new Guide(this.catalogue, (key, part) => this.explain(key, part));
    this.story = new Story((step) => {
      this.timeline.go(step);
    });
    this.player.addEventListener("change", () => this.refresh());
  }

  /** @type {Run[]} */
  get runs() {
    return this.lanes.map((lane) => lane.run).filter(Boolean);
  }

  // Lanes

  /** @param {import("./catalogue.js").Choice} choice */
  #add(choice) {
    const lane = new Lane(this.catalogue, choice, {
      changed: () => this.remember(),
      removed: (of) => this.remove(of),
      seek: (of, steps) => this.player.seekStep(of, steps),
      inspected: (position) => this.inspected(position),
      probe: (of, position, steps) => this.#probe(of, position, steps),
      decide: (of, seen, steps) => this.decide(of, seen, steps),
      again: (of) => this.run([of]),
    });
    this.lanes.push(lane);
    byId("lanes").append(lane.root);
    return lane;
  }

  remove(lane) {
    if (this.lanes.length === 1) return;
    this.lanes = this.lanes.filter((other) => other !== lane);
    lane.root.remove();
    this.#arrange();
    this.remember();
    this.player.show(this.runs, this.player.at);
  }

  /** @param {import("./catalogue.js").Choice[]} choices */
  #set(choices) {
    this.wheel.close();
    for (const lane of this.lanes) lane.root.remove();
    this.lanes = [];
    for (const choice of choices.slice(0, MOST_LANES)) this.#add(choice);
    this.#arrange();
  }

  addLane() {
    if (this.lanes.length >= MOST_LANES) return;
    const taken = new Set(this.lanes.map(({ choice }) => choice.name));
    const name = FIRST.find((one) => !taken.has(one)) ?? "dos";
    this.#add({ name, parameters: {} }).clear(this.compose.slots, this.compose.asked);
    this.#arrange();
    this.remember();
  }

  #arrange() {
    byId("lanes").dataset.count = this.lanes.length;
    byId("lane-add").disabled = this.lanes.length >= MOST_LANES;
    byId("lane-add").title = this.lanes.length >= MOST_LANES ? "Four can be compared at once" : "";
    this.#tabs();
  }

  /** On a phone one lane is seen at a time: a row of names to switch, and they can be swiped. */
  #tabs() {
    const tabs = this.lanes.map((lane, index) => {
      const tab = element("button", "tab", lane.choice.name);
      tab.type = "button";
      tab.addEventListener("click", () => this.showLane(index));
      return tab;
    });
    byId("lane-tabs").replaceChildren(...tabs);
    byId("lane-tabs").hidden = this.lanes.length < 2;
    this.markLane();
  }

  showLane(index) {
    const [place, { root }] = [byId("lanes"), this.lanes[index]];
    place.scrollTo({ left: root.offsetLeft - place.offsetLeft, behavior: calm.matches ? "auto" : "smooth" });
  }

  /** Marks the name of the lane that is in view. */
  markLane() {
    const place = byId("lanes");
    const index = Math.round(place.scrollLeft / Math.max(1, place.clientWidth));
    [...byId("lane-tabs").children].forEach((tab, at) => tab.setAttribute("aria-pressed", String(at === index)));
  }

  // The question

  /** Before anything was run the lanes show what will be filled. */
  #preview() {
    for (const lane of this.lanes) if (!lane.run) lane.clear(this.compose.slots, this.compose.asked);
  }

  edited() {
    if (this.story.telling) {
      this.#endStory();
      for (const lane of this.lanes) lane.clear(this.compose.slots, this.compose.asked);
      this.player.show([]);
    }
    this.remember();
    this.#preview();
  }

  #hash(at = null, hands = []) {
    return share.toHash(
      this.compose.settings,
      this.lanes.map(({ choice }) => choice),
      at,
      hands,
    );
  }

  remember() {
    history.replaceState(null, "", this.#hash());
    [...byId("lane-tabs").children].forEach((tab, at) => (tab.textContent = this.lanes[at].choice.name));
  }

  /** The address of what is shown, at the moment that is shown, with the visitor's decisions. */
  get link() {
    const at = this.runs.length > 0 && this.player.axis === "steps" ? Math.floor(this.player.at + 1e-9) : null;
    const hands = this.lanes.flatMap(({ run }, lane) => run?.hands.map((hand) => ({ lane, ...hand })) ?? []);
    return new URL(this.#hash(at, hands), location.href).href;
  }

  /** @param {import("./examples.js").Example} example */
  take(example) {
    this.stop();
    this.#endStory();
    this.compose.settings = {
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
    this.compose.problem(null);
    this.notice(null);
    this.compose.mark(example);
    this.#set(example.lanes.map(([name, parameters = {}]) => ({ name, parameters })));
    this.player.show([]);
    this.#preview();
  }

  /** Explains a part with a run of it. @param {string} key @param {import("./catalogue.js").Part} part */
  explain(key, part) {
    this.stop();
    this.#endStory();
    const common = { question: "", text: "", temperature: "", seed: "", eos: "", early_stop: true };
    this.compose.settings = {
      ...common,
      mode: "strategies",
      part: key,
      prompt: this.catalogue.question,
      gen_length: `${part.example.gen_length}`,
    };
    this.compose.problem(null);
    this.compose.mark(null);
    this.guide.show();
    this.#set([this.catalogue.choiceOf(part.example)]);
    this.remember();
    this.timeline.setSpeed(STORY_SPEED);
    this.run();
  }

  /** Takes over what a link says. One that names a step or decisions is run, decided so, and stops there. */
  async restore({ settings, lanes, at, hands }) {
    this.stop();
    this.#endStory();
    this.compose.settings = settings;
    this.compose.hint();
    this.#set(lanes.length > 0 ? lanes : [{ name: "dos+eb", parameters: {} }]);
    this.player.show([]);
    this.#preview();
    const explained = settings.mode === "strategies" && settings.part !== "";
    if (at === null && hands.length === 0 && !explained) return;
    await this.learned;
    this.guide.show();
    await this.run();
    for (const hand of hands) await this.#repeat(hand);
    if (at !== null) this.timeline.go(at);
  }

  /** Something else is shown than the recorded run. */
  #endStory() {
    if (!this.story.telling) return;
    this.story.end();
    this.timeline.setSpeed(1);
  }

  // Running

  #bodies(lanes = this.lanes) {
    const asked = this.compose.fields(this.catalogue.model.chat ?? true);
    const watch = { attention: true, beliefs: true, scores: true };
    return lanes.map((lane) => ({ ...asked, ...this.catalogue.fields(lane.choice), watch }));
  }

  get curl() {
    return share.toCurl(this.#bodies(), api.hasKey());
  }

  /** @param {Lane[]} lanes those to run; the others keep what they show */
  async run(lanes = this.lanes) {
    this.stop();
    this.#endStory();
    this.notice(null);
    for (const part of [this.compose, ...lanes]) {
      const { wrong } = part;
      part.problem(wrong?.message ?? null, wrong?.param);
      if (wrong) return part.focus(wrong.param);
    }
    const { mode } = this.compose.settings;
    const { asked } = this.compose;
    const known = asked === this.catalogue.question ? this.catalogue.answer : (exampleOf(asked)?.answer ?? null);
    const expected = mode === "gaps" ? null : known;
    const requests = this.#bodies(lanes);
    this.player.pause();
    document.body.classList.remove("lanes-first");
    for (const lane of lanes) lane.clear(this.compose.slots, this.compose.asked, "waiting for the server");
    this.player.show(this.runs);
    await this.#work((control) => Promise.all(lanes.map((lane, index) => this.#follow(lane, requests[index], expected, control))));
    if (lanes.every((lane) => !lane.run) && this.#refused) this.notice(this.#refused);
  }

  /** The error that kept a lane from running at all. @type {api.ApiError | null} */
  #refused = null;

  /** Does something that can be stopped. @param {(control: AbortController) => Promise<any>} work */
  async #work(work) {
    const control = new AbortController();
    this.#running = control;
    this.#refused = null;
    this.#busy(true);
    hideTip();
    this.wheel.close();
    this.status("Running.");
    await work(control);
    if (this.#running === control) {
      this.#running = null;
      this.#busy(false);
    }
    if (calm.matches && !control.signal.aborted) this.player.seek(Infinity);
    this.refresh();
    if (this.runs.length > 0 && !control.signal.aborted) this.status(this.lanes.map(spoken).join(" "));
  }

  /** Runs one lane and keeps what comes. A busy server is asked again. */
  async #follow(lane, body, expected, control) {
    for (let attempt = 1; ; attempt += 1) {
      try {
        await this.#receive(lane, body, control, (data) => {
          const run = new Run(data);
          this.#learnEnds(run);
          lane.show(run, expected);
          if (this.player.runs.length === 0) this.#reveal();
          this.player.show(this.runs, this.player.at);
          if (!calm.matches) this.player.play();
        });
        return;
      } catch (error) {
        const soon = (error.retryAfter ?? 1) <= LONGEST_WAIT_S;
        const wait = error.status === 429 && soon && attempt < TRIES && !control.signal.aborted;
        if (!wait) return this.#failed(lane, error);
        lane.wait("waiting: the server is busy");
        await new Promise((resolve) => setTimeout(resolve, 1000 * (error.retryAfter ?? 1)));
        if (control.signal.aborted) return lane.wait("");
      }
    }
  }

  /** @param {(data: any) => void} begin what to do with the first event */
  async #receive(lane, body, control, begin) {
    for await (const { name, data } of api.steps(body, control.signal)) {
      if (name === "start") begin(data);
      else if (name === "step") lane.run.go(data);
      else if (name === "done") lane.run.finish(data);
      this.#live();
    }
    this.#live();
  }

  #failed(lane, error) {
    const aborted = error.name === "AbortError";
    if (lane.run?.running) lane.run.status = aborted ? "stopped" : "failed";
    else if (!lane.run) lane.clear(this.compose.slots, this.compose.asked);
    if (!aborted) this.#report(lane, error);
    this.#live();
  }

  /** The server knows better than the look of a token whether it ends a text. */
  #learnEnds(run) {
    const { mask_token, end_tokens = [] } = this.catalogue.model;
    if (run.mask === mask_token) for (const token of end_tokens) run.ends.add(token);
  }

  /** Something came. It is drawn soon, however much comes until then. */
  #live() {
    if (this.#due) return;
    this.#due = true;
    setTimeout(() => {
      this.#due = false;
      if (calm.matches && this.#running) this.player.seek(this.player.edge);
      else this.refresh();
    }, DRAWN_EVERY);
  }

  stop() {
    if (!this.#running) return;
    this.#running.abort();
    this.#running = null;
    this.#busy(false);
    this.status("Stopped.");
  }

  #busy(is) {
    byId("stop").hidden = !is;
    byId("run").setAttribute("aria-busy", String(is));
    document.body.classList.toggle("busy", is);
  }

  /** Brings the lanes into view if they are not. */
  #reveal() {
    const foot = innerHeight - byId("player").offsetHeight;
    const outside = this.lanes.map((lane) => lane.root.getBoundingClientRect()).some(({ top, bottom }) => top < 0 || bottom > foot);
    const explains = this.compose.settings.mode === "strategies";
    const target = innerHeight < 500 ? "lanes" : explains ? "compose" : narrow.matches ? "lane-tabs" : "reading";
    if (outside) byId(target).scrollIntoView({ behavior: calm.matches ? "auto" : "smooth", block: "start" });
  }

  refresh() {
    for (const lane of this.lanes) if (lane.run) lane.update(this.player.stepsOf(lane.run));
    byId("legend-back").hidden = !this.runs.some((run) => run.revises);
    byId("legend-hand").hidden = !this.runs.some((run) => run.hand);
    this.story.update(this.player.at);
    this.timeline.update();
  }

  // The wheel

  /** True if the server's model is the one that a run is of. */
  #same(run) {
    const { id, mask_token } = this.catalogue.model;
    return run.mask === mask_token && (run.model === null || run.model === id);
  }

  /** The model's view of a slot, asked once for each moment. */
  async #probe(lane, position, steps, text = undefined) {
    const { run } = lane;
    if (!this.#same(run)) throw new api.ApiError("This run is not of the server's model, so it cannot be asked about it.");
    const suppressed = run.kind === "fill" ? [...run.ends] : [];
    const ask = () =>
      api.probe({
        tokens: run.tokensAt(steps),
        position,
        attention: text === undefined,
        layer: run.layers.length > 0 ? run.layers : undefined,
        suppressed,
        text,
      });
    if (text !== undefined) return ask();
    const known = this.#probed.get(run) ?? new Map();
    this.#probed.set(run, known);
    const key = `${steps} ${position}`;
    if (!known.has(key))
      known.set(
        key,
        ask().catch((error) => {
          known.delete(key);
          throw error;
        }),
      );
    return known.get(key);
  }

  /** Offers to decide a position by hand. */
  decide(lane, seen, steps) {
    const { run } = lane;
    if (!run.canvas[seen.position].gap || run.running || seen.position < run.from) return;
    this.player.pause();
    hideTip();
    lane.arcs.clear();
    this.wheel.show({
      run,
      position: seen.position,
      steps,
      anchor: seen.anchor,
      back: lane.find(".canvas"),
      probe: (text) => this.#probe(lane, seen.position, steps, text),
      decide: (change) => this.#goOn(lane, steps, change),
    });
  }

  /** Decides as a link says. @param {share.Hand} hand */
  async #repeat({ lane, steps, committed, remasked }) {
    const run = this.lanes[lane]?.run;
    const open = ({ position }) => run.canvas[position]?.gap;
    if (!run || steps > run.length || !committed.every(open) || !remasked.every((position) => open({ position }))) {
      return this.toast("The link's decision does not fit this run, so it was left out.");
    }
    const texts = committed.length > 0 ? await api.spell(committed.map(({ token }) => token)) : new Map();
    const spelled = committed.map((one) => ({ ...one, text: texts.get(one.token) ?? null }));
    await this.#goOn(this.lanes[lane], steps, { committed: spelled, remasked });
  }

  /** Goes on with a run from a moment at which the visitor has changed it. */
  async #goOn(lane, steps, change) {
    this.stop();
    const run = lane.run.branch(steps, change);
    const { expected } = lane;
    this.#endStory();
    lane.show(run, expected);
    this.player.show(this.runs, this.player.at);
    this.player.seekStep(run, steps + 1);
    const tokens = run.tokensAt(run.length);
    if (!tokens.includes(run.mask)) {
      run.status = "done";
      return this.refresh();
    }
    const body = {
      ...this.catalogue.fields({ name: run.strategy, parameters: lane.choice.parameters }),
      prompt: tokens.slice(0, run.from),
      canvas: tokens.slice(run.from),
      watch: { attention: true, beliefs: true, scores: true },
      ...(run.kind === "fill" ? { suppress_eos: true } : {}),
    };
    await this.#work(async (control) => {
      try {
        if (!calm.matches) this.player.play();
        await this.#receive(lane, body, control, () => {});
      } catch (error) {
        this.#failed(lane, error);
      }
    });
  }

  // Messages

  /** Puts an error where it belongs: beside a field, on its lane, or beside the button. */
  #report(lane, error) {
    const alone = this.lanes.length > 1 && (error.status === 429 || error.status >= 500);
    if (alone) {
      this.#refused = error;
      return lane.problem(error.message, null, true);
    }
    const everyone = error.status === 0 || error.status === 401 || error.status === 429 || error.status >= 500;
    if (everyone) return this.notice(error);
    const tooLong = error.code === "context_length_exceeded" && (this.compose.settings.mode === "gaps" ? "text" : "prompt");
    if (this.compose.problem(error.message, tooLong || error.param)) return;
    lane.problem(error.message, error.param);
  }

  /** @param {api.ApiError | null} error */
  notice(error) {
    const place = byId("notice");
    place.hidden = !error;
    if (!error) return;
    const locked = error.status === 401;
    const wait = error.retryAfter ? ` Try again in ${error.retryAfter} s.` : "";
    const key = api.hasKey() ? "The server did not accept this API key." : "This server wants an API key.";
    place.querySelector("p").textContent = locked ? key : error.message + wait;
    byId("key-field").hidden = !locked;
    byId("retry").hidden = error.status === 400;
    if (locked) byId("key").select();
    if (locked) byId("key").focus();
    else place.scrollIntoView({ block: "nearest" });
  }

  retry() {
    if (!byId("key-field").hidden) api.setKey(byId("key").value);
    this.learn();
    this.run();
  }

  status(text) {
    byId("status").textContent = text;
  }

  toast(text) {
    tell(byId("toast"), text);
    clearTimeout(this.#toast);
    this.#toast = window.setTimeout(() => tell(byId("toast"), null), 2600);
  }

  inspected(position) {
    for (const lane of this.lanes) lane.highlight(position);
  }

  // Traces

  /** Asks how tokens of a trace are written, if the server's model is the one that it may be from. */
  async #spell(record, tokens) {
    const { mask_token, context = 0 } = this.catalogue.model;
    if (record.mask_token !== mask_token || tokens.length >= context) return new Map();
    return api.spell(tokens).catch(() => new Map());
  }

  /** Shows runs that were made elsewhere, and what they were asked. @param {Run[]} runs */
  #display(runs, expected = null) {
    const shown = runs.slice(0, MOST_LANES);
    this.#set(
      shown.map((run) => ({ name: run.strategy, parameters: run.blockLength ? { block_length: `${run.blockLength}` } : {} })),
    );
    shown.forEach((run, index) => {
      this.#learnEnds(run);
      this.lanes[index].show(run, expected);
    });
    this.player.show(shown);
  }

  async load(file) {
    let loaded;
    try {
      loaded = await share.read(await file.text(), (record, tokens) => this.#spell(record, tokens));
    } catch (error) {
      return this.notice(new api.ApiError(`${file.name} is no trace: ${error.message}.`, { status: 400 }));
    }
    this.stop();
    this.#endStory();
    this.notice(null);
    this.compose.settings = asked(loaded[0]);
    this.compose.mark(null);
    this.#display(loaded);
    this.player.seek(Infinity);
    this.remember();
    this.toast(loaded.length > MOST_LANES ? `The first ${MOST_LANES} of ${loaded.length} runs are shown.` : `Loaded ${file.name}.`);
  }

  /** Plays the recorded run. It needs no model. */
  async #tell() {
    const runs = await share.read(await api.recorded(), async () => new Map());
    if (this.#running || this.runs.length > 0 || location.hash.length > 1) return;
    for (const run of runs) run.status = "recorded";
    this.#display(runs, EXAMPLES[0].answer);
    document.body.classList.add("lanes-first");
    this.story.begin(runs);
    this.timeline.setSpeed(STORY_SPEED);
    if (calm.matches) this.player.seek(Infinity);
    else this.player.play();
  }

  export() {
    if (this.runs.length === 0) return this.toast("There is nothing to export yet. Press Run first.");
    share.save(this.runs);
  }

  // The page

  repaint() {
    const scale = byId("scale").getContext("2d");
    for (let x = 0; x < scale.canvas.width; x += 1) {
      scale.fillStyle = css(timeColour(x / (scale.canvas.width - 1)));
      scale.fillRect(x, 0, 1, 1);
    }
    for (const lane of this.lanes) lane.repaint();
    this.timeline.update();
  }

  #describeModel() {
    const { model } = this.catalogue;
    const size = model.parameters && `${sized.format(model.parameters)} parameters`;
    const facts = [model.id, model.family, size, model.layers && `${model.layers} layers`];
    byId("model").textContent = facts.filter(Boolean).join(" · ");
  }

  /** Asks the server what it has. */
  async learn() {
    try {
      await this.catalogue.load();
    } catch (error) {
      return this.notice(error);
    }
    for (const lane of this.lanes) lane.offer();
    this.guide.show();
    for (const run of this.runs) this.#learnEnds(run);
    this.compose.hint();
    this.#describeModel();
  }

  /** Begins with what the link says, or with the recorded run. */
  async start() {
    this.compose.offer(EXAMPLES);
    this.repaint();
    this.learned = this.learn();
    const linked = share.fromHash(location.hash);
    if (linked) return this.restore(linked);
    this.take(EXAMPLES[0]);
    await this.#tell();
  }
}

/** The prompt of a loaded run, as far as its tokens tell: the user's last words. */
function asked(run) {
  const cells = run.canvas.slice(0, run.from);
  const text = cells.map((cell) => cell.text ?? "").join("");
  const turns = text.split(/<[|｜]?[A-Za-z][\w ▁-]*[|｜]?>/).map((part) => part.trim());
  const user = turns.lastIndexOf("user");
  const prompt = user >= 0 ? turns.slice(user + 1).find((part) => part !== "") : text.trim();
  const written = run.canvas
    .slice(run.from)
    .map((cell) => (cell.gap ? "\0" : cell.text))
    .join("")
    .replace(/\0+/g, (gap) => `<gap:${gap.length}>`);
  const common = { temperature: "", seed: "", eos: "", early_stop: true };
  return run.kind === "fill"
    ? { ...common, mode: "gaps", question: prompt ?? "", text: written, prompt: "", gen_length: "" }
    : { ...common, mode: "prompt", prompt: prompt ?? "", gen_length: `${run.places}`, question: "", text: "" };
}

function spoken(lane) {
  if (!lane.run) return "";
  const { run } = lane;
  return `${run.strategy}: ${run.nfeAt(run.length)} passes, ${run.seconds.toFixed(2)} seconds. ${run.textAt(run.length)}.`;
}
