/** The page, used as a visitor uses it, against the real server and the embedded model. */

import assert from "node:assert/strict";
import { execFile, spawnSync } from "node:child_process";
import { readFileSync, readdirSync, writeFileSync, mkdtempSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, before, test as declare } from "node:test";
import { setTimeout } from "node:timers/promises";
import { promisify } from "node:util";

import { PHONE, browse, finished, passes, picture, runToEnd, says, seek, serve, violations, visit } from "./page.js";

const APPLES = "Tom has 3 boxes with 12 apples each. He eats 5 apples. How many apples are left?";
const ONE_LANE = `#mode=prompt&prompt=${encodeURIComponent(APPLES)}&gen_length=64&lane=dos%2Beb`;
const LONG = "#mode=prompt&prompt=Count&gen_length=512&early_stop=false&lane=confidence";
const folder = mkdtempSync(join(tmpdir(), "lacuna-traces-"));

let server;
let chromium;

const test = (name, act) => declare(name, { timeout: 300_000 }, act);

before(async () => {
  [server, chromium] = await Promise.all([serve(), browse()]);
});

after(async () => {
  await chromium?.close();
  await server?.stop();
});

/** Exports what is shown, and returns the file. */
async function exported(page) {
  const [download] = await Promise.all([page.waitForEvent("download"), page.locator("#export").click()]);
  const file = join(folder, download.suggestedFilename());
  await download.saveAs(file);
  return file;
}

const open = (act, options) => visit(chromium.browser, server.url, act, options);

test("the defaults show two strategies, one of which runs out of room", () =>
  open(async (page) => {
    await picture(page, "light-start");
    assert.match(await page.locator("#model").textContent(), /LLaDA/);
    assert.equal(await page.locator(".lane").count(), 2);
    await page.locator("#run").click();
    await page.waitForFunction(
      () =>
        document.querySelectorAll(".lane:first-child .cell.fresh").length > 0 &&
        document.querySelector(".state").textContent === "running",
    );
    assert.equal(await page.locator(".lane").first().locator(".verdict").isVisible(), false, "the verdict waits for the end");
    await finished(page);
    await page.locator("#first").click();
    for (let step = 0; step < 8; step += 1) await page.locator("#forward").click();
    assert.ok((await page.locator(".lane").nth(1).locator(".cell.next").count()) > 0);
    await picture(page, "light-running");
    await page.locator("#last").click();
    assert.match(await page.locator(".lane").first().locator(".verdict").textContent(), /51, not 56/);
    assert.match(await page.locator(".lane").nth(1).locator(".verdict").textContent(), /56 is right/);
    assert.match(
      await page.locator(".lane").first().locator(".story").textContent(),
      /\d+ of 64 places were declared end of text before the first word/,
    );
    assert.match(await page.locator(".lane").nth(1).locator(".now").textContent(), /#### 56$/);
    assert.ok((await passes(page, 1)) < (await passes(page, 0)), "dos+eb takes fewer passes");
    await picture(page, "light-end");
  }));

test("a prompt is typed, run with the keyboard, and scrubbed", () =>
  open(async (page) => {
    await page.locator("#prompt").fill("");
    await page.keyboard.press("Control+Enter");
    assert.match(await page.locator("[data-field=prompt] .problem").textContent(), /first/);
    await page.locator("#prompt").pressSequentially("Sara has 24 pens and gives 9 away. How many are left?");
    assert.equal(await page.locator("[data-field=prompt] .problem").isVisible(), false);
    assert.match(new URL(page.url()).hash, /24\+pens/, "the address follows");
    await page.keyboard.press("Control+Enter");
    await finished(page);
    await page.locator("#play").focus();
    await page.keyboard.press("Home");
    assert.equal(await passes(page, 1), 0);
    assert.equal(await page.locator(".lane").nth(1).locator(".cell:not(.open)").count(), 0);
    await page.keyboard.press("ArrowRight");
    await page.keyboard.press("ArrowRight");
    assert.equal(await passes(page, 1), 2);
    await page.keyboard.press("ArrowLeft");
    assert.equal(await passes(page, 1), 1);
    await page.keyboard.press("End");
    assert.match(await page.locator(".lane").nth(1).locator(".now").textContent(), /15/);
    await page.keyboard.press("Home");
    await page.locator(".canvas").first().focus();
    await page.keyboard.press(" ");
    await page.waitForFunction(() => Number(document.querySelector(".lane .nfe b").textContent) >= 2);
    await page.keyboard.press("ArrowLeft");
    assert.equal(await page.locator("#play-label").textContent(), "Play", "a step pauses");
    const before = await passes(page, 0);
    const tracks = await page.locator("#tracks").boundingBox();
    await page.mouse.click(tracks.x + tracks.width - 1, tracks.y + 5);
    assert.ok((await passes(page, 0)) > before, "the tracks can be clicked");
    await page.locator("#axis").selectOption("time");
    assert.match(await page.locator("#moment").textContent(), /of \d+\.\d+ s/);
    await page.locator("#first").click();
    await page.locator("#forward").click();
    // Lanes that share a forward pass move together.
    const moved = [await passes(page, 0), await passes(page, 1)];
    assert.equal(Math.max(...moved), 1, "by time, a step on is the next moment at which something happened");
  }));

/** Heights of some cells' bars, in percent. */
const heights = (cells) =>
  cells.evaluateAll((nodes) => nodes.map((node) => Number.parseFloat(node.style.getPropertyValue("--level"))));

test("every lane's bars show what it ranks by: what is chosen next has the tallest", () =>
  open(
    async (page) => {
      await runToEnd(page);
      for (const step of [0, 3]) {
        await seek(page, step);
        for (const lane of await page.locator(".lane").all()) {
          const [next] = await heights(lane.locator(".cell.next"));
          const all = await heights(lane.locator(".cell.open"));
          assert.equal(next, Math.max(...all), `${await lane.locator(".bars").inputValue()} in step ${step}`);
          assert.match(await lane.locator(".why li").first().getAttribute("class"), /chosen/);
        }
      }
      const names = await page.locator(".lane .bars").evaluateAll((fields) => fields.map((field) => field.value));
      assert.deepEqual(names, ["attention", "confidence", "entropy", "margin"]);
      const confidence = page.locator(".lane").nth(1);
      const before = await heights(confidence.locator(".cell.open"));
      await confidence.locator(".bars").selectOption("attention");
      assert.notDeepEqual(await heights(confidence.locator(".cell.open")), before);
      await says(confidence.locator(".headline"), /ranked by confidence; the best of them is number \d+ by attention/);
      await picture(page, "quantities");
    },
    {
      hash: `${ONE_LANE}&lane=confidence%2Beb&lane=entropy%2Beb&lane=margin%2Beb`,
      context: { viewport: { width: 1280, height: 800 } },
    },
  ));

for (const [width, height] of [
  [1280, 800],
  [1440, 900],
  [1920, 1080],
]) {
  test(`canvas, order map and ranking are seen together, with four lanes to one, at ${width} × ${height}`, () =>
    open(
      async (page) => {
        await page.locator("#run").click();
        await finished(page);
        await seek(page, 3);
        for (let count = 4; count >= 1; count -= 1) {
          await page.waitForFunction(() => {
            const foot = document.getElementById("player").getBoundingClientRect().top;
            const seen = (node) => node.getBoundingClientRect().top >= 0 && node.getBoundingClientRect().bottom <= foot;
            const rows = (canvas) => canvas.clientHeight > 100 || canvas.scrollHeight <= canvas.clientHeight + 2;
            return (
              [...document.querySelectorAll(".lane :is(.canvas, .map, .why)")].every(seen) &&
              [...document.querySelectorAll(".canvas")].every(rows)
            );
          });
          await picture(page, `lanes-${count}-${width}`);
          if (count === 4) assert.ok(await page.locator("#lane-add").isDisabled());
          if (count > 1) await page.locator(".remove").last().click();
        }
      },
      { hash: `${ONE_LANE}&lane=confidence%2Beb&lane=random%2Beb&lane=saber`, context: { viewport: { width, height } } },
    ));
}

test("an open slot tells its candidates and what it looks at", () =>
  open(
    async (page) => {
      await runToEnd(page);
      await seek(page, 2);
      await page.locator(".cell.open").nth(2).hover();
      await page.locator("#tip .candidates li").nth(4).waitFor();
      await says(page.locator("#tip"), /confidence.*entropy.*could become.*looks at/);
      assert.ok((await page.locator(".arcs path").count()) >= 3);
      assert.ok((await page.locator(".attended").count()) >= 3);
      await picture(page, "arcs");
      await page.locator("h1").hover();
      assert.equal(await page.locator(".arcs path").count(), 0);
    },
    { hash: ONE_LANE },
  ));

test("the visitor takes the wheel", () =>
  open(
    async (page) => {
      await runToEnd(page);
      const own = await page.locator(".now").textContent();
      await seek(page, 2);
      await page.locator(".cell.open").nth(6).click();
      await says(page.locator("#wheel-title"), /Decide place \d+ yourself/);
      await page.locator(".candidate").nth(1).waitFor();
      await picture(page, "wheel");
      await page.locator(".candidate").nth(1).click();
      await page.waitForFunction(() => document.querySelector(".state").textContent === "with your hand");
      await page.locator("#last").click();
      assert.equal(await page.locator(".cell.hand").count(), 1);
      assert.notEqual(await page.locator(".now").textContent(), own);
      assert.ok(await page.locator("#legend-hand").isVisible());
      await picture(page, "by-hand");
      const file = await exported(page);
      assert.equal(spawnSync(process.env.LACUNA, ["replay", file], { encoding: "utf8" }).status, 0);
      await seek(page, 0);
      await page.locator(".canvas").focus();
      for (let place = 0; place < 4; place += 1) await page.keyboard.press("ArrowDown");
      await page.keyboard.press("Enter");
      await page.locator("#wheel-word").fill("Grüße");
      await page.keyboard.press("Enter");
      await page.locator("#wheel").waitFor({ state: "hidden" });
      await page.waitForFunction(() => document.querySelector(".state").textContent === "with your hand");
      await page.locator("#last").click();
      assert.match(await page.locator(".now").textContent(), /Grüße/, "a word of several tokens, letters of several bytes");
      await page.locator(".cell.hand").first().click();
      await page.locator("#wheel-again").click();
      await page.waitForFunction(() => document.querySelector(".state").textContent === "with your hand");
      assert.ok((await page.locator(".cell.hand").count()) > 0);
    },
    { hash: ONE_LANE },
  ));

test("a recorded run tells the story before anything is touched", () =>
  open(async (page) => {
    await says(page.locator("#caption"), /64 empty slots/);
    assert.equal(await page.locator(".state").first().textContent(), "recorded");
    await page.waitForFunction(() => Number(document.querySelector(".nfe b").textContent) >= 2);
    await picture(page, "story");
    await page.locator(".dot").nth(1).click();
    await says(page.locator("#caption"), /5\d of 64 slots become end of text/);
    assert.equal(await page.locator(".lane").first().locator(".cell:not(.open, .end)").count(), 0, "there is no word yet");
    await page.locator(".dot").nth(2).click();
    await says(page.locator("#caption"), /51, and wrong.*56 is right, in 12 passes instead of 37/);
    await page.locator("#last").click();
    assert.match(await page.locator(".verdict").nth(1).textContent(), /56 is right/);
    await page.locator("#prompt").fill("Sara has 24 pens and gives 9 away. How many are left?");
    assert.equal(await page.locator("#caption").isVisible(), false, "an own prompt ends it");
    await says(page.locator("#example-about"), /knows arithmetic word problems/);
  }));

test("a link opens at a step, with its result", () =>
  open(
    async (page) => {
      await runToEnd(page);
      await seek(page, 4);
      const shown = await page.locator(".canvas").getAttribute("aria-label");
      await page.locator("#copy-link").click();
      await page.locator("#toast").waitFor();
      const link = await page.evaluate(() => navigator.clipboard.readText());
      assert.match(link, /at=4/);
      await page.goto("about:blank");
      await page.goto(link);
      await page.waitForFunction((label) => document.querySelector(".canvas").getAttribute("aria-label") === label, shown);
      assert.equal(await passes(page, 0), 4);
    },
    { hash: ONE_LANE, expected: [/about:blank/] },
  ));

test("a link carries the visitor's decision", () =>
  open(
    async (page) => {
      await runToEnd(page);
      await seek(page, 2);
      await page.locator(".cell.open").nth(6).click();
      await page.locator(".candidate").nth(1).click();
      await page.waitForFunction(() => document.querySelector(".state").textContent === "with your hand");
      await page.locator("#last").click();
      const text = await page.locator(".now").textContent();
      await page.locator("#copy-link").click();
      await page.locator("#toast").waitFor();
      const link = await page.evaluate(() => navigator.clipboard.readText());
      assert.match(link, /hand=0%3B2%3B/);
      await page.goto("about:blank");
      await page.goto(link);
      await page.waitForFunction((shown) => document.querySelector(".now").textContent === shown, text);
      await page.waitForFunction(() => document.querySelector(".state").textContent === "with your hand");
      assert.equal(await page.locator(".cell.hand").count(), 1);
      await page.goto("about:blank");
      await page.goto(link.replace("hand=0%3B2%3B", "hand=0%3B2%3B9999%3D1%3B"));
      await says(page.locator("#toast"), /does not fit this run/);
    },
    { hash: ONE_LANE, expected: [/about:blank/] },
  ));

test("the order map is saved as a drawing and as a picture", () =>
  open(
    async (page) => {
      await runToEnd(page);
      for (const [button, kind, begins] of [
        [".save-svg", "svg", "<svg"],
        [".save-png", "png", "\x89PNG"],
      ]) {
        const [download] = await Promise.all([page.waitForEvent("download"), page.locator(button).click()]);
        assert.equal(download.suggestedFilename(), `lacuna-dos-eb-order.${kind}`);
        const file = join(folder, download.suggestedFilename());
        await download.saveAs(file);
        assert.ok(readFileSync(file, "latin1").startsWith(begins));
      }
    },
    { hash: ONE_LANE },
  ));

test("letters of several bytes and roles are shown as what they are", () =>
  open(async (page) => {
    await page.locator("#prompt").fill("Zoë has 3 🎈 and 世界. How many?");
    await runToEnd(page);
    const prompt = page.locator(".lane").first().locator(".prompt");
    assert.match(await prompt.textContent(), /Zoë has 3 🎈 and 世界\. How many\?/);
    assert.deepEqual(await prompt.locator(".role").allTextContents(), ["user", "assistant"]);
  }));

test("axe finds nothing", () =>
  open(async (page) => {
    assert.deepEqual(await violations(page), []);
    await page.locator("#run").click();
    await page.waitForFunction(() => document.querySelectorAll(".lane:first-child .cell.fresh").length > 0);
    assert.deepEqual(await violations(page), []);
    await finished(page);
    await seek(page, 3);
    assert.deepEqual(await violations(page), []);
    await page.locator(".cell.open").first().click();
    await page.locator(".candidate").first().waitFor();
    assert.deepEqual(await violations(page), []);
    await page.keyboard.press("Escape");
    await page.locator(".tuning summary").first().click();
    await page.locator("#settings summary").click();
    await page.locator(".howto summary").click();
    await page.locator("#last").click();
    assert.deepEqual(await violations(page), []);
  }));

test("axe finds nothing in the dark", () =>
  open(
    async (page) => {
      await runToEnd(page);
      await seek(page, 5);
      assert.deepEqual(await violations(page), []);
    },
    { context: { colorScheme: "dark" } },
  ));

test("forced colours keep slots, bars and times apart", () =>
  open(
    async (page) => {
      await runToEnd(page);
      await seek(page, 4);
      const look = (selector) =>
        page
          .locator(`.lane:nth-child(2) ${selector}`)
          .first()
          .evaluate((node) => {
            const [cell, token] = [getComputedStyle(node), getComputedStyle(node.querySelector(".token"))];
            return [cell.backgroundImage, cell.boxShadow, token.backgroundColor, token.boxShadow].join(" ");
          });
      const looks = await Promise.all([".cell.next", ".cell.open:not(.next)", ".cell.fresh", ".cell:not(.open, .fresh)"].map(look));
      assert.equal(new Set(looks).size, 4, looks.join("\n"));
      await picture(page, "forced");
    },
    { context: { forcedColors: "active", viewport: { width: 1280, height: 800 } } },
  ));

test("a token tells its step, probability, entropy and dependency", () =>
  open(
    async (page) => {
      await runToEnd(page);
      const tip = page.locator("#tip");
      // The last step may still be drawn anew under the pointer.
      for (let moves = 0; moves < 50 && !(await tip.isVisible()); moves += 1) {
        await page.locator("h1").hover();
        await page.locator(".cell").first().hover();
        await page.waitForTimeout(100);
      }
      await tip.waitFor();
      const said = await tip.textContent();
      for (const word of ["place 1 of 64", "step 1 of", "probability", "entropy", "attention", "rank 1 of 64"])
        assert.ok(said.includes(word), `${word} in ${said}`);
      await picture(page, "hover");
      await page.locator("h1").hover();
      assert.equal(await tip.isVisible(), false);
      await page.locator(".canvas").focus();
      await page.keyboard.press("ArrowDown");
      await page.keyboard.press("ArrowDown");
      await says(tip, /place 2 of 64/);
      assert.match(await page.locator("#status").textContent(), /place 2 of 64/);
      await page.keyboard.press("Home");
      await page.locator(".cell").first().hover();
      await says(tip, /undecided.*attention.*in the next step/);
      const map = page.locator(".map canvas");
      await map.click({ position: { x: 5, y: 5 } });
      assert.equal(await passes(page, 0), 1, "a row of the map is a step");
      assert.match(await map.getAttribute("aria-label"), /64 places/);
    },
    { hash: ONE_LANE },
  ));

test("strategies are chosen, compared, tuned and taken away", () =>
  open(
    async (page) => {
      assert.equal(await page.locator(".lane").count(), 1);
      await page.locator("#lane-add").click();
      const second = page.locator(".lane").nth(1);
      await second.locator(".order").selectOption("fast-dllm");
      assert.match(await second.locator(".explain").textContent(), /confidence\+threshold/);
      assert.equal(await second.locator(".pace").isVisible(), false);
      await second.locator(".tuning summary").click();
      await second.locator("[name=block_length]").fill("16");
      await second.locator("[name=block_length]").press("Tab");
      await second.locator("[name=threshold]").fill("0.8");
      await second.locator("[name=threshold]").press("Tab");
      assert.match(page.url(), /fast-dllm%3Bblock_length%3D16%3Bthreshold%3D0.8/);
      await runToEnd(page);
      assert.equal(await second.locator(".boundary").count(), 3, "four blocks have three boundaries");
      assert.match(await page.locator(".track .name").nth(1).textContent(), /fast-dllm · blocks of 16/);
      await second.locator(".order").selectOption("margin");
      assert.match(await second.locator(".state").textContent(), /run again/);
      await second.locator(".pace").selectOption("factor");
      await runToEnd(page);
      assert.match(await page.locator(".track .name").nth(1).textContent(), /margin\+factor/);
      await second.locator(".remove").click();
      assert.equal(await page.locator(".lane").count(), 1);
      const link = page.url();
      await page.goto("about:blank");
      await page.goto(link);
      assert.equal(await page.locator(".lane .pace").inputValue(), "eb");
      assert.equal(await page.locator("#prompt").inputValue(), APPLES);
    },
    { hash: ONE_LANE, expected: [/about:blank/] },
  ));

/** Opens the tab that explains strategies, at a part, and waits for its run. */
async function explained(page, section, name) {
  await page.locator("#sections .chip", { hasText: section }).click();
  await page.locator("#parts").getByRole("button", { name, exact: true }).click();
  await finished(page);
}

test("a strategy of every kind is explained with a run that plays at once", () =>
  open(
    async (page) => {
      const told = await (await fetch(`${server.url}v1/strategies`)).json();
      await page.getByText("Strategies explained").first().click();
      await finished(page);
      assert.equal(await page.locator(".lane").count(), 1);
      assert.match(await page.locator("#explained").textContent(), /^dos most attention paid/, "the first is shown at once");
      assert.equal(await page.locator("#sections .chip").count(), 7);
      for (const [section, name, strategy, caption] of [
        ["Orders", "right", "right", /decides the first of 32 places, place 32: end of text/],
        ["Paces", "eb", "dos+eb", /decides \d+ places at once/],
        ["Revisions", "verify", "wino", /takes back/],
        ["Windows", "sliding", "dsb", /decides \d+ places at once/],
        ["Lengths", "daedal", "daedal", /places too few: the canvas has \d+ now/],
        ["Caches", "dual", "fast-dllm", /computed \d+ positions instead of \d+/],
        ["Presets", "saber", "saber", /takes back/],
      ]) {
        await explained(page, section, name);
        const { about } = told[section.toLowerCase()].find((part) => part.name === name);
        assert.ok((await page.locator("#explained").textContent()).includes(about), name);
        assert.equal(await page.locator(".problem:visible").count(), 0, name);
        assert.equal(await page.locator(".lane").getAttribute("aria-label"), strategy);
        const seen = [];
        for (const dot of await page.locator(".lane .dot").all()) {
          await dot.click();
          assert.equal(await dot.getAttribute("aria-current"), "true");
          seen.push(await page.locator(".story").textContent());
        }
        assert.match(seen.join("\n"), caption, name);
        assert.match(seen.at(-1), /is the last: \d+ tokens? of text, \d+ passes/);
        await seek(page, 1);
        const bars = await page
          .locator(".cell.open")
          .evaluateAll((cells) => cells.map((cell) => cell.style.getPropertyValue("--level")));
        assert.ok(
          bars.some((level) => Number.parseFloat(level) > 0),
          `${name} shows what it ranks by`,
        );
      }
      assert.deepEqual(await violations(page), []);
      await picture(page, "explained");
      const link = page.url();
      await page.goto("about:blank");
      await page.goto(link);
      await finished(page);
      assert.equal(await page.locator("#parts [aria-pressed=true]").textContent(), "saber", "a link explains the same");
    },
    { expected: [/about:blank/] },
  ));

test("an order that ranks by a number of its own shows it", () =>
  open(async (page) => {
    await page.getByText("Strategies explained").first().click();
    await finished(page);
    for (const name of ["certain-dos", "prior", "left"]) {
      await explained(page, "Orders", name);
      assert.equal(await page.locator(".bars").inputValue(), "score");
      await seek(page, 3);
      const [next] = await heights(page.locator(".cell.next"));
      assert.equal(next, Math.max(...(await heights(page.locator(".cell.open")))), name);
    }
  }));

test("what the model cannot show is said", () =>
  open(
    async (page) => {
      await page.getByText("Strategies explained").first().click();
      await finished(page);
      await page.locator("#sections .chip", { hasText: "Windows" }).click();
      await page.locator("#parts").getByRole("button", { name: "sub-blocks" }).click();
      await says(page.locator(".lane header .problem"), /block/);
      assert.match(await page.locator("#explained").textContent(), /parts of blocks/);
    },
    { expected: [/400/] },
  ));

test("every example runs", () =>
  open(async (page) => {
    const chips = page.locator("#examples .chip");
    for (let index = 0; index < (await chips.count()); index += 1) {
      await chips.nth(index).click();
      await runToEnd(page);
      assert.equal(await page.locator(".problem:visible").count(), 0);
      assert.ok((await page.locator(".lane .now").first().textContent()).length > 5);
      const example = await chips.nth(index).textContent();
      if (example === "Second thoughts") {
        for (const story of await page.locator(".story").allTextContents()) assert.match(story, /[1-9]\d* taken back/);
        assert.deepEqual(await page.locator(".verdict").allTextContents(), ["31 is right", "31 is right"]);
      }
      if (example === "Fill the gaps") {
        assert.ok((await passes(page, 0)) >= 5, "there is an order to see");
        assert.match(await page.locator(".lane .now").first().textContent(), /72 \+ 40 = 112.*#### 56/s);
      }
      await picture(page, `example-${index + 1}`);
    }
  }));

test("gaps are filled, and code looks like code", () =>
  open(async (page) => {
    await page.getByText("Text with gaps").first().click();
    await page.locator("#question").fill("Sara has 24 pens and gives 9 away. How many are left?");
    await page.locator("#text").fill("Sara still has pens.");
    await page.locator("#run").click();
    assert.match(await page.locator("[data-field=text] .problem").textContent(), /no gap/);
    await page.locator("#text").fill("Sara still has  = 15 pens.");
    await page.locator("#text").evaluate((area) => area.setSelectionRange(15, 15));
    await page.locator("#gap-size").fill("5");
    await page.locator("#gap-insert").click();
    assert.equal(await page.locator("#text").inputValue(), "Sara still has <gap:5> = 15 pens.");
    await runToEnd(page);
    assert.match(await page.locator(".lane .now").first().textContent(), /24 - 9 = 15 pens/);
    assert.ok((await page.locator(".lane").first().locator(".cell.given").count()) > 3);
    await page.locator("#examples .chip", { hasText: "Python" }).click();
    await runToEnd(page);
    const lane = page.locator(".lane").nth(1);
    assert.ok((await lane.locator(".break").count()) >= 2);
    const [first, second] = await lane.locator(".cell.line-end").all();
    assert.ok((await first.boundingBox()).y < (await second.boundingBox()).y, "newlines break lines");
    assert.match(await lane.locator(".now").textContent(), /^def factorial\(n\):\n {4}/);
    await picture(page, "code");
  }));

test("a run is stopped, and what came is kept", () =>
  open(
    async (page) => {
      await page.locator("#run").click();
      await page.waitForFunction(() => Number(document.querySelector(".nfe b").textContent) >= 3);
      await page.keyboard.press("Escape");
      await page.waitForFunction(() => document.querySelector(".state").textContent === "stopped");
      assert.equal(await page.locator("#stop").isVisible(), false);
      await page.locator("#last").click();
      assert.ok((await page.locator(".cell:not(.open)").count()) > 0);
      const file = await exported(page);
      const replay = spawnSync(process.env.LACUNA, ["replay", file], { encoding: "utf8" });
      assert.equal(replay.status, 0, replay.stderr);
    },
    { hash: LONG },
  ));

test("a trace goes out, into lacuna replay, and back in", () =>
  open(async (page) => {
    await runToEnd(page);
    const answers = await page.locator(".lane .now").allTextContents();
    const file = await exported(page);
    assert.match(file, /lacuna-confidence-eb-vs-dos-eb\.jsonl$/);
    const replay = spawnSync(process.env.LACUNA, ["replay", file], { encoding: "utf8" });
    assert.equal(replay.stdout.trim(), answers.join("\n").trim(), replay.stderr);
    await page.locator("#examples .chip").nth(2).click();
    await page.locator("#file").setInputFiles(file);
    await page.locator(".lane.reached").first().waitFor();
    assert.deepEqual(await page.locator(".lane .now").allTextContents(), answers);
    assert.match(await page.locator("#prompt").inputValue(), /^Simon has 72 bagels.*get\?$/, "what was asked comes with it");
    assert.equal(await page.locator("#examples [aria-pressed=true]").count(), 0);
    await page.locator(".lane").nth(1).locator(".cell").first().hover();
    await says(page.locator("#tip"), /probability.*attention/);
  }));

test("a trace of the command line is shown as far as it tells", () =>
  open(async (page) => {
    const file = join(folder, "cli.json");
    const made = spawnSync(process.env.LACUNA, ["generate", APPLES, "--gen-length", "64", "--format", "json"], {
      encoding: "utf8",
    });
    writeFileSync(file, made.stdout);
    await page.locator("#file").setInputFiles(file);
    await page.locator(".lane.reached").waitFor();
    assert.match(await page.locator(".now").textContent(), /#### 31/);
    assert.match(await page.locator(".canvas").getAttribute("aria-label"), /#### 31/);
    assert.equal(await page.locator(".cell .token").first().textContent(), "3", "the server spells its tokens");
    assert.match(await page.locator(".headline").textContent(), /does not tell how they ranked/);
    await page.locator(".cell").first().hover();
    await says(page.locator("#tip"), /probability.*entropy/);
    const bare = JSON.parse(made.stdout);
    for (const step of bare.steps) delete step.details;
    writeFileSync(file, JSON.stringify(bare));
    await page.locator("#file").setInputFiles(file);
    await page.locator("h1").hover();
    await page.locator(".cell").first().hover();
    await says(page.locator("#tip"), /tells no more/);
    const broken = join(folder, "broken.json");
    writeFileSync(broken, JSON.stringify({ ...JSON.parse(made.stdout), canvas: [1, 2, 3], prompt_tokens: 0 }));
    await page.locator("#file").setInputFiles(broken);
    await says(page.locator("#notice"), /broken\.json is no trace: step 1/);
    writeFileSync(broken, "not json");
    await page.locator("#file").setInputFiles(broken);
    await says(page.locator("#notice"), /not JSON/);
  }));

test("the copied curl does the same", () =>
  open(
    async (page) => {
      await page.locator("#prompt").fill(`It's ${APPLES}`);
      await runToEnd(page);
      await page.locator("#copy-curl").click();
      await page.locator("#toast").waitFor();
      const command = await page.evaluate(() => navigator.clipboard.readText());
      const { stdout } = await promisify(execFile)("bash", ["-c", command]);
      const done = JSON.parse(
        stdout
          .split("\n")
          .findLast((line) => line.startsWith("data:"))
          .slice(5),
      );
      assert.equal(done.text, await page.locator(".now").textContent());
    },
    { hash: ONE_LANE },
  ));

test("it works without a mouse", () =>
  open(async (page) => {
    const focused = () => page.evaluate(() => document.activeElement.id || document.activeElement.className);
    const reached = new Set();
    for (let presses = 0; presses < 60 && !reached.has("copy-curl"); presses += 1) {
      await page.keyboard.press("Tab");
      reached.add(await focused());
    }
    for (const stop of ["theme", "prompt", "run", "order", "pace", "canvas", "lane-add", "copy-curl"])
      assert.ok(
        [...reached].some((name) => name.split(" ").includes(stop)),
        `${stop} in ${[...reached]}`,
      );
    await page.keyboard.press("?");
    assert.ok(await page.locator("#help").isVisible());
    await picture(page, "help");
    await page.keyboard.press("Escape");
    assert.equal(await page.locator("#help").isVisible(), false);
  }));

test("a phone shows all of it", () =>
  open(
    async (page) => {
      await picture(page, "phone-start");
      await page.locator("#run").tap();
      await finished(page);
      await page.waitForFunction(() => Number(document.querySelector(".nfe b").textContent) >= 4);
      await picture(page, "phone-running");
      const wide = await page.evaluate(() => document.documentElement.scrollWidth);
      assert.ok(wide <= 390, `${wide} px`);
      const box = await page.locator(".canvas").first().boundingBox();
      assert.ok(box.y >= 0 && box.y < 500, "the canvas has come into view");
      await page.locator(".tab").nth(1).tap();
      await page.waitForFunction(() => document.getElementById("lanes").scrollLeft >= 358);
      assert.equal(await page.locator(".tab").nth(1).getAttribute("aria-pressed"), "true");
      const second = await page.locator(".canvas").nth(1).boundingBox();
      assert.ok(second.x >= 0 && second.x < 60 && Math.abs(second.y - box.y) < 60, "the other lane takes its place");
      await page.locator("#lanes").evaluate((node) => node.scrollTo({ left: 0, behavior: "instant" }));
      await page.waitForFunction(() => document.querySelector(".tab").getAttribute("aria-pressed") === "true");
      await page.locator(".cell:not(.open)").first().tap();
      await page.keyboard.press("Escape");
      await page.locator(".lane").first().locator(".cell.open").nth(2).tap();
      await page.locator("#wheel").waitFor();
      await picture(page, "phone-wheel");
      await page.keyboard.press("Escape");
      await picture(page, "phone-whole", { fullPage: true });
    },
    { context: PHONE },
  ));

test("a phone on its side shows rows of the canvas", () =>
  open(
    async (page) => {
      await page.locator("#run").tap();
      await finished(page);
      await seek(page, 3);
      await page.waitForFunction(() => {
        const foot = document.getElementById("player").getBoundingClientRect().top;
        const rows = [...document.querySelectorAll(".lane:first-child .cell")].map((cell) => cell.getBoundingClientRect());
        return new Set(rows.filter(({ top, bottom }) => top >= 0 && bottom <= foot).map(({ top }) => Math.round(top))).size >= 3;
      });
      await picture(page, "landscape");
    },
    { context: { ...PHONE, viewport: { width: 844, height: 390 } } },
  ));

test("dark and light", () =>
  open(
    async (page) => {
      const lightness = () => page.evaluate(() => Number(/\d+/.exec(getComputedStyle(document.body).backgroundColor)[0]));
      assert.ok((await lightness()) < 60);
      await runToEnd(page);
      await picture(page, "dark-end");
      await page.locator("#theme").click();
      assert.ok((await lightness()) > 200);
      await page.reload();
      assert.ok((await lightness()) > 200, "the choice is kept");
    },
    { context: { colorScheme: "dark" } },
  ));

test("little motion is respected", () =>
  open(
    async (page) => {
      await page.locator("#run").click();
      await finished(page);
      await page.locator(".lane.reached").waitFor({ timeout: 1000 });
      assert.equal(await page.locator("#play-label").textContent(), "Play");
    },
    { hash: ONE_LANE, context: { reducedMotion: "reduce" } },
  ));

test("a bad parameter is told beside its field", () =>
  open(
    async (page) => {
      await page.locator(".tuning summary").click();
      await page.locator("[name=gamma]").fill("-1");
      await page.locator("#run").click();
      await page.locator("[data-field=gamma] .problem:visible").waitFor();
      await page.locator("[name=gamma]").fill("");
      await page.locator("[name=block_length]").fill("7");
      await page.locator("#run").click();
      await page.locator(".lane .problem:visible").waitFor();
      await page.locator("[name=block_length]").fill("");
      await page.locator("#settings summary").click();
      await page.locator("[name=temperature]").fill("1e999");
      await page.locator("#run").click();
      await page.locator("[data-field=temperature] .problem:visible").waitFor();
      await page.locator("[name=temperature]").fill("");
      await page.locator("[name=gen_length]").fill("many");
      await page.locator("#run").click();
      await page.locator("[data-field=gen_length] .problem:visible").waitFor();
      await page.locator("[name=gen_length]").fill("4000");
      await page.locator("#run").click();
      await page.waitForFunction(() => /context/.test(document.querySelector("[data-field=prompt] .problem").textContent));
      await picture(page, "bad-parameter");
      await page.locator("[name=gen_length]").fill("32");
      await runToEnd(page);
      assert.equal(await page.locator(".problem:visible").count(), 0);
    },
    { hash: ONE_LANE, expected: [/400/] },
  ));

test("a server that wants a key gets one", async () => {
  const locked = await serve([], { LACUNA_API_KEYS: "open-sesame" });
  after(() => locked.stop());
  await visit(
    chromium.browser,
    locked.url,
    async (page) => {
      await page.locator("#run").click();
      await page.locator("#key").waitFor();
      await picture(page, "locked");
      await page.locator("#key").fill("sesame");
      await page.locator("#key").press("Enter");
      await says(page.locator("#notice"), /did not accept this API key/);
      await page.locator("#key").fill("open-sesame");
      await page.locator("#key").press("Enter");
      await finished(page);
      assert.equal(await page.locator("#notice").isVisible(), false);
      await page.locator("#copy-curl").click();
      await page.locator("#toast").waitFor();
      const command = await page.evaluate(() => navigator.clipboard.readText());
      assert.ok(command.includes("$LACUNA_API_KEY") && !command.includes("open-sesame"));
    },
    { hash: ONE_LANE, expected: [/401/] },
  );
});

test("a full queue and a lost server are told in plain words", async () => {
  const busy = await serve(["--max-batch", "1", "--max-queue", "1", "--threads", "1"]);
  after(() => busy.stop());
  const body = JSON.stringify({ prompt: "Count", gen_length: 900, strategy: "confidence", early_stop: false, stream: true });
  const gone = new AbortController();
  const headers = { "Content-Type": "application/json" };
  for (const pause of [500, 500]) {
    const asked = fetch(`${busy.url}v1/completions`, { method: "POST", headers, body, signal: gone.signal });
    asked.then((response) => response.text()).catch(() => {});
    await setTimeout(pause); // one is to be at work before the next has to wait
  }
  await visit(
    chromium.browser,
    busy.url,
    async (page) => {
      await page.locator("#run").click();
      await says(page.locator("#notice"), /queue is full/);
      await picture(page, "busy");
      gone.abort();
      await busy.stop();
      await page.locator("#retry").click();
      await says(page.locator("#notice"), /does not answer/);
    },
    { hash: ONE_LANE, expected: [/429/, /ERR_CONNECTION_REFUSED/, /Failed to load/] },
  );
});

test("every file of the page is served", async () => {
  const files = readdirSync(new URL("../../playground", import.meta.url));
  for (const file of files) {
    const response = await fetch(server.url + (file === "index.html" ? "" : file));
    assert.equal(response.status, 200, file);
    assert.equal(
      await response.text(),
      readFileSync(new URL(`../../playground/${file}`, import.meta.url), "utf8"),
      `${file} is not what the binary holds`,
    );
  }
});
