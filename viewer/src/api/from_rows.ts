// What a page without a server works out by itself from the rows that it has: a range's ledger, wakeups, a search. Pure.

import type { Range } from "../model/view";
import { count, duration } from "../model/time";
import { type Bundle, allHeld, held } from "./bundle";
import type { NamedSpans } from "./source";
import type { Flame, LaneRows, RangeLedger, SearchResult, SliceAnswer, Summary, Table, Thread, ThreadId, Wakeups } from "./types";

const RESULTS_OF_A_KIND = 20;

/**
 * The ledger of a range, from the deepest rows of each lane. Merged rows count by their shares. The colour of
 * a running row is that of most samples in it. The amount of running time is exact. Its classes are taken
 * from the thread's whole life.
 */
export function rangeLedger(bundle: Bundle, range: Range, threads: readonly ThreadId[]): RangeLedger {
  const { summary } = bundle;
  const asked = new Set(threads);
  const wanted = summary.threads.filter((one) => one.target && (asked.size === 0 || asked.has(one.id)) && one.start_ns < range.to && one.end_ns > range.from);
  const of = wanted.filter((one) => hasLane(bundle, one.id));
  const sum = (lists: readonly (readonly number[])[]): number[] => summary.classes.map((_, at) => lists.reduce((all, one) => all + (one[at] ?? 0), 0));
  const each = of.map((one) => ({ id: one.id, classes: splitAsInAll(summary, one, threadLedger(bundle, one.id, range), wholeLane(bundle, one.id)) }));
  const classes = sum(each.map((one) => one.classes)).map(Math.round);
  const total_ns = classes.reduce((all, ns) => all + ns, 0);
  const lost = (list: readonly number[]): number => list.reduce((all, ns, at) => (summary.classes[at]?.kind === "running" ? all : all + ns), 0);
  each.sort((a, b) => lost(b.classes) - lost(a.classes) || a.id - b.id);
  return {
    total_ns, classes, threads: each.slice(0, 50), split_error_ns: null, split_known: false, samples: null, run_queue: null,
    note: [
      of.length < wanted.length ? `${count(of.length)} of ${count(wanted.length)} threads` : "",
      summary.ledger.split_known ? "running time is split as in the whole run" : "",
    ].filter((one) => one !== "").join(", "),
  };
}

/** A lane that is there at all is there as a whole, at the coarsest level. */
function hasLane(bundle: Bundle, thread: ThreadId): boolean {
  return held(bundle, "lanes", thread, 0, 0) !== null;
}

/** A lane's colours in all of the run, as far as the file has them. */
function wholeLane(bundle: Bundle, thread: ThreadId): number[] {
  const classes = bundle.summary.classes.map(() => 0);
  const rows = held<LaneRows>(bundle, "lanes", thread, 0, 0);
  if (rows) addRows(classes, rows, 0, bundle.summary.wall_ns);
  return classes;
}

/**
 * Converts colours of a part of a lane to figures: its running time, split as in the thread's whole life. A
 * running slice may have the colour of a wait, if a runtime reported a wait. For each such colour, the lane's
 * time minus the thread's wait time is taken as running time.
 */
function splitAsInAll(summary: Summary, thread: Thread, part: readonly number[], lane: readonly number[]): number[] {
  const told = thread.classes;
  const ran = summary.classes.map(({ kind }) => kind === "running" || kind === "stolen");
  const weight = told?.reduce((all, ns, at) => (ran[at] ? all + ns : all), 0) ?? 0;
  if (!told || weight <= 0) return [...part];
  const awake = part.map((ns, at) => {
    const [all, waited] = [lane[at] ?? 0, told[at] ?? 0];
    if (ran[at]) return ns;
    return summary.classes[at]?.kind === "wait" && all > waited ? ns * (1 - waited / all) : 0;
  });
  const running = awake.reduce((all, ns) => all + ns, 0);
  return part.map((ns, at) => ns - (awake[at] ?? 0) + (ran[at] ? (running * (told[at] ?? 0)) / weight : 0));
}

/** One thread's time in a range, by class. Each moment comes from the deepest tile that is there. */
function threadLedger(bundle: Bundle, thread: ThreadId, range: Range): number[] {
  const classes = bundle.summary.classes.map(() => 0);
  const { zoom } = bundle.summary;
  const visit = (level: number, tile: number, rows: LaneRows | null, from: number): void => {
    const length = zoom.base_ns / 2 ** level;
    const [start, end] = [tile * length, (tile + 1) * length];
    if (end <= range.from || start >= range.to) return;
    const own = held<LaneRows>(bundle, "lanes", thread, level, tile);
    const best = own ?? rows;
    if (level < zoom.level_max && (own !== null || hasBelow(bundle, thread, level, tile)) && !(own?.complete ?? false)) {
      visit(level + 1, tile * 2, best, from);
      visit(level + 1, tile * 2 + 1, best, from);
      return;
    }
    if (best) addRows(classes, best, Math.max(start, range.from), Math.min(end, range.to));
  };
  visit(0, 0, null, 0);
  return classes;
}

/** The level below has a tile in this place. */
function hasBelow(bundle: Bundle, thread: ThreadId, level: number, tile: number): boolean {
  return [0, 1].some((half) => held(bundle, "lanes", thread, level + 1, tile * 2 + half) !== null);
}

function addRows(classes: number[], rows: LaneRows, from: number, to: number): void {
  rows.start.forEach((start, at) => {
    const end = rows.end[at] ?? start;
    const inside = Math.min(end, to) - Math.max(start, from);
    if (inside <= 0) return;
    const mix = rows.mix[at];
    const share = end > start ? inside / (end - start) : 0;
    if (!mix) {
      const index = rows.class[at] ?? -1;
      if (index in classes) classes[index] = (classes[index] ?? 0) + inside;
      return;
    }
    for (let pair = 1; pair + 1 < mix.length; pair += 2) {
      const index = mix[pair] ?? -1;
      if (index in classes) classes[index] = (classes[index] ?? 0) + (mix[pair + 1] ?? 0) * share;
    }
  });
}

const CONTEXTS: Readonly<Record<string, number>> = { thread: 0, timer: 1, "soft-irq": 2, irq: 3 };

/** Wakeups of or by these threads, from the file's slices. */
export function wakeupsOf(slices: readonly SliceAnswer[], range: Range, threads: readonly ThreadId[]): Wakeups {
  const asked = new Set(threads);
  const found = slices
    .filter(({ waker, thread }) => waker && waker.at_ns >= range.from && waker.at_ns <= range.to && (asked.has(thread) || asked.has(waker.thread)))
    .sort((a, b) => (a.waker?.at_ns ?? 0) - (b.waker?.at_ns ?? 0));
  return {
    left_out: 0,
    at: found.map((one) => one.waker?.at_ns ?? 0),
    waker: found.map((one) => one.waker?.thread ?? -1),
    wakee: found.map((one) => one.thread),
    cpu: found.map((one) => one.waker?.cpu ?? -1),
    context: found.map((one) => CONTEXTS[one.waker?.context ?? "thread"] ?? 0),
  };
}

/** Findings, threads, functions, spans, processes and locks whose name holds the text, in the order of the server. */
export function searchSummary(bundle: Bundle, text: string): SearchResult[] {
  const { summary } = bundle;
  const needle = text.toLowerCase();
  const holds = (name: string): boolean => name.toLowerCase().includes(needle);
  const whole = { start_ns: 0, end_ns: summary.wall_ns };
  const names = [...new Set(allHeld<Flame>(bundle, "flames").flatMap((flame) => flame.names))];
  const lists: SearchResult[][] = [
    summary.findings.filter((one) => holds(one.rule) || holds(one.subject)).map((one) => ({
      kind: "finding", name: one.rule, detail: one.subject, thread: one.evidence[0]?.thread ?? -1, ...whole,
    })),
    summary.threads.filter((one) => holds(one.name) || holds(String(one.tid))).map((one) => ({
      kind: "thread", name: one.name, detail: `tid ${one.tid}`, thread: one.id, start_ns: one.start_ns, end_ns: one.end_ns,
    })),
    names.filter(holds).map((name) => ({ kind: "function", name, detail: "", thread: -1, ...whole })),
    longestSpans(bundle, holds),
    summary.processes.filter((one) => holds(one.name)).map((one) => ({ kind: "process", name: one.name, detail: `pid ${one.pid}`, thread: -1, ...whole })),
    locksOf(bundle).filter((one) => holds(one.name)).map((one) => ({ kind: "lock", name: one.name, detail: one.detail, thread: -1, ...whole })),
  ];
  return lists.flatMap((list) => list.slice(0, RESULTS_OF_A_KIND));
}

/** The locks that the file's table names. */
function locksOf(bundle: Bundle): { name: string; detail: string }[] {
  const table = held<Table>(bundle, "tables", "locks");
  if (!table) return [];
  const column = (name: string): number => table.columns.findIndex((one) => one.name === name);
  const [named, waits] = [column("name"), column("waits")];
  return table.rows.map((row) => {
    const times = row[waits];
    return { name: String(row[named] ?? ""), detail: typeof times === "number" ? `${count(times)} waits` : "" };
  });
}

/** The longest span of each name in the file. Merged spans have no name. */
function longestSpans(bundle: Bundle, holds: (name: string) => boolean): SearchResult[] {
  const longest = new Map<string, SearchResult>();
  for (const { names, lanes } of allHeld<NamedSpans>(bundle, "spans")) {
    if (!names.some(holds)) continue;
    for (const { thread, start, end, name: of } of lanes) {
      of.forEach((index, at) => {
        const name = names[index];
        if (name === undefined || !holds(name)) return;
        const [start_ns, end_ns] = [start[at] ?? 0, end[at] ?? 0];
        const known = longest.get(name);
        if (known && known.end_ns - known.start_ns >= end_ns - start_ns) return;
        longest.set(name, { kind: "span", name, detail: `the longest in this file ${duration(end_ns - start_ns)}`, thread, start_ns, end_ns });
      });
    }
  }
  return [...longest.values()].sort((a, b) => b.end_ns - b.start_ns - (a.end_ns - a.start_ns) || (a.name < b.name ? -1 : 1));
}

/** A slice of which the file has the times and the class only, from the lanes' rows. */
export function bareSlice(bundle: Bundle, thread: ThreadId, row: number): SliceAnswer | null {
  for (const [name, value] of Object.entries(bundle)) {
    if (!name.startsWith(`lanes/${thread}/`)) continue;
    const rows = value as LaneRows;
    const at = rows.row.indexOf(row);
    if (at < 0) continue;
    const index = rows.class[at] ?? -1;
    const kind = bundle.summary.classes[index]?.kind;
    const [start_ns, end_ns] = [rows.start[at] ?? 0, rows.end[at] ?? 0];
    // Rows of all threads lie in one list: the one before a thread's first is another's.
    const life = bundle.summary.threads.find((one) => one.id === thread);
    const [previous, next] = [life && start_ns <= life.start_ns ? -1 : row - 1, life && end_ns >= life.end_ns ? -1 : row + 1];
    const text = "more about this slice is not in this file: open the recording with `holdup view`";
    return {
      thread, row, start_ns, end_ns, class: index, cpu: rows.cpu[at] ?? -1, occupied_cpu: kind === "queue" ? rows.cpu[at] ?? -1 : -1,
      stolen_ns: 0, previous, next, wait: null, waker: null,
      state: kind === "running" ? "running" : kind === "queue" ? "runnable" : "blocked", stack: [], stack_from: "", samples: [], occupants: [],
      why: [{ text, thread, start_ns, end_ns, row, class: index, basis: "" }],
    };
  }
  return null;
}
