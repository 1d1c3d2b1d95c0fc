// Cells of tables: as text, for sorting, for copying.

import type { Cell, Column, Place, Table } from "../api/types";
import { histogramPlain, histogramUnit, histogramWords, quantile } from "./histogram";
import { tsvRow, visible } from "./text";
import type { Catalogue } from "./threads";
import { bytes, count, duration, moment, percent } from "./time";
import type { Range } from "./view";

/** A cell as people read it. `null` is "not known". */
export function cellText(catalogue: Catalogue, column: Column, cell: Cell): string {
  if (cell === null) return "–";
  if (typeof cell === "string") return visible(cell);
  if (typeof cell === "object") return histogramWords(histogramUnit(column.unit) ?? "bytes", cell);
  switch (column.unit) {
    case "ns":
      return duration(cell);
    case "time":
      return moment(cell);
    case "share":
      return percent(cell);
    case "bytes":
      return bytes(cell);
    case "per-second":
      return `${cell >= 100 ? count(cell) : cell.toPrecision(3)}/s`;
    case "thread":
      return catalogue.threadTitle(cell);
    case "process":
      return catalogue.processName(cell);
    case "class":
      return catalogue.className(cell);
    case "cpu":
      return `CPU ${cell}`;
    case "count":
      return Number.isInteger(cell) ? count(cell) : cell.toFixed(2);
    default:
      return String(cell);
  }
}

/** A cell as other programs read it: plain numbers, names as text. */
function cellPlain(catalogue: Catalogue, column: Column, cell: Cell): string {
  if (cell === null) return "";
  if (typeof cell === "object") return histogramPlain(cell);
  const named = ["thread", "process", "class"].includes(column.unit);
  return typeof cell === "number" && !named ? String(cell) : cellText(catalogue, column, cell);
}

/** Numbers are aligned to the right, and sort from the greatest. */
export function isNumeric(column: Column): boolean {
  return ["ns", "time", "share", "bytes", "per-second", "count", "cpu"].includes(column.unit);
}

/** How a table is sorted: by a column, or as it came. */
export interface Sorting {
  readonly column: number | null;
  readonly descending: boolean;
}

/** Which rows are wanted. */
export interface Filter {
  readonly words: string;
  /** Only rows whose place has a part in it. */
  readonly range: Range | null;
}

/** Numbers of the rows that contain every word of the filter, sorted. Unknown values come last. */
export function chosenRows(catalogue: Catalogue, table: Table, filter: Filter, sorting: Sorting): number[] {
  const words = filter.words.toLowerCase().split(/\s+/).filter((one) => one !== "");
  const holds = (row: readonly Cell[]): boolean => {
    if (words.length === 0) return true;
    const text = row.map((cell, at) => cellText(catalogue, table.columns[at] ?? { name: "", label: "", unit: "text" }, cell)).join(" ").toLowerCase();
    return words.every((word) => text.includes(word));
  };
  const { range } = filter;
  const lies = (place: Place | null | undefined): boolean => range === null || (place != null && place.start_ns < range.to && place.end_ns > range.from);
  const rows = table.rows.flatMap((row, at) => (lies(table.places[at]) && holds(row) ? [at] : []));
  const column = sorting.column === null ? undefined : table.columns[sorting.column];
  if (sorting.column === null || !column) return rows;
  const at = sorting.column;
  const sign = sorting.descending ? -1 : 1;
  const key = (row: number): Cell => {
    const cell = table.rows[row]?.[at] ?? null;
    // By what half of all are below.
    if (cell !== null && typeof cell === "object") return quantile(cell, 0.5)?.[0] ?? null;
    return cell === null || isNumeric(column) ? cell : cellText(catalogue, column, cell);
  };
  return rows.sort((a, b) => compare(key(a), key(b), sign) || a - b);
}

function compare(a: Cell, b: Cell, sign: number): number {
  if (a === null || b === null) return Number(a === null) - Number(b === null);
  if (typeof a === "number" && typeof b === "number") return sign * (a - b);
  return sign * (String(a) < String(b) ? -1 : String(a) > String(b) ? 1 : 0);
}

/** The rows as tab-separated values, with a head. */
export function asTsv(catalogue: Catalogue, table: Table, rows: readonly number[]): string {
  const head = tsvRow(table.columns.map((one) => one.name));
  const lines = rows.map((row) => tsvRow(table.columns.map((column, at) => cellPlain(catalogue, column, table.rows[row]?.[at] ?? null))));
  return `${[head, ...lines].join("\n")}\n`;
}
