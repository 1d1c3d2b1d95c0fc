// Facts about threads that many parts of the viewer need, looked up in the summary.

import type { Finding, Process, Summary, Thread, ThreadId } from "../api/types";
import { visible } from "./text";

/** The summary, with its lists as maps. */
export class Catalogue {
  readonly threads: ReadonlyMap<ThreadId, Thread>;
  readonly processes: ReadonlyMap<number, Process>;
  readonly classNames: readonly string[];
  /** Names shared by several of the program's threads, which need their TID. */
  private readonly shared: ReadonlySet<string>;

  constructor(readonly summary: Summary) {
    this.threads = new Map(summary.threads.map((one) => [one.id, one]));
    this.processes = new Map(summary.processes.map((one) => [one.id, one]));
    this.classNames = summary.classes.map((one) => one.name);
    const seen = new Set<string>();
    const own = summary.threads.filter((one) => one.target);
    this.shared = new Set(own.flatMap((one) => (seen.has(one.name) ? [one.name] : (seen.add(one.name), []))));
  }

  /** How many CPUs the program may use, as far as is known. */
  get cpus(): number {
    const { cpus, cpus_allowed } = this.summary.host;
    return cpus_allowed || cpus;
  }

  /** Name of a class. */
  className(index: number): string {
    return this.classNames[index] ?? "unknown";
  }

  /** Name of a thread, for people. */
  threadName(id: ThreadId): string {
    const thread = this.threads.get(id);
    if (!thread) return id < 0 ? "no thread" : `thread ${id}`;
    const name = visible(thread.name);
    if (name === "") return `tid ${thread.tid}`;
    return this.shared.has(thread.name) ? `${name} ${thread.tid}` : name;
  }

  /** Name of a thread for this width in pixels. For threads with similar names, the TID is more useful than
   * half a name.
   */
  nameIn(id: ThreadId, width: number): string {
    const name = this.threadName(id);
    const thread = this.threads.get(id);
    const letters = Math.floor(width / 7);
    return thread && this.shared.has(thread.name) && name.length > letters ? String(thread.tid) : name;
  }

  /** Name and TID, and the process if it adds information. */
  threadTitle(id: ThreadId): string {
    const thread = this.threads.get(id);
    if (!thread) return this.threadName(id);
    const process = this.processes.get(thread.process);
    const other = process && process.name !== thread.name ? ` of ${visible(process.name)}` : "";
    return `${visible(thread.name)} (${thread.tid})${other}`;
  }

  /** Name of a process, with its pid. */
  processName(id: number): string {
    const process = this.processes.get(id);
    return process ? `${visible(process.name)} (pid ${process.pid})` : "process not known";
  }

  /** Threads that a finding's evidence names, in its order. */
  threadsOf(finding: Finding): readonly ThreadId[] {
    return [...new Set(finding.evidence.map((one) => one.thread))];
  }
}
