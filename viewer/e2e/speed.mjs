// How fast the page is on a long recording, in a real browser: `node e2e/speed.mjs HOLDUP RECORDING`.
// Prints NAME FIGURE UNIT a line. The server's own answers are timed by `cargo run --example viewer_speed`.

import { drawn, findBrowser, startBrowser } from "./browser.mjs";
import { servedByHoldup } from "./holdup.mjs";

const MOVES = ["w", "w", "d", "w", "w", "a", "w", "w", "d", "w", "s", "s", "a", "s", "s", "d", "s", "s", "s", "0"];

/** Notes, in the page, every task that blocks its main thread for 50 ms or more. */
function watchTasks() {
  window.blockedMs = [];
  new PerformanceObserver((list) => window.blockedMs.push(...list.getEntries().map((one) => one.duration)))
    .observe({ type: "longtask", buffered: true });
}

const [holdup, recording] = process.argv.slice(2);
const executable = findBrowser();
if (!holdup || !recording || !executable) {
  console.error("usage: node e2e/speed.mjs HOLDUP RECORDING (and a Chromium on this machine)");
  process.exit(2);
}
const served = await servedByHoldup(holdup, recording);
const browser = await startBrowser(executable);
const errors = [];
const began = performance.now();
const page = await browser.open(served.url, errors, watchTasks);
const figures = [["first-picture", (performance.now() - began) / 1000, "s"]];
const blocked = () => page.evaluate(() => Math.max(0, ...window.blockedMs.splice(0)));
figures.push(["blocked-while-opening", await blocked(), "ms"]);
await page.locator("canvas[data-idle]").focus();
const waits = [];
for (const key of MOVES) {
  const start = performance.now();
  await page.keyboard.press(key);
  await drawn(page);
  waits.push(performance.now() - start);
}
waits.sort((a, b) => a - b);
figures.push(["move-median", waits[waits.length >> 1], "ms"], ["move-longest", waits.at(-1), "ms"], ["blocked-while-moving", await blocked(), "ms"]);
const session = await page.context().newCDPSession(page);
await session.send("HeapProfiler.collectGarbage");
const { usedSize } = await session.send("Runtime.getHeapUsage");
figures.push(["heap", usedSize / 2 ** 20, "MiB"]);
for (const [name, figure, unit] of figures) console.log(`${name} ${figure.toFixed(2)} ${unit}`);
if (errors.length > 0) console.error(errors.join("\n"));
await browser.end();
served.end();
process.exit(errors.length > 0 ? 1 : 0);
