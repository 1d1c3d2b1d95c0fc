import { drawn, findBrowser, startBrowser } from "./browser.mjs";
import { servedByHoldup } from "./holdup.mjs";
const [holdup] = process.argv.slice(2);
const R = "/tmp/v4/pics/", OUT = "/tmp/v4/out/";
const browser = await startBrowser(findBrowser());
const tab = (page, name) => page.getByRole("tab", { name, exact: true });
async function shot(name, recording, before, steps) {
  const served = await servedByHoldup(holdup, R + recording, before ? { before: R + before } : {});
  const page = await browser.open(served.url, [], undefined, false);
  await page.waitForSelector(".findings[aria-busy=false]", { timeout: 100000 });
  await drawn(page);
  await steps(page);
  await page.waitForTimeout(300);
  await drawn(page);
  await page.screenshot({ path: `${OUT}${name}.png` });
  await page.close(); served.end();
}
const canvas = (page) => page.locator("canvas[data-idle]");
const only = process.argv[3] ?? "";
const ALL = {
  "viewer-finding": ["domains.holdup", null, async (page) => {
    const head = page.locator(".finding-head", { hasText: "stop-the-world-latecomer" });
    if ((await head.getAttribute("aria-expanded")) !== "true") await head.click();
    await page.waitForSelector(".why-head h2");
    await drawn(page);
  }],
  "viewer-whole-run": ["domains.holdup", null, async (page) => {
    const head = page.locator(".finding-head", { hasText: "stop-the-world-latecomer" });
    if ((await head.getAttribute("aria-expanded")) !== "true") await head.click();
    await page.waitForSelector(".why-head h2");
    await canvas(page).focus();
    await page.keyboard.press("t");
    await page.keyboard.press("0");
    await page.keyboard.press("x");
    await page.waitForSelector(".path-words");
  }],
  "viewer-nearly-empty": ["sleep.holdup", null, async () => {}],
  "viewer-5000-threads": ["workers.holdup", null, async (page) => {
    await canvas(page).focus();
    await page.keyboard.press("t");
    await page.keyboard.press("0");
    await tab(page, "Threads").click();
    await page.waitForSelector("tbody tr");
  }],
  "viewer-stacks": ["domains.holdup", "calm.holdup", async (page) => {
    await tab(page, "Stacks").click();
    await page.waitForSelector(".flame canvas");
    await page.waitForTimeout(1500);
  }],
};
for (const [name, [rec, before, steps]] of Object.entries(ALL)) if (name.includes(only)) await shot(name, rec, before, steps);
await browser.end(); process.exit(0);
