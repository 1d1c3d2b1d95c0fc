// Where answers come from: the server of `holdup view`, or what an `--html` file holds. Everything else asks through this.

import type { Ns } from "../model/time";
import type { Range } from "../model/view";
import type {
  CounterTile, CpuRows, CriticalPath, Flame, FlameAsk, LaneRows, RangeLedger, SampleRows, SearchResult, SliceAnswer, SpanKind, SpanRows,
  Summary, Table, ThreadId, Wakeups,
} from "./types";

/** A tile of the zoom pyramid. */
export interface TileKey {
  readonly level: number;
  readonly tile: number;
}

/** Rows with the names that they refer to. */
export interface Named<T> {
  readonly names: readonly string[];
  readonly lanes: readonly T[];
}

/** Spans: names have kinds as well. */
export interface NamedSpans extends Named<SpanRows> {
  readonly kinds: readonly SpanKind[];
}

/** Which slice: by its row, or by a moment inside it. */
export type SliceAsk = { readonly thread: ThreadId; readonly row: number } | { readonly thread: ThreadId; readonly at: Ns };

/**
 * A source of responses. Rejects with an `Error` whose message is a sentence for the reader. The signal
 * aborts a request that is no longer needed.
 */
export interface Source {
  /** `complete`: with the findings, however long they take. Otherwise as soon as there is something to show. */
  summary(complete: boolean): Promise<Summary>;
  lanes(key: TileKey, threads: readonly ThreadId[]): Promise<readonly LaneRows[]>;
  cpus(key: TileKey, cpus: readonly number[]): Promise<readonly CpuRows[]>;
  /** Null if a file has no counters at this level. It has some for the whole run. */
  counters(key: TileKey): Promise<CounterTile | null>;
  samples(key: TileKey, threads: readonly ThreadId[]): Promise<Named<SampleRows>>;
  spans(key: TileKey, threads: readonly ThreadId[]): Promise<NamedSpans>;
  wakeups(range: Range, threads: readonly ThreadId[], signal?: AbortSignal): Promise<Wakeups>;
  slice(ask: SliceAsk, signal?: AbortSignal): Promise<SliceAnswer>;
  ledger(range: Range, threads: readonly ThreadId[], signal?: AbortSignal): Promise<RangeLedger>;
  flame(ask: FlameAsk, signal?: AbortSignal): Promise<Flame>;
  table(name: string, signal?: AbortSignal): Promise<Table>;
  search(text: string, signal?: AbortSignal): Promise<readonly SearchResult[]>;
  /** As `holdup report annotate --json`. */
  annotate(name: string, signal?: AbortSignal): Promise<unknown>;
  path(range: Range, signal?: AbortSignal): Promise<CriticalPath>;
}
