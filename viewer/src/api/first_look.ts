// The preview of a long recording while it is read, in the form of a file's responses. Other requests go to
// the server, which responds when it can. Requests about classes do not, because the preview's classes have
// other names, and are replaced together with the page.

import { type Bundle, BundleSource } from "./bundle";
import { Server } from "./server";
import type { Named, NamedSpans, TileKey } from "./source";
import type { CounterTile, CpuRows, CriticalPath, LaneRows, RangeLedger, SampleRows, SliceAnswer, Summary, ThreadId } from "./types";

/** Comes with the page that is shown next, not here. */
function later<T>(): Promise<T> {
  return new Promise(() => undefined);
}

/** See the module. */
export class FirstLook extends Server {
  private readonly own: BundleSource;

  constructor(private readonly bundle: Bundle) {
    super();
    this.own = new BundleSource(bundle);
  }

  /** The summary known so far. */
  get known(): Summary {
    return this.bundle.summary;
  }

  override lanes(key: TileKey, threads: readonly ThreadId[]): Promise<readonly LaneRows[]> {
    return this.own.lanes(key, threads);
  }

  override counters(key: TileKey): Promise<CounterTile | null> {
    return this.own.counters(key).catch(() => ({ start_ns: 0, end_ns: 0, cell_ns: 1, series: [] }));
  }

  override cpus(): Promise<readonly CpuRows[]> {
    return Promise.resolve([]);
  }

  override samples(): Promise<Named<SampleRows>> {
    return Promise.resolve({ names: [], lanes: [] });
  }

  override spans(): Promise<NamedSpans> {
    return Promise.resolve({ names: [], kinds: [], lanes: [] });
  }

  override ledger(): Promise<RangeLedger> {
    return later();
  }

  override slice(): Promise<SliceAnswer> {
    return later();
  }

  override path(): Promise<CriticalPath> {
    return later();
  }
}
