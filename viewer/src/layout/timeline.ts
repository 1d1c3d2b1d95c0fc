// Composes the timeline: data in, commands out. Pure. `panels/timeline.tsx` collects the input and paints the
// output.

import type { CounterSeries, CpuRows, CriticalPath, LaneRows, SampleRows, SliceAnswer, SpanRows, Wakeups } from "../api/types";
import type { Draw } from "../draw/log";
import { moment, ruler } from "../model/time";
import { type Range, toX } from "../model/view";
import { caption } from "./captions";
import { type LaneBox, type Part, type SpanWords, drawCpu, drawSamples, drawSlices, drawSpans } from "./lane";
import { HEAD_H, LANE_H, type Row, rowsBetween } from "./rows";

/** Heights of the pinned part, from the top down. */
export const OVERVIEW_H = 22;
export const RULER_H = 22;
export const COUNTER_H = 42;
export const PINNED_H = OVERVIEW_H + RULER_H + COUNTER_H;
/** Width of the lanes' names. */
export const LABEL_W = 190;

const LANE_GAP = 3;

/** Sizes in CSS pixels, and how far the lanes are scrolled. */
export interface Size {
  readonly width: number;
  readonly height: number;
  readonly scroll: number;
}

/** A stretch of a counter. */
export interface CounterPart {
  readonly from: number;
  readonly to: number;
  readonly cell_ns: number;
  readonly series: readonly CounterSeries[];
}

/** A place to light: part of a thread's lane. */
export interface Lit {
  readonly thread: number;
  readonly from: number;
  readonly to: number;
}

/** Label of a row, with its emphasis. */
export interface Label {
  readonly text: string;
  readonly detail: string;
  readonly strong: boolean;
}

/** Counters that have a row of their own: those that are not about the schedule, which the strip above the lanes shows. */
export function ownCounters(parts: readonly CounterPart[]): string[] {
  const names = parts.flatMap((part) => part.series.map((one) => one.name));
  return [...new Set(names)].filter((name) => !["running", "run-queue", "cpu-others"].includes(name) && !name.startsWith("class/"));
}

/** Everything that the timeline is made of. */
export interface TimelineInput {
  readonly size: Size;
  readonly view: Range;
  readonly whole: Range;
  readonly rows: readonly Row[];
  readonly classNames: readonly string[];
  readonly label: (row: Row) => Label;
  /** Name of a thread, shortened to fit this width in pixels. */
  readonly threadName: (thread: number, width: number) => string;
  /** Kinds of classes, such as waiting for a CPU or running. */
  readonly classKinds: readonly string[];
  readonly isTarget: (thread: number) => boolean;
  readonly slices: (thread: number) => readonly Part<LaneRows>[];
  readonly cpus: (cpu: number) => readonly Part<CpuRows>[];
  readonly spans: (thread: number) => readonly Part<SpanRows & SpanWords>[];
  readonly samples: (thread: number) => readonly Part<SampleRows>[];
  readonly counters: readonly CounterPart[];
  readonly overview: readonly CounterPart[];
  /** Scale of the counters: CPUs that the program may use. */
  readonly cpuCount: number;
  readonly range: Range | null;
  readonly picked: SliceAnswer | null;
  readonly wakeups: Wakeups | null;
  /** Places of the open finding. `current` is the selected one. */
  readonly lit: readonly Lit[];
  readonly current: number;
  readonly losses: readonly Range[];
  readonly path: CriticalPath | null;
  /** The moment under the pointer. */
  readonly pointer: number | null;
}

/** All commands, back to front. */
export function composeTimeline(input: TimelineInput): Draw[] {
  const { width, height } = input.size;
  const out: Draw[] = [{ op: "rect", x: 0, y: 0, w: width, h: height, fill: { ink: "ground" } }];
  out.push({ op: "clip", x: 0, y: PINNED_H, w: width, h: Math.max(0, height - PINNED_H) });
  lanes(out, input);
  out.push({ op: "clip", x: LABEL_W, y: PINNED_H, w: width - LABEL_W, h: Math.max(0, height - PINNED_H) });
  overLanes(out, input);
  out.push({ op: "unclip" }, { op: "unclip" });
  pinned(out, input);
  return out;
}

/** Where the slices of a row are: below its strips of spans, if it has any. */
function laneBox(input: TimelineInput, row: Row): LaneBox {
  const spans = row.kind === "thread" ? row.h - LANE_H : 0;
  return {
    view: input.view,
    left: LABEL_W,
    width: input.size.width - LABEL_W,
    y: PINNED_H + row.y - input.size.scroll + 1 + spans,
    h: row.h - LANE_GAP - spans,
  };
}

function lanes(out: Draw[], input: TimelineInput): void {
  const { size } = input;
  const seen = rowsBetween(input.rows, size.scroll, size.scroll + size.height - PINNED_H);
  out.push({ op: "clip", x: LABEL_W, y: PINNED_H, w: size.width - LABEL_W, h: Math.max(0, size.height - PINNED_H) });
  grid(out, input);
  for (const row of seen) {
    const box = laneBox(input, row);
    if (row.kind === "thread") {
      out.push(...drawSlices(input.slices(row.id), box, input.classNames, (rows, at, width) => caption(input, { thread: row.id, rows, at }, width)));
      out.push(...drawSpans(input.spans(row.id), { ...box, y: box.y - (row.h - LANE_H) }));
      out.push(...drawSamples(input.samples(row.id), box));
    } else if (row.kind === "cpu") {
      out.push(...drawCpu(input.cpus(row.id), box, input.isTarget, input.threadName));
    } else if (row.kind === "counter") {
      // By its own highest value of the whole run, so that zooming does not change the scale.
      const most = Math.max(...input.overview.map((part) => peak(part, row.id)), ...input.counters.map((part) => peak(part, row.id)), 1e-9);
      for (const part of input.counters) series(out, part, row.id, input.view, box, most, "good");
    }
  }
  out.push({ op: "unclip" });
  out.push({ op: "line", points: [LABEL_W - 3.5, PINNED_H, LABEL_W - 3.5, size.height], ink: "line", thick: 1 });
  for (const row of seen) label(out, input, row);
}

function label(out: Draw[], input: TimelineInput, row: Row): void {
  const y = PINNED_H + row.y - input.size.scroll;
  const { text, detail, strong } = input.label(row);
  const heading = row.kind === "process" || row.kind === "group" || row.kind === "more";
  const chosen = row.kind === "thread" && input.picked?.thread === row.id;
  if (heading) out.push({ op: "rect", x: 0, y, w: input.size.width, h: row.h - 1, fill: { ink: "raised" } });
  if (chosen) out.push({ op: "rect", x: 0, y, w: LABEL_W - 4, h: row.h - 1, fill: { ink: "selection", alpha: 0.16 } });
  const arrow = heading ? (row.open ? "▾ " : "▸ ") : "";
  const indent = heading ? 8 : row.kind === "cpu" && row.why ? 32 : 20;
  const middle = row.kind === "thread" ? y + row.h - LANE_H / 2 : y + row.h / 2;
  const room = heading ? 460 : LABEL_W - indent - 8;
  const detailW = detail === "" || heading ? 0 : 44;
  // Numbers distinguish threads of the same name.
  const keep = row.kind === "thread" ? (/ \d+$/.exec(text)?.[0].length ?? 0) : 0;
  out.push({ op: "text", x: indent, y: middle, text: `${arrow}${text}`, ink: strong ? "text" : "muted", width: room - detailW, bold: strong, keep, ...(row.h < HEAD_H && { small: true }) });
  if (detailW > 0) {
    out.push({ op: "text", x: LABEL_W - 8, y: middle, text: detail, ink: "muted", width: detailW, align: "right" });
  }
}

function grid(out: Draw[], input: TimelineInput): void {
  const width = input.size.width - LABEL_W;
  for (const at of ruler(input.view.from, input.view.to, width, 90).ticks) {
    const x = Math.round(toX(at, input.view, LABEL_W, width)) + 0.5;
    out.push({ op: "line", points: [x, PINNED_H, x, input.size.height], ink: "faint", thick: 1 });
  }
}

/** Overlays of the lanes: losses, the critical path, highlighted places, the selection and its wakeups. */
function overLanes(out: Draw[], input: TimelineInput): void {
  const { view, size } = input;
  const width = size.width - LABEL_W;
  const x = (at: number): number => toX(at, view, LABEL_W, width);
  for (const loss of input.losses) {
    if (loss.to < view.from || loss.from > view.to) continue;
    const left = x(loss.from);
    out.push({ op: "rect", x: left, y: PINNED_H, w: Math.max(2, x(loss.to) - left), h: size.height, fill: { ink: "mark", alpha: 0.12 } });
  }
  if (input.path) criticalPath(out, input, input.path);
  input.lit.forEach((lit, at) => {
    const box = boxOf(input, lit.thread);
    if (!box || lit.to < view.from || lit.from > view.to) return;
    const left = x(lit.from);
    const w = Math.max(3, x(lit.to) - left);
    const current = at === input.current;
    // A bar in the gap above the lane: a frame alone is lost on a lane of like colour.
    out.push({ op: "rect", x: left, y: box.y - 3, w, h: 3, fill: { ink: "mark" } });
    out.push({ op: "frame", x: left, y: box.y - 1, w, h: box.h + 2, ink: "mark", thick: current ? 2.5 : 1 });
  });
  if (input.range) {
    const [from, to] = [x(input.range.from), x(input.range.to)];
    out.push({ op: "rect", x: from, y: PINNED_H, w: Math.max(1, to - from), h: size.height, fill: { ink: "selection", alpha: 0.12 } });
    for (const at of [from, to]) out.push({ op: "line", points: [at, PINNED_H, at, size.height], ink: "selection", thick: 1 });
  }
  if (input.picked) {
    const box = boxOf(input, input.picked.thread);
    if (box) {
      const left = x(input.picked.start_ns);
      const w = Math.max(3, x(input.picked.end_ns) - left);
      out.push({ op: "frame", x: left, y: box.y - 0.5, w, h: box.h + 1, ink: "ground", thick: 4 });
      out.push({ op: "frame", x: left, y: box.y - 0.5, w, h: box.h + 1, ink: "text", thick: 2 });
    }
  }
  if (input.wakeups) arrows(out, input, input.wakeups);
  if (input.pointer !== null) {
    const at = Math.round(x(input.pointer)) + 0.5;
    out.push({ op: "line", points: [at, PINNED_H, at, size.height], ink: "muted", thick: 1, dash: true });
  }
}

const ROW_OF = new WeakMap<readonly Row[], ReadonlyMap<number, Row>>();

function boxOf(input: TimelineInput, thread: number): LaneBox | null {
  let index = ROW_OF.get(input.rows);
  if (!index) {
    index = new Map(input.rows.flatMap((row) => (row.kind === "thread" ? [[row.id, row] as const] : [])));
    ROW_OF.set(input.rows, index);
  }
  const row = index.get(thread);
  return row ? laneBox(input, row) : null;
}

function criticalPath(out: Draw[], input: TimelineInput, path: CriticalPath): void {
  const width = input.size.width - LABEL_W;
  path.start.forEach((start, at) => {
    const end = path.end[at] ?? start;
    const box = boxOf(input, path.thread[at] ?? -1);
    if (!box || end < input.view.from || start > input.view.to) return;
    const [from, to] = [toX(start, input.view, LABEL_W, width), toX(end, input.view, LABEL_W, width)];
    out.push({ op: "rect", x: from, y: box.y + box.h - 3, w: Math.max(1, to - from), h: 4, fill: { ink: "path" } });
    const before = at > 0 ? boxOf(input, path.thread[at - 1] ?? -1) : null;
    if (before && before.y !== box.y) {
      out.push({ op: "line", points: [from, before.y + before.h - 1, from, box.y + box.h - 1], ink: "path", thick: 1 });
    }
  });
}

/** Arrows from waker to wakee. A waker that is no thread (a timer, a device) is a short arrow from above. */
function arrows(out: Draw[], input: TimelineInput, wakeups: Wakeups): void {
  const width = input.size.width - LABEL_W;
  wakeups.at.forEach((at, index) => {
    if (at < input.view.from || at > input.view.to) return;
    const to = boxOf(input, wakeups.wakee[index] ?? -1);
    if (!to) return;
    const x = toX(at, input.view, LABEL_W, width);
    const from = boxOf(input, wakeups.waker[index] ?? -1);
    const end = from && from.y > to.y ? to.y + to.h : to.y;
    const start = from ? (from.y < to.y ? from.y + from.h : from.y) : to.y - 10;
    out.push({ op: "arrow", x0: x, y0: start, x1: x, y1: end, ink: "text" });
  });
}

/** The overview, the ruler and the counters. They stay while lanes scroll. */
function pinned(out: Draw[], input: TimelineInput): void {
  const { width } = input.size;
  out.push({ op: "rect", x: 0, y: 0, w: width, h: PINNED_H, fill: { ink: "ground" } });
  overview(out, input);
  timeRuler(out, input);
  counters(out, input);
  out.push({ op: "line", points: [0, PINNED_H - 0.5, width, PINNED_H - 0.5], ink: "line", thick: 1 });
  out.push({ op: "line", points: [LABEL_W - 3.5, 0, LABEL_W - 3.5, PINNED_H], ink: "line", thick: 1 });
}

function overview(out: Draw[], input: TimelineInput): void {
  const w = input.size.width - LABEL_W;
  const box = { y: 2, h: OVERVIEW_H - 4 };
  out.push({ op: "rect", x: LABEL_W, y: 0, w, h: OVERVIEW_H, fill: { ink: "raised" } });
  out.push({ op: "text", x: 8, y: OVERVIEW_H / 2, text: "the whole run", ink: "muted", width: LABEL_W - 20 });
  const most = Math.max(input.cpuCount, ...input.overview.map((part) => peak(part, "running")));
  for (const part of input.overview) series(out, part, "running", input.whole, { left: LABEL_W, width: w, ...box }, most, "good");
  for (const [at, lit] of input.lit.entries()) {
    const x = toX((lit.from + lit.to) / 2, input.whole, LABEL_W, w);
    const h = at === input.current ? OVERVIEW_H : 8;
    out.push({ op: "rect", x: x - 1, y: 0, w: at === input.current ? 3 : 2, h, fill: { ink: "mark" } });
  }
  for (const loss of input.losses) {
    const x = toX(loss.from, input.whole, LABEL_W, w);
    const lossW = Math.max(2, toX(loss.to, input.whole, LABEL_W, w) - x);
    out.push({ op: "rect", x, y: OVERVIEW_H - 4, w: lossW, h: 4, fill: { ink: "warn" } });
  }
  const from = toX(input.view.from, input.whole, LABEL_W, w);
  const to = toX(input.view.to, input.whole, LABEL_W, w);
  for (const [x, wide] of [[LABEL_W, from - LABEL_W], [to, LABEL_W + w - to]] as const) {
    if (wide > 0) out.push({ op: "rect", x, y: 0, w: wide, h: OVERVIEW_H, fill: { ink: "ground", alpha: 0.6 } });
  }
  out.push({ op: "frame", x: from, y: 1, w: Math.max(3, to - from), h: OVERVIEW_H - 2, ink: "accent", thick: 2 });
}

/** Usual maximum width of a tick's label. */
const TICK_WORDS_W = 56;

function timeRuler(out: Draw[], input: TimelineInput): void {
  const width = input.size.width - LABEL_W;
  const { step, ticks } = ruler(input.view.from, input.view.to, width, 90);
  const y = OVERVIEW_H + RULER_H / 2;
  for (const at of ticks) {
    const x = Math.round(toX(at, input.view, LABEL_W, width)) + 0.5;
    out.push({ op: "line", points: [x, OVERVIEW_H + RULER_H - 5, x, OVERVIEW_H + RULER_H], ink: "muted", thick: 1 });
    // Cut by the edge, a time would read as another one.
    if (x + TICK_WORDS_W < input.size.width) out.push({ op: "text", x: x + 4, y, text: moment(at, step), ink: "muted", width: 100 });
  }
  if (input.range) {
    const from = toX(input.range.from, input.view, LABEL_W, width);
    const to = toX(input.range.to, input.view, LABEL_W, width);
    out.push({ op: "clip", x: LABEL_W, y: OVERVIEW_H, w: width, h: RULER_H });
    out.push({ op: "rect", x: from, y: OVERVIEW_H, w: Math.max(1, to - from), h: RULER_H, fill: { ink: "selection", alpha: 0.25 } });
    out.push({ op: "unclip" });
  }
}

/** Running threads (filled) and runnable threads (line above). The number of CPUs is dashed. */
function counters(out: Draw[], input: TimelineInput): void {
  const top = OVERVIEW_H + RULER_H;
  const box = { left: LABEL_W, width: input.size.width - LABEL_W, y: top + 3, h: COUNTER_H - 6 };
  const most = Math.max(input.cpuCount, ...input.counters.map((part) => peak(part, "+run-queue")));
  out.push({ op: "text", x: 8, y: top + 13, text: "threads running", ink: "good", width: LABEL_W - 50, bold: true });
  out.push({ op: "text", x: 8, y: top + 29, text: "+ waiting for a CPU", ink: "warn", width: LABEL_W - 50 });
  out.push({ op: "text", x: LABEL_W - 8, y: top + 9, text: most.toFixed(most < 10 ? 1 : 0), ink: "muted", width: 36, align: "right" });
  out.push({ op: "clip", x: LABEL_W, y: top, w: box.width, h: COUNTER_H });
  for (const part of input.counters) {
    series(out, part, "running", input.view, box, most, "good");
    series(out, part, "+run-queue", input.view, box, most, "warn");
  }
  const y = box.y + box.h - (input.cpuCount / most) * box.h;
  const cpus = `${input.cpuCount} CPU${input.cpuCount === 1 ? "" : "s"}`;
  out.push({ op: "line", points: [LABEL_W, y, input.size.width, y], ink: "muted", thick: 1, dash: true });
  out.push({ op: "text", x: input.size.width - 4, y: y < top + 12 ? y + 7 : y - 6, text: cpus, ink: "muted", width: 60, align: "right", small: true, plate: true });
  out.push({ op: "unclip" });
}

function peak(part: CounterPart, name: string): number {
  return valuesOf(part, name).reduce((most, value) => Math.max(most, value), 0);
}

function valuesOf(part: CounterPart, name: string): readonly number[] {
  return name === "+run-queue" ? wanting(part) : part.series.find((one) => one.name === name)?.values ?? [];
}

/** Running and waiting for a CPU together, by cell. */
function wanting(part: CounterPart): readonly number[] {
  const running = part.series.find((one) => one.name === "running")?.values ?? [];
  const queue = part.series.find((one) => one.name === "run-queue")?.values ?? [];
  return running.map((value, at) => value + (queue[at] ?? 0));
}

interface PlotBox {
  readonly left: number;
  readonly width: number;
  readonly y: number;
  readonly h: number;
}

/** A counter as steps: filled, or (`+run-queue`) as a line. */
function series(out: Draw[], part: CounterPart, name: string, view: Range, box: PlotBox, most: number, ink: "good" | "warn"): void {
  const values = valuesOf(part, name);
  const points: number[] = [];
  const base = box.y + box.h;
  values.forEach((value, at) => {
    const start = part.from + at * part.cell_ns;
    const end = Math.min(start + part.cell_ns, part.to);
    if (end <= view.from || start >= view.to || end <= start) return;
    const y = base - (Math.min(value, most) / most) * box.h;
    const x0 = toX(Math.max(start, view.from), view, box.left, box.width);
    if (points.length === 0 && ink === "good") points.push(x0, base);
    points.push(x0, y, toX(Math.min(end, view.to), view, box.left, box.width), y);
  });
  if (points.length === 0) return;
  if (ink === "warn") {
    out.push({ op: "line", points, ink, thick: 1.25 });
    return;
  }
  points.push(points[points.length - 2] ?? 0, base);
  out.push({ op: "area", points, ink, alpha: 0.55 });
}
