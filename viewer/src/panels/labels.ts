// What rows of the timeline are called.

import type { Finding } from "../api/types";
import type { Row } from "../layout/rows";
import type { Label } from "../layout/timeline";
import type { Catalogue } from "../model/threads";
import { visible } from "../model/text";
import { count, percent } from "../model/time";

/** Name of a row, and how much it stands out. */
export function labelOf(catalogue: Catalogue, row: Row, finding: Finding | undefined): Label {
  switch (row.kind) {
    case "process":
      return { text: `${catalogue.processName(row.id)}, ${threads(row.threads)}`, detail: "", strong: true };
    case "more":
      return { text: more(row.threads, row.stem), detail: "", strong: false };
    case "group":
      if (row.id === "counters") return { text: `what the runtime counts, ${row.threads === 1 ? "1 row" : `${count(row.threads)} rows`}`, detail: "", strong: false };
      return row.id === "cpus"
        ? { text: "CPUs and the threads that they ran", detail: "", strong: true }
        : { text: `other programs on this machine, ${threads(row.threads)}`, detail: "", strong: false };
    case "counter":
      return { text: visible(row.id.replace(/^runtime\//, "")), detail: "", strong: false };
    case "cpu":
      return { text: row.why ? `↳ CPU ${row.id} during this wait` : `CPU ${row.id}`, detail: "", strong: false };
    case "thread": {
      const thread = catalogue.threads.get(row.id);
      const named = finding?.evidence.some((one) => one.thread === row.id) === true;
      return { text: catalogue.threadName(row.id), detail: thread ? onCpu(catalogue, thread) : "", strong: named };
    }
  }
}

function more(threads: number, stem: string | null): string {
  const text = `${count(threads)} more`;
  return stem === null ? `${text} with other names` : `${text}: ${visible(stem)}`;
}

function threads(n: number): string {
  return n === 1 ? "1 thread" : `${count(n)} threads`;
}

/** Share of its life during which a thread ran, which separates busy from idle threads. */
function onCpu(catalogue: Catalogue, thread: { classes?: readonly number[]; start_ns: number; end_ns: number }): string {
  if (!thread.classes) return "";
  const life = thread.end_ns - thread.start_ns;
  const ran = thread.classes.reduce((sum, ns, at) => (catalogue.summary.classes[at]?.kind === "running" ? sum + ns : sum), 0);
  return life > 0 ? percent(ran / life) : "";
}
