// Findings, why, addresses, tables and files without a server, with no page at all.

import { describe, expect, it } from "vitest";
import { type Bundle, BundleSource } from "../src/api/bundle";
import { bareSlice } from "../src/api/from_rows";
import type { Source } from "../src/api/source";
import { asTsv, chosenRows } from "../src/model/cells";
import { formatAddress } from "../src/model/address";
import { readListing } from "../src/model/listing";
import { Catalogue } from "../src/model/threads";
import { SAMPLE_SPAN_NS } from "../src/model/view";
import { Viewer } from "../src/model/viewer";
import { type Recording, bundle, slice, summary, synthetic, table } from "./synthetic.mjs";

const RECORDING = synthetic();
const rest = (): Promise<void> => new Promise((done) => setTimeout(done, 0));

function viewerOf(recording: Recording): Viewer {
  const source: Partial<Source> = {
    slice: (ask) => {
      const found = slice(recording, ask.thread, ask);
      return found ? Promise.resolve(found) : Promise.reject(new Error("no such slice"));
    },
  };
  return new Viewer(source as Source, new Catalogue(summary(recording)), "light");
}

/** A lane of one slice, under the number that it has among those of all threads. */
function laneOf(thread: number, row: number) {
  const [start, end, index, cpu] = RECORDING.lives[thread]?.[row] ?? [0, 0, 0, 0];
  return { thread, complete: true, start: [start], end: [end], class: [index], row: [row + 1000], cpu: [cpu], mix: [null] };
}

describe("findings", () => {
  it("move the timeline to their worst place and choose its slice", async () => {
    const viewer = viewerOf(RECORDING);
    viewer.openFinding(0);
    await rest();
    const place = viewer.catalogue.summary.findings[0]?.evidence[0];
    const { view, picked } = viewer.state;
    expect(picked?.slice).toMatchObject({ thread: place?.thread, start_ns: place?.start_ns });
    expect((place?.duration_ns ?? 0) / (view.to - view.from)).toBeCloseTo(1 / 3);
  });
  it("show what lies around a sample, which is a moment", async () => {
    const told = summary(RECORDING);
    const [first] = told.findings;
    const place = first?.evidence[0];
    if (!first || !place) throw new Error("there is no finding");
    const sample = { ...place, table: "samples", start_ns: told.wall_ns / 2, duration_ns: 0, row: -1 };
    const viewer = new Viewer({} as Source, new Catalogue({ ...told, findings: [{ ...first, evidence: [sample] }] }), "light");
    viewer.openFinding(0);
    await rest();
    const { view } = viewer.state;
    expect(view.to - view.from).toBeCloseTo(3 * SAMPLE_SPAN_NS);
    expect((view.to + view.from) / 2).toBeCloseTo(sample.start_ns);
  });
  it("are walked through, round and round", () => {
    const viewer = viewerOf(RECORDING);
    viewer.step(1);
    expect(viewer.state).toMatchObject({ finding: 0, occurrence: 0 });
    viewer.step(-1);
    expect(viewer.state.occurrence).toBe(4);
    viewer.step(1);
    expect(viewer.state.occurrence).toBe(0);
    viewer.stepFinding(1);
    expect(viewer.state).toMatchObject({ finding: 1, occurrence: 0 });
  });
});

describe("search results", () => {
  it("lead to the very finding, of several by one rule", () => {
    const told = summary(RECORDING);
    const [first] = told.findings;
    if (!first) throw new Error("there is no finding");
    const viewer = new Viewer({} as Source, new Catalogue({ ...told, findings: [first, { ...first, subject: "another lock", evidence: [] }] }), "light");
    const result = { kind: "finding", name: first.rule, detail: "another lock", thread: -1, start_ns: 0, end_ns: 1 } as const;
    viewer.openResult(result);
    expect(viewer.state.finding).toBe(1);
    viewer.closeFinding();
    viewer.openResult({ ...result, detail: "none of these" });
    expect(viewer.state.finding).toBeNull();
  });
});

describe("stacks", () => {
  it("are of the time in which the function was seen, and stay so when a slice is chosen", async () => {
    const viewer = viewerOf(RECORDING);
    viewer.openFunction("count_words", "off-cpu");
    viewer.lookAt({ reverse: true, alone: true });
    await viewer.pick({ thread: 1, row: 2 }, false);
    expect(viewer.state.stacks).toMatchObject({ kind: "off-cpu", reverse: true, alone: true });
    viewer.openFunction(null);
    expect(viewer.state).toMatchObject({ tab: "stacks", stacks: { kind: "off-cpu" } });
    const again = viewerOf(RECORDING);
    again.open(formatAddress(viewer.address()));
    await rest();
    expect(again.state.stacks).toEqual(viewer.state.stacks);
  });
});

describe("why", () => {
  it("leads to the holder and back", async () => {
    const viewer = viewerOf(RECORDING);
    viewer.openFinding(0);
    await rest();
    const first = viewer.state.picked?.slice;
    viewer.followFirst();
    await rest();
    expect(viewer.state.picked?.slice?.thread).not.toBe(first?.thread);
    viewer.goBack();
    await rest();
    expect(viewer.state.picked?.slice).toMatchObject({ thread: first?.thread, row: first?.row });
    expect(viewer.state.back).toEqual([]);
  });
  it("says what went wrong, where it did", async () => {
    const viewer = viewerOf(RECORDING);
    await viewer.pick({ thread: 0, row: 99_999_999 }, false);
    expect(viewer.state.picked?.failure).toBe("no such slice");
  });
  it("asks for nobody any more who was chosen before", async () => {
    const asked: (AbortSignal | undefined)[] = [];
    const source: Partial<Source> = { slice: (_, signal) => (asked.push(signal), new Promise(() => undefined)) };
    const viewer = new Viewer(source as Source, new Catalogue(summary(RECORDING)), "light");
    void viewer.pick({ thread: 0, row: 1 }, false);
    void viewer.pick({ thread: 0, row: 2 }, false);
    expect(asked.map((one) => one?.aborted)).toEqual([true, false]);
  });
  it("keeps the last answer asked for, not the last that came", async () => {
    const viewer = viewerOf(RECORDING);
    const slow = viewer.pick({ thread: 0, row: 1 }, false);
    await Promise.all([viewer.pick({ thread: 1, row: 2 }, false), slow]);
    expect(viewer.state.picked?.slice).toMatchObject({ thread: 1, row: 2 });
  });
});

describe("addresses", () => {
  it("restore what was shown", async () => {
    const viewer = viewerOf(RECORDING);
    viewer.openFinding(0, 2);
    viewer.select({ from: 1e8, to: 2e8 });
    viewer.openTab("threads");
    await rest();
    const again = viewerOf(RECORDING);
    again.open(formatAddress(viewer.address()));
    await rest();
    again.openTab("threads");
    expect(again.address().t).toEqual(viewer.address().t);
    expect(again.state.range).toEqual(viewer.state.range);
    expect(again.state.finding).toBe(0);
    expect(again.state.view.from).toBeCloseTo(viewer.state.view.from, -1);
  });
  it("restore which place of the finding is shown", async () => {
    const viewer = viewerOf(RECORDING);
    viewer.openFinding(0, 2);
    await rest();
    const address = formatAddress(viewer.address());
    const opened = (hash: string) => {
      const again = viewerOf(RECORDING);
      again.open(hash);
      return again;
    };
    expect(opened(address).state).toMatchObject({ finding: 0, occurrence: 2 });
    // An address without a place has that of its thread and moment, if there is one.
    expect(opened(address.replace("&place=3", "")).state.occurrence).toBe(2);
    expect(opened(address.replace("&place=3", "").replace(/t=[^&]*/, "t=0")).state.occurrence).toBe(0);
    expect(opened("finding=1&place=99").state.occurrence).toBe(0);
    expect(opened("finding=0").state.finding).toBeNull();
    expect(opened("finding=0&t=0.1").state.finding).toBeNull();
    // Another finding by the address has none of the places of the one before.
    viewer.open("finding=2&t=0.1");
    expect(viewer.state).toMatchObject({ finding: 1, occurrence: 0 });
  });
  it("that came before the findings are followed once there are some", async () => {
    const told = summary(RECORDING);
    const viewer = new Viewer({ slice: () => new Promise(() => undefined) } as Partial<Source> as Source, new Catalogue({ ...told, findings: [], pending: true }), "light");
    viewer.open("finding=1&place=3&t=0.1&thread=0");
    viewer.adopt(new Catalogue(told));
    expect(viewer.state).toMatchObject({ finding: 0, occurrence: 2 });
  });
  it("that name what is not there do no harm", async () => {
    const viewer = viewerOf(RECORDING);
    for (const hash of ["#thread=999", "#t=99999&thread=3", "#finding=77", "#t=0.1&thread=888", "#tab=nonsense"]) viewer.open(hash);
    await rest();
    expect(viewer.state.view.to).toBeLessThanOrEqual(RECORDING.wall);
    expect(viewer.state.finding).toBeNull();
  });
});

describe("tables", () => {
  const catalogue = new Catalogue(summary(RECORDING));
  const threads = table(RECORDING, "threads");
  it("filter by words and sort by columns, both ways, unknown last", () => {
    expect(chosenRows(catalogue, threads, { words: "WORKER 1001", range: null }, { column: null, descending: true })).toEqual([1]);
    const by = (descending: boolean): number[] => chosenRows(catalogue, threads, { words: "", range: null }, { column: 1, descending });
    expect(by(true)).toEqual([...by(false)].reverse());
    const holes = { ...threads, rows: threads.rows.map((row, at) => (at === 0 ? [row[0] ?? null, null, null] : row)) };
    expect(chosenRows(catalogue, holes, { words: "", range: null }, { column: 1, descending: true }).at(-1)).toBe(0);
    expect(chosenRows(catalogue, holes, { words: "", range: null }, { column: 1, descending: false }).at(-1)).toBe(0);
  });
  it("narrow to the rows that have a place in a range", () => {
    const places = threads.rows.map((_, at) => (at === 0 ? null : { thread: at, start_ns: at * 100, end_ns: at * 100 + 100 }));
    const inRange = (from: number, to: number) => chosenRows(catalogue, { ...threads, places }, { words: "", range: { from, to } }, { column: null, descending: true });
    expect([inRange(0, 100), inRange(150, 250), inRange(299, 300)]).toEqual([[], [1, 2], [2]]);
  });
  it("are copied as plain numbers, one line a row whatever the names hold", () => {
    const lines = asTsv(catalogue, threads, [0, 3]).split("\n");
    expect(lines.length).toBe(4);
    expect(lines[0]).toBe("thread\tuseful_ns\tshare");
    expect(lines[2]).toMatch(/^<img src=x onerror=alert\(1\)>\\e\[31m\\u\{202e\}evil \(1003\) of words\t\d+\t0\.\d+$/);
  });
});

describe("a file with the answers inside", () => {
  const held = bundle(RECORDING);
  const source = new BundleSource(held);
  it("has a ledger of a range that sums to the threads' time in it", async () => {
    const { total_ns, classes } = await source.ledger({ from: 3e8, to: 7e8 }, []);
    expect(total_ns / (4 * 4e8)).toBeCloseTo(1, 3);
    expect(classes.reduce((all, ns) => all + ns, 0)).toBe(total_ns);
    const whole = await source.ledger({ from: 0, to: RECORDING.wall }, []);
    whole.classes.forEach((ns, at) => expect(Math.abs(ns - (held.summary.ledger.classes[at] ?? 0))).toBeLessThan(whole.total_ns / 1000));
  });
  it("splits what ran as the thread's whole life, whatever colour its slices have, and says so", async () => {
    const told = held.summary;
    const useful = told.classes.findIndex((one) => one.name === "useful");
    const kernel = told.classes.findIndex((one) => one.name === "kernel");
    const [queue, lock] = [13, 2];
    const classes = told.classes.map((_, at) => (at === useful ? 30 : at === kernel ? 10 : at === queue ? 40 : at === lock ? 20 : 0));
    // All that ran has the colour of useful work, and ten of it the colour of a wait.
    const lane = { thread: 0, complete: true, start: [0, 30, 70, 90], end: [30, 70, 90, 100], class: [useful, queue, lock, lock], row: [0, 1, 2, 3], cpu: [0, 0, -1, 0], mix: [null, null, null, null] };
    const [thread] = told.threads;
    if (!thread) throw new Error("there is no thread");
    const own = { ...thread, start_ns: 0, end_ns: 100, classes };
    const small = { api: 1, summary: { ...told, wall_ns: 100, threads: [own, { ...own, id: 1 }], zoom: { base_ns: 128, cells: 512, level_max: 0 } }, "lanes/0/0/0": lane } as Bundle;
    const source = new BundleSource(small);
    const whole = await source.ledger({ from: 0, to: 100 }, []);
    expect(whole.classes).toEqual(classes);
    expect(whole).toMatchObject({ total_ns: 100, split_known: false, note: "1 of 2 threads, running time is split as in the whole run" });
    const part = await source.ledger({ from: 0, to: 40 }, []);
    expect([useful, kernel, queue].map((at) => part.classes[at])).toEqual([23, 8, 10]);
  });
  it("says where a thread's slices begin and end", () => {
    const { lives } = RECORDING;
    const bare = (row: number) => bareSlice({ api: 1, summary: held.summary, "lanes/1/9/0": laneOf(1, row) } as Bundle, 1, row + 1000);
    const last = (lives[1]?.length ?? 0) - 1;
    expect([bare(0)?.previous, bare(0)?.next]).toEqual([-1, 1001]);
    expect([bare(last)?.previous, bare(last)?.next]).toEqual([last + 999, -1]);
  });
  it("tells of the slices that findings name, and says so where it cannot", async () => {
    const place = held.summary.findings[0]?.evidence[0];
    await expect(source.slice({ thread: place?.thread ?? 0, at: (place?.start_ns ?? 0) + 10 })).resolves.toMatchObject({ start_ns: place?.start_ns });
    await expect(source.slice({ thread: 0, row: 999_999 })).rejects.toThrow("not in this file: open the recording with `holdup view`");
    await expect(source.table("constructor")).rejects.toThrow("not in this file");
    await expect(source.flame({ kind: "on-cpu", threads: [1] })).rejects.toThrow("not in this file");
  });
  it("has what is counted of the whole, and none of what it has not", async () => {
    await expect(source.counters({ level: 0, tile: 0 })).resolves.not.toBeNull();
    await expect(source.counters({ level: 40, tile: 1 })).resolves.toBeNull();
  });
  it("is searched by the page itself", async () => {
    const found = await source.search("WORKER");
    expect(found.map((one) => one.name)).toEqual(["worker 1", "worker 2"]);
    expect((await source.search("count_")).map((one) => one.kind)).toEqual(["function"]);
    expect(await source.search("0x7f")).toMatchObject([{ kind: "finding" }, { kind: "lock", name: "futex 0x7f00", detail: "1\u202f200 waits" }]);
    expect((await source.search("1002")).map((one) => [one.kind, one.thread])).toEqual([["thread", 2]]);
    const [span, ...others] = await source.search("REQUEST");
    expect(others).toEqual([]);
    expect(span).toMatchObject({ kind: "span", name: "request", thread: 1 });
    expect((span?.end_ns ?? 0) - (span?.start_ns ?? 0)).toBeCloseTo((RECORDING.wall / 20) * 0.8, -1);
  });
});

it("a listing of another form is refused with a sentence", () => {
  expect(() => readListing({ rows: [] })).toThrow("an unknown format");
  expect(readListing({ function: "f", instructions: [{ address: 1, text: "nop" }, null, 7] }).lines.length).toBe(1);
});

it("of an interpreted function the listing is lines", () => {
  expect(readListing({ module: "/bin/app", instructions: [] }).unit).toBe("instruction");
  const lines = readListing({ module: "[python]", instructions: [{ address: 7, text: "  f()", own_ns: 0, below_ns: 9, file: "a.py", line: 7 }] });
  expect([lines.unit, lines.lines[0]?.below_ns]).toEqual(["line", 9]);
});
