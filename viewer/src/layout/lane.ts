// Draws one lane: rows of tiles in, commands out. Pure.

import type { CpuRows, LaneRows, SampleRows, SpanKind, SpanRows } from "../api/types";
import type { Draw, Fill } from "../draw/log";
import { visible } from "../model/text";
import { type Range, toX } from "../model/view";

/** Position and range of a lane. */
export interface LaneBox {
  readonly view: Range;
  /** Pixels in which time runs. */
  readonly left: number;
  readonly width: number;
  readonly y: number;
  readonly h: number;
}

/** A part of a lane: the rows of one tile, limited to a range. */
export interface Part<T> {
  readonly rows: T;
  readonly from: number;
  readonly to: number;
}

/** Narrower than this, a texture cannot be seen. */
const TEXTURE_MIN_PX = 3;
/** A gap of a pixel separates neighbours of one class, if there is room for it. */
const GAP_FROM_PX = 8;
const SEAM_PX = 0.6;
/** Samples are shown as ticks only where they are so far apart on average. */
const TICK_ROOM_PX = 8;
/** Shares that are lower than this cannot be seen. */
const SHARE_MIN_PX = 0.4;
/** Minimum width of a wait with a caption. */
const CAPTION_MIN_PX = 70;

/** Index of the first row that ends behind `at`. */
export function firstEndingAfter(end: readonly number[], at: number): number {
  let [low, high] = [0, end.length];
  while (low < high) {
    const middle = (low + high) >> 1;
    if ((end[middle] ?? 0) <= at) low = middle + 1;
    else high = middle;
  }
  return low;
}

interface Span {
  readonly x: number;
  readonly w: number;
  /** Whether it ends here. Otherwise it continues in the next tile, and there must be no gap. */
  readonly ends: boolean;
  /** Whether it begins here, or its earlier part is out of sight. */
  readonly starts: boolean;
}

/** Visits the rows of a part that can be seen, with their pixels. */
function visit(columns: { start: readonly number[]; end: readonly number[] }, part: { from: number; to: number }, box: LaneBox,
  each: (at: number, span: Span) => void): void {
  const from = Math.max(part.from, box.view.from);
  const to = Math.min(part.to, box.view.to);
  for (let at = firstEndingAfter(columns.end, from); at < columns.start.length; at += 1) {
    const start = columns.start[at] ?? 0;
    if (start >= to) return;
    const x = toX(Math.max(start, from), box.view, box.left, box.width);
    const end = toX(Math.min(columns.end[at] ?? 0, to), box.view, box.left, box.width);
    const ends = (columns.end[at] ?? 0) <= to;
    // Where a row goes on in the next tile, the two overlap a little: else the edge shows as a thin line.
    each(at, { x, w: Math.max(end - x + (ends ? 0 : SEAM_PX), 0.5), ends, starts: start >= from || from === box.view.from });
  }
}

/** Caption of a slice that is wide enough, for this width in pixels. Null for none. */
export type Caption = (rows: LaneRows, at: number, width: number) => string | null;

/** Slices of a thread. Merged rows show the share of each class, from the bottom up in the order of reports. */
export function drawSlices(parts: readonly Part<LaneRows>[], box: LaneBox, classNames: readonly string[], caption: Caption = () => null): Draw[] {
  const out: Draw[] = [];
  // Columns of one class together: changing the colour costs as much as a rectangle.
  const columns = new Map<number, Draw[]>();
  const captions: Draw[] = [];
  for (const part of parts) {
    visit(part.rows, part, box, (at, { x, w, ends, starts }) => {
      const mix = part.rows.mix[at];
      if (mix) {
        stackShares(columns, mix, { x, w, y: box.y, h: box.h }, classNames);
        return;
      }
      const name = classNames[part.rows.class[at] ?? -1] ?? "unknown";
      const gap = ends && w > GAP_FROM_PX ? 1 : 0;
      out.push({ op: "rect", x, y: box.y, w: w - gap, h: box.h, fill: paint(name, w) });
      // It may go on in the next tile: the words may, too.
      const room = toX(Math.min(part.rows.end[at] ?? 0, box.view.to), box.view, box.left, box.width) - x - 12;
      const words = starts && room + 12 >= CAPTION_MIN_PX ? caption(part.rows, at, room) : null;
      if (words !== null) captions.push({ op: "text", x: x + 6, y: box.y + box.h / 2, text: words, ink: "text", width: room, on: name });
    });
  }
  return [...[...columns.values()].flat(), ...out, ...captions];
}

function paint(name: string, w: number): { class: string; plain?: boolean } {
  return w < TEXTURE_MIN_PX ? { class: name, plain: true } : { class: name };
}

/** `[slices, class, ns, class, ns, …]` as a column. */
function stackShares(out: Map<number, Draw[]>, mix: readonly number[], box: { x: number; w: number; y: number; h: number },
  classNames: readonly string[]): void {
  const shares: [number, number][] = [];
  let total = 0;
  for (let at = 1; at + 1 < mix.length; at += 2) {
    shares.push([mix[at] ?? 0, mix[at + 1] ?? 0]);
    total += mix[at + 1] ?? 0;
  }
  shares.sort((a, b) => a[0] - b[0]);
  let bottom = box.y + box.h;
  for (const [index, ns] of shares) {
    const h = total > 0 ? (ns / total) * box.h : 0;
    bottom -= h;
    if (h < SHARE_MIN_PX) continue;
    const list = out.get(index) ?? [];
    list.push({ op: "rect", x: box.x, y: bottom, w: box.w, h, fill: paint(classNames[index] ?? "unknown", box.w) });
    out.set(index, list);
  }
}

/** Lower lanes have small text. */
const FULL_TEXT_H = 16;

/** A CPU's lane: the program's threads in colour, others grey, with names if there is room. */
export function drawCpu(parts: readonly Part<CpuRows>[], box: LaneBox, isTarget: (thread: number) => boolean,
  nameOf: (thread: number, width: number) => string): Draw[] {
  const out: Draw[] = [];
  for (const part of parts) {
    visit(part.rows, part, box, (at, { x, w, ends }) => {
      const mix = part.rows.mix[at];
      if (mix) {
        const [own, others] = [mix[1] ?? 0, mix[2] ?? 0];
        const ns = (part.rows.end[at] ?? 0) - (part.rows.start[at] ?? 0);
        const ownH = ns > 0 ? (own / ns) * box.h : 0;
        const othersH = ns > 0 ? (others / ns) * box.h : 0;
        if (ownH > 0.25) out.push({ op: "rect", x, y: box.y + box.h - ownH, w, h: ownH, fill: { class: "useful", plain: true } });
        if (othersH > 0.25) {
          out.push({ op: "rect", x, y: box.y + box.h - ownH - othersH, w, h: othersH, fill: { ink: "muted" } });
        }
        return;
      }
      const thread = part.rows.thread[at] ?? -1;
      const target = isTarget(thread);
      const gap = ends && w > GAP_FROM_PX ? 1 : 0;
      out.push({ op: "rect", x, y: box.y, w: w - gap, h: box.h, fill: target ? { class: "useful" } : { ink: "muted" } });
      if (w > 24) {
        const text = { op: "text", x: x + 4, y: box.y + box.h / 2, text: nameOf(thread, w - 9), width: w - 9, ...(box.h < FULL_TEXT_H && { small: true }) } as const;
        out.push(target ? { ...text, ink: "text", on: "useful" } : { ...text, ink: "ground" });
      }
    });
  }
  return out;
}

/** Names and kinds that spans refer to. */
export interface SpanWords {
  readonly names: readonly string[];
  readonly kinds: readonly SpanKind[];
}

/** Height of one depth of spans. Deeper spans than `SPAN_DEPTHS` are not shown. */
export const SPAN_H = 10;
export const SPAN_DEPTHS = 3;

const SPAN_FILLS: Readonly<Record<SpanKind, Fill>> = {
  user: { ink: "accent" },
  "gc-work": { class: "gc-work" },
  "gc-wait": { class: "gc-wait" },
  idle: { class: "work-wait" },
  stop: { ink: "mark" },
  "gc-concurrent": { class: "gc-work" },
  "stops-all": { ink: "mark" },
  stopped: { class: "gc-wait" },
};

/** Work that the program or its runtime named, one strip a depth, from `box.y` down. */
export function drawSpans(parts: readonly Part<SpanRows & SpanWords>[], box: LaneBox): Draw[] {
  const out: Draw[] = [];
  for (const part of parts) {
    const { start, end, name, depth, count, names, kinds } = part.rows;
    const [from, to] = [Math.max(part.from, box.view.from), Math.min(part.to, box.view.to)];
    start.forEach((begin, at) => {
      const stop = end[at] ?? 0;
      const level = depth[at] ?? 0;
      if (stop <= from || begin >= to || level >= SPAN_DEPTHS) return;
      const x = toX(Math.max(begin, from), box.view, box.left, box.width);
      const w = Math.max(1, toX(Math.min(stop, to), box.view, box.left, box.width) - x);
      const y = box.y + level * SPAN_H;
      const index = name[at] ?? -1;
      const fill = index < 0 ? ({ ink: "muted", alpha: 0.7 } as const) : SPAN_FILLS[kinds[index] ?? "user"];
      out.push({ op: "rect", x, y, w: w - (w > GAP_FROM_PX ? 1 : 0), h: SPAN_H - 1, fill });
      if (w < 40) return;
      const text = index < 0 ? `${count[at] ?? 0} spans` : visible(names[index] ?? "");
      const on = "class" in fill ? { on: fill.class } : {};
      out.push({ op: "text", x: x + 3, y: y + SPAN_H / 2 - 0.5, text, ink: "ground", width: w - 6, small: true, ...on });
    });
  }
  return out;
}

/** The span of a depth at a time, as its part and position. Null if there is none. */
export function spanAt<T extends SpanRows>(parts: readonly Part<T>[], at: number, depth: number): { rows: T; index: number } | null {
  for (const { rows, from, to } of parts) {
    if (at < from || at >= to) continue;
    const index = rows.start.findIndex((start, one) => rows.depth[one] === depth && start <= at && at < (rows.end[one] ?? 0));
    if (index >= 0) return { rows, index };
  }
  return null;
}

/** One tick per sample, at the lane's lower edge. Ticks in the kernel are higher. No ticks if they would
 * merge.
 */
export function drawSamples(parts: readonly Part<SampleRows>[], box: LaneBox): Draw[] {
  const out: Draw[] = [];
  const { from, to } = box.view;
  const seen = parts.reduce((sum, part) => sum + part.rows.at.filter((at) => at >= Math.max(part.from, from) && at < Math.min(part.to, to)).length, 0);
  if (seen * TICK_ROOM_PX > box.width) return out;
  for (const part of parts) {
    let last = -Infinity;
    part.rows.at.forEach((at, index) => {
      if (at < Math.max(part.from, box.view.from) || at >= Math.min(part.to, box.view.to)) return;
      const x = toX(at, box.view, box.left, box.width);
      if (x - last < 2) return;
      last = x;
      const h = part.rows.kernel[index] === 1 ? 6 : 4;
      out.push({ op: "rect", x: x - 0.5, y: box.y + box.h - h, w: 1, h, fill: { ink: "text", alpha: 0.8 } });
    });
  }
  return out;
}

/** The row of a tile that holds a moment, or -1. */
export function rowIndexAt(rows: { start: readonly number[]; end: readonly number[] }, at: number): number {
  const index = firstEndingAfter(rows.end, at);
  return index < rows.start.length && (rows.start[index] ?? 0) <= at ? index : -1;
}

/** How a CPU was occupied for a while. */
export interface Occupied {
  /** The longest occupant. -1 if unknown. */
  readonly thread: number;
  readonly busy_ns: number;
  /** How much of the while is known. */
  readonly known_ns: number;
}

/** The longest occupant of a CPU between two times, as far as its rows reach, and the CPU's busy time. */
export function mainOccupant(parts: readonly Part<CpuRows>[], from: number, to: number): Occupied {
  const held = new Map<number, number>();
  let [busy_ns, known_ns] = [0, 0];
  for (const part of parts) {
    const { start, end, thread, mix } = part.rows;
    const [begin, stop] = [Math.max(part.from, from), Math.min(part.to, to)];
    known_ns += Math.max(0, stop - begin);
    for (let at = firstEndingAfter(end, begin); at < start.length && (start[at] ?? 0) < stop; at += 1) {
      const id = thread[at] ?? -1;
      const ns = Math.min(end[at] ?? 0, stop) - Math.max(start[at] ?? 0, begin);
      held.set(id, (held.get(id) ?? 0) + ns);
      const [, own = 0, others = 0] = mix[at] ?? [];
      const length = (end[at] ?? 0) - (start[at] ?? 0);
      busy_ns += mix[at] ? (length > 0 ? ns * ((own + others) / length) : 0) : ns;
    }
  }
  const [longest] = [...held].sort((a, b) => b[1] - a[1] || a[0] - b[0]);
  return { thread: longest?.[0] ?? -1, busy_ns, known_ns };
}
