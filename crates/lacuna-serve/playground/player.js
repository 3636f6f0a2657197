/** The playhead: one moment that all lanes show, counted in steps or in seconds. */

const SHOWN_FOR = 8; // seconds that a whole run takes to play, so that one can follow it
const SLOWEST = 3; // steps a second
const FASTEST = 16;
const TICKS = 160; // moments of a playback by time; between them nothing is drawn, for the model may need the processor

export class Player extends EventTarget {
  /** @type {import("./run.js").Run[]} */
  runs = [];
  /** @type {"steps" | "time"} */
  axis = "steps";
  at = 0;
  speed = 1;
  playing = false;
  #frame = 0;
  #last = 0;
  #shown = 0;

  /** @param {import("./run.js").Run[]} runs */
  show(runs, at = 0) {
    this.runs = runs;
    this.at = at;
    this.changed();
  }

  get running() {
    return this.runs.some((run) => run.running);
  }

  /** As far as is known now. */
  get end() {
    return Math.max(0, ...this.runs.map((run) => (this.axis === "steps" ? run.length : run.seconds)));
  }

  /** As far as one may look: no lane that still runs is left behind. */
  get edge() {
    const limits = this.runs.filter((run) => run.running).map((run) => this.#measure(run, run.shown));
    return limits.length > 0 ? Math.min(...limits) : this.end;
  }

  #measure(run, steps) {
    return this.axis === "steps" ? steps : run.secondsAt(steps);
  }

  /** Number of steps of a run that are shown now. */
  stepsOf(run) {
    const steps = this.axis === "steps" ? Math.floor(this.at + 1e-9) : run.stepsAt(this.at);
    return Math.min(steps, run.length);
  }

  seek(at) {
    this.at = Math.min(Math.max(at, 0), this.edge);
    this.changed();
  }

  /** Goes to the moment at which a lane has done so many steps. */
  seekStep(run, steps) {
    this.pause();
    this.seek(this.#measure(run, steps));
  }

  /** Goes to the next (1) or the last (-1) moment at which something happened. */
  step(direction) {
    this.pause();
    if (this.axis === "steps") return this.seek(direction > 0 ? Math.floor(this.at + 1e-9) + 1 : Math.ceil(this.at - 1e-9) - 1);
    const moments = this.runs.flatMap((run) => Array.from({ length: run.length + 1 }, (_, steps) => run.secondsAt(steps)));
    const ahead = moments.filter((moment) => direction * (moment - this.at) > 1e-9).map((moment) => direction * moment);
    this.seek(ahead.length > 0 ? direction * Math.min(...ahead) : this.at);
  }

  setAxis(axis) {
    const share = this.end > 0 ? this.at / this.end : 0;
    this.axis = axis;
    this.seek(axis === "steps" ? Math.round(share * this.end) : share * this.end);
  }

  play() {
    if (this.playing) return;
    if (this.at >= this.end && !this.running) this.at = 0;
    this.playing = true;
    this.#last = performance.now();
    this.#frame = requestAnimationFrame((now) => this.#advance(now));
    this.changed();
  }

  pause() {
    cancelAnimationFrame(this.#frame);
    this.playing = false;
    this.changed();
  }

  toggle() {
    if (this.playing) this.pause();
    else this.play();
  }

  /** Units of the axis for each second of playing. */
  get rate() {
    const even = this.end / SHOWN_FOR;
    return this.speed * (this.axis === "steps" ? Math.min(Math.max(even, SLOWEST), FASTEST) : even);
  }

  #advance(now) {
    // A frame may carry a time from before it was asked for.
    const next = this.at + (this.rate * Math.max(0, now - this.#last)) / 1000;
    this.#last = now;
    this.at = Math.max(this.at, Math.min(next, this.edge));
    if (this.at >= this.end && !this.running) return this.pause();
    this.#frame = requestAnimationFrame((later) => this.#advance(later));
    if (this.#tick() !== this.#shown) this.changed();
  }

  #tick() {
    return Math.floor(this.axis === "steps" ? this.at + 1e-9 : (TICKS * this.at) / (this.end || 1));
  }

  changed() {
    this.#shown = this.#tick();
    this.dispatchEvent(new Event("change"));
  }
}
