// Text, times, views and addresses.

import { describe, expect, it } from "vitest";
import { formatAddress, parseAddress } from "../src/model/address";
import { fitted, shortened, tsvRow, visible } from "../src/model/text";
import { where, withoutRepeats } from "../src/model/frames";
import { bytes, count, duration, moment, percent, ruler } from "../src/model/time";
import { framed, inside, panned, toNs, toX, zoomed } from "../src/model/view";

const WHOLE = { from: 0, to: 1e9 };

describe("text of strangers", () => {
  it("shows what would be invisible", () => {
    expect(visible("a\u001b[31m\nb\u202ec\u0000")).toBe("a\\e[31m\\nb\\u{202e}c\\0");
    expect(visible("<script>ä 線程 🎉</script>")).toBe("<script>ä 線程 🎉</script>");
  });
  it("cuts a text before the end that tells it from its like", () => {
    const upTo = (length: number) => (text: string): boolean => Array.from(text).length <= length;
    expect(fitted("worker 10", upTo(9), 99, 3)).toBe("worker 10");
    expect(fitted("cache-epoll 10119", upTo(12), 99, 6)).toBe("cache… 10119");
    expect(fitted("cache-epoll 10119", upTo(12), 99)).toBe("cache-epoll…");
    expect(fitted("cache-epoll 10119", upTo(4), 99, 6)).toBe("cac…");
    expect(fitted("cache-epoll 10119", upTo(0), 99, 6)).toBe("");
  });
  it("never cuts a character in two", () => expect(shortened("🎉🎉🎉", 2)).toBe("🎉…"));
  it("keeps a row of a table one row", () => expect(tsvRow(["a\tb", "c\nd"])).toBe("a\\tb\tc\\nd"));
});

describe("times", () => {
  it.each([[0, "0"], [999, "999 ns"], [1000, "1.00 µs"], [999_900, "1.00 ms"], [2_414_000, "2.41 ms"], [-5e9, "-5.00 s"], [123e9, "123 s"], [31_900_000, "31.9 ms"]])(
    "duration of %d ns", (ns, words) => expect(duration(ns)).toBe(words));
  it("gives a moment as many digits as its neighbours need", () => {
    expect(moment(4_213_000_000, 1e6)).toBe("4.213 s");
    expect(moment(4_213_000_000, 5e8)).toBe("4.2 s");
  });
  it("counts, sizes and shares", () => {
    expect(count(1234567)).toBe("1\u202f234\u202f567");
    expect(bytes(1536)).toBe("1.5 KiB");
    expect([percent(0.9949), percent(0.996), percent(0.99999), percent(1)]).toEqual(["99 %", "99.6 %", "99.9 %", "100 %"]);
    expect([percent(0.314), percent(0.0041), percent(0), percent(Number.NaN)]).toEqual(["31 %", "0.4 %", "0 %", "–"]);
  });
  it("rules lines at 1, 2 or 5, never closer than asked", () => {
    for (const length of [700, 1e4, 3.3e6, 9e9]) {
      const { step, ticks } = ruler(17, 17 + length, 800, 90);
      expect([1, 2, 5]).toContain(Math.round(step / 10 ** Math.floor(Math.log10(step) + 1e-9)));
      expect((step / length) * 800).toBeGreaterThanOrEqual(89.9);
      for (const tick of ticks) expect(tick >= 17 && tick <= 17 + length).toBe(true);
    }
  });
});

describe("views", () => {
  it("never leave the recording", () => {
    expect(inside({ from: -50, to: 950 }, WHOLE)).toEqual({ from: 0, to: 1000 });
    expect(inside({ from: 5, to: 9e9 }, WHOLE)).toEqual(WHOLE);
    expect(panned({ from: 9e8, to: 1e9 }, 5, WHOLE)).toEqual({ from: 9e8, to: 1e9 });
  });
  it("keep the moment under the pointer when zooming", () => {
    const view = { from: 1e8, to: 5e8 };
    const at = 2e8;
    const next = zoomed(view, 0.5, at, WHOLE);
    expect(toX(at, next, 0, 1000)).toBeCloseTo(toX(at, view, 0, 1000));
    expect(next.to - next.from).toBeCloseTo(2e8);
  });
  it("stop at the shortest span", () => {
    let view = WHOLE;
    for (let n = 0; n < 100; n += 1) view = zoomed(view, 0.1, 5e8, WHOLE);
    expect(view.to - view.from).toBeCloseTo(200);
  });
  it("frame a span in the middle", () => expect(framed({ from: 4e8, to: 5e8 }, WHOLE, 0.5)).toEqual({ from: 3.5e8, to: 5.5e8 }));
  it("turn pixels into moments and back", () => expect(toNs(toX(123, WHOLE, 50, 700), WHOLE, 50, 700)).toBeCloseTo(123));
});

describe("addresses", () => {
  it("read what reports print", () => {
    expect(parseAddress("#t=4.213")).toEqual({ t: 4_213_000_000 });
    expect(parseAddress("#t=4.213&thread=12")).toEqual({ t: 4_213_000_000, thread: 12 });
  });
  it("come back as they went", () => {
    const address = { t: 1_529_700_000, thread: 3, view: { from: 1, to: 2e9 }, range: { from: 5, to: 6 }, finding: 2, place: 3, tab: "stacks", fn: "a&b=c #é", kind: "off-cpu", reverse: true, alone: true };
    expect(parseAddress(formatAddress(address))).toEqual(address);
  });
  it.each(["#t=x", "#t=-1", "#t=1e9", "#thread=1.5", "#view=2,1", "#view=1", "#range=1,2,3", "#tab=<b>", "#%%%", ""])("leave %s alone", (hash) =>
    expect(parseAddress(hash)).toEqual({}));
});

describe("frames", () => {
  const frame = (name: string, line: number) => ({ name, module: "/bin/words", file: "/src/map.ml", line, kind: "user" as const });
  it("that repeat are one line, as long as they are in one place", () => {
    const stack = [frame("hash", 12), ...Array.from({ length: 14 }, () => frame("cardinal", 1495)), frame("cardinal", 1496), frame("main", 3)];
    expect(withoutRepeats(stack).map(({ frame: { name }, times }) => [name, times])).toEqual([["hash", 1], ["cardinal", 14], ["cardinal", 1], ["main", 1]]);
    expect(where(frame("cardinal", 1495))).toBe(" map.ml:1495");
  });
});
