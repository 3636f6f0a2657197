/** The timeline: the playhead, its controls, and a track for each lane. */

import { css, shareOf, shades, timeColour } from "./colour.js";
import { byId, element } from "./dom.js";

const TRACK = 22; // pixels

export class Timeline {
  #width = 0;

  /** @param {import("./player.js").Player} player */
  constructor(player) {
    this.player = player;
    this.scrubber = /** @type {HTMLInputElement} */ (byId("scrubber"));
    this.tracks = byId("tracks");
    byId("play").addEventListener("click", () => player.toggle());
    byId("back").addEventListener("click", () => player.step(-1));
    byId("forward").addEventListener("click", () => player.step(1));
    byId("first").addEventListener("click", () => this.go(0));
    byId("last").addEventListener("click", () => this.go(Infinity));
    byId("axis").addEventListener("change", (event) => player.setAxis(event.target.value));
    byId("speed").addEventListener("change", (event) => {
      player.speed = Number(event.target.value);
      player.changed();
    });
    this.scrubber.addEventListener("input", () => {
      const at = Number(this.scrubber.value);
      this.go(player.axis === "steps" ? Math.round(at) : at);
    });
    this.tracks.addEventListener("pointerdown", (event) => this.#drag(event));
    this.tracks.addEventListener("pointermove", (event) => event.buttons > 0 && this.#drag(event));
    const frame = byId("player");
    // The player is fixed over the end of the page, which gets padding of the same height.
    new ResizeObserver(() => document.documentElement.style.setProperty("--player", `${frame.offsetHeight}px`)).observe(frame);
    new ResizeObserver(([{ contentRect }]) => {
      if (contentRect.width === this.#width) return;
      this.#width = contentRect.width;
      this.update();
    }).observe(this.tracks);
  }

  setSpeed(speed) {
    byId("speed").value = String(speed);
    this.player.speed = speed;
  }

  go(at) {
    this.player.pause();
    this.player.seek(at);
  }

  update() {
    const { player } = this;
    byId("player").hidden = player.runs.length === 0;
    if (player.runs.length === 0) return;
    this.scrubber.max = String(player.end);
    this.scrubber.value = String(player.at);
    this.scrubber.style.setProperty("--share", `${player.end > 0 ? (100 * player.at) / player.end : 0}%`);
    const moment = this.#moment();
    this.scrubber.setAttribute("aria-valuetext", moment);
    byId("moment").textContent = moment;
    byId("play-icon").setAttribute("href", player.playing ? "#icon-pause" : "#icon-play");
    byId("play-label").textContent = player.playing ? "Pause" : "Play";
    byId("play").title = player.playing ? "Pause (space)" : "Play (space)";
    while (this.tracks.childElementCount > player.runs.length) this.tracks.lastElementChild.remove();
    while (this.tracks.childElementCount < player.runs.length) {
      this.tracks.append(element("div", "track", element("span", "name"), element("canvas", "")));
    }
    player.runs.forEach((run, index) => this.#track(this.tracks.children[index], run));
  }

  #moment() {
    const { player } = this;
    const going = player.running ? "…" : "";
    if (player.axis === "steps") return `step ${Math.floor(player.at + 1e-9)} of ${player.end}${going}`;
    const slower = player.rate > 0 ? Math.round(1 / player.rate) : 1;
    return `${player.at.toFixed(2)} of ${player.end.toFixed(2)} s${going}${slower > 1 ? ` · ${slower}× slower` : ""}`;
  }

  #drag(event) {
    const box = this.tracks.getBoundingClientRect();
    const at = ((event.clientX - box.left) / box.width) * this.player.end;
    this.go(this.player.axis === "steps" ? Math.round(at) : at);
  }

  /** A bar for each step, as tall as the number of its decisions. @param {any} row @param {import("./run.js").Run} run */
  #track(row, run) {
    const { player } = this;
    const [name, canvas] = row.children;
    name.textContent = run.strategy + (run.blockLength ? ` · blocks of ${run.blockLength}` : "");
    const ratio = window.devicePixelRatio || 1;
    const [width, height] = [this.#width, TRACK];
    canvas.width = Math.round(width * ratio);
    canvas.height = Math.round(height * ratio);
    const context = canvas.getContext("2d");
    context.scale(ratio, ratio);
    const place = (steps) => (player.end > 0 ? (width * (player.axis === "steps" ? steps : run.secondsAt(steps))) / player.end : 0);
    const shown = player.stepsOf(run);
    const widest = run.steps.reduce((most, step) => Math.max(most, step.committed.length), 1);
    context.fillStyle = css(shades().slot);
    context.fillRect(0, height - 1, place(run.length), 1);
    run.steps.forEach((step, index) => {
      const [from, to] = [place(index), place(index + 1)];
      const tall = 3 + (height - 3) * Math.sqrt(step.committed.length / widest);
      context.globalAlpha = index < shown ? 1 : 0.28;
      context.fillStyle = css(timeColour(shareOf(index, run.length)));
      context.fillRect(from + 0.5, height - tall, Math.max(to - from - 1, 0.75), tall);
    });
    context.globalAlpha = 1;
  }
}
