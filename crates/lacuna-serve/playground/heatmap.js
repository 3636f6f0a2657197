/** The order map: a row for each step, a column for each place. */

import { css, mix, shades, shareOf, timeColour } from "./colour.js";
import { standing } from "./run.js";

const HEIGHT = 200;
const TALLEST_ROW = 24;

export class HeatMap {
  /** @type {import("./run.js").Run | null} */
  #run = null;
  #picture = document.createElement("canvas");
  #painted = { run: null, length: 0, running: false };
  #steps = 0;
  #width = 0;

  /**
   * @param {HTMLElement} root
   * @param {{seek: (step: number) => void, inspect: (inspected: {position: number, steps: number, anchor: {getBoundingClientRect(): DOMRect}} | null) => void}} on
   */
  constructor(root, { seek, inspect }) {
    this.root = root;
    this.plot = root.querySelector(".plot");
    this.canvas = root.querySelector("canvas");
    this.cursor = root.querySelector(".cursor");
    this.title = root.querySelector("summary .soft");
    [this.left, this.right] = root.querySelectorAll(".axis span");
    this.canvas.addEventListener("click", (event) => this.#run && seek(this.#cell(event).step + 1));
    this.canvas.addEventListener("pointermove", (event) => {
      if (!this.#run?.length) return;
      const { step, position } = this.#cell(event);
      const anchor = { getBoundingClientRect: () => new DOMRect(event.clientX - 4, event.clientY - 4, 8, 8) };
      inspect({ position, steps: step + 1, anchor });
    });
    this.canvas.addEventListener("pointerleave", () => inspect(null));
    new ResizeObserver(([{ contentRect }]) => {
      if (contentRect.width === this.#width) return;
      this.#width = contentRect.width;
      if (this.#run) this.#draw();
    }).observe(this.plot);
  }

  clear() {
    this.#run = null;
    this.canvas.width = this.canvas.height = 0;
    this.canvas.style.height = "72px";
    this.title.textContent = "places →, steps ↓";
    this.left.textContent = this.right.textContent = "";
  }

  /** @param {import("./run.js").Run} run */
  update(run, steps) {
    this.#run = run;
    this.#steps = steps;
    this.#draw();
  }

  /** Forgets the picture, which has the colours of the other theme. */
  repaint() {
    this.#painted = { run: null, length: 0, running: false };
    if (this.#run) this.#draw();
  }

  /** Marks a column, or none. */
  highlight(position) {
    const place = this.#run && position !== null ? position - this.#run.from : -1;
    this.cursor.hidden = place < 0;
    if (place < 0) return;
    this.cursor.style.left = `${(100 * place) / this.#run.places}%`;
    this.cursor.style.width = `${100 / this.#run.places}%`;
  }

  #cell(event) {
    const box = this.canvas.getBoundingClientRect();
    const within = (share, count) => Math.min(Math.max(Math.floor(share * count), 0), count - 1);
    return {
      position: this.#run.from + within((event.clientX - box.left) / box.width, this.#run.places),
      step: within((event.clientY - box.top) / box.height, this.#run.length),
    };
  }

  /** All colours change with every step that comes, so a long run is painted anew only now and then while it goes on. */
  #outdated() {
    const { run, length, running } = this.#painted;
    if (run !== this.#run || running !== run.running) return true;
    return run.length > length * (running ? 1.05 : 1);
  }

  #draw() {
    const run = this.#run;
    if (run.length === 0 || this.#width === 0) return this.#label();
    if (this.#outdated()) {
      paint(this.#picture, run);
      this.#painted = { run, length: run.length, running: run.running };
    }
    const height = Math.min(run.length * TALLEST_ROW, HEIGHT);
    const ratio = window.devicePixelRatio || 1;
    this.canvas.style.height = `${height}px`;
    this.canvas.width = Math.round(this.#width * ratio);
    this.canvas.height = Math.round(height * ratio);
    const { width, height: tall } = this.canvas;
    const context = this.canvas.getContext("2d");
    context.imageSmoothingEnabled = false;
    context.drawImage(this.#picture, 0, 0, width, tall);
    const row = tall / run.length;
    const now = Math.round(row * this.#steps);
    context.fillStyle = css(shades().surface);
    context.globalAlpha = 0.72;
    context.fillRect(0, now, width, tall - now);
    context.globalAlpha = 1;
    context.fillStyle = css(shades().attention);
    if (this.#steps < run.length) context.fillRect(0, now - ratio, width, 2 * ratio);
    if (run.blockLength) {
      context.fillStyle = css(mix(shades().surface, shades().attention, 0.35));
      for (let place = run.blockLength; place < run.places; place += run.blockLength) {
        context.fillRect(Math.round((width * place) / run.places), 0, ratio, tall);
      }
    }
    this.#label();
  }

  #label() {
    const run = this.#run;
    this.title.textContent = `${run.places} places →, ${run.length} ${run.length === 1 ? "step" : "steps"} ↓`;
    this.left.textContent = "place 1";
    this.right.textContent = `${run.places}`;
    this.canvas.setAttribute("aria-label", `Order map of ${run.strategy}: ${run.length} steps, ${run.places} places. ${run.story(run.length)}`);
  }
}

/** One pixel for each step and place; it is stretched when it is shown. */
function paint(picture, run) {
  picture.width = run.places;
  picture.height = run.length;
  const context = picture.getContext("2d");
  const image = context.createImageData(run.places, run.length);
  const { attention, slot, surface } = shades();
  const decided = run.canvas.map(() => null);
  run.steps.forEach((step, row) => {
    const now = new Set(step.committed.map(({ position }) => position));
    for (const position of now) decided[position] = timeColour(shareOf(row, run.length));
    for (let position = run.from; position < run.canvas.length; position += 1) {
      const score = step.dependency?.get(position);
      let colour = surface;
      if (now.has(position)) colour = decided[position];
      else if (decided[position]) colour = mix(surface, decided[position], 0.28);
      else if (score !== undefined) colour = mix(slot, attention, 0.62 * standing(score, step.range) ** 2);
      else if (run.canvas[position].gap) colour = slot;
      const pixel = 4 * (row * run.places + position - run.from);
      [image.data[pixel], image.data[pixel + 1], image.data[pixel + 2]] = colour;
      image.data[pixel + 3] = 255;
    }
    for (const position of step.remasked) decided[position] = null;
  });
  context.putImageData(image, 0, 0);
}
