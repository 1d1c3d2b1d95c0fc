// Adverse input with real recordings and the real binary: a truncated file, hostile names, two clients at
// once, a browser without WebGL. The page stays useful, and reports missing data.

import assert from "node:assert/strict";
import { cp, rm, truncate, stat, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { drawn } from "./browser.mjs";
import { imported } from "./holdup.mjs";

const HOSTILE = "</script><img src=x onerror=alert(1)>\u001b[31m\u0000\u202eevil";

/** A copy of a recording of which the slices are cut in the middle. */
export async function cutShort(recording, folder) {
  const copy = join(folder, "cut.holdup");
  await rm(copy, { recursive: true, force: true });
  await cp(recording, copy, { recursive: true });
  const slices = join(copy, "slices.parquet");
  await truncate(slices, Math.floor((await stat(slices)).size / 2));
  return copy;
}

/** A recording whose threads, process and functions have names that would be markup elsewhere. */
export async function hostileNames(holdup, folder) {
  const span = (tid, at) => ({ ph: "X", name: HOSTILE, cat: "gc", pid: 1, tid, ts: at, dur: 400 });
  const traceEvents = [1, 2].flatMap((tid) => [
    { ph: "M", name: "thread_name", pid: 1, tid, args: { name: `${HOSTILE} ${tid}` } },
    ...[0, 1000, 2000].map((at) => span(tid, at + tid * 100)),
  ]);
  traceEvents.push({ ph: "M", name: "process_name", pid: 1, args: { name: HOSTILE } });
  const file = join(folder, "hostile.json");
  await writeFile(file, JSON.stringify({ traceEvents }));
  return imported(holdup, file, folder, "hostile.holdup");
}

const body = async (page) => (await page.locator("body").textContent()) ?? "";

/** Opens every tab, and fails if one stays empty. */
async function everyTab(page) {
  for (const name of await page.getByRole("tab").allTextContents()) {
    await page.getByRole("tab", { name, exact: true }).click();
    await page.waitForFunction(() => !/^(asking …)?$/.test(document.getElementById("tab-panel")?.textContent ?? ""), null, { timeout: 30_000 });
  }
}

export const CUT_SHORT = {
  "opens, and says what could not be read": async (page) => {
    await page.waitForSelector(".findings[aria-busy=false]");
    assert.match((await page.locator(".head").textContent()) ?? "", /damaged: .*slices/);
    await page.getByRole("tab", { name: "Losses", exact: true }).click();
    await page.waitForSelector("tbody tr");
    assert.match((await page.locator("#tab-panel").textContent()) ?? "", /slices.*unreadable|unreadable.*slices/);
    await everyTab(page);
  },
};

export const NAMES = {
  "shows names of strangers as text, in every tab": async (page) => {
    await page.waitForSelector(".findings[aria-busy=false]");
    await drawn(page);
    await everyTab(page);
    assert.equal(await page.locator("img").count(), 0);
    await page.getByRole("tab", { name: "Threads", exact: true }).click();
    await page.waitForSelector("tbody tr");
    assert.match(await body(page), /<img src=x onerror=alert\(1\)>\\e\[31m/);
  },
};

export const SECOND = {
  "both look at the same": async (page) => {
    await page.waitForSelector(".findings[aria-busy=false]");
    await page.keyboard.press("0");
    await drawn(page);
    await everyTab(page);
  },
};

/** Runs in the page before everything else. */
export function withoutWebGl() {
  const own = HTMLCanvasElement.prototype.getContext;
  HTMLCanvasElement.prototype.getContext = function (kind, ...rest) {
    return /webgl|webgpu/.test(kind) ? null : own.call(this, kind, ...rest);
  };
}
