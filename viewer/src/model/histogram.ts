// Histograms in cells of tables: counts by powers of two. As words, for sorting, for copying. Pure.

import type { Histogram } from "../api/types";
import { bytes, count, duration, percent } from "./time";

/** Both are histograms of a unit. */
export function histogramUnit(unit: string): "ns" | "bytes" | null {
  return unit === "histogram-ns" ? "ns" : unit === "histogram-bytes" ? "bytes" : null;
}

/** How many values. */
export function totalOf(histogram: Histogram): number {
  return histogram.reduce((sum, [, , times]) => sum + times, 0);
}

/** The bucket that holds the value below which `share` of all lie. */
export function quantile(histogram: Histogram, share: number): readonly [number, number, number] | null {
  const wanted = totalOf(histogram) * share;
  let seen = 0;
  for (const bucket of histogram) {
    seen += bucket[2];
    if (seen >= wanted && seen > 0) return bucket;
  }
  return null;
}

/** The middle half of the values, in words: "half of it 4 KiB to 16 KiB". */
export function histogramWords(unit: "ns" | "bytes", histogram: Histogram): string {
  const [low, high] = [quantile(histogram, 0.25), quantile(histogram, 0.75)];
  if (!low || !high) return "none";
  const [from, below] = [low[0], high[1]];
  return below - from === 1 ? said(unit, from) : `${said(unit, from)} – ${said(unit, below)}`;
}

/** Each bucket a line. */
export function histogramLines(unit: "ns" | "bytes", histogram: Histogram): string[] {
  const total = Math.max(1, totalOf(histogram));
  return histogram.map(([from, below, times]) => `${said(unit, from)} – ${said(unit, below)}: ${count(times)} (${percent(times / total)})`);
}

/** `FROM..BELOW:COUNT` with blanks between: what other programs split. */
export function histogramPlain(histogram: Histogram): string {
  return histogram.map(([from, below, times]) => `${from}..${below}:${times}`).join(" ");
}

/** Bars from the lowest to the highest occurring bucket, including empty ones. Heights are from 0 to 1. */
export function histogramBars(histogram: Histogram): number[] {
  const most = Math.max(1, ...histogram.map(([, , times]) => times));
  const [first, last] = [histogram[0], histogram.at(-1)];
  if (!first || !last) return [];
  const place = (from: number): number => (from === 0 ? 0 : Math.floor(Math.log2(from)) + 1);
  const bars = new Array<number>(place(last[0]) - place(first[0]) + 1).fill(0);
  for (const [from, , times] of histogram) bars[place(from) - place(first[0])] = times / most;
  return bars;
}

function said(unit: "ns" | "bytes", value: number): string {
  return unit === "ns" ? duration(value) : bytes(value);
}
