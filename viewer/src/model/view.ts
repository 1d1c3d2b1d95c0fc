// The part of the recording that the timeline shows, and how it moves. Pure: a view in, a view out.

import type { Ns } from "./time";

/** A span of time, `from` before `to`. */
export interface Range {
  readonly from: Ns;
  readonly to: Ns;
}

/** Nothing shorter than this can be shown: a microsecond is a few thousand instructions. */
export const RANGE_MIN_NS = 200;

/** A sample has no duration: the view of a sample shows its surroundings (`SAMPLE_SPAN` in bundle.rs has the
 * same length).
 */
export const SAMPLE_SPAN_NS = 1e6;

/** Moves and stretches `range` as little as needed for it to lie inside `whole`. */
export function inside(range: Range, whole: Range): Range {
  const room = whole.to - whole.from;
  const length = Math.min(Math.max(range.to - range.from, Math.min(RANGE_MIN_NS, room)), room);
  const from = Math.min(Math.max(range.from, whole.from), whole.to - length);
  return { from, to: from + length };
}

/** Zooms by `factor` (below 1: nearer), with the moment `at` staying where it is on the screen. */
export function zoomed(range: Range, factor: number, at: Ns, whole: Range): Range {
  const length = range.to - range.from;
  const wanted = Math.min(Math.max(length * factor, RANGE_MIN_NS), whole.to - whole.from);
  const share = length > 0 ? (at - range.from) / length : 0.5;
  const from = at - share * wanted;
  return inside({ from, to: from + wanted }, whole);
}

/** Moves by a share of the visible range. Positive is later. */
export function panned(range: Range, share: number, whole: Range): Range {
  const by = (range.to - range.from) * share;
  return inside({ from: range.from + by, to: range.to + by }, whole);
}

/** A view in which `span` fills the share `fill` of the width, in the middle. */
export function framed(span: Range, whole: Range, fill = 0.4): Range {
  const length = Math.max(span.to - span.from, RANGE_MIN_NS) / fill;
  const middle = (span.from + span.to) / 2;
  return inside({ from: middle - length / 2, to: middle + length / 2 }, whole);
}

/** Pixel of a moment. */
export function toX(at: Ns, range: Range, left: number, width: number): number {
  return left + ((at - range.from) / (range.to - range.from)) * width;
}

/** Moment of a pixel. */
export function toNs(x: number, range: Range, left: number, width: number): Ns {
  return range.from + ((x - left) / width) * (range.to - range.from);
}

/** Both are the same. */
export function sameRange(a: Range | null, b: Range | null): boolean {
  return a === b || (a !== null && b !== null && a.from === b.from && a.to === b.to);
}
