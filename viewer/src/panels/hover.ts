// What the pointer is told about a lane.

import type { LaneRows } from "../api/types";
import { classLook } from "../model/classes";
import type { Catalogue } from "../model/threads";
import { count, duration, moment, percent } from "../model/time";

/** Lines about one row of a lane. */
export function hoverText(catalogue: Catalogue, thread: number, rows: LaneRows, at: number): string {
  if (at < 0) return "";
  const [start, end] = [rows.start[at] ?? 0, rows.end[at] ?? 0];
  const head = catalogue.threadTitle(thread);
  const when = `${duration(end - start)} from ${moment(start, Math.max(1, (end - start) / 10))}`;
  const mix = rows.mix[at];
  if (mix) return [head, `${count(mix[0] ?? 0)} slices in ${when}`, ...mixLines(catalogue, mix), "zoom in to tell them apart"].join("\n");
  const name = catalogue.className(rows.class[at] ?? -1);
  const cpu = rows.cpu[at] ?? -1;
  return [head, `${name}: ${classLook(name).words}`, `${when}${cpu >= 0 ? `, CPU ${cpu}` : ""}`].join("\n");
}

function mixLines(catalogue: Catalogue, mix: readonly number[]): string[] {
  const shares: [string, number][] = [];
  for (let at = 1; at + 1 < mix.length; at += 2) shares.push([catalogue.className(mix[at] ?? -1), mix[at + 1] ?? 0]);
  const total = shares.reduce((sum, [, ns]) => sum + ns, 0);
  return shares.sort((a, b) => b[1] - a[1]).slice(0, 6).map(([name, ns]) => `${percent(total > 0 ? ns / total : 0)} ${name}`);
}
