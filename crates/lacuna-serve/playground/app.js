/** The page's controls, and what they do in the session. */

import { onSystemTheme, theme } from "./colour.js";
import { byId } from "./dom.js";
import { Session, narrow } from "./session.js";
import * as share from "./share.js";
import { hideTip } from "./tip.js";

const session = new Session();
const { player, timeline, wheel } = session;
const TYPING = "textarea, input:not([type=range], [type=radio], [type=checkbox]), select";

/** Buttons that do one thing. @type {Record<string, () => void>} */
const BUTTONS = {
  theme: switchTheme,
  "help-open": () => byId("help").showModal(),
  stop: () => session.stop(),
  "lane-add": () => session.addLane(),
  retry: () => session.retry(),
  "copy-curl": () => copy(session.curl, "Copied. Paste it into a terminal.", "The browser did not let me copy it."),
  "copy-link": () => copy(session.link, "Copied the link to this moment.", "Copy it from the address bar."),
  export: () => session.export(),
  load: () => byId("file").click(),
};

async function copy(text, done, failed) {
  session.toast((await share.copy(text)) ? done : failed);
}

function switchTheme() {
  const chosen = theme() === "dark" ? "light" : "dark";
  document.documentElement.dataset.theme = chosen;
  try {
    localStorage.setItem("lacuna.theme", chosen);
  } catch {
    // It holds until the page is closed, then.
  }
  session.repaint();
}

/** @param {any} event */
function keys(event) {
  const { key, target } = event;
  if ((event.ctrlKey || event.metaKey) && key === "Enter") {
    event.preventDefault();
    return session.run();
  }
  if (byId("help").open) return;
  if (key === "Escape") {
    hideTip();
    if (wheel.open) return wheel.close();
    return session.stop();
  }
  if (event.ctrlKey || event.metaKey || event.altKey || target.closest(TYPING)) return;
  if (key === "?") return byId("help").showModal();
  if (player.runs.length === 0) return;
  const actions = {
    ArrowLeft: () => player.step(-1),
    ArrowRight: () => player.step(1),
    Home: () => timeline.go(0),
    End: () => timeline.go(Infinity),
    " ": () => player.toggle(),
  };
  const presses = key === " " && target.closest("button, summary, input, a");
  const picks = key.startsWith("Arrow") && target.closest("[type=radio]");
  if (!actions[key] || presses || picks) return;
  event.preventDefault();
  actions[key]();
}

for (const [id, act] of Object.entries(BUTTONS)) byId(id).addEventListener("click", act);
if (/Mac|iPhone|iPad/.test(navigator.platform)) byId("run-key").textContent = "⌘ ⏎";
onSystemTheme(() => session.repaint());
narrow.addEventListener("change", () => session.repaint());
byId("lanes").addEventListener("scroll", () => session.markLane(), { passive: true });
document.addEventListener("keydown", keys);
document.addEventListener("scroll", hideTip, { passive: true });
document.addEventListener("click", (/** @type {any} */ event) => {
  if (event.target.closest(".canvas, .prompt, .plot, #wheel")) return;
  if (wheel.open) wheel.close();
  hideTip();
  session.inspected(null);
});
window.addEventListener("hashchange", () => {
  const linked = share.fromHash(location.hash);
  if (linked) session.restore(linked);
});
byId("key").addEventListener("keydown", (event) => {
  if (event.key !== "Enter") return;
  event.preventDefault();
  session.retry();
});
byId("file").addEventListener("change", (event) => {
  const [file] = event.target.files;
  event.target.value = "";
  if (file) session.load(file);
});
document.addEventListener("dragover", (event) => event.dataTransfer.types.includes("Files") && event.preventDefault());
document.addEventListener("drop", (event) => {
  const [file] = event.dataTransfer.files;
  if (!file) return;
  event.preventDefault();
  session.load(file);
});

session.start();
