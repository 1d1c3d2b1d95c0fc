// Which rows the timeline has, from the top down, and where. Pure.

import type { Process, Thread, ThreadId } from "../api/types";
import { stem } from "../model/text";
import { SPAN_DEPTHS, SPAN_H } from "./lane";

/** One row of the timeline. `y` is below the pinned part, before scrolling. */
export type Row =
  | { readonly kind: "process"; readonly id: number; readonly y: number; readonly h: number; readonly open: boolean; readonly threads: number }
  | { readonly kind: "thread"; readonly id: ThreadId; readonly y: number; readonly h: number }
  | { readonly kind: "more"; readonly id: string; readonly y: number; readonly h: number; readonly open: boolean; readonly threads: number; readonly stem: string | null }
  | { readonly kind: "cpu"; readonly id: number; readonly y: number; readonly h: number; readonly why: boolean }
  | { readonly kind: "counter"; readonly id: string; readonly y: number; readonly h: number }
  | { readonly kind: "group"; readonly id: "others" | "cpus" | "counters"; readonly y: number; readonly h: number; readonly open: boolean; readonly threads: number };

/** Rows and their height together. */
export interface Rows {
  readonly rows: readonly Row[];
  readonly height: number;
}

/** Settings that determine the rows. */
export interface RowChoice {
  /** In the order in which they matter, as the summary gives them. */
  readonly threads: readonly Thread[];
  readonly processes: readonly Process[];
  /** Processes whose rows are folded away. */
  readonly folded: ReadonlySet<number>;
  /** `id` of each "more" row whose threads are shown. */
  readonly full: ReadonlySet<string>;
  /** Threads of other programs are shown. */
  readonly others: boolean;
  /** Counters reported by a runtime, by name, such as the heap. They come last, and are collapsed by default. */
  readonly counters: readonly string[];
  readonly countersOpen: boolean;
  /** CPUs with a row, either all of them or none. */
  readonly cpus: readonly number[];
  /** A CPU whose row is shown below a thread, because that thread waited for it. */
  readonly cpuBelow: { readonly thread: ThreadId; readonly cpu: number } | null;
  /** How many strips of spans a thread has above its slices. */
  readonly spanDepths: (thread: ThreadId) => number;
  /** Threads that are shown even beyond the first few. */
  readonly needed: ReadonlySet<ThreadId>;
}

export const LANE_H = 24;
export const HEAD_H = 22;
/** With more CPUs than this, their rows are lower. */
export const CPUS_AT_FULL_HEIGHT = 16;
export const LOW_CPU_H = 14;
export const COUNTER_ROW_H = 34;
/** Threads of a process that have a row of their own. The others are grouped by name, and each group can be opened. */
export const FIRST_THREADS = 32;
/** Number of threads with a row of their own per group of names that only differ in numbers. Only used if
 * there are other names.
 */
export const FIRST_OF_NAME = 6;
/** Groups by name that have a row of their own. Threads of the other groups share one row. */
export const NAME_GROUPS = 12;

/** Lays the rows out. */
export function layoutRows(choice: RowChoice): Rows {
  const rows: Row[] = [];
  let y = 0;
  const push = (row: Row): void => {
    rows.push(row);
    y += row.h;
  };
  if (choice.cpus.length > 0) {
    push({ kind: "group", id: "cpus", y, h: HEAD_H, open: true, threads: choice.cpus.length });
    const h = choice.cpus.length > CPUS_AT_FULL_HEIGHT ? LOW_CPU_H : LANE_H;
    for (const cpu of choice.cpus) push({ kind: "cpu", id: cpu, y, h, why: false });
  }
  const lane = (thread: Thread): void => {
    push({ kind: "thread", id: thread.id, y, h: LANE_H + SPAN_H * Math.min(SPAN_DEPTHS, choice.spanDepths(thread.id)) });
    if (choice.cpuBelow?.thread === thread.id) push({ kind: "cpu", id: choice.cpuBelow.cpu, y, h: LANE_H, why: true });
  };
  const lanes = (threads: readonly Thread[], process: number): void => {
    const first = firstOf(threads);
    const isFirst = (thread: Thread): boolean => first.has(thread.id) || choice.needed.has(thread.id);
    threads.filter(isFirst).forEach(lane);
    for (const group of byName(threads.filter((thread) => !isFirst(thread)))) {
      const id = moreId(process, group.stem);
      const open = choice.full.has(id);
      push({ kind: "more", id, y, h: HEAD_H, open, threads: group.threads.length, stem: group.stem });
      if (open) group.threads.forEach(lane);
    }
  };
  for (const [process, threads] of byProcess(choice.threads.filter((one) => one.target))) {
    const open = !choice.folded.has(process);
    push({ kind: "process", id: process, y, h: HEAD_H, open, threads: threads.length });
    if (open) lanes(threads, process);
  }
  const others = choice.threads.filter((one) => !one.target);
  if (others.length > 0) {
    push({ kind: "group", id: "others", y, h: HEAD_H, open: choice.others, threads: others.length });
    if (choice.others) lanes(others, -1);
    else lanes(others.filter((one) => choice.needed.has(one.id)), -1);
  }
  if (choice.counters.length > 0) {
    push({ kind: "group", id: "counters", y, h: HEAD_H, open: choice.countersOpen, threads: choice.counters.length });
    if (choice.countersOpen) for (const id of choice.counters) push({ kind: "counter", id, y, h: COUNTER_ROW_H });
  }
  return { rows, height: y };
}

/** `id` of the "more" row for a process's threads with this stem. Null: for those without a group of their
 * own.
 */
export function moreId(process: number, stem: string | null): string {
  return stem === null ? `${process}` : `${process}/${stem}`;
}

/** The threads with a row of their own: the most important ones, but no name group takes all rows from the others. */
function firstOf(threads: readonly Thread[]): ReadonlySet<ThreadId> {
  if (threads.length <= FIRST_THREADS) return new Set(threads.map((thread) => thread.id));
  const shown = new Map<string, number>(threads.map((thread) => [stem(thread.name), 0]));
  const most = Math.max(FIRST_OF_NAME, Math.floor(FIRST_THREADS / shown.size));
  const first = new Set<ThreadId>();
  for (const thread of threads) {
    const name = stem(thread.name);
    const before = shown.get(name) ?? 0;
    if (first.size >= FIRST_THREADS) break;
    if (before >= most) continue;
    shown.set(name, before + 1);
    first.add(thread.id);
  }
  return first;
}

interface NameGroup {
  readonly stem: string | null;
  readonly threads: Thread[];
}

/** Threads by the stem of their names, the largest group first. Single threads, and those of small groups beyond the limit, come last, in one group. */
function byName(threads: readonly Thread[]): readonly NameGroup[] {
  const groups = new Map<string, Thread[]>();
  for (const thread of threads) {
    const group = groups.get(stem(thread.name));
    if (group) group.push(thread);
    else groups.set(stem(thread.name), [thread]);
  }
  const several = [...groups].filter(([, group]) => group.length > 1).sort(([, a], [, b]) => b.length - a.length);
  const own = several.slice(0, NAME_GROUPS).map(([name, group]) => ({ stem: name, threads: group }));
  const named = new Set(own.map((group) => group.stem));
  const rest = threads.filter((thread) => !named.has(stem(thread.name)));
  return rest.length > 0 ? [...own, { stem: null, threads: rest }] : own;
}

/** Threads by process, the process of the most important thread first. */
function byProcess(threads: readonly Thread[]): Map<number, Thread[]> {
  const groups = new Map<number, Thread[]>();
  for (const thread of threads) {
    const group = groups.get(thread.process);
    if (group) group.push(thread);
    else groups.set(thread.process, [thread]);
  }
  return groups;
}

/** The row at a height, by halving: there may be thousands. */
export function rowAt(rows: readonly Row[], y: number): Row | null {
  let [low, high] = [0, rows.length - 1];
  while (low <= high) {
    const middle = (low + high) >> 1;
    const row = rows[middle];
    if (!row) return null;
    if (y < row.y) high = middle - 1;
    else if (y >= row.y + row.h) low = middle + 1;
    else return row;
  }
  return null;
}

/** Rows that lie between two heights. */
export function rowsBetween(rows: readonly Row[], top: number, bottom: number): readonly Row[] {
  let [low, high] = [0, rows.length];
  while (low < high) {
    const middle = (low + high) >> 1;
    const row = rows[middle];
    if (row && row.y + row.h <= top) low = middle + 1;
    else high = middle;
  }
  const out: Row[] = [];
  for (let at = low; at < rows.length; at += 1) {
    const row = rows[at];
    if (!row || row.y >= bottom) break;
    out.push(row);
  }
  return out;
}
