// Findings, why, addresses, tables and files without a server, with no page at all.

import { describe, expect, it } from "vitest";
import { BundleSource } from "../src/api/bundle";
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
    const [span, ...others] = await source.search("REQUEST");
    expect(others).toEqual([]);
    expect(span).toMatchObject({ kind: "span", name: "request", thread: 1 });
    expect((span?.end_ns ?? 0) - (span?.start_ns ?? 0)).toBeCloseTo((RECORDING.wall / 20) * 0.8, -1);
  });
});

it("a listing of another form is refused with a sentence", () => {
  expect(() => readListing({ rows: [] })).toThrow("a form that this page does not know");
  expect(readListing({ function: "f", instructions: [{ address: 1, text: "nop" }, null, 7] }).lines.length).toBe(1);
});

it("of an interpreted function the listing is lines", () => {
  expect(readListing({ module: "/bin/app", instructions: [] }).unit).toBe("instruction");
  const lines = readListing({ module: "[python]", instructions: [{ address: 7, text: "  f()", own_ns: 0, below_ns: 9, file: "a.py", line: 7 }] });
  expect([lines.unit, lines.lines[0]?.below_ns]).toEqual(["line", 9]);
});
