// How fast the page is on a long recording, in a real browser: `node e2e/speed.mjs HOLDUP RECORDING`.
// Prints NAME FIGURE UNIT a line. The server's own answers are timed by `cargo run --example viewer_speed`.

import { mkdtemp, readdir, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { drawn, findBrowser, startBrowser } from "./browser.mjs";
import { servedByHoldup } from "./holdup.mjs";

const MOVES = ["w", "w", "d", "w", "w", "a", "w", "w", "d", "w", "s", "s", "a", "s", "s", "d", "s", "s", "s", "0"];
/** A recording as long as one can be is open after this. */
const PATIENCE_MS = 240_000;

/**
 * Returns a function for the CPU time of the longest task of the page's main thread since its last call (ms).
 * With a CPU available, a task blocks for its CPU time. The rest of its duration is time in which other
 * programs had the CPU.
 */
async function longestTasks(session) {
  const events = [];
  const collect = ({ value }) => events.push(...value);
  session.on("Tracing.dataCollected", collect);
  const begin = () => session.send("Tracing.start", { transferMode: "ReportEvents", traceConfig: { includedCategories: ["toplevel", "__metadata"], excludedCategories: ["*"] } });
  await begin();
  return async () => {
    const ended = new Promise((done) => session.once("Tracing.tracingComplete", done));
    await session.send("Tracing.end");
    await ended;
    const main = new Set(events.filter((one) => one.name === "thread_name" && one.args.name === "CrRendererMain").map((one) => `${one.pid}/${one.tid}`));
    const own = events.filter((one) => one.ph === "X" && main.has(`${one.pid}/${one.tid}`));
    events.length = 0;
    await begin();
    return own.reduce((longest, one) => Math.max(longest, (one.tdur ?? 0) / 1000), 0);
  };
}

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
const cache = await mkdtemp(join(tmpdir(), "holdup-speed-"));
const browser = await startBrowser(executable);
const errors = [];
const figures = [];

const watcher = await browser.open("about:blank", errors, undefined, false);
const longestTask = await longestTasks(await watcher.context().newCDPSession(watcher));

/** Opens a recording, and prints the times from the command to each state. */
async function opened(what) {
  const start = performance.now();
  const since = () => (performance.now() - start) / 1000;
  const served = await servedByHoldup(holdup, recording, { env: { XDG_CACHE_HOME: cache } });
  figures.push([`${what}-address`, since(), "s"]);
  const page = await browser.open(served.url, errors, watchTasks, false);
  figures.push([`${what}-page`, since(), "s"]);
  await page.waitForSelector("canvas[data-idle=true]", { timeout: PATIENCE_MS });
  figures.push([`${what}-picture`, since(), "s"]);
  await page.waitForSelector(".page:not([data-look=first]) canvas[data-idle=true]", { timeout: PATIENCE_MS });
  await drawn(page);
  figures.push([`${what}-lanes`, since(), "s"]);
  await page.waitForSelector(".findings[aria-busy=false]", { timeout: PATIENCE_MS });
  await drawn(page);
  figures.push([`${what}-findings`, since(), "s"]);
  return { served, page };
}

/** Resolves once the answers of the first opening are kept. */
async function kept() {
  for (let n = 0; n < 200; n += 1) {
    const files = await readdir(join(cache, "holdup", "views")).catch(() => []);
    if (files.some((one) => !one.includes("."))) return;
    await new Promise((done) => setTimeout(done, 100));
  }
  errors.push("no answer was kept");
}

const { served, page } = await opened("first");
const blocked = () => page.evaluate(() => Math.max(0, ...window.blockedMs.splice(0)));
figures.push(["blocked-while-opening", await blocked(), "ms"], ["longest-task-opening", await longestTask(), "ms"]);
await page.locator("canvas[data-idle]").focus();
const waits = [];
await page.evaluate(() => performance.clearResourceTimings());
for (const key of MOVES) {
  const start = performance.now();
  await page.keyboard.press(key);
  await drawn(page);
  waits.push(performance.now() - start);
}
waits.sort((a, b) => a - b);
figures.push(["move-median", waits[waits.length >> 1], "ms"], ["move-longest", waits.at(-1), "ms"], ["blocked-while-moving", await blocked(), "ms"]);
figures.push(["longest-task-moving", await longestTask(), "ms"]);
// What the server took to answer what those moves asked, as the page saw it.
const answers = await page.evaluate(() => performance.getEntriesByType("resource").filter((one) => one.name.includes("/api/")).map((one) => one.responseEnd - one.requestStart));
answers.sort((a, b) => a - b);
figures.push(["answers-asked", answers.length, "answers"], ["answer-median", answers[answers.length >> 1] ?? 0, "ms"], ["answer-longest", answers.at(-1) ?? 0, "ms"]);
const session = await page.context().newCDPSession(page);
await session.send("HeapProfiler.collectGarbage");
const { usedSize } = await session.send("Runtime.getHeapUsage");
figures.push(["heap", usedSize / 2 ** 20, "MiB"]);
await kept();
await page.close();
served.end();
const again = await opened("again");
again.served.end();
for (const [name, figure, unit] of figures) console.log(`${name} ${figure.toFixed(2)} ${unit}`);
if (errors.length > 0) console.error(errors.join("\n"));
await browser.end();
await rm(cache, { recursive: true, force: true });
process.exit(errors.length > 0 ? 1 : 0);
