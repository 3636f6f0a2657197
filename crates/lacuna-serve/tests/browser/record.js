/** Records the run that plays when the page opens, the first example: node record.js FILE. */

import { browse, runToEnd, serve, visit } from "./page.js";

const [file] = process.argv.slice(2);
const [server, { browser, close }] = await Promise.all([serve(), browse()]);

await visit(browser, server.url, async (page) => {
  await runToEnd(page);
  const [download] = await Promise.all([page.waitForEvent("download"), page.locator("#export").click()]);
  await download.saveAs(file);
});

await close();
await server.stop();
