/** Making elements. */

/**
 * @param {string} name
 * @param {string} className
 * @param {...(Node | string)} children
 * @returns {HTMLElement}
 */
export function element(name, className, ...children) {
  const made = document.createElement(name);
  if (className) made.className = className;
  made.append(...children);
  return made;
}

/** @returns {HTMLElement} */
export function byId(id) {
  return document.getElementById(id);
}

/** Shows a message, or hides its place if there is none. */
export function tell(place, message) {
  place.textContent = message ?? "";
  place.hidden = !message;
}
