// The answer of `annotate`, checked: it is the JSON of another command, so its form is not taken for granted.

import type { Ns } from "./time";

/** One instruction, or one line of an interpreted function: then the address is its number. */
export interface ListingLine {
  readonly address: number;
  readonly text: string;
  readonly own_ns: Ns;
  /** In callees. */
  readonly below_ns: Ns;
  readonly file: string | null;
  readonly line: number | null;
}

/** The instructions of a function. */
export interface Listing {
  readonly name: string;
  readonly module: string;
  /** Kind of its lines. */
  readonly unit: "instruction" | "line";
  readonly lines: readonly ListingLine[];
}

/** Module of functions that an interpreter runs. */
const INTERPRETED = "[python]";

type Loose = Readonly<Record<string, unknown>>;

/** Parses the response. Throws if its format is unexpected. */
export function readListing(answer: unknown): Listing {
  const body = loose(answer);
  if (!body || !Array.isArray(body["instructions"])) throw new Error("the listing has an unknown format");
  const lines = body["instructions"].flatMap((one: unknown) => {
    const row = loose(one);
    return row ? [lineOf(row)] : [];
  });
  const module = text(body["module"]);
  return { name: text(body["function"]), module, unit: module === INTERPRETED ? "line" : "instruction", lines };
}

function lineOf(row: Loose): ListingLine {
  return {
    address: number(row["address"]) ?? 0,
    text: text(row["text"]),
    own_ns: number(row["own_ns"]) ?? 0,
    below_ns: number(row["below_ns"]) ?? 0,
    file: typeof row["file"] === "string" ? row["file"] : null,
    line: number(row["line"]),
  };
}

function loose(value: unknown): Loose | null {
  return value !== null && typeof value === "object" ? (value as Loose) : null;
}

function text(value: unknown): string {
  return typeof value === "string" ? value : "";
}

function number(value: unknown): number | null {
  return typeof value === "number" ? value : null;
}
