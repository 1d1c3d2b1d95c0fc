// Answers from what an `--html` file holds: no server, no network. What is not in the file is said, not guessed.

import type { Ns } from "../model/time";
import type { Range } from "../model/view";
import { rangeLedger, searchSummary, wakeupsOf } from "./from_rows";
import type { Named, SliceAsk, Source, TileKey } from "./source";
import type {
  CounterTile, CpuRows, CriticalPath, Flame, FlameAsk, LaneRows, RangeLedger, SampleRows, SearchResult, SliceAnswer, SpanRows,
  Summary, Table, ThreadId, Wakeups,
} from "./types";

/** What the file holds; see `docs/viewer-api.md`. */
export interface Bundle {
  readonly api: number;
  readonly summary: Summary;
  readonly tables: Readonly<Record<string, Table>>;
  readonly flames: Readonly<Record<string, Flame>>;
  readonly lanes: Readonly<Record<string, LaneRows>>;
  readonly cpus: Readonly<Record<string, CpuRows>>;
  readonly samples?: { readonly names?: readonly string[] } & Readonly<Record<string, SampleRows | readonly string[]>>;
  readonly spans?: { readonly names?: readonly string[] } & Readonly<Record<string, SpanRows | readonly string[]>>;
  readonly counters: Readonly<Record<string, CounterTile>>;
  readonly slices: Readonly<Record<string, SliceAnswer>>;
}

const BUNDLE_ID = "holdup-bundle";
const ELSEWHERE = "not in this file: open the recording with `holdup view`";

/** The source inside this page, if it is one with answers inside. */
export async function bundled(page: Document): Promise<Source | null> {
  const element = page.getElementById(BUNDLE_ID);
  const text = element?.textContent?.trim();
  if (!text) return null;
  const packed = Uint8Array.from(atob(text), (char) => char.charCodeAt(0));
  const stream = new Blob([packed]).stream().pipeThrough(new DecompressionStream("gzip"));
  const bundle = JSON.parse(await new Response(stream).text()) as Bundle;
  return new BundleSource(bundle);
}

/** See the module. */
export class BundleSource implements Source {
  constructor(private readonly bundle: Bundle) {}

  summary(): Promise<Summary> {
    return Promise.resolve(this.bundle.summary);
  }

  lanes(key: TileKey, threads: readonly ThreadId[]): Promise<readonly LaneRows[]> {
    return Promise.resolve(present(this.bundle.lanes, threads, key));
  }

  cpus(key: TileKey, cpus: readonly number[]): Promise<readonly CpuRows[]> {
    return Promise.resolve(present(this.bundle.cpus, cpus, key));
  }

  counters(key: TileKey): Promise<CounterTile> {
    const found = this.bundle.counters[`${key.level}/${key.tile}`];
    return found ? Promise.resolve(found) : missing();
  }

  samples(key: TileKey, threads: readonly ThreadId[]): Promise<Named<SampleRows>> {
    return Promise.resolve(named(this.bundle.samples, threads, key));
  }

  spans(key: TileKey, threads: readonly ThreadId[]): Promise<Named<SpanRows>> {
    return Promise.resolve(named(this.bundle.spans, threads, key));
  }

  wakeups(range: Range, threads: readonly ThreadId[]): Promise<Wakeups> {
    return Promise.resolve(wakeupsOf(Object.values(this.bundle.slices), range, threads));
  }

  slice(ask: SliceAsk): Promise<SliceAnswer> {
    if ("row" in ask) {
      const found = this.bundle.slices[`${ask.thread}/${ask.row}`];
      return found ? Promise.resolve(found) : missing();
    }
    const row = this.rowAt(ask.thread, ask.at);
    const found = row === null ? undefined : this.bundle.slices[`${ask.thread}/${row}`];
    if (found) return Promise.resolve(found);
    const around = this.slicesOf(ask.thread).find((one) => one.start_ns <= ask.at && ask.at < one.end_ns);
    return around ? Promise.resolve(around) : missing();
  }

  ledger(range: Range, threads: readonly ThreadId[]): Promise<RangeLedger> {
    return Promise.resolve(rangeLedger(this.bundle, range, threads));
  }

  flame(ask: FlameAsk): Promise<Flame> {
    if (ask.from !== undefined || ask.function !== undefined || (ask.threads && ask.threads.length > 0)) {
      return missing("stacks of a range, a thread or a function are");
    }
    const found = this.bundle.flames[ask.reverse ? `${ask.kind}/reverse` : ask.kind];
    return found ? Promise.resolve(found) : missing();
  }

  table(name: string): Promise<Table> {
    const found = Object.hasOwn(this.bundle.tables, name) ? this.bundle.tables[name] : undefined;
    return found ? Promise.resolve(found) : missing();
  }

  search(text: string): Promise<readonly SearchResult[]> {
    return Promise.resolve(searchSummary(this.bundle, text));
  }

  annotate(): Promise<unknown> {
    return missing("source and instructions are");
  }

  path(): Promise<CriticalPath> {
    return missing();
  }

  /** Row of the slice at a moment, from the deepest tile that holds it. */
  private rowAt(thread: ThreadId, at: Ns): number | null {
    const { zoom } = this.bundle.summary;
    for (let level = zoom.level_max; level >= 0; level -= 1) {
      const tile = Math.floor(at / (zoom.base_ns / 2 ** level));
      const rows = this.bundle.lanes[`${thread}/${level}/${tile}`];
      if (!rows) continue;
      const index = rows.start.findIndex((start, one) => start <= at && at < (rows.end[one] ?? 0));
      const row = rows.row[index] ?? -1;
      return row >= 0 ? row : null;
    }
    return null;
  }

  private slicesOf(thread: ThreadId): SliceAnswer[] {
    return Object.values(this.bundle.slices).filter((one) => one.thread === thread);
  }
}

function missing<T>(what = "that is"): Promise<T> {
  return Promise.reject(new Error(`${what} ${ELSEWHERE}`));
}

function present<T>(from: Readonly<Record<string, T>>, lanes: readonly number[], key: TileKey): T[] {
  return lanes.flatMap((lane) => from[`${lane}/${key.level}/${key.tile}`] ?? []);
}

function named<T>(from: ({ readonly names?: readonly string[] } & Readonly<Record<string, unknown>>) | undefined, lanes: readonly number[],
  key: TileKey): Named<T> {
  if (!from) return { names: [], lanes: [] };
  return { names: from.names ?? [], lanes: present(from, lanes, key) as T[] };
}
