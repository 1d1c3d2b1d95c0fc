// End-to-end tests in a real browser. `node e2e/run.mjs` uses synthetic recordings. With HOLDUP=path of the
// binary it also uses a real recording, served and as a file: RECORDING, or one made from a fixture.
// Screenshots go to e2e/out. Prints `case viewer NAME: passed`, `failed` or `skipped: REASON` for `./dev
// test`. Exits with 1 after a failure.

import { existsSync } from "node:fs";
import { mkdir } from "node:fs/promises";
import { fileURLToPath } from "node:url";
import { synthetic } from "../test/synthetic.mjs";
import { findBrowser, startBrowser } from "./browser.mjs";
import { CUT_SHORT, NAMES, SECOND, cutShort, hostileNames, withoutWebGl } from "./bad_input.mjs";
import { imported, servedByHoldup, stoppedDomains, writtenByHoldup } from "./holdup.mjs";
import { serve } from "./serve.mjs";
import { MADE_UP, NEWCOMER, REAL } from "./steps.mjs";

const OUT = fileURLToPath(new URL("./out/", import.meta.url));
const FIXTURE = fileURLToPath(new URL("../../fixtures/imports/sched.perf", import.meta.url));
const only = process.argv[2] ?? "";
let failed = 0;

function report(name, error) {
  if (error) failed += 1;
  console.log(`case viewer in a browser: ${name}: ${error ? `failed: ${error.message.replaceAll("\n", " ")}` : "passed"}`);
}

/** Runs the steps on one page. Every console error fails the step in which it occurred. */
async function walk(browser, name, { url, goOn, isSlow }, steps, before) {
  const errors = [];
  let page;
  try {
    page = await browser.open(url, errors, before, !isSlow);
  } catch (error) {
    report(`${name}: open`, error);
    return;
  }
  for (const [what, step] of Object.entries(steps)) {
    if (!`${name}: ${what}`.includes(only)) continue;
    try {
      await step(page, goOn);
      if (errors.length > 0) throw new Error(errors.splice(0).join("; "));
      report(`${name}: ${what}`, null);
    } catch (error) {
      errors.length = 0;
      report(`${name}: ${what}`, error);
    }
  }
  await page.screenshot({ path: `${OUT}${name.replaceAll(" ", "-")}.png` });
  await page.close();
}

/** Real recordings in bad shape, and two viewers of one. */
async function badInput(browser, holdup) {
  const good = await imported(holdup, FIXTURE, OUT, "good.holdup");
  const tries = {
    "a recording that is cut short": { recording: await cutShort(good, OUT), steps: CUT_SHORT },
    "a recording with hostile names": { recording: await hostileNames(holdup, OUT), steps: NAMES },
    "a second viewer of the same recording": { recording: good, steps: SECOND },
    "a browser without WebGL": { recording: good, steps: SECOND, before: withoutWebGl },
  };
  const first = await servedByHoldup(holdup, good);
  for (const [name, { recording, steps, before }] of Object.entries(tries)) {
    const served = await servedByHoldup(holdup, recording);
    await walk(browser, name, served, steps, before);
    served.end();
  }
  await walk(browser, "the first viewer of two", first, SECOND);
  first.end();
}

const executable = findBrowser();
if (!executable) {
  console.log("case viewer in a browser: skipped: no Chromium on this machine (apt-get install chromium), so the viewer was not tried in a browser");
} else if (!existsSync(new URL("../dist/index.html", import.meta.url))) {
  console.log("case viewer in a browser: skipped: the page is not built (npm run build), so the viewer was not tried in a browser");
} else {
  await mkdir(OUT, { recursive: true });
  const browser = await startBrowser(executable);
  for (const [name, { recording, steps, before, stages }] of Object.entries(MADE_UP)) {
    const served = await serve(synthetic(recording), [...(stages ?? [])]);
    await walk(browser, name, served, steps, before);
    served.end();
  }
  const { HOLDUP } = process.env;
  if (HOLDUP) {
    const RECORDING = process.env.RECORDING ?? (await imported(HOLDUP, FIXTURE, OUT));
    const served = await servedByHoldup(HOLDUP, RECORDING);
    await walk(browser, "a real recording", served, REAL.served);
    served.end();
    const file = await writtenByHoldup(HOLDUP, RECORDING, OUT);
    await walk(browser, "a real recording in a file", { url: file }, REAL.file);
  }
  if (HOLDUP) await badInput(browser, HOLDUP);
  if (HOLDUP) {
    const name = "a file of stopped domains";
    const stopped = process.env.STOPPED ?? (await stoppedDomains(HOLDUP, OUT).catch((error) => {
      console.log(`case viewer in a browser: ${name}: skipped: ${error.message.split("\n")[0]}`);
      return null;
    }));
    if (stopped) await walk(browser, name, { url: await writtenByHoldup(HOLDUP, stopped, OUT) }, NEWCOMER);
  }
  await browser.end();
}
process.exit(failed > 0 ? 1 : 0);
