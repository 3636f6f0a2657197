/** A server and a browser to test with. */

import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { mkdirSync, mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";

import { chromium } from "playwright-core";

const AXE = readFileSync(new URL("node_modules/axe-core/axe.min.js", import.meta.url), "utf8");
const BINARY = process.env.LACUNA;
const PICTURES = process.env.SCREENSHOTS;
const FLAGS = [
  "--headless",
  "--no-sandbox",
  "--disable-gpu",
  "--disable-quic",
  "--no-first-run",
  "--disable-background-networking",
  "--disable-component-update",
  "--disable-sync",
];

/** Starts `lacuna serve` on a free port. */
export async function serve(options = [], environment = {}) {
  const child = spawn(BINARY, ["serve", "--port", "0", "--log-level", "error", ...options], {
    env: { ...process.env, ...environment },
    stdio: ["ignore", "pipe", "inherit"],
  });
  let said = "";
  const url = await new Promise((resolve, reject) => {
    child.stdout.on("data", (data) => {
      said += data;
      const address = /http:\/\/[\d.]+:\d+/.exec(said);
      if (address) resolve(`${address[0]}/`);
    });
    child.on("exit", (code) => reject(new Error(`lacuna serve ended with ${code}: ${said}`)));
  });
  const ended = new Promise((resolve) => child.on("exit", resolve));
  process.on("exit", () => child.kill("SIGKILL"));
  return {
    url,
    async stop() {
      child.kill("SIGKILL");
      await ended;
    },
  };
}

/** Chromium with a profile of its own, which is thrown away. */
export async function browse() {
  const profile = mkdtempSync(join(tmpdir(), "lacuna-browser-"));
  const browser = await chromium.launch({ executablePath: "/usr/bin/chromium", args: [...FLAGS, `--disk-cache-dir=${profile}`] });
  return {
    browser,
    async close() {
      await browser.close();
      rmSync(profile, { recursive: true, force: true });
    },
  };
}

export const DESKTOP = { viewport: { width: 1280, height: 900 } };
export const PHONE = { viewport: { width: 390, height: 844 }, deviceScaleFactor: 2, isMobile: true, hasTouch: true };

/**
 * Opens the page, hands it to a test, and sees that nothing went wrong behind the scenes: no console errors but those that
 * are expected, and no request to anybody else.
 */
export async function visit(browser, url, test, { context: options = {}, hash = "", expected = [] } = {}) {
  const context = await browser.newContext({
    ...DESKTOP,
    colorScheme: "light",
    permissions: ["clipboard-read", "clipboard-write"],
    ...options,
  });
  const page = await context.newPage();
  page.setDefaultTimeout(60_000);
  const wrong = [];
  page.on("pageerror", (error) => wrong.push(`${error}`));
  page.on("console", (message) => {
    if (["error", "warning"].includes(message.type())) wrong.push(message.text());
  });
  page.on("request", (request) => {
    if (!request.url().startsWith(url) && !request.url().startsWith("blob:")) wrong.push(`a request to ${request.url()}`);
  });
  try {
    await page.goto(`${url}${hash}`);
    await page.locator(".lane .cell").first().waitFor();
    await test(page);
  } catch (error) {
    await picture(page, `failed-${Date.now()}`);
    throw error;
  } finally {
    await context.close();
  }
  assert.deepEqual(
    wrong.filter((text) => !expected.some((pattern) => pattern.test(text))),
    [],
  );
}

/** Presses Run and waits until every lane has its answer, then goes to the end. */
export async function runToEnd(page) {
  await page.locator("#run").click();
  await finished(page);
  await page.locator("#last").click();
}

/** Waits until nothing runs any more, and something has. */
export async function finished(page) {
  await page.locator("#player").waitFor();
  await page.waitForFunction(
    () => document.getElementById("stop").hidden && document.querySelector(".state").textContent !== "recorded",
    null,
    { timeout: 240_000 },
  );
  // The page may still be scrolling smoothly to the lanes.
  await page.waitForFunction(() => {
    const before = scrollY;
    return new Promise((resolve) => setTimeout(() => resolve(scrollY === before), 150));
  });
}

/** Goes to a step. */
export async function seek(page, step) {
  await page.locator("#scrubber").evaluate((node, at) => {
    node.value = at;
    node.dispatchEvent(new Event("input"));
  }, step);
}

/** Violations that axe finds on the page as it is. */
export async function violations(page) {
  // The page's policy lets nobody add a script to it, so the browser's debugger runs it.
  await page.evaluate(AXE);
  const found = await page.evaluate(() => window.axe.run());
  return found.violations.map(({ id, nodes }) => `${id}: ${nodes.map(({ target }) => target).join(", ")}`);
}

export async function picture(page, name, options = {}) {
  if (!PICTURES) return;
  mkdirSync(PICTURES, { recursive: true });
  await page.screenshot({ path: join(PICTURES, `${name}.png`), ...options });
}

/** Number of steps that a lane shows. */
export async function passes(page, lane) {
  return Number(await page.locator(".lane").nth(lane).locator(".nfe b").textContent());
}

/** Waits until something says what is expected of it. */
export async function says(locator, pattern) {
  const found = locator.filter({ hasText: pattern });
  await found.waitFor().catch(async () => assert.match(await locator.textContent(), pattern));
}
