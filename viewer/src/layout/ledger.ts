// The ledger as a stacked bar of the classes, in the order of reports. Pure.

import type { ClassInfo, Ledger } from "../api/types";
import type { Draw } from "../draw/log";

/** A class that has any time. */
export interface Share {
  readonly name: string;
  readonly ns: number;
}

/** The classes that have any time, in the order of reports. */
export function sharesOf(ledger: Ledger, classes: readonly ClassInfo[]): Share[] {
  const rank = (at: number): number => classes[at]?.rank ?? at;
  return ledger.classes
    .map((ns, at) => ({ ns, at, name: classes[at]?.name ?? "unknown" }))
    .filter((one) => one.ns > 0)
    .sort((a, b) => rank(a.at) - rank(b.at));
}

/** See the module. Each class that has any time is at least one pixel wide. */
export function composeLedger(present: readonly Share[], size: { width: number; height: number }): Draw[] {
  const out: Draw[] = [{ op: "rect", x: 0, y: 0, w: size.width, h: size.height, fill: { ink: "faint" } }];
  const total = present.reduce((sum, one) => sum + one.ns, 0);
  const room = size.width - present.length;
  let x = 0;
  for (const { ns, name } of present) {
    const w = 1 + Math.max(0, room) * (ns / total);
    out.push({ op: "rect", x, y: 0, w, h: size.height, fill: { class: name } });
    x += w;
  }
  return out;
}
