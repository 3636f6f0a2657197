/** Making and finding elements. */

/**
 * @param {string} name
 * @param {string} className
 * @param {...(Node | string)} children
 * @returns {any}
 */
export function element(name, className, ...children) {
  const made = document.createElement(name);
  if (className) made.className = className;
  made.append(...children);
  return made;
}

/** @param {string} name @param {Record<string, string | number>} attributes @returns {any} */
export function vector(name, attributes, ...children) {
  const made = document.createElementNS("http://www.w3.org/2000/svg", name);
  for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, String(value));
  made.append(...children);
  return made;
}

/** @param {string} id @returns {any} */
export function byId(id) {
  return document.getElementById(id);
}

/** Shows a message, or hides its place if there is none. */
export function tell(place, message) {
  place.textContent = message ?? "";
  place.hidden = !message;
}
