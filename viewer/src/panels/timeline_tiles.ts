// The timeline's stores of tiles, and the parts of them that a view needs.

import type { Source, TileKey } from "../api/source";
import { type Found, TileStore, levelFor, tilesIn } from "../api/tiles";
import type { CounterTile, CpuRows, LaneRows, SampleRows, SpanRows, Zoom } from "../api/types";
import type { Part, SpanWords } from "../layout/lane";
import type { CounterPart } from "../layout/timeline";
import type { Range } from "../model/view";

type SpanTile = SpanRows & SpanWords;
type NamedRows<T> = T & { readonly names: readonly string[]; readonly complete: boolean };

const LANES_KEPT = 3000;

/** See the module. */
export class TimelineTiles {
  private readonly lanes: TileStore<LaneRows>;
  private readonly cpuLanes: TileStore<CpuRows>;
  private readonly sampleLanes: TileStore<NamedRows<SampleRows>>;
  private readonly spanLanes: TileStore<SpanTile>;
  private readonly counterTiles: TileStore<CounterTile & { complete: boolean }>;
  private readonly depths = new Map<number, number>();
  private level = 0;
  private view: Range = { from: 0, to: 1 };

  constructor(source: Source, private readonly zoom: Zoom, private readonly wall: number, arrived: (failure: Error | null) => void) {
    const quietly = (): void => arrived(null);
    this.lanes = new TileStore(async (key, lanes) => mapBy(await source.lanes(key, lanes), (one) => one.thread), arrived, LANES_KEPT);
    this.cpuLanes = new TileStore(async (key, cpus) => mapBy(await source.cpus(key, cpus), (one) => one.cpu), arrived, 1000);
    this.sampleLanes = new TileStore(
      async (key, lanes) => {
        const { names, lanes: rows } = await source.samples(key, lanes);
        return mapBy(rows.map((one) => ({ ...one, names, complete: one.every <= 1 })), (one) => one.thread);
      },
      quietly,
      LANES_KEPT,
    );
    this.spanLanes = new TileStore(
      async (key, lanes) => {
        const { names, kinds, lanes: rows } = await source.spans(key, lanes);
        return mapBy(rows.map((one) => ({ ...one, names, kinds })), (one) => one.thread);
      },
      quietly,
      LANES_KEPT,
    );
    const counters = async (key: TileKey) => {
      const tile = await source.counters(key);
      return new Map(tile ? [[0, { ...tile, complete: false }]] : []);
    };
    this.counterTiles = new TileStore(counters, arrived, 200);
  }

  /** A new frame of this view, with this width in pixels. */
  begin(view: Range, width: number): void {
    this.view = view;
    this.level = levelFor(this.zoom, (view.to - view.from) / Math.max(1, width));
    for (const store of this.stores()) store.begin();
  }

  flush(): void {
    for (const store of this.stores()) store.flush();
  }

  /** The view is no longer shown. */
  end(): void {
    for (const store of this.stores()) store.end();
  }

  /** Whether no request is pending, so that the drawing is complete. */
  get idle(): boolean {
    return this.stores().every((store) => store.idle);
  }

  slices(thread: number): Part<LaneRows>[] {
    return this.parts(this.lanes, thread);
  }

  cpus(cpu: number): Part<CpuRows>[] {
    return this.parts(this.cpuLanes, cpu);
  }

  samples(thread: number): Part<NamedRows<SampleRows>>[] {
    return this.parts(this.sampleLanes, thread);
  }

  spans(thread: number): Part<SpanTile>[] {
    const parts = this.parts(this.spanLanes, thread);
    for (const { rows } of parts) {
      const deepest = rows.depth.reduce((most, one) => Math.max(most, one + 1), 0);
      if (deepest > this.depthOf(thread)) this.depths.set(thread, deepest);
    }
    return parts;
  }

  /** Maximum nesting depth of this thread's spans, as far as known yet. */
  depthOf(thread: number): number {
    return this.depths.get(thread) ?? 0;
  }

  counters(): CounterPart[] {
    return this.parts(this.counterTiles, 0).map((part) => this.counterPart(part));
  }

  overview(): CounterPart[] {
    const found = this.counterTiles.find(0, { level: 0, tile: 0 });
    return found ? [this.counterPart({ rows: found.rows, from: 0, to: this.wall })] : [];
  }

  private counterPart(part: Part<CounterTile>): CounterPart {
    const { start_ns, end_ns, cell_ns, series } = part.rows;
    return { from: start_ns, to: Math.min(end_ns, this.wall), cell_ns, series };
  }

  private parts<T extends { complete: boolean }>(store: TileStore<T>, lane: number): Part<T>[] {
    const out: Part<T>[] = [];
    const length = this.zoom.base_ns / 2 ** this.level;
    const [first, last] = tilesIn(this.zoom, this.level, this.view.from, this.view.to, this.wall);
    let before: Found<T> | null = null;
    for (let tile = first; tile <= last; tile += 1) {
      const found = store.find(lane, { level: this.level, tile });
      if (!found) continue;
      const part = out[out.length - 1];
      // Two tiles may find the same ancestor: one part of it, not two.
      if (part && before?.rows === found.rows) out[out.length - 1] = { ...part, to: (tile + 1) * length };
      else out.push({ rows: found.rows, from: tile * length, to: (tile + 1) * length });
      before = found;
    }
    return out;
  }

  private stores(): { begin(): void; flush(): void; end(): void; idle: boolean }[] {
    return [this.lanes, this.cpuLanes, this.sampleLanes, this.spanLanes, this.counterTiles];
  }
}

function mapBy<T>(list: readonly T[], id: (one: T) => number): Map<number, T> {
  return new Map(list.map((one) => [id(one), one]));
}
