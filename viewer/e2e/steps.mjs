// The tested steps. A step gets the page of the previous step, and throws on a failure.

import assert from "node:assert/strict";
import { assertAccessible } from "./accessible.mjs";
import { drawn } from "./browser.mjs";

const timeline = (page) => page.locator("canvas[data-idle]");
const tab = (page, name) => page.getByRole("tab", { name, exact: true });
const status = (page) => page.locator(".status > span").first().textContent();
const why = (page) => page.locator(".why-head h2").textContent();

/** A point of the timeline: shares of its width right of the names, and of the lanes' height. */
async function point(page, x, row) {
  const box = await timeline(page).boundingBox();
  assert(box);
  return { x: box.x + 190 + x * (box.width - 190), y: box.y + 86 + 22 + row * 24 + 12 };
}

/** Checks that the picture has several colours, so that it is not empty. */
async function coloured(page, selector) {
  const colours = () => page.locator(selector).first().evaluate((canvas) => {
    const pen = canvas.getContext("2d");
    const { data } = pen.getImageData(0, 0, canvas.width, canvas.height);
    const seen = new Set();
    for (let at = 0; at < data.length; at += 400) seen.add(`${data[at]},${data[at + 1]},${data[at + 2]}`);
    return seen.size;
  });
  await eventually(`fewer than four colours in ${selector}`, async () => (await colours()) > 3);
}

/** A page is rendered some time after a change, depending on the machine. */
async function eventually(what, check) {
  for (let n = 0; n < 600; n += 1) {
    if (await check()) return;
    await new Promise((done) => setTimeout(done, 50));
  }
  assert.fail(what);
}

const opens = {
  "opens with the verdict, the ledger and the worst place": async (page) => {
    assert.match(await page.locator(".findings h2").textContent(), /What holds it up/);
    await page.waitForSelector(".finding.open");
    await page.waitForSelector(".why-head h2");
    await eventually("there is no ledger", async () => (await page.locator(".ledger li").count()) > 2);
    await coloured(page, "canvas[data-idle]");
  },
};

const moves = {
  "zooms by wheel and by key": async (page) => {
    await page.keyboard.press("0");
    await drawn(page);
    const before = await status(page);
    const at = await point(page, 0.5, 0);
    await page.mouse.move(at.x, at.y);
    await page.keyboard.down("Control");
    await page.mouse.wheel(0, -300);
    await page.keyboard.up("Control");
    await eventually("the wheel did not zoom", async () => (await status(page)) !== before);
    const wheeled = await status(page);
    await timeline(page).focus();
    await page.keyboard.press("w");
    await eventually("W did not zoom", async () => (await status(page)) !== wheeled);
    await drawn(page);
  },
  "moves by key and by dragging": async (page) => {
    const before = await status(page);
    await page.keyboard.press("d");
    await eventually("D did not move", async () => (await status(page)) !== before);
    const keyed = await status(page);
    const [from, to] = [await point(page, 0.6, 1), await point(page, 0.4, 1)];
    await page.mouse.move(from.x, from.y);
    await page.mouse.down();
    await page.mouse.move(to.x, to.y, { steps: 5 });
    await page.mouse.up();
    await eventually("dragging did not move", async () => (await status(page)) !== keyed);
  },
  "selects a range, which gets its own ledger": async (page) => {
    const [from, to] = [await point(page, 0.3, 0), await point(page, 0.5, 0)];
    await page.keyboard.down("Shift");
    await page.mouse.move(from.x, from.y);
    await page.mouse.down();
    await page.mouse.move(to.x, to.y, { steps: 5 });
    await page.mouse.up();
    await page.keyboard.up("Shift");
    await eventually("nothing was selected", async () => /selected/.test((await page.locator(".ledger h2").textContent()) ?? ""));
    await tab(page, "Threads").click();
    await page.getByLabel("only in the selected").check();
    await page.getByLabel("only in the selected").uncheck();
    await tab(page, "Why").click();
    await timeline(page).focus();
    await page.keyboard.press("Escape");
    await eventually("Escape did not clear it", async () => /whole run/.test((await page.locator(".ledger h2").textContent()) ?? ""));
  },
  "steps through the places of a finding": async (page) => {
    const words = page.locator(".steps span");
    const before = await words.textContent();
    await page.keyboard.press("n");
    await eventually("N did not step", async () => (await words.textContent()) !== before);
    await page.keyboard.press("p");
    await eventually("P did not step back", async () => (await words.textContent()) === before);
    const places = page.locator(".places button");
    await places.last().click();
    await eventually("the last place of the list was not opened", async () => (await words.textContent()) === `place ${await places.count()} of ${await places.count()}`);
    assert.equal(await places.last().getAttribute("aria-current"), "location");
    await places.first().click();
    await eventually("the first place of the list was not opened", async () => (await words.textContent()) === before);
    await timeline(page).focus();
  },
};

const follows = {
  "follows a wait to its cause, and comes back": async (page) => {
    await page.waitForSelector(".why-head h2");
    const before = await why(page);
    await page.locator(".chain button").first().click();
    await eventually("the link led nowhere", async () => (await page.locator(".why-head button").first().isEnabled()) && (await why(page)) !== before);
    await timeline(page).focus();
    await page.keyboard.press("Backspace");
    await eventually("there was no way back", async () => (await why(page)) === before);
  },
};

const shows = {
  "searches for a thread by name": async (page) => {
    await page.keyboard.press("/");
    const name = (await page.locator(".command").textContent()).split("/").pop().split(" ")[0];
    await page.keyboard.type(process.env.SEARCH ?? (name === "words" ? "worker 2" : name));
    await page.waitForSelector(".results [role=option]");
    await page.keyboard.press("Enter");
    await eventually("the results stayed open", async () => (await page.locator(".results").count()) === 0);
  },
  "opens each tab": async (page) => {
    for (const name of await page.getByRole("tab").allTextContents()) {
      await tab(page, name).click();
      await eventually(`the tab ${name} stays empty`, async () => {
        const text = (await page.locator("#tab-panel").textContent()) ?? "";
        return text.length > 0 && text !== "asking …";
      });
    }
  },
  "draws a flame graph, and zooms into it": async (page) => {
    await tab(page, "Stacks").click();
    await page.waitForSelector(".flame canvas");
    await eventually("the flame graph stays empty", async () => (await page.locator(".flame canvas").first().evaluate((one) => one.height)) > 30);
    await page.locator(".flame canvas").first().click({ position: { x: 20, y: 28 } });
    await coloured(page, ".flame canvas");
  },
  "changes to dark and shows the help": async (page) => {
    await timeline(page).focus();
    await page.keyboard.press("t");
    await eventually("it stayed light", async () => (await page.evaluate(() => document.documentElement.dataset.theme)) === "dark");
    await page.keyboard.press("t");
    await page.keyboard.press("?");
    await page.waitForSelector("dialog.help[open]");
    await page.keyboard.press("Escape");
    await eventually("the help stayed open", async () => (await page.locator("dialog.help").count()) === 0);
    await tab(page, "Why").click();
  },
};

const spans = {
  "finds a span by name, and goes to the longest": async (page) => {
    await page.keyboard.press("0");
    const before = await status(page);
    await page.keyboard.press("/");
    await page.keyboard.type("request");
    await page.waitForSelector(".results [role=option]");
    assert.match((await page.locator(".results [role=option]").first().textContent()) ?? "", /span\s*request/);
    await page.keyboard.press("Enter");
    await eventually("it did not go there", async () => (await status(page)) !== before);
    await page.waitForSelector(".why-head h2");
  },
};

const sandwich = {
  "shows callers and callees of a function, and its instructions": async (page) => {
    await tab(page, "Stacks").click();
    await page.locator(".flame-and-list .hot button").first().click();
    await eventually("there is no sandwich", async () => (await page.locator(".flame canvas").count()) === 2);
    await page.getByRole("button", { name: "source", exact: true }).click();
    await eventually("there is no listing", async () => (await page.locator("#tab-panel").textContent()) !== "asking …");
  },
  "sorts, filters and follows a table": async (page) => {
    await tab(page, "Threads").click();
    await page.waitForSelector("tbody tr");
    await page.locator("th button").nth(1).click();
    await eventually("it is not sorted", async () => /^(a|de)scending$/.test((await page.locator("th").nth(1).getAttribute("aria-sort")) ?? ""));
    await page.getByLabel("rows that hold these words").fill("no thread is called this");
    await eventually("the filter keeps rows", async () => (await page.locator("tbody tr").count()) === 0);
    await page.getByLabel("rows that hold these words").fill("");
    await page.locator("tbody tr").first().click();
    await drawn(page);
  },
  "has an address that restores the view": async (page) => {
    await page.keyboard.press("Escape");
    // An address that still has the tab of a step before may have its view, too.
    await tab(page, "Why").click();
    await eventually("the address was not kept", async () => !page.url().includes("tab="));
    await tab(page, "Threads").click();
    await eventually("the address was not kept", async () => page.url().includes("tab=threads"));
    const words = await status(page);
    await page.reload();
    await drawn(page);
    await eventually(`the view was not restored: ${words}`, async () => (await status(page)) === words).catch(async (error) => { throw new Error(`${error.message} but ${await status(page)} at ${page.url().split("#")[1]}`); });
    await eventually("another tab is shown", async () => (await tab(page, "Threads").getAttribute("aria-selected")) === "true");
    await tab(page, "Why").click();
  },
};

const accessible = {
  "is accessible in every tab and the help, light and dark": async (page) => {
    for (const theme of ["light", "dark"]) {
      // The button has the name of the other theme, so the current one has none.
      const shown = () => page.evaluate(() => document.documentElement.dataset.theme);
      if ((await shown()) !== theme) await page.getByRole("button", { name: theme, exact: true }).click();
      await eventually(`it did not become ${theme}`, async () => (await shown()) === theme);
      for (const name of await page.getByRole("tab").allTextContents()) {
        await tab(page, name).click();
        await eventually(`the tab ${name} stays empty`, async () => !/^(asking …)?$/.test((await page.locator("#tab-panel").textContent()) ?? ""));
        await assertAccessible(page, `${name}, ${theme}`);
      }
      await timeline(page).focus();
      await page.keyboard.press("?");
      await page.waitForSelector("dialog.help[open]");
      await assertAccessible(page, `help, ${theme}`);
      await page.keyboard.press("Escape");
    }
    await page.getByRole("button", { name: "light", exact: true }).click();
    await tab(page, "Why").click();
  },
};

const labelled = {
  "has a name for everything that can be used": async (page) => {
    const nameless = await page.evaluate(() => [...document.querySelectorAll("button, input, select, canvas, [role=tab], [role=separator], section, aside, dialog")]
      .filter((one) => {
        if (one.getAttribute("aria-hidden") === "true") return false;
        const words = one.getAttribute("aria-label") || one.getAttribute("aria-labelledby") || one.closest("label")?.textContent || one.getAttribute("placeholder") || one.getAttribute("title");
        const isRegion = ["SECTION", "ASIDE", "DIALOG"].includes(one.tagName);
        return !words && (isRegion ? !one.querySelector("h2, h3") : !one.textContent?.trim());
      })
      .map((one) => one.outerHTML.slice(0, 120)));
    assert.deepEqual(nameless, []);
  },
  "can be walked through by Tab alone, and shows where one is": async (page) => {
    await page.locator("body").click({ position: { x: 2, y: 2 } });
    const seen = new Set();
    for (let n = 0; n < 60; n += 1) {
      await page.keyboard.press("Tab");
      const [name, outline] = await page.evaluate(() => {
        const one = document.activeElement;
        return [`${one?.tagName} ${one?.getAttribute("aria-label") ?? one?.textContent ?? ""}`.slice(0, 60), one ? getComputedStyle(one).outlineStyle : "none"];
      });
      if (!name.startsWith("BODY")) assert.notEqual(outline, "none", `${name} has the focus, which cannot be seen`);
      seen.add(name.split(" ")[0]);
    }
    for (const kind of ["INPUT", "BUTTON", "CANVAS"]) assert(seen.has(kind), `Tab does not reach a ${kind}`);
  },
};

const links = {
  "opens at the place that a report prints": async (page) => {
    await page.goto(`${page.url().split("#")[0]}#t=1.2&thread=2`);
    await page.reload();
    await drawn(page);
    await eventually("nothing was chosen there", async () => (await page.locator(".why-head h2").count()) === 1);
    const [from, to] = ((await status(page)) ?? "").match(/[\d.]+(?= s)/g).map(Number);
    assert(from <= 1.2 && 1.2 <= to && to - from < 0.5, `it shows ${from} to ${to}`);
    assert.match(await page.locator(".facts-list").textContent(), /1\.(1|2)/);
  },
};

const hostile = {
  "shows names of strangers as text only": async (page) => {
    assert.equal(await page.locator("img").count(), 0);
    assert.match((await page.locator(".finding").first().textContent()) ?? "", /<img src=x onerror=alert\(1\)>\\e\[31m\\u\{202e\}evil/);
  },
};

const calls = {
  "draws histograms in cells, which sort and have words": async (page) => {
    await tab(page, "Calls").click();
    await page.waitForSelector("svg.bars rect");
    assert.match((await page.locator("#tab-panel").textContent()) ?? "", /All calls were counted/);
    assert.match((await page.locator("tbody tr").first().textContent()) ?? "", /1.02 µs – 16.4 µs/);
    await page.getByRole("button", { name: "times" }).click();
    await page.getByRole("button", { name: "times" }).click();
    await eventually("histograms do not sort", async () => /^close/.test((await page.locator("tbody tr").first().textContent()) ?? ""));
    await tab(page, "Why").click();
  },
};

const slow = {
  "says how far the opening is": async (page) => {
    await eventually("nothing is said", async () => /12.345.678 switches.*at its reading/.test((await page.locator("[role=status]").first().textContent()) ?? ""));
    await assertAccessible(page, "while it is opened");
  },
  "shows what threads did while the recording is read, and says that what for comes later": async (page, goOn) => {
    goOn();
    await drawn(page);
    await coloured(page, "canvas[data-idle]");
    assert.match((await page.locator(".findings [role=status]").textContent()) ?? "", /This first look shows/);
    assert.match((await page.locator(".ledger").textContent()) ?? "", /running.*run-queue.*waiting/);
    await assertAccessible(page, "the first look");
    await timeline(page).focus();
    await page.keyboard.press("t");
  },
  "shows lanes before there are findings, and says that these are on their way": async (page, goOn) => {
    goOn();
    await page.waitForSelector(".page:not([data-look=first])");
    await drawn(page);
    await coloured(page, "canvas[data-idle]");
    assert.match((await page.locator(".findings [role=status]").textContent()) ?? "", /being computed/);
    assert.equal(await page.evaluate(() => document.documentElement.dataset.theme), "dark", "the theme that was chosen meanwhile");
    await timeline(page).focus();
    await page.keyboard.press("t");
    await page.keyboard.press("w");
    await drawn(page);
    await tab(page, "Stacks").click();
    await page.waitForSelector(".flame canvas");
  },
  "shows the findings once they are there, and leaves the view where it was": async (page, goOn) => {
    const before = await status(page);
    goOn();
    await page.waitForSelector(".finding");
    assert.equal(await status(page), before);
    assert.equal(await page.locator(".finding.open").count(), 0);
    await page.locator(".finding-head").first().click();
    await page.waitForSelector(".why-head h2");
    await drawn(page);
  },
};

const untouched = {
  "opens the first finding when it comes, if nobody has moved yet": async (page, goOn) => {
    await drawn(page);
    assert.equal(await page.locator(".finding").count(), 0);
    goOn();
    await page.waitForSelector(".finding.open");
    await page.waitForSelector(".why-head h2");
  },
};

const compares = {
  "shows what changed since the other recording, in words too": async (page) => {
    await tab(page, "Stacks").click();
    await page.waitForSelector(".flame canvas");
    await eventually("nothing is compared", async () => /more than before less now 1\.00 s, before 700 ms/.test((await page.locator(".stacks").textContent()) ?? ""));
    await page.locator(".flame canvas").first().hover({ position: { x: 20, y: 8 } });
    await eventually("no change is said", async () => /before 500 ms, now 500 ms more/.test((await page.locator(".under").first().textContent()) ?? ""));
    await assertAccessible(page, "comparing");
    await page.getByLabel("what changed").uncheck();
    await eventually("it still compares", async () => !/more than before/.test((await page.locator(".stacks").textContent()) ?? ""));
    await page.getByLabel("what changed").check();
  },
};

/** Made-up recordings. */
export const MADE_UP = {
  "a recording that takes its time": { recording: { threads: 4 }, stages: ["reading", "look", "findings"], steps: slow },
  "a recording whose findings take their time": { recording: { threads: 4 }, stages: ["findings"], steps: untouched },
  "two recordings": { recording: { threads: 4, compared: true }, steps: compares },
  "a busy recording": { recording: { threads: 4 }, steps: { ...opens, ...moves, ...follows, ...shows, ...sandwich, ...spans, ...calls, ...links, ...accessible, ...labelled, ...hostile } },
  "a recording with no threads": {
    recording: { threads: 0 },
    steps: {
      "says so, and stays useful": async (page) => {
        assert.match((await page.locator("body").textContent()) ?? "", /No thread of the program was recorded/);
        await page.keyboard.press("w");
        await page.keyboard.press("?");
        await page.waitForSelector("dialog.help[open]");
        await page.keyboard.press("Escape");
      },
    },
  },
  "a browser without a canvas": {
    recording: { threads: 4 },
    before: () => {
      HTMLCanvasElement.prototype.getContext = () => null;
    },
    steps: {
      "says what is missing, and keeps the findings, why and tables": async (page) => {
        await page.waitForSelector("[role=alert]");
        assert.match((await page.locator("[role=alert]").first().textContent()) ?? "", /no canvas support/);
        await page.waitForSelector(".why-head h2");
        await tab(page, "Threads").click();
        await page.waitForSelector("tbody tr");
      },
    },
  },
  "a recording of 5,000 threads": {
    recording: { threads: 5000, wall: 2e8, mean: 20_000_000 },
    steps: {
      "shows the first of them, and all when asked": async (page) => {
        await page.waitForSelector(".finding.open");
        const height = () => page.locator(".spacer").evaluate((one) => one.offsetHeight);
        const few = await height();
        assert(few < 2000, `${few} px of lanes at first`);
        await page.keyboard.press("0");
        await page.locator(".lanes").evaluate((one) => one.scrollTo(0, 1e6));
        await drawn(page);
        const box = await page.locator(".lanes").boundingBox();
        await page.mouse.click(box.x + 60, box.y + box.height - 34);
        await eventually("not all threads were shown", async () => (await height()) > 100_000);
        await page.locator(".lanes").evaluate((one) => one.scrollTo(0, 60_000));
        await drawn(page);
        await coloured(page, "canvas[data-idle]");
      },
    },
  },
};

const opensAny = {
  "opens with the ledger and the lanes": async (page) => {
    assert.match(await page.locator(".findings h2").textContent(), /What holds it up/);
    await eventually("there is no ledger", async () => (await page.locator(".ledger li").count()) > 0);
    await page.keyboard.press("0");
    await drawn(page);
    await coloured(page, "canvas[data-idle]");
  },
};

const path = {
  "lights the critical path of the whole run": async (page) => {
    await timeline(page).focus();
    await page.keyboard.press("0");
    await page.keyboard.press("x");
    await eventually("no words about the path", async () => /critical path of the visible range.*\d %/.test((await page.locator(".path-words").textContent().catch(() => "")) ?? ""));
    await drawn(page);
    await timeline(page).focus();
    await page.keyboard.press("x");
    await eventually("it stays lit", async () => (await page.locator(".path-words").count()) === 0);
  },
};

const clicks = {
  "tells of the slice that was clicked": async (page) => {
    await page.keyboard.press("0");
    await drawn(page);
    for (const x of [0.5, 0.3, 0.7, 0.1, 0.9]) {
      const at = await point(page, x, 0);
      await page.mouse.click(at.x, at.y);
      const chosen = await page.waitForSelector(".facts-list", { timeout: 3_000 }).catch(() => null);
      if (chosen) return;
    }
    assert.fail("no slice could be chosen");
  },
};

const { "steps through the places of a finding": _steps, ...movesAny } = moves;
const { "draws a flame graph, and zooms into it": _flame, ...showsAny } = shows;
const { "shows callers and callees of a function, and its instructions": _sandwich, ...tablesAny } = sandwich;

/** A real recording, whatever it holds: served by holdup, and as a file. */
export const REAL = {
  served: { ...opensAny, ...path, ...movesAny, ...clicks, ...showsAny, ...tablesAny, ...accessible },
  file: { ...opensAny, ...path, ...movesAny, ...clicks, ...showsAny, ...tablesAny },
};

/** First steps with a received file of a program whose threads stop each other. */
export const NEWCOMER = {
  "the first finding, clicked, shows which thread was late and who had its CPU": async (page) => {
    await page.keyboard.press("0");
    const first = page.locator(".finding-head").first();
    assert.match((await first.textContent()) ?? "", /noisy-neighbour|stop-the-world-latecomer|oversubscription/);
    if ((await first.getAttribute("aria-expanded")) === "true") await first.click();
    await first.click();
    await page.waitForSelector(".why-head h2");
    await drawn(page);
    // The late thread: named by the finding's place, by the highlighted lane, and by the question.
    const late = /: (.+?), [\d.]+ [mµn]?s\./.exec((await page.locator(".finding-body .place").textContent()) ?? "")?.[1];
    assert(late, "the place names no thread");
    assert.match((await why(page)) ?? "", new RegExp(late.split(" ").at(-1)));
    // The other occupant of its CPU: in the chain, or one link further, and not the thread itself.
    const told = async () => (await page.locator("#tab-panel").textContent()) ?? "";
    for (let links = 0; links < 3 && !/had CPU \d/.test(await told()); links += 1) {
      await timeline(page).focus();
      await page.keyboard.press("Enter");
      await page.waitForTimeout(200);
    }
    assert.match(await told(), /\(\d+\)( of \S+)? had CPU \d/);
  },
};
