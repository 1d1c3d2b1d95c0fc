// Histograms in cells of tables.

import { expect, it } from "vitest";
import { histogramBars, histogramLines, histogramPlain, histogramWords, quantile } from "../src/model/histogram";

const TIMES = [[1024, 2048, 100], [8192, 16384, 200]] as const;

it("in words are the middle half, and every bucket on demand", () => {
  expect(histogramWords("ns", TIMES)).toBe("1.02 µs – 16.4 µs");
  expect(histogramWords("bytes", [[1, 2, 50]])).toBe("1 B");
  expect(histogramWords("bytes", [])).toBe("none");
  expect(histogramLines("bytes", TIMES)).toEqual(["1.0 KiB – 2.0 KiB: 100 (33 %)", "8.0 KiB – 16.0 KiB: 200 (67 %)"]);
});

it("as bars keep the buckets between that are empty", () => {
  expect(histogramBars(TIMES)).toEqual([0.5, 0, 0, 1]);
  expect(histogramBars([[0, 1, 3], [1, 2, 6]])).toEqual([0.5, 1]);
  expect(histogramBars([])).toEqual([]);
});

it("sort by the median and are copied bucket by bucket", () => {
  expect(quantile(TIMES, 0.5)?.[0]).toBe(8192);
  expect(quantile([], 0.5)).toBeNull();
  expect(histogramPlain(TIMES)).toBe("1024..2048:100 8192..16384:200");
});
