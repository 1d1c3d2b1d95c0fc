// The whole timeline as commands.

import { describe, expect, it } from "vitest";
import { type TimelineInput, LABEL_W, PINNED_H, composeTimeline, ownCounters } from "../src/layout/timeline";
import { layoutRows } from "../src/layout/rows";
import { Catalogue } from "../src/model/threads";
import { labelOf } from "../src/panels/labels";
import { drawText } from "./draw_text";
import { type Recording, counters, lane, slice, summary, synthetic } from "./synthetic.mjs";

function inputOf(recording: Recording): TimelineInput {
  const facts = summary(recording);
  const catalogue = new Catalogue(facts);
  const { rows } = layoutRows({
    threads: facts.threads, processes: facts.processes, folded: new Set(), full: new Set(), others: false, counters: [], countersOpen: true, spanDepths: () => 0, cpus: [], cpuBelow: null, needed: new Set(),
  });
  const whole = { from: 0, to: recording.wall };
  const tile = counters(recording, 0, 0);
  const counter = { from: 0, to: recording.wall, cell_ns: tile.cell_ns, series: tile.series };
  return {
    size: { width: LABEL_W + 1000, height: 400, scroll: 0 }, view: whole, whole, rows, classNames: catalogue.classNames,
    label: (row) => labelOf(catalogue, row, facts.findings[0]), threadName: (id) => catalogue.threadName(id), isTarget: () => true,
    classKinds: facts.classes.map((one) => one.kind),
    slices: (thread) => [{ rows: lane(recording, thread, 0, 0), from: 0, to: recording.zoom.base_ns }], cpus: () => [], spans: () => [], samples: () => [],
    counters: [counter], overview: [counter], cpuCount: 2, range: null, picked: null, wakeups: null, lit: [], current: 0, losses: [], path: null, pointer: null,
  };
}

const recording = synthetic();
const input = inputOf(recording);

describe("the timeline", () => {
  it("names its lanes, hostile names escaped", () => {
    const text = drawText(composeTimeline(input)).join("\n");
    for (const name of ["▾ words (pid 1000), 4 threads", "worker 1", "<img src=x onerror=alert(1)>\\e[31m\\u{202e}evil", "▸ other programs on this machine, 1 thread"]) {
      expect(text).toContain(name);
    }
  });
  it("draws no more than a few rectangles a pixel, however long the recording is", () => {
    const long = inputOf(synthetic({ threads: 3, wall: 4e9, mean: 20_000 }));
    const rects = composeTimeline(long).filter((one) => one.op === "rect").length;
    expect(rects).toBeLessThan(3 * 1000 * 6);
  });
  it("ends every clip that it begins", () => {
    for (const path of [null, { start: [0], end: [1e8], thread: [1], class: [0], classes: [1e8] }]) {
      const drawn = composeTimeline({ ...input, path, range: { from: 1e8, to: 2e8 } });
      expect(drawn.filter((one) => one.op === "clip").length).toBe(drawn.filter((one) => one.op === "unclip").length);
    }
  });
  it("draws an arrow from the waker's lane to the wakee's", () => {
    const drawn = composeTimeline({ ...input, wakeups: { left_out: 0, at: [1e9], waker: [1], wakee: [0], cpu: [0], context: [0] } });
    expect(drawText(drawn)).toContain("arrow 690,133 → 690,130");
  });
  it("draws a short arrow where no thread woke it, and none to lanes that are not there", () => {
    const drawn = composeTimeline({ ...input, wakeups: { left_out: 0, at: [1e9, 1e9], waker: [-1, 0], wakee: [0, 77], cpu: [0, 0], context: [1, 0] } });
    expect(drawText(drawn).filter((one) => one.startsWith("arrow"))).toEqual(["arrow 690,99 → 690,109"]);
  });
  it("frames the chosen slice and lights the places of a finding", () => {
    const picked = slice(recording, 1, { row: 3 });
    const lit = [{ thread: 1, from: 5e8, to: 6e8 }, { thread: 99, from: 0, to: 1 }];
    const frames = drawText(composeTimeline({ ...input, picked, lit })).filter((one) => one.startsWith("frame") && !one.includes("accent"));
    expect(frames.filter((one) => one.endsWith("mark")).length).toBe(1);
    expect(frames.filter((one) => one.endsWith("text")).length).toBe(1);
  });
  it("draws a runtime's counters in rows of their own", () => {
    const heap = { from: 0, to: 2e9, cell_ns: 1e9, series: [{ name: "heap", unit: "bytes", values: [5, 10] }, ...(input.overview[0]?.series ?? [])] };
    expect(ownCounters([heap])).toEqual(["heap"]);
    const { rows } = layoutRows({
      threads: [], processes: [], folded: new Set(), full: new Set(), others: false, counters: ["heap"], countersOpen: true, spanDepths: () => 0, cpus: [], cpuBelow: null, needed: new Set(),
    });
    const drawn = drawText(composeTimeline({ ...input, rows, counters: [heap], overview: [heap] }));
    expect(drawn).toContain("area 190 140 190 124.5 690 124.5 690 109 1190 109 1190 140 good");
  });
  it("has nothing to draw for no threads, and says nothing wrong", () => {
    const empty = inputOf(synthetic({ threads: 0 }));
    const lanes = composeTimeline(empty).filter((one) => one.op === "rect" && one.y > PINNED_H);
    expect(lanes).toEqual([]);
  });
});

describe("what is said of CPUs", () => {
  it("says who had the CPU that a thread waited for, where somebody had", () => {
    const [useful, queue] = [0, 13];
    // It ran on CPU 1, waited from 100 to 900, and ran on CPU 0 next.
    const rows = { thread: 1, complete: true, start: [0, 100], end: [100, 900], class: [useful, queue], row: [7, 8], cpu: [1, 0], mix: [null, null] };
    const ran = (cpu: number, end: number, thread: number) => [{ rows: { cpu, complete: true, start: [100], end: [end], thread: [thread], mix: [null] }, from: 0, to: 1000 }];
    const said = (zero: number, one: number, picked: TimelineInput["picked"] = null): string[] => {
      const [from, to] = [0, 1000];
      const drawn = composeTimeline({
        ...input, view: { from, to }, whole: { from, to }, counters: [], overview: [], picked,
        slices: (thread) => (thread === 1 ? [{ rows, from, to }] : []),
        cpus: (cpu) => (cpu === 0 ? ran(0, zero, 2) : ran(1, one, 3)),
      });
      return drawText(drawn).filter((text) => /^text .*(had CPU|run-queue$)/.test(text)).map((text) => text.replace(/^.*? .*? /, ""));
    };
    const named = (thread: number): string => drawText([{ op: "text", x: 0, y: 0, text: input.threadName(thread, 500), ink: "text", width: 1 }])[0]?.slice(9) ?? "";
    expect(said(800, 300)).toEqual([`${named(2)} had CPU 0`]);
    expect(said(300, 800)).toEqual([`${named(3)} had CPU 1`]);
    expect(said(300, 200)).toEqual(["run-queue"]);
    const picked = slice(recording, 1, { row: 3 });
    expect(picked && said(800, 600, { ...picked, row: 8, occupied_cpu: 1 })).toEqual([`${named(3)} had CPU 1`]);
  });
  it("shows the whole run in full where more ran than there are CPUs for the program", () => {
    const part = { from: 0, to: 2e9, cell_ns: 1e9, series: [{ name: "running", unit: "threads", values: [4, 2] }] };
    const drawn = drawText(composeTimeline({ ...input, cpuCount: 1, counters: [], overview: [part] }));
    expect(drawn).toContain("area 190 20 190 2 690 2 690 11 1190 11 1190 20 good");
  });
});
