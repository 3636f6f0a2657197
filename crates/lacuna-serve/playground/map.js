/** The order map: a row for each step, a column for each place. */

import { css, mix, shades, shareOf, timeColour } from "./colour.js";
import { element } from "./dom.js";
import { levels } from "./quantity.js";

const TALLEST_ROW = 48;
const EDGE = 16; // pixels around a saved map

export class HeatMap {
  /** @type {import("./run.js").Run | null} */
  #run = null;
  #picture = document.createElement("canvas");
  /** @type {{run: import("./run.js").Run | null, length: number, running: boolean, quantity: string}} */
  #painted = { run: null, length: 0, running: false, quantity: "" };
  #steps = 0;
  #width = 0;
  #height = 0;
  /** @type {import("./quantity.js").Name} */
  #quantity = "attention";

  /**
   * @param {any} root
   * @param {{seek: (step: number) => void, inspect: (inspected: {position: number, steps: number, anchor: {getBoundingClientRect(): DOMRect}} | null) => void}} on
   */
  constructor(root, { seek, inspect }) {
    this.root = root;
    this.plot = root.querySelector(".plot");
    this.canvas = root.querySelector("canvas");
    this.cursor = root.querySelector(".cursor");
    this.title = root.querySelector("h2 .soft");
    this.left = root.querySelector(".axis span");
    this.right = root.querySelector(".axis span:last-child");
    root
      .querySelector(".save-svg")
      .addEventListener("click", () => this.#run?.length && save(svg(this.#run, this.#quantity), this.#name("svg")));
    root
      .querySelector(".save-png")
      .addEventListener(
        "click",
        () => this.#run?.length && png(this.#run, this.#quantity, (blob) => save(blob, this.#name("png"))),
      );
    this.canvas.addEventListener("click", (event) => this.#run && seek(this.#cell(event).step + 1));
    this.canvas.addEventListener("pointermove", (event) => {
      if (!this.#run?.length) return;
      const { step, position } = this.#cell(event);
      const anchor = { getBoundingClientRect: () => new DOMRect(event.clientX - 4, event.clientY - 4, 8, 8) };
      inspect({ position, steps: step + 1, anchor });
    });
    this.canvas.addEventListener("pointerleave", () => inspect(null));
    new ResizeObserver(([{ contentRect }]) => {
      if (contentRect.width === this.#width && contentRect.height === this.#height) return;
      this.#width = contentRect.width;
      this.#height = contentRect.height;
      if (this.#run) this.#draw();
    }).observe(this.plot);
  }

  clear() {
    this.#run = null;
    this.canvas.width = this.canvas.height = 0;
    this.root.classList.add("vacant");
    this.canvas.setAttribute("aria-label", "Order map: nothing has run yet");
    this.title.textContent = "";
    this.left.textContent = this.right.textContent = "";
  }

  /** @param {import("./run.js").Run} run @param {number} steps @param {import("./quantity.js").Name} quantity */
  update(run, steps, quantity) {
    this.root.classList.remove("vacant");
    this.#run = run;
    this.#steps = steps;
    this.#quantity = quantity;
    this.#draw();
  }

  /** Forgets the picture, which has the colours of the other theme. */
  repaint() {
    this.#painted = { run: null, length: 0, running: false, quantity: "" };
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
    const { run, length, running, quantity } = this.#painted;
    if (run !== this.#run || running !== run.running || quantity !== this.#quantity) return true;
    return run.length > length * (running ? 1.05 : 1);
  }

  #draw() {
    const run = this.#run;
    if (run.length === 0 || this.#width === 0) return this.#label();
    if (this.#outdated()) {
      paint(this.#picture, run, this.#quantity);
      this.#painted = { run, length: run.length, running: run.running, quantity: this.#quantity };
    }
    const height = Math.min(run.length * TALLEST_ROW, this.#height);
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
    this.title.textContent = `${run.length} ${run.length === 1 ? "step" : "steps"} ↓`;
    this.left.textContent = "place 1 →";
    this.right.textContent = `${run.places}`;
    this.canvas.setAttribute(
      "aria-label",
      `Order map of ${run.strategy}: ${run.length} steps, ${run.places} places. ${run.story(run.length)}`,
    );
  }

  #name(kind) {
    return `lacuna-${this.#run.strategy.replaceAll("+", "-")}-order.${kind}`;
  }
}

/**
 * The colours of the map, a row for each step.
 * @param {import("./run.js").Run} run
 * @param {import("./quantity.js").Name} quantity
 * @param {(row: number, place: number, colour: number[]) => void} put
 */
function colours(run, quantity, put) {
  const { attention, slot, surface } = shades();
  const decided = run.canvas.map(() => null);
  run.steps.forEach((step, row) => {
    const tall = levels(step, quantity);
    const now = new Set(step.committed.map(({ position }) => position));
    for (const position of now) decided[position] = timeColour(shareOf(row, run.length));
    for (let position = run.from; position < run.canvas.length; position += 1) {
      const level = tall ? tall[position] : NaN;
      let colour = surface;
      if (now.has(position)) colour = decided[position];
      else if (decided[position]) colour = mix(surface, decided[position], 0.28);
      else if (!Number.isNaN(level)) colour = mix(slot, attention, 0.62 * level ** 2);
      else if (run.canvas[position].gap) colour = slot;
      put(row, position - run.from, colour);
    }
    for (const position of step.remasked) decided[position] = null;
  });
}

/** One pixel for each step and place; it is stretched when it is shown. */
function paint(picture, run, quantity) {
  picture.width = run.places;
  picture.height = run.length;
  const context = picture.getContext("2d");
  const image = context.createImageData(run.places, run.length);
  colours(run, quantity, (row, place, colour) => {
    const pixel = 4 * (row * run.places + place);
    [image.data[pixel], image.data[pixel + 1], image.data[pixel + 2]] = colour;
    image.data[pixel + 3] = 255;
  });
  context.putImageData(image, 0, 0);
}

/** Side of a cell of a saved map, in pixels. */
function cellOf(run) {
  return {
    wide: Math.max(2, Math.min(12, Math.floor(1200 / run.places))),
    tall: Math.max(2, Math.min(12, Math.floor(900 / run.length))),
  };
}

/** The map as a drawing. Cells of one colour that touch are one rectangle. */
function svg(run, quantity) {
  const { wide, tall } = cellOf(run);
  const [width, height] = [run.places * wide, run.length * tall];
  const rectangles = [];
  let last = null;
  colours(run, quantity, (row, place, colour) => {
    const fill = css(colour);
    if (last && last.row === row && last.fill === fill) last.count += 1;
    else rectangles.push((last = { row, place, fill, count: 1 }));
  });
  const ink = css(mix(shades().surface, [128, 128, 128], 0.9));
  const drawn = rectangles.map(
    ({ row, place, fill, count }) =>
      `<rect x="${place * wide}" y="${row * tall}" width="${count * wide}" height="${tall}" fill="${fill}"/>`,
  );
  return new Blob(
    [
      `<svg xmlns="http://www.w3.org/2000/svg" viewBox="${-EDGE} ${-2 * EDGE} ${width + 2 * EDGE} ${height + 4 * EDGE}" width="${width + 2 * EDGE}" height="${height + 4 * EDGE}" shape-rendering="crispEdges">`,
      `<rect x="${-EDGE}" y="${-2 * EDGE}" width="100%" height="100%" fill="${css(shades().surface)}"/>`,
      `<g font-family="sans-serif" font-size="12" fill="${ink}"><text x="0" y="-10">${title(run)}</text>`,
      `<text x="0" y="${height + 18}">place 1</text><text x="${width}" y="${height + 18}" text-anchor="end">${run.places}</text></g>`,
      ...drawn,
      "</svg>",
    ],
    { type: "image/svg+xml" },
  );
}

/** The map as a picture. */
function png(run, quantity, done) {
  const { wide, tall } = cellOf(run);
  const [width, height] = [run.places * wide, run.length * tall];
  const source = document.createElement("canvas");
  paint(source, run, quantity);
  const canvas = document.createElement("canvas");
  canvas.width = width + 2 * EDGE;
  canvas.height = height + 4 * EDGE;
  const context = canvas.getContext("2d");
  context.fillStyle = css(shades().surface);
  context.fillRect(0, 0, canvas.width, canvas.height);
  context.imageSmoothingEnabled = false;
  context.drawImage(source, EDGE, 2 * EDGE, width, height);
  context.fillStyle = css(mix(shades().surface, [128, 128, 128], 0.9));
  context.font = "12px sans-serif";
  context.fillText(title(run), EDGE, 2 * EDGE - 10);
  context.fillText("place 1", EDGE, height + 2 * EDGE + 18);
  context.textAlign = "right";
  context.fillText(`${run.places}`, EDGE + width, height + 2 * EDGE + 18);
  canvas.toBlob(done, "image/png");
}

function title(run) {
  return `${run.strategy}: ${run.length} steps, from the top down`;
}

function save(blob, name) {
  const link = element("a", "");
  link.href = URL.createObjectURL(blob);
  link.download = name;
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 10_000);
}
