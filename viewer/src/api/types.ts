// The responses of `docs/viewer-api.md`. Times are nanoseconds since the start of the recording. A thread is
// its number in the recording. A class is an index into `summary.classes`. -1 in an array is "none".

import type { Ns } from "../model/time";

export type ClassIndex = number;
export type ThreadId = number;

export interface ClassInfo {
  readonly name: string;
  readonly kind: "running" | "queue" | "wait" | "stolen" | "unknown";
  /** Place in the order of reports. */
  readonly rank: number;
}

export interface RunQueue {
  readonly own_ns: Ns;
  readonly others_ns: Ns;
  readonly throttled_ns: Ns;
  readonly idle_ns: Ns;
}

/** Null: not known to the source. */
export interface Ledger {
  readonly total_ns: Ns;
  readonly classes: readonly Ns[];
  readonly run_queue: RunQueue | null;
  readonly split_error_ns: Ns | null;
  readonly split_known: boolean;
  readonly samples: number | null;
}

export interface RangeLedger extends Ledger {
  readonly threads: readonly { readonly id: ThreadId; readonly classes: readonly Ns[] }[];
  /** Basis of the figures, if there is a note. */
  readonly note?: string;
}

export interface Thread {
  readonly id: ThreadId;
  readonly tid: number;
  readonly name: string;
  readonly process: number;
  readonly target: boolean;
  readonly start_ns: Ns;
  readonly end_ns: Ns;
  readonly slices?: number;
  readonly classes?: readonly Ns[];
  readonly run_queue?: RunQueue;
}

export interface Process {
  readonly id: number;
  readonly pid: number;
  readonly name: string;
  readonly target: boolean;
}

export interface Evidence {
  readonly table: string;
  readonly thread: ThreadId;
  readonly start_ns: Ns;
  readonly duration_ns: Ns;
  /** The slice that it is, or -1. */
  readonly row: number;
  readonly note: string;
}

export interface Finding {
  readonly rule: string;
  readonly subject: string;
  readonly summary: readonly string[];
  readonly cost_ns: Ns;
  /** The gain as in the report. */
  readonly gain_text: string;
  readonly confidence: string;
  readonly advice: readonly string[];
  readonly evidence: readonly Evidence[];
}

/** The function with most of the useful work, and its purpose. */
export interface Busiest {
  readonly function: string;
  readonly share: number;
  readonly error: number;
  readonly called_for?: string | null;
  readonly called_for_share?: number | null;
  readonly mostly_in?: string | null;
  readonly mostly_in_share?: number | null;
}

/** For a program that computes: `share` is null if it does not. */
export interface Computes {
  readonly share: number | null;
  readonly error: number | null;
  readonly summary: readonly string[];
  readonly advice: readonly string[];
}

/** Kind of much of the useful work, if a descriptor knows it. */
export interface KnownWork {
  readonly what: string;
  readonly advice: string;
  readonly share: number;
  readonly error: number;
}

export interface LossRow {
  readonly source: string;
  readonly reason: string;
  readonly cpu: number;
  readonly start_ns: Ns;
  readonly end_ns: Ns;
  readonly events: number;
}

export interface Zoom {
  readonly base_ns: Ns;
  readonly cells: number;
  readonly level_max: number;
}

export interface Summary {
  readonly api: number;
  /** Preview with thread states, without reasons of waits. */
  readonly first_look?: boolean;
  /** The findings are still being worked out. */
  readonly pending?: boolean;
  readonly command: readonly string[];
  readonly mode: string;
  readonly host: { readonly name?: string; readonly kernel?: string; readonly cpus: number; readonly cpus_allowed?: number };
  readonly wall_ns: Ns;
  readonly backend: string;
  readonly backend_reason: string;
  readonly recovered: boolean;
  readonly zoom: Zoom;
  readonly classes: readonly ClassInfo[];
  readonly ledger: Ledger;
  readonly busiest?: Busiest | null;
  readonly known_work?: KnownWork | null;
  readonly computes?: Computes | null;
  readonly threads: readonly Thread[];
  readonly processes: readonly Process[];
  readonly cpus: readonly { readonly cpu: number; readonly target_ns: Ns; readonly others_ns: Ns; readonly idle_ns: Ns }[];
  readonly findings: readonly Finding[];
  /** The same lost time, seen otherwise: `of` is the index of a finding. */
  readonly symptoms?: readonly { readonly of: number; readonly rule: string; readonly subject: string; readonly summary: readonly string[] }[];
  readonly skipped: readonly { readonly rule: string; readonly reason: string }[];
  readonly losses: readonly LossRow[];
  /** Tables of the recording that are damaged. */
  readonly damaged?: readonly { readonly table: string; readonly reason: string; readonly missing: string }[];
  readonly loss: { readonly events: number; readonly uncounted: number };
  readonly cost: { readonly percent?: number | null };
  readonly tables: readonly { readonly name: string; readonly label: string }[];
  /** The recording that flame graphs can be compared with. */
  readonly against?: { readonly command: readonly string[]; readonly wall_ns: Ns } | null;
  readonly flames: readonly { readonly kind: string; readonly label: string }[];
  readonly thinned: readonly string[];
}

/** Rows of one lane in one tile: columns of one length, in time order. */
export interface LaneRows {
  readonly thread: ThreadId;
  readonly complete: boolean;
  readonly start: readonly Ns[];
  readonly end: readonly Ns[];
  readonly class: readonly ClassIndex[];
  readonly row: readonly number[];
  readonly cpu: readonly number[];
  readonly mix: readonly (null | readonly number[])[];
}

export interface CpuRows {
  readonly cpu: number;
  readonly complete: boolean;
  readonly start: readonly Ns[];
  readonly end: readonly Ns[];
  readonly thread: readonly ThreadId[];
  readonly mix: readonly (null | readonly number[])[];
}

export interface SampleRows {
  readonly thread: ThreadId;
  readonly every: number;
  readonly at: readonly Ns[];
  readonly kernel: readonly number[];
  readonly leaf: readonly number[];
}

/** Kind of a span: of the program itself, or an activity of its runtime. */
export type SpanKind = "user" | "gc-work" | "gc-wait" | "idle" | "stop" | "gc-concurrent" | "stops-all" | "stopped";

/** Spans by depth, then time. Spans of one depth do not overlap. `name` -1: `count` merged spans. */
export interface SpanRows {
  readonly thread: ThreadId;
  readonly complete: boolean;
  readonly start: readonly Ns[];
  readonly end: readonly Ns[];
  readonly name: readonly number[];
  readonly depth: readonly number[];
  readonly count: readonly number[];
}

export interface CounterSeries {
  readonly name: string;
  readonly unit: string;
  readonly values: readonly number[];
}

export interface CounterTile {
  readonly start_ns: Ns;
  readonly end_ns: Ns;
  readonly cell_ns: Ns;
  readonly series: readonly CounterSeries[];
}

export interface Wakeups {
  readonly left_out: number;
  readonly at: readonly Ns[];
  readonly waker: readonly ThreadId[];
  readonly wakee: readonly ThreadId[];
  readonly cpu: readonly number[];
  readonly context: readonly number[];
}

export interface Frame {
  readonly name: string;
  readonly module: string;
  readonly file?: string | null;
  readonly line?: number | null;
  readonly inlined?: boolean;
  readonly kind: "user" | "kernel" | "unknown";
}

export interface WhyLink {
  readonly text: string;
  readonly thread: ThreadId;
  readonly start_ns: Ns;
  readonly end_ns: Ns;
  readonly row: number;
  readonly class: ClassIndex;
  readonly basis: string;
}

/** A thread that waited for another, which came last. */
export interface KeptWaiting {
  readonly thread: ThreadId;
  readonly start_ns: Ns;
  readonly end_ns: Ns;
  readonly row: number;
  readonly name: string | null;
}

export interface SliceAnswer {
  readonly thread: ThreadId;
  readonly row: number;
  readonly start_ns: Ns;
  readonly end_ns: Ns;
  readonly state: string;
  readonly class: ClassIndex;
  readonly cpu: number;
  readonly stolen_ns: Ns;
  readonly previous: number;
  readonly next: number;
  readonly wait: null | {
    readonly reason: string;
    readonly object_kind: string;
    readonly object: string;
    readonly syscall: string;
    readonly name: string;
  };
  readonly stack: readonly Frame[];
  readonly stack_from: string;
  /** Where it ran, by the samples taken in it. */
  readonly samples: readonly { readonly samples: number; readonly name: string }[];
  readonly waker: null | {
    readonly thread: ThreadId;
    readonly context: string;
    readonly at_ns: Ns;
    readonly cpu: number;
    readonly stack: readonly Frame[];
  };
  /** Threads that had the CPU that it waited for. `at_ns`: start of the longest turn of each. */
  readonly occupants: readonly { readonly thread: ThreadId; readonly ns: Ns; readonly at_ns: Ns }[];
  /** The CPU that they had, -1 if it did not wait for one. `cpu` is where it ran next. */
  readonly occupied_cpu: number;
  /** Threads that waited for this thread, the last to arrive at a barrier, join or pause. */
  readonly kept_waiting?: readonly KeptWaiting[];
  readonly why: readonly WhyLink[];
}

/** A call tree: node `n` is a call of `names[name[n]]`, under node `parent[n]`. */
export interface Flame {
  readonly kind: string;
  readonly total_ns: Ns;
  readonly error_ns: Ns;
  readonly samples: number;
  readonly slices: number;
  readonly slices_with_stack: number;
  readonly names: readonly string[];
  readonly modules: readonly string[];
  readonly name: readonly number[];
  readonly parent: readonly number[];
  readonly own_ns: readonly Ns[];
  readonly ns: readonly Ns[];
  readonly kernel: readonly number[];
  /** The same nodes, and all, in the recording that it is compared with. */
  readonly before_ns?: readonly Ns[];
  readonly before_total_ns?: Ns;
}

export interface FlameAsk {
  readonly kind: string;
  readonly from?: Ns;
  readonly to?: Ns;
  readonly threads?: readonly ThreadId[];
  readonly reverse?: boolean;
  readonly function?: string;
  readonly against?: boolean;
}

/** Buckets in order: from, up to but not with, how many. */
export type Histogram = readonly (readonly [number, number, number])[];

export type Cell = string | number | null | Histogram;

export interface Column {
  readonly name: string;
  readonly label: string;
  readonly unit: string;
}

export interface Place {
  readonly thread: ThreadId;
  readonly start_ns: Ns;
  readonly end_ns: Ns;
}

export interface Table {
  readonly name: string;
  readonly label: string;
  readonly columns: readonly Column[];
  readonly rows: readonly (readonly Cell[])[];
  readonly places: readonly (null | Place)[];
  /** Basis of the figures. Empty if there is no note. */
  readonly note?: string;
}

export interface SearchResult {
  readonly kind: "thread" | "function" | "span" | "process" | "lock" | "finding";
  readonly name: string;
  readonly detail: string;
  readonly thread: ThreadId;
  readonly start_ns: Ns;
  readonly end_ns: Ns;
}

/** Pieces that cover a range. `thread` -1: merged short pieces. */
export interface CriticalPath {
  readonly start: readonly Ns[];
  readonly end: readonly Ns[];
  readonly thread: readonly ThreadId[];
  readonly class: readonly ClassIndex[];
  /** Time by class. */
  readonly classes: readonly Ns[];
}
