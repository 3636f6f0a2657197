/** Draws the pictures of the README: node pictures.js FOLDER. */

import { join } from "node:path";

import { browse, finished, seek, serve, visit } from "./page.js";

const [folder] = process.argv.slice(2);
const STEP = 8; // both are under way: one from the end of the text, the other from the question
const [server, { browser, close }] = await Promise.all([serve(), browse()]);

for (const colorScheme of ["light", "dark"]) {
  const context = { colorScheme, viewport: { width: 1280, height: 800 } };
  await visit(
    browser,
    server.url,
    async (page) => {
      await page.locator("#run").click();
      await finished(page);
      await seek(page, STEP);
      await page.locator("#reading").evaluate((node) => node.scrollIntoView());
      await page.mouse.move(0, 0);
      await page.evaluate(() => document.activeElement.blur());
      await page.waitForTimeout(500);
      await page.screenshot({ path: join(folder, `playground-${colorScheme}.png`) });
    },
    { context },
  );
}

await close();
await server.stop();
