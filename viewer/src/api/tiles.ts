// Cache of fetched tiles, and the list of wanted ones. Drawing uses the available tiles, if necessary from a
// coarser level. Missing ones are requested together, once per frame, and only those of the last frame.

import type { TileKey } from "./source";
import type { Zoom } from "./types";

/** Something fetched for one lane and one tile. */
export interface Tiled {
  readonly complete: boolean;
}

/** Fetches one tile for several lanes. The result may be in any order. */
export type FetchTiles<T> = (key: TileKey, lanes: readonly number[]) => Promise<ReadonlyMap<number, T>>;

/** The best that is there, and the tile that it belongs to. */
export interface Found<T> extends TileKey {
  readonly rows: T;
}

const LANES_PER_QUESTION = 256;
const QUESTIONS_AT_ONCE = 4;
/** Delay before a failed request is repeated. Doubled after each consecutive failure. */
const AGAIN_MS = 1000;
const AGAIN_MAX_MS = 60_000;

/** The level at which a cell is at least a pixel wide, so that no more rows come than can be seen. */
export function levelFor(zoom: Zoom, nsPerPixel: number): number {
  for (let level = zoom.level_max; level > 0; level -= 1) {
    if (zoom.base_ns / 2 ** level / zoom.cells >= nsPerPixel) return level;
  }
  return 0;
}

/** Tiles of a level that hold any of the range, as first and last number. */
export function tilesIn(zoom: Zoom, level: number, from: number, to: number, wall: number): [number, number] {
  const length = zoom.base_ns / 2 ** level;
  const last = Math.max(0, Math.ceil(Math.min(to, wall) / length) - 1);
  return [Math.min(last, Math.max(0, Math.floor(from / length))), last];
}

/** Tiles of many lanes. */
export class TileStore<T extends Tiled> {
  private readonly kept = new Map<string, T | null>();
  private readonly wanted = new Map<string, { key: TileKey; lanes: Set<number> }>();
  private readonly underway = new Set<string>();
  /** Time before which a failed tile is not requested again. */
  private readonly failed = new Map<string, number>();
  /** Delay after the next failure. */
  private patience = AGAIN_MS;
  private again: ReturnType<typeof setTimeout> | null = null;
  private questions = 0;

  constructor(
    private readonly fetchTiles: FetchTiles<T>,
    private readonly arrived: (failure: Error | null) => void,
    private readonly limit: number,
    private readonly now: () => number = () => performance.now(),
  ) {}

  /** A new frame: forgets wanted tiles that were not requested yet. */
  begin(): void {
    this.wanted.clear();
  }

  /**
   * Returns the tile, or a complete ancestor. Otherwise requests the tile and returns the nearest available
   * ancestor. If a tile is known not to exist (a file without a server has few), its parent is requested
   * instead.
   */
  find(lane: number, key: TileKey): Found<T> | null {
    let best: Found<T> | null = null;
    let missing: TileKey | null = null;
    let known = true;
    for (let up = 0; up <= key.level; up += 1) {
      const at = { level: key.level - up, tile: Math.floor(key.tile / 2 ** up) };
      const rows = this.touch(nameOf(lane, at));
      if (rows === null) continue;
      if (rows === undefined) {
        if (known) missing ??= at;
        continue;
      }
      if (up === 0 || rows.complete) return { ...at, rows };
      best ??= { ...at, rows };
      known = false;
    }
    if (missing) this.want(lane, missing);
    return best;
  }

  /** Nothing is missing and nothing is on its way. */
  get idle(): boolean {
    return this.questions === 0 && this.wanted.size === 0;
  }

  /** Asks for what this frame wanted. */
  flush(): void {
    for (const [name, { key, lanes }] of this.wanted) {
      const list = [...lanes];
      while (list.length > 0 && this.questions < QUESTIONS_AT_ONCE) this.ask(key, list.splice(0, LANES_PER_QUESTION));
      if (list.length > 0) return;
      this.wanted.delete(name);
    }
  }

  /** Returns the cached tile of a name, and marks it as the most recently used. */
  private touch(name: string): T | null | undefined {
    const rows = this.kept.get(name);
    if (rows !== undefined) {
      this.kept.delete(name);
      this.kept.set(name, rows);
    }
    return rows;
  }

  private want(lane: number, key: TileKey): void {
    if (this.underway.has(nameOf(lane, key)) || (this.failed.get(nameOf(lane, key)) ?? 0) > this.now()) return;
    const name = `${key.level}/${key.tile}`;
    const entry = this.wanted.get(name) ?? { key, lanes: new Set<number>() };
    entry.lanes.add(lane);
    this.wanted.set(name, entry);
  }

  private ask(key: TileKey, lanes: readonly number[]): void {
    this.questions += 1;
    for (const lane of lanes) this.underway.add(nameOf(lane, key));
    const done = (act: (name: string, lane: number) => void, failure: Error | null): void => {
      this.questions -= 1;
      for (const lane of lanes) {
        this.underway.delete(nameOf(lane, key));
        act(nameOf(lane, key), lane);
      }
      this.shrink();
      this.arrived(failure);
    };
    this.fetchTiles(key, lanes).then(
      (answer) => {
        this.patience = AGAIN_MS;
        done((name, lane) => {
          this.failed.delete(name);
          // A tile that does not exist is cached as null, so that it is not requested in every frame.
          this.kept.set(name, answer.get(lane) ?? null);
        }, null);
      },
      (failure: unknown) => {
        const wait = this.patience;
        done((name) => this.failed.set(name, this.now() + wait), failure instanceof Error ? failure : new Error(String(failure)));
        this.askAgain(wait);
      },
    );
  }

  /** Draws a frame when failed tiles may be requested again, because no other event might. */
  private askAgain(wait: number): void {
    if (this.again !== null) clearTimeout(this.again);
    this.again = setTimeout(() => {
      this.again = null;
      this.patience = Math.min(2 * this.patience, AGAIN_MAX_MS);
      this.arrived(null);
    }, wait + 1);
  }

  /** Asks for nothing more by itself. */
  end(): void {
    if (this.again !== null) clearTimeout(this.again);
    this.again = null;
  }

  private shrink(): void {
    for (const [name, until] of this.failed) if (until < this.now() - AGAIN_MAX_MS) this.failed.delete(name);
    for (const name of this.kept.keys()) {
      if (this.kept.size <= this.limit) return;
      this.kept.delete(name);
    }
  }
}

function nameOf(lane: number, key: TileKey): string {
  return `${lane}/${key.level}/${key.tile}`;
}
