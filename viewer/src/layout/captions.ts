// Captions on slices: the reason of a wait, and the occupant of the awaited CPU. Pure.

import type { LaneRows } from "../api/types";
import { mainOccupant } from "./lane";
import type { TimelineInput } from "./timeline";

/** A slice of a lane. */
interface Place {
  readonly thread: number;
  readonly rows: LaneRows;
  readonly at: number;
}

/** A wait shows its reason. A wait for a CPU shows the CPU's occupant, if there was one. */
export function caption(input: TimelineInput, place: Place, width: number): string | null {
  const index = place.rows.class[place.at] ?? -1;
  const kind = input.classKinds[index];
  if (kind === "running") return null;
  const name = input.classNames[index] ?? "unknown";
  const found = kind === "queue" ? occupant(input, place) : null;
  return found === null ? name : `${input.threadName(found.thread, width - 80)} had CPU ${found.cpu}`;
}

/** A CPU that was idle for more than this share of a wait is not its cause (`derive/why` has the same limit). */
const BUSY_SHARE_MIN = 0.5;

/**
 * Returns the occupant of the CPU that a thread waited for. Null if the CPU was idle for most of the wait. A
 * row has the CPU on which its thread ran next. A preempted thread waited on its previous CPU until it was
 * moved, so the busier of the two CPUs is used. The result of Why takes precedence.
 */
function occupant(input: TimelineInput, { thread, rows, at }: Place): { thread: number; cpu: number } | null {
  const { picked } = input;
  const chosen = picked && picked.thread === thread && picked.row === rows.row[at] ? picked.occupied_cpu : -1;
  const [next, left] = [rows.cpu[at] ?? -1, ranBefore(input, rows, at)];
  const cpus = chosen >= 0 ? [chosen] : [...new Set([next, left])].filter((cpu) => cpu >= 0);
  const had = cpus.map((cpu) => ({ cpu, ...mainOccupant(input.cpus(cpu), rows.start[at] ?? 0, rows.end[at] ?? 0) }));
  const busiest = had.reduce<(typeof had)[number] | null>((most, one) => (most === null || one.busy_ns > most.busy_ns ? one : most), null);
  if (!busiest || busiest.thread < 0 || busiest.busy_ns < BUSY_SHARE_MIN * busiest.known_ns) return null;
  return { thread: busiest.thread, cpu: busiest.cpu };
}

/** The CPU on which the thread ran until this row. -1 if it did not run, or the CPU is unknown. */
function ranBefore(input: TimelineInput, rows: LaneRows, at: number): number {
  const ran = input.classKinds[rows.class[at - 1] ?? -1] === "running" && rows.end[at - 1] === rows.start[at];
  return ran ? (rows.cpu[at - 1] ?? -1) : -1;
}
