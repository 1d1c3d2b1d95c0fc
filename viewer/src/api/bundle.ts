// Responses from an `--html` file: no server, no network. Missing data is reported, not guessed.

import type { Ns } from "../model/time";
import type { Range } from "../model/view";
import { bareSlice, rangeLedger, searchSummary, wakeupsOf } from "./from_rows";
import type { Named, NamedSpans, SliceAsk, Source, TileKey } from "./source";
import type {
  CounterTile, CpuRows, CriticalPath, Flame, FlameAsk, LaneRows, RangeLedger, SampleRows, SearchResult, SliceAnswer, SpanKind, SpanRows,
  Summary, Table, ThreadId, Wakeups,
} from "./types";

/** Content of the file, by flat keys (`lanes/THREAD/LEVEL/TILE`), see `docs/viewer-api.md`. */
export interface Bundle {
  readonly api: number;
  readonly summary: Summary;
  readonly [key: string]: unknown;
}

/** An answer of the file. Its form is taken for granted: the same program wrote page and answers. */
export function held<T>(bundle: Bundle, ...key: readonly (string | number)[]): T | null {
  const name = key.join("/");
  return Object.hasOwn(bundle, name) ? (bundle[name] as T) : null;
}

/** All answers of a kind. */
export function allHeld<T>(bundle: Bundle, kind: string): T[] {
  return Object.keys(bundle).filter((key) => key.startsWith(`${kind}/`)).map((key) => bundle[key] as T);
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
  private readonly slices: readonly SliceAnswer[];

  constructor(private readonly bundle: Bundle) {
    this.slices = allHeld<SliceAnswer>(bundle, "slices");
  }

  summary(): Promise<Summary> {
    return Promise.resolve(this.bundle.summary);
  }

  lanes(key: TileKey, threads: readonly ThreadId[]): Promise<readonly LaneRows[]> {
    return Promise.resolve(this.present<LaneRows>("lanes", key, threads));
  }

  cpus(key: TileKey, cpus: readonly number[]): Promise<readonly CpuRows[]> {
    return Promise.resolve(this.present<CpuRows>("cpus", key, cpus));
  }

  counters(key: TileKey): Promise<CounterTile | null> {
    return Promise.resolve(held<CounterTile>(this.bundle, "counters", key.level, key.tile));
  }

  samples(key: TileKey, threads: readonly ThreadId[]): Promise<Named<SampleRows>> {
    return Promise.resolve(joined(this.present<NamedLane<SampleRows>>("samples", key, threads)));
  }

  spans(key: TileKey, threads: readonly ThreadId[]): Promise<NamedSpans> {
    return Promise.resolve(joinedSpans(this.present<NamedSpans>("spans", key, threads)));
  }

  wakeups(range: Range, threads: readonly ThreadId[]): Promise<Wakeups> {
    return Promise.resolve(wakeupsOf(this.slices, range, threads));
  }

  slice(ask: SliceAsk): Promise<SliceAnswer> {
    const row = "row" in ask ? ask.row : this.rowAt(ask.thread, ask.at);
    const found = row === null ? null : held<SliceAnswer>(this.bundle, "slices", ask.thread, row);
    if (found) return Promise.resolve(found);
    const around = "at" in ask && this.slices.find((one) => one.thread === ask.thread && one.start_ns <= ask.at && ask.at < one.end_ns);
    if (around) return Promise.resolve(around);
    const bare = row === null ? null : bareSlice(this.bundle, ask.thread, row);
    return bare ? Promise.resolve(bare) : missing();
  }

  ledger(range: Range, threads: readonly ThreadId[]): Promise<RangeLedger> {
    return Promise.resolve(rangeLedger(this.bundle, range, threads));
  }

  flame(ask: FlameAsk): Promise<Flame> {
    if (ask.from !== undefined || ask.function !== undefined || (ask.threads && ask.threads.length > 0)) {
      return missing("stacks of a range, a thread or a function are");
    }
    const found = held<Flame>(this.bundle, "flames", ...(ask.reverse ? [ask.kind, "reverse"] : [ask.kind]));
    if (!found) return missing();
    if (ask.against) return Promise.resolve(found);
    const { before_ns: _, before_total_ns: __, ...plain } = found;
    return Promise.resolve(plain);
  }

  table(name: string): Promise<Table> {
    const found = held<Table>(this.bundle, "tables", name);
    return found ? Promise.resolve(found) : missing();
  }

  search(text: string): Promise<readonly SearchResult[]> {
    return Promise.resolve(searchSummary(this.bundle, text));
  }

  annotate(): Promise<unknown> {
    return missing("source and instructions are");
  }

  path(range: Range): Promise<CriticalPath> {
    const whole = range.from <= 0 && range.to >= this.bundle.summary.wall_ns;
    // The path of a part is not a part of the whole's: it begins with what ended the part.
    const found = whole ? held<CriticalPath>(this.bundle, "path") : null;
    return found ? Promise.resolve(found) : missing(whole ? "the critical path is" : "the critical path of a part of the run is");
  }

  /** Row of the slice at a moment, from the deepest tile that holds it. */
  private rowAt(thread: ThreadId, at: Ns): number | null {
    const { zoom } = this.bundle.summary;
    for (let level = zoom.level_max; level >= 0; level -= 1) {
      const tile = Math.floor(at / (zoom.base_ns / 2 ** level));
      const rows = held<LaneRows>(this.bundle, "lanes", thread, level, tile);
      if (!rows) continue;
      const index = rows.start.findIndex((start, one) => start <= at && at < (rows.end[one] ?? 0));
      const row = rows.row[index] ?? -1;
      return row >= 0 ? row : null;
    }
    return null;
  }

  private present<T>(kind: string, key: TileKey, lanes: readonly number[]): T[] {
    return lanes.flatMap((lane) => held<T>(this.bundle, kind, lane, key.level, key.tile) ?? []);
  }
}

interface NamedLane<T> {
  readonly names: readonly string[];
  readonly lane: T;
}

function missing<T>(what = "that is"): Promise<T> {
  return Promise.reject(new Error(`${what} ${ELSEWHERE}`));
}

/** Samples that each have names of their own, under one list of names. */
function joined(parts: readonly NamedLane<SampleRows>[]): Named<SampleRows> {
  const names: string[] = [];
  const lanes = parts.map(({ names: own, lane }) => {
    const shift = names.length;
    names.push(...own);
    return { ...lane, leaf: shifted(lane.leaf, shift) };
  });
  return { names, lanes };
}

function joinedSpans(parts: readonly NamedSpans[]): NamedSpans {
  const out = { names: [] as string[], kinds: [] as SpanKind[], lanes: [] as SpanRows[] };
  for (const part of parts) {
    out.lanes.push(...part.lanes.map((lane) => ({ ...lane, name: shifted(lane.name, out.names.length) })));
    out.names.push(...part.names);
    out.kinds.push(...part.kinds);
  }
  return out;
}

function shifted(list: readonly number[], by: number): number[] {
  return list.map((one) => (one < 0 ? one : one + by));
}
