// The answer of `annotate`, checked: it is the JSON of another command, so its form is not taken for granted.

import type { Ns } from "./time";

/** One instruction. */
export interface ListingLine {
  readonly address: number;
  readonly text: string;
  readonly own_ns: Ns;
  readonly file: string | null;
  readonly line: number | null;
}

/** The instructions of a function. */
export interface Listing {
  readonly name: string;
  readonly module: string;
  readonly lines: readonly ListingLine[];
}

type Loose = Readonly<Record<string, unknown>>;

/** Reads the answer, or says that it is of another form. */
export function readListing(answer: unknown): Listing {
  const body = loose(answer);
  if (!body || !Array.isArray(body["instructions"])) throw new Error("the listing has a form that this page does not know");
  const lines = body["instructions"].flatMap((one: unknown) => {
    const row = loose(one);
    return row ? [lineOf(row)] : [];
  });
  return { name: text(body["function"]), module: text(body["module"]), lines };
}

function lineOf(row: Loose): ListingLine {
  return {
    address: number(row["address"]) ?? 0,
    text: text(row["text"]),
    own_ns: number(row["own_ns"]) ?? 0,
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
