/**
 * The time scale: blue is first, amber is last. It goes through violet and coral, and its lightness only rises, so that it
 * is read in the right order with every kind of colour vision and in grey.
 */

const SCALES = {
  light: [
    [68, 83, 201],
    [129, 70, 196],
    [192, 74, 156],
    [232, 115, 90],
    [242, 169, 59],
  ],
  dark: [
    [98, 124, 255],
    [158, 116, 242],
    [216, 112, 186],
    [245, 141, 112],
    [255, 200, 96],
  ],
};

const SHADES = {
  light: { attention: [13, 128, 120], slot: [232, 233, 236], surface: [255, 255, 255], tint: 0.26 },
  dark: { attention: [58, 205, 190], slot: [43, 46, 53], surface: [25, 27, 32], tint: 0.42 },
};

const preference = window.matchMedia("(prefers-color-scheme: dark)");

/** @returns {"light" | "dark"} */
export function theme() {
  return (
    /** @type {"light" | "dark" | undefined} */ (document.documentElement.dataset.theme) ?? (preference.matches ? "dark" : "light")
  );
}

/** Calls `changed` when the system's theme changes. */
export function onSystemTheme(changed) {
  preference.addEventListener("change", changed);
}

/** The colours that are drawn, not styled, as [red, green, blue], and how much of its colour an older token keeps. */
export function shades() {
  return SHADES[theme()];
}

/**
 * The colour of a moment.
 * @param {number} share 0 is first, 1 is last
 * @returns {number[]}
 */
export function timeColour(share) {
  const scale = SCALES[theme()];
  const place = Math.min(Math.max(share, 0), 1) * (scale.length - 1);
  const low = Math.min(Math.floor(place), scale.length - 2);
  return mix(scale[low], scale[low + 1], place - low);
}

/** Position on the colour scale, 0 to 1, of a step in a run of `steps`. */
export function shareOf(step, steps) {
  return steps > 1 ? step / (steps - 1) : 0;
}

export function mix(from, to, share) {
  return from.map((value, channel) => Math.round(value + (to[channel] - value) * share));
}

/** @param {number[]} colour */
export function css([red, green, blue]) {
  return `rgb(${red} ${green} ${blue})`;
}

/** Black or white, whichever is read better on this colour. @param {number[]} colour */
export function inkOn([red, green, blue]) {
  const linear = [red, green, blue].map((value) => (value / 255) ** 2.2);
  const luminance = 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2];
  return luminance > 0.22 ? "#16181d" : "#ffffff";
}
