/** Every part of a strategy and every published method, to be explained with a run. */

import { byId, element } from "./dom.js";

export class Guide {
  /** The list that is open. */
  #section = "";

  /**
   * @param {import("./catalogue.js").Catalogue} catalogue
   * @param {(key: string, part: import("./catalogue.js").Part) => void} chosen
   */
  constructor(catalogue, chosen) {
    this.catalogue = catalogue;
    this.chosen = chosen;
    this.key = /** @type {HTMLInputElement} */ (byId("guide").querySelector("[name=part]"));
  }

  /** The part that a key such as "paces.eb" names. @param {string} key @returns {import("./catalogue.js").Part | null} */
  find(key) {
    const [section, name] = split(key);
    return this.catalogue.sections.find((known) => known.name === section)?.parts.find((part) => part.name === name) ?? null;
  }

  /** Offers what the catalogue has, and says what the chosen one does. */
  update() {
    const { sections } = this.catalogue;
    const [chosen] = split(this.key.value);
    const named = sections.find(({ name }) => name === (this.#section || chosen)) ?? sections[0];
    if (!named) return;
    this.#section = named.name;
    byId("sections").replaceChildren(
      ...sections.map((section) => this.#chip(section.title, section.about, section === named, () => this.#open(section.name))),
    );
    const parts = named.parts.map((part) => {
      const key = `${named.name}.${part.name}`;
      return this.#chip(part.name, part.about, key === this.key.value, () => this.chosen(key, part));
    });
    for (const chip of parts) chip.classList.add("name");
    byId("parts").replaceChildren(...parts);
    byId("parts").setAttribute("aria-label", `${named.title}: ${named.about}`);
    this.#explain(named);
    byId("parts").querySelector("[aria-pressed=true]")?.scrollIntoView({ block: "nearest", inline: "nearest" });
  }

  /** Explains what was chosen last, or the first of all. */
  begin() {
    const [first] = this.catalogue.sections;
    const key = this.find(this.key.value) ? this.key.value : first && `${first.name}.${first.parts[0].name}`;
    if (key) this.chosen(key, this.find(key));
  }

  /** Shows the list that has the chosen part. */
  show() {
    this.#section = "";
    this.update();
  }

  #open(section) {
    const focused = document.activeElement?.closest("#sections") !== null;
    this.#section = section;
    this.update();
    if (focused) byId("sections").querySelector("[aria-pressed=true]").focus();
  }

  #chip(name, about, pressed, act) {
    const chip = element("button", "chip", name);
    Object.assign(chip, { type: "button", title: about });
    chip.setAttribute("aria-pressed", String(pressed));
    chip.addEventListener("click", act);
    return chip;
  }

  #explain({ title, about, name: open }) {
    const [section] = split(this.key.value);
    const part = section === open ? this.find(this.key.value) : null;
    const place = byId("explained");
    if (!part) return place.replaceChildren(element("strong", "", title), `: ${about}. Choose one to see it at work.`);
    const { strategy } = part.example;
    // A method's description begins with its name.
    if (part.is) return place.replaceChildren(`${part.about}; made of `, element("strong", "", part.is), ".");
    const shown = strategy === part.name ? [] : ["; shown with ", element("strong", "", strategy)];
    place.replaceChildren(element("strong", "", part.name), ` ${part.about}`, ...shown, ".");
  }
}

function split(key) {
  const dot = key.indexOf(".");
  return [key.slice(0, dot), key.slice(dot + 1)];
}
