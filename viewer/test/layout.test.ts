// Layout of lanes, rows, flame graphs and the ledger.

import { describe, expect, it } from "vitest";
import type { LaneRows, Thread } from "../src/api/types";
import { changesOf, composeFlame, foundShare, growTree, layoutFlame, ownTimes } from "../src/layout/flame";
import { drawCpu, drawSamples, drawSlices, drawSpans, firstEndingAfter, mainOccupant, rowIndexAt } from "../src/layout/lane";
import { composeLedger, sharesOf } from "../src/layout/ledger";
import { CPUS_AT_FULL_HEIGHT, FIRST_THREADS, HEAD_H, LANE_H, LOW_CPU_H, NAME_GROUPS, layoutRows, moreId, rowAt, rowsBetween } from "../src/layout/rows";
import { drawText } from "./draw_text";
import { HOSTILE, flame, summary, synthetic } from "./synthetic.mjs";

const CLASSES = ["useful", "kernel", "lock-wait"];
const BOX = { view: { from: 0, to: 100 }, left: 200, width: 100, y: 10, h: 20 };

function rows(list: [number, number, number, (number[] | null)?][]): LaneRows {
  return {
    thread: 0, complete: true, start: list.map((one) => one[0]), end: list.map((one) => one[1]), class: list.map((one) => one[2]),
    row: list.map((_, at) => at), cpu: list.map(() => 0), mix: list.map((one) => one[3] ?? null),
  };
}

describe("a lane", () => {
  it("draws slices where they are, without texture where too narrow", () => {
    const part = { rows: rows([[0, 50, 0], [50, 52, 2], [52, 60, 1]]), from: 0, to: 100 };
    expect(drawText(drawSlices([part], BOX, CLASSES))).toEqual(["rect 200,10 49×20 useful", "rect 250,10 2×20 lock-wait plain", "rect 252,10 8×20 kernel"]);
  });
  it("draws merged slices as the shares of their classes, from the bottom up", () => {
    const part = { rows: rows([[0, 10, 0, [7, 2, 2, 0, 8]]]), from: 0, to: 100 };
    expect(drawText(drawSlices([part], BOX, CLASSES))).toEqual(["rect 200,14 10×16 useful", "rect 200,10 10×4 lock-wait"]);
  });
  it("leaves no gap where a slice goes on in the next tile", () => {
    const both = rows([[20, 80, 0]]);
    const drawn = drawSlices([{ rows: both, from: 0, to: 50 }, { rows: both, from: 50, to: 100 }], BOX, CLASSES);
    expect(drawText(drawn)).toEqual(["rect 220,10 30.6×20 useful", "rect 250,10 29×20 useful"]);
  });
  it("draws nothing outside the view, and strangers as unknown", () => {
    const part = { rows: rows([[-50, -10, 0], [-10, 10, 99], [100, 120, 0]]), from: -50, to: 200 };
    expect(drawText(drawSlices([part], BOX, CLASSES))).toEqual(["rect 200,10 9×20 unknown"]);
  });
  it("tells who had a CPU", () => {
    const part = { rows: { cpu: 0, complete: true, start: [0, 40], end: [40, 80], thread: [1, 9], mix: [null, null] }, from: 0, to: 100 };
    expect(drawText(drawCpu([part], BOX, (thread) => thread === 1, (thread) => `t${thread}`))).toEqual([
      "rect 200,10 39×20 useful", "text 204,20 t1", "rect 240,10 39×20 muted", "text 244,20 t9",
    ]);
  });
  it("tells who had a CPU longest", () => {
    const part = { rows: { cpu: 0, complete: true, start: [0, 40, 70], end: [40, 65, 90], thread: [1, 9, 9], mix: [null, null, null] }, from: 0, to: 100 };
    const main = (from: number, to: number) => mainOccupant([part], from, to).thread;
    expect([main(0, 100), main(0, 60), main(66, 69), mainOccupant([], 0, 9).thread]).toEqual([9, 1, -1, -1]);
  });
  it("tells for how long a CPU was busy, and of how long that is known", () => {
    const part = { rows: { cpu: 0, complete: false, start: [0, 40], end: [40, 80], thread: [1, -1], mix: [null, [9, 10, 10] as const] }, from: 0, to: 100 };
    expect(mainOccupant([part], 20, 120)).toEqual({ thread: -1, busy_ns: 40, known_ns: 80 });
    expect(mainOccupant([], 0, 9)).toEqual({ thread: -1, busy_ns: 0, known_ns: 0 });
  });
  it("says on a wide wait what it is", () => {
    const part = { rows: rows([[0, 80, 2], [80, 90, 2]]), from: 0, to: 100 };
    expect(drawText(drawSlices([part], BOX, CLASSES, () => "lock"))).toContain("text 206,20 lock");
    expect(drawSlices([part], BOX, CLASSES, () => "lock").length).toBe(3);
  });
  it("draws spans above the slices, a strip a depth, coloured by what they are", () => {
    const rows = {
      thread: 0, complete: true, start: [0, 70, 10, 0], end: [60, 90, 20, 60], name: [0, 1, -1, 0], depth: [0, 0, 1, 9], count: [1, 1, 4, 1],
      names: ["min\u0000or", "phase"], kinds: ["gc-work", "user"] as const,
    };
    expect(drawText(drawSpans([{ rows, from: 0, to: 100 }], BOX))).toEqual([
      "rect 200,10 59×9 gc-work", "text 203,14.5 min\\0or", "rect 270,10 19×9 accent", "rect 210,20 9×9 muted",
    ]);
  });
  it("draws no two sample ticks on one pixel", () => {
    const part = { rows: { thread: 0, every: 1, at: [1, 1.5, 30], kernel: [0, 0, 1], leaf: [0, 0, 0] }, from: 0, to: 100 };
    expect(drawText(drawSamples([part], BOX))).toEqual(["rect 200.5,26 1×4 text", "rect 229.5,24 1×6 text"]);
  });
  it("finds the row of a moment", () => {
    const { start, end } = rows([[0, 10, 0], [20, 30, 0]]);
    expect([0, 9, 10, 15, 20, 29, 30].map((at) => rowIndexAt({ start, end }, at))).toEqual([0, 0, -1, -1, 1, 1, -1]);
    expect(firstEndingAfter([], 5)).toBe(0);
  });
});

function thread(id: number, process: number, target = true): Thread {
  return { id, tid: 100 + id, name: `t${id}`, process, target, start_ns: 0, end_ns: 1 };
}

const CHOICE = {
  processes: [], folded: new Set<number>(), full: new Set<string>(), others: false, counters: [], countersOpen: true, spanDepths: () => 0, cpus: [], cpuBelow: null, needed: new Set<number>(),
};

describe("rows", () => {
  const threads = [thread(3, 1), thread(1, 0), thread(2, 1), thread(9, 5, false)];
  it("keep the order of importance, by process, others folded", () => {
    const { rows: all, height } = layoutRows({ ...CHOICE, threads });
    expect(all.map((one) => `${one.kind} ${one.id}`)).toEqual(["process 1", "thread 3", "thread 2", "process 0", "thread 1", "group others"]);
    expect(height).toBe(3 * HEAD_H + 3 * LANE_H);
  });
  it("show the CPU that a thread waited for below it, and other programs' threads where they are needed", () => {
    const { rows: all } = layoutRows({ ...CHOICE, threads, cpuBelow: { thread: 2, cpu: 1 }, needed: new Set([9]), folded: new Set([0]) });
    expect(all.map((one) => `${one.kind} ${one.id}`)).toEqual(["process 1", "thread 3", "thread 2", "cpu 1", "process 0", "group others", "thread 9"]);
  });
  it("are few at first, of a process with thousands of threads", () => {
    const many = Array.from({ length: 5000 }, (_, id) => thread(id, 0));
    const { rows: all } = layoutRows({ ...CHOICE, threads: many, needed: new Set([4000]) });
    expect(all.length).toBe(FIRST_THREADS + 3);
    expect(all.at(-1)).toMatchObject({ kind: "more", open: false, threads: 5000 - FIRST_THREADS - 1, stem: "t*" });
    expect(layoutRows({ ...CHOICE, threads: many, full: new Set([moreId(0, "t*")]) }).rows.length).toBe(5002);
  });
  it("group threads by name behind the first ones, and open one group at a time", () => {
    const named = (id: number, name: string): Thread => ({ ...thread(id, 0), name });
    const pools = [["main", 1], ["worker-", 200], ["io-", 9], ["timer", 1], ["signals", 1]] as const;
    const many = pools.flatMap(([name, n], at) => Array.from({ length: n }, (_, i) => named(1000 * at + i, n > 1 ? `${name}${i}` : name)));
    const mores = (full: readonly string[]) => layoutRows({ ...CHOICE, threads: many, full: new Set(full) }).rows.flatMap((one) => (one.kind === "more" ? [`${one.stem} ${one.threads} ${one.open}`] : []));
    expect(mores([])).toEqual(["worker-* 194 false", "io-* 3 false"]);
    expect(mores([moreId(0, "io-*"), moreId(7, null)])).toEqual(["worker-* 194 false", "io-* 3 true"]);
    const { rows: open } = layoutRows({ ...CHOICE, threads: many, full: new Set([moreId(0, "io-*")]) });
    const at = open.findIndex((one) => one.kind === "more" && one.open);
    expect(open.slice(at + 1).map((one) => one.id)).toEqual([2006, 2007, 2008]);
    const shown = open.filter((one) => one.kind === "thread").map((one) => one.id);
    expect(shown.slice(0, 15)).toEqual([0, 1000, 1001, 1002, 1003, 1004, 1005, 2000, 2001, 2002, 2003, 2004, 2005, 3000, 4000]);
  });
  it("of CPUs are lower where there are many", () => {
    const cpus = (n: number) => layoutRows({ ...CHOICE, threads: [], cpus: Array.from({ length: n }, (_, cpu) => cpu) });
    expect(cpus(CPUS_AT_FULL_HEIGHT).height).toBe(HEAD_H + CPUS_AT_FULL_HEIGHT * LANE_H);
    expect(cpus(64).height).toBe(HEAD_H + 64 * LOW_CPU_H);
    const part = { rows: { cpu: 0, complete: true, start: [0], end: [100], thread: [7], mix: [null] }, from: 0, to: 100 };
    const [, text] = drawCpu([part], { ...BOX, h: LOW_CPU_H - 3 }, () => true, () => "worker-7");
    expect(text).toMatchObject({ op: "text", text: "worker-7", small: true });
  });
  it("have a limited number of groups, however many names there are", () => {
    const many = Array.from({ length: 500 }, (_, id): Thread => ({ ...thread(id, 0), name: `${"abcdefghijklmnopqrstuvwxyz"[id % 26]}${id}` }));
    const all = layoutRows({ ...CHOICE, threads: many }).rows.filter((one) => one.kind === "more");
    expect(all.length).toBe(NAME_GROUPS + 1);
    expect(all.reduce((sum, one) => sum + one.threads, 0)).toBe(500 - FIRST_THREADS);
  });
  it("keep a runtime's counters out of the threads' way until asked for", () => {
    const kinds = (countersOpen: boolean) => layoutRows({ ...CHOICE, threads: threads.slice(0, 1), counters: ["heap", "live"], countersOpen }).rows.map((one) => one.kind);
    expect(kinds(false)).toEqual(["process", "thread", "group"]);
    expect(kinds(true)).toEqual(["process", "thread", "group", "counter", "counter"]);
  });
  it("are higher where a thread has spans", () => {
    const { rows: all } = layoutRows({ ...CHOICE, threads, spanDepths: (id) => (id === 3 ? 2 : id === 2 ? 9 : 0) });
    expect(all.filter((one) => one.kind === "thread").map((one) => one.h - LANE_H)).toEqual([20, 30, 0]);
  });
  it("are found by height", () => {
    const { rows: all, height } = layoutRows({ ...CHOICE, threads });
    for (let y = 0; y < height; y += 1) expect(rowAt(all, y)).toBe(all.find((one) => y >= one.y && y < one.y + one.h));
    expect([rowAt(all, -1), rowAt(all, height)]).toEqual([null, null]);
    expect(rowsBetween(all, HEAD_H, HEAD_H + 1)).toEqual([all[1]]);
    expect(layoutRows({ ...CHOICE, threads: [] })).toEqual({ rows: [], height: 0 });
  });
});

describe("a flame graph", () => {
  const tree = growTree(flame("on-cpu"));
  it("turned around has the functions' own times at its roots", () => {
    // main;work 6, main 4: what a node above a root has of its own is time of stacks that began there.
    const down = { ...tree.flame, total_ns: 10, names: ["main", "work"], name: [0, 1], parent: [-1, 0], ns: [10, 6], own_ns: [4, 6] };
    const up = { ...down, name: [1, 0, 0], parent: [-1, 0, -1], ns: [6, 6, 4], own_ns: [0, 6, 4] };
    expect(ownTimes(down, false)).toEqual([[1, 6], [0, 4]]);
    expect(ownTimes(up, true)).toEqual(ownTimes(down, false));
  });
  it("fills the width, the widest call first", () => {
    const boxes = layoutFlame(tree, 1000, null);
    const at = (node: number) => boxes.find((one) => one.node === node);
    expect([at(0)?.w, at(1)?.w, at(2)?.w, at(3)?.x, at(4)?.x]).toEqual([1000, 800, 400, 400, 800]);
  });
  it("zooms into a call and keeps its callers above it", () => {
    const boxes = layoutFlame(tree, 1000, 2);
    expect(boxes.map((one) => [one.node, one.w, one.depth])).toEqual([[0, 1000, 0], [1, 1000, 1], [2, 1000, 2]]);
  });
  it("shows names as text, escaped", () => {
    const drawn = composeFlame(tree, layoutFlame(tree, 1000, null), { search: "hash", hovered: null, upward: false, height: 100 });
    expect(drawText(drawn)).toContain("text 404,47 <img src=x onerror=alert(1)>\\e[31m\\u{202e}evil");
    expect(HOSTILE).toContain("\u001b");
  });
  it("compared with another has the colours of the change, and none of the classes", () => {
    const compared = growTree({ ...tree.flame, before_ns: [6e8, 8e8, 0, 1e8, 3e8], before_total_ns: 6e8 });
    expect(changesOf(compared.flame)).toEqual([1, 0, 1, 0, -0.5]);
    const look = { search: "", hovered: null, upward: false, height: 100 };
    const rects = drawText(composeFlame(compared, layoutFlame(compared, 1000, null), look)).filter((one) => one.startsWith("rect"));
    expect(rects.map((one) => one.split(" ").slice(3).join(" ")).sort()).toEqual(["change -0.5", "change 0", "change 0", "change 1", "change 1"]);
    expect(changesOf(tree.flame)).toBeNull();
  });
  it("counts found calls once", () => {
    expect(foundShare(tree.flame, "COUNT")).toBe(0.8);
    expect(foundShare(tree.flame, "a")).toBe(1);
    expect(foundShare(tree.flame, "")).toBe(0);
  });
  it("outlives a tree that contradicts itself", () => {
    const odd = { ...flame("x"), parent: [3, 0, 99, -7, 4] };
    expect(layoutFlame(growTree(odd), 500, null).length).toBeGreaterThan(0);
  });
});

it("the ledger keeps the order of reports, wherever a class stands in the list", () => {
  const { ledger, classes } = summary(synthetic());
  const turned = classes.map((one, at) => ({ ...one, rank: -at }));
  expect(sharesOf(ledger, turned).map((one) => one.name)).toEqual(sharesOf(ledger, classes).map((one) => one.name).reverse());
});

it("the ledger's bar shows every class that has any time", () => {
  const { ledger, classes } = summary(synthetic());
  const small = { ...ledger, classes: ledger.classes.map((ns, at) => (at === 3 ? 1 : ns)) };
  const drawn = composeLedger(sharesOf(small, classes), { width: 500, height: 18 });
  expect(drawn.length - 1).toBe(small.classes.filter((ns) => ns > 0).length);
  const last = drawn.at(-1);
  expect(last?.op === "rect" ? last.x + last.w : 0).toBeCloseTo(500);
});
