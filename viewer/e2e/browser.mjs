// A headless Chromium of the system, and a page that is not allowed a single error.

import { existsSync } from "node:fs";
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { chromium } from "playwright-core";

const PLACES = [process.env["CHROMIUM"], "/usr/bin/chromium", "/usr/bin/chromium-browser", "/usr/bin/google-chrome"];
const FLAGS = [
  "--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking",
  "--disable-component-update", "--disable-sync",
];

/** Path of the browser, or null. */
export function findBrowser() {
  return PLACES.find((one) => one && existsSync(one)) ?? null;
}

/** Starts the browser with a profile of its own. `open` returns a page, `end` closes everything. */
export async function startBrowser(executablePath) {
  const profile = await mkdtemp(join(tmpdir(), "holdup-e2e-"));
  const browser = await chromium.launchPersistentContext(profile, {
    executablePath, args: FLAGS, viewport: { width: 1280, height: 720 }, colorScheme: "light",
  });
  return {
    /** `before` runs in the page before everything else. `wait`: wait until the page is rendered. */
    async open(url, errors, before, wait = true) {
      const page = await browser.newPage();
      page.on("console", (message) => message.type() === "error" && errors.push(`console: ${message.text()}`));
      page.on("pageerror", (error) => errors.push(`exception: ${error.message}`));
      page.on("dialog", (dialog) => { errors.push(`dialog: ${dialog.message()}`); void dialog.dismiss(); });
      if (before) await page.addInitScript(before);
      await page.goto(url);
      if (wait) await drawn(page);
      return page;
    },
    async end() {
      await browser.close();
      await rm(profile, { recursive: true, force: true });
    },
  };
}

/** Timeout, long enough for a busy machine. */
const PATIENCE_MS = 120_000;

/** Waits until the timeline is completely rendered for its view. */
export async function drawn(page) {
  await page.waitForSelector("canvas[data-idle=true]", { timeout: PATIENCE_MS });
  await page.evaluate(() => new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done))));
  await page.waitForSelector("canvas[data-idle=true]", { timeout: PATIENCE_MS });
}
