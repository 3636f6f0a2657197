/** Attention of a slot to other tokens, drawn as arcs over the lane. */

import { vector } from "./dom.js";

const MOST = 10;
const THICKEST = 5;

export class Arcs {
  /** @param {HTMLElement} root what is drawn over */
  constructor(root) {
    this.root = root;
    this.picture = vector("svg", { class: "arcs", "aria-hidden": "true" });
    root.append(this.picture);
  }

  clear() {
    this.picture.replaceChildren();
    for (const marked of this.root.querySelectorAll(".attended")) marked.classList.remove("attended");
  }

  /**
   * @param {Element} from the slot
   * @param {[number, number][]} weights positions and the attention paid to them, the largest first
   * @param {(position: number) => Element | null} anchor where a position is drawn
   */
  show(from, weights, anchor) {
    this.clear();
    const frame = this.root.getBoundingClientRect();
    const start = middle(from.getBoundingClientRect(), frame);
    const drawn = weights.slice(0, MOST).map(([position, weight]) => ({ target: anchor(position), weight }));
    const most = Math.max(...drawn.map(({ weight }) => weight), 1e-6);
    for (const { target, weight } of drawn) {
      if (!target || target === from || !visible(target)) continue;
      const end = middle(target.getBoundingClientRect(), frame);
      const lift = Math.min(18 + Math.hypot(end.x - start.x, end.top - start.top) / 4, 70);
      const path = `M${start.x} ${start.top} Q${(start.x + end.x) / 2} ${Math.min(start.top, end.top) - lift} ${end.x} ${end.top}`;
      const share = weight / most;
      this.picture.append(
        vector("path", {
          d: path,
          "stroke-width": (1 + (THICKEST - 1) * share).toFixed(1),
          "stroke-opacity": (0.25 + 0.65 * share).toFixed(2),
        }),
        vector("circle", {
          cx: end.x,
          cy: end.top,
          r: (2 + 2 * share).toFixed(1),
          "fill-opacity": (0.35 + 0.65 * share).toFixed(2),
        }),
      );
      target.classList.add("attended");
    }
  }
}

function middle(box, frame) {
  return { x: Math.round(box.left + box.width / 2 - frame.left), top: Math.round(box.top - frame.top) };
}

/** True if it is not scrolled out of the place that it is in. */
function visible(target) {
  const box = target.getBoundingClientRect();
  const place = target.closest(".canvas, .prompt").getBoundingClientRect();
  return box.bottom > place.top + 2 && box.top < place.bottom - 2;
}
