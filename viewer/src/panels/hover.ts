// Tooltips of a lane.

import type { LaneRows, SpanKind, SpanRows } from "../api/types";
import type { SpanWords } from "../layout/lane";
import { classLook } from "../model/classes";
import { visible } from "../model/text";
import type { Catalogue } from "../model/threads";
import { count, duration, moment, percent } from "../model/time";

/** Lines about one row of a lane. */
export function hoverText(catalogue: Catalogue, thread: number, rows: LaneRows, at: number): string {
  if (at < 0) return "";
  const [start, end] = [rows.start[at] ?? 0, rows.end[at] ?? 0];
  const head = catalogue.threadTitle(thread);
  const when = `${duration(end - start)} from ${moment(start, Math.max(1, (end - start) / 10))}`;
  const mix = rows.mix[at];
  if (mix) return [head, `${count(mix[0] ?? 0)} slices in ${when}`, ...mixLines(catalogue, mix), "zoom in to separate them"].join("\n");
  const name = catalogue.className(rows.class[at] ?? -1);
  const cpu = rows.cpu[at] ?? -1;
  return [head, `${name}: ${classLook(name).words}`, `${when}${cpu >= 0 ? `, CPU ${cpu}` : ""}`].join("\n");
}

/** Lines about a span. */
export function spanText(catalogue: Catalogue, rows: SpanRows & SpanWords, at: number): string {
  const [start, end, name] = [rows.start[at] ?? 0, rows.end[at] ?? 0, rows.name[at] ?? -1];
  const what = name < 0 ? `${count(rows.count[at] ?? 0)} spans: zoom in to separate them` : visible(rows.names[name] ?? "");
  const kind = name < 0 ? "" : KIND_WORDS[rows.kinds[name] ?? "user"];
  return [catalogue.threadTitle(rows.thread), what, `${duration(end - start)} from ${moment(start, Math.max(1, (end - start) / 10))}${kind}`].join("\n");
}

const KIND_WORDS: Readonly<Record<SpanKind, string>> = {
  user: "", "gc-work": ", work of the garbage collector", "gc-wait": ", waits for the garbage collector", idle: ", idle", stop: ", stops the world",
  "gc-concurrent": ", garbage collector work concurrent with the program",
  "stops-all": ", stops all others", stopped: ", has stopped until all go on",
};

function mixLines(catalogue: Catalogue, mix: readonly number[]): string[] {
  const shares: [string, number][] = [];
  for (let at = 1; at + 1 < mix.length; at += 2) shares.push([catalogue.className(mix[at] ?? -1), mix[at + 1] ?? 0]);
  const total = shares.reduce((sum, [, ns]) => sum + ns, 0);
  return shares.sort((a, b) => b[1] - a[1]).slice(0, 6).map(([name, ns]) => `${percent(total > 0 ? ns / total : 0)} ${name}`);
}
