// Asks the server of `holdup view`, at addresses relative to the page.

import type { Bundle } from "./bundle";
import type { Range } from "../model/view";
import type { Named, NamedSpans, SliceAsk, Source, TileKey } from "./source";
import type {
  CounterTile, CpuRows, CriticalPath, Flame, FlameAsk, LaneRows, RangeLedger, SampleRows, SearchResult, SliceAnswer,
  Summary, Table, ThreadId, Wakeups,
} from "./types";

type Parameters = Readonly<Record<string, string | number | undefined>>;

/** The server's progress with a request. */
export interface Progress {
  readonly sentence: string;
  readonly switches: number;
  /** Since it was first asked. */
  readonly seconds: number;
}

/** See the module. */
export class Server implements Source {
  /** `told` hears how far it is, while the first answer takes its time. */
  constructor(private readonly told: (progress: Progress) => void = () => undefined) {}

  summary(complete: boolean): Promise<Summary> {
    return ask("summary", complete ? { complete: 1 } : {}, complete ? {} : { told: this.told });
  }

  /** The preview until the recording is read. Null if that will be soon. */
  firstLook(): Promise<Bundle | null> {
    return ask("first-look", {}, { told: this.told, againMs: SOON_MS });
  }

  async lanes(key: TileKey, threads: readonly ThreadId[]): Promise<readonly LaneRows[]> {
    return (await ask<{ lanes: readonly LaneRows[] }>("lanes", { ...key, threads: threads.join(",") })).lanes;
  }

  async cpus(key: TileKey, cpus: readonly number[]): Promise<readonly CpuRows[]> {
    return (await ask<{ cpus: readonly CpuRows[] }>("cpus", { ...key, cpus: cpus.join(",") })).cpus;
  }

  counters(key: TileKey): Promise<CounterTile | null> {
    return ask("counters", { ...key });
  }

  samples(key: TileKey, threads: readonly ThreadId[]): Promise<Named<SampleRows>> {
    return ask("samples", { ...key, threads: threads.join(",") });
  }

  spans(key: TileKey, threads: readonly ThreadId[]): Promise<NamedSpans> {
    return ask("spans", { ...key, threads: threads.join(",") });
  }

  wakeups(range: Range, threads: readonly ThreadId[], signal?: AbortSignal): Promise<Wakeups> {
    return ask("wakeups", { ...rounded(range), threads: threads.join(",") }, { signal });
  }

  slice(which: SliceAsk, signal?: AbortSignal): Promise<SliceAnswer> {
    return ask("slice", "row" in which ? { ...which } : { thread: which.thread, at: Math.round(which.at) }, { signal });
  }

  ledger(range: Range, threads: readonly ThreadId[], signal?: AbortSignal): Promise<RangeLedger> {
    return ask("ledger", { ...rounded(range), threads: threads.length > 0 ? threads.join(",") : undefined }, { signal });
  }

  flame(wanted: FlameAsk, signal?: AbortSignal): Promise<Flame> {
    return ask("flame", {
      kind: wanted.kind,
      from: wanted.from === undefined ? undefined : Math.floor(wanted.from),
      to: wanted.to === undefined ? undefined : Math.ceil(wanted.to),
      threads: wanted.threads && wanted.threads.length > 0 ? wanted.threads.join(",") : undefined,
      reverse: wanted.reverse ? 1 : undefined,
      function: wanted.function,
      against: wanted.against ? 1 : undefined,
    }, { signal });
  }

  table(name: string, signal?: AbortSignal): Promise<Table> {
    return ask(`tables/${encodeURIComponent(name)}`, {}, { signal });
  }

  async search(text: string, signal?: AbortSignal): Promise<readonly SearchResult[]> {
    return (await ask<{ results: readonly SearchResult[] }>("search", { q: text }, { signal })).results;
  }

  annotate(name: string, signal?: AbortSignal): Promise<unknown> {
    return ask("annotate", { function: name }, { signal });
  }

  path(range: Range, signal?: AbortSignal): Promise<CriticalPath> {
    return ask("path", rounded(range), { signal });
  }
}

/** Whole nanoseconds: the server takes no others. */
function rounded(range: Range): { from: number; to: number } {
  return { from: Math.max(0, Math.floor(range.from)), to: Math.ceil(range.to) };
}

/** Delays before repeating a request with the response "not yet". */
const AGAIN_MS = [100, 150, 200, 300];
/** Delay for a response that exists within a second, or never. */
const SOON_MS = [40];

/** How a question is asked. */
interface Manner {
  readonly told?: ((progress: Progress) => void) | undefined;
  readonly againMs?: readonly number[];
  readonly signal?: AbortSignal | undefined;
}

async function ask<T>(what: string, parameters: Parameters, { told, againMs = AGAIN_MS, signal }: Manner = {}): Promise<T> {
  const query = new URLSearchParams();
  for (const [name, value] of Object.entries(parameters)) if (value !== undefined) query.set(name, String(value));
  const text = query.toString();
  const start = performance.now();
  for (let times = 0; ; times += 1) {
    const { status, ok, body } = await inTurn(() => fetched(`api/${what}${text ? `?${text}` : ""}`, signal), signal);
    if (!ok) throw new Error(textOf(body, "error") ?? `the server refused (${status})`);
    if (status !== 202) return body as T;
    const switches = body !== null && typeof body === "object" && "switches" in body ? Number(body.switches) : 0;
    told?.({ sentence: textOf(body, "sentence") ?? "", switches, seconds: (performance.now() - start) / 1000 });
    // Out of turn: other questions may have an answer already.
    await new Promise((done) => setTimeout(done, againMs[Math.min(times, againMs.length - 1)]));
  }
}

async function fetched(address: string, signal: AbortSignal | undefined): Promise<{ status: number; ok: boolean; body: unknown }> {
  try {
    const answer = await fetch(address, { credentials: "omit", redirect: "error", ...(signal && { signal }) });
    return { status: answer.status, ok: answer.ok, body: await answer.json() };
  } catch {
    throw new Error(signal?.aborted ? UNWANTED : "holdup does not respond: was `holdup view` stopped?");
  }
}

/** Never displayed. */
const UNWANTED = "cancelled";

/** Browsers open at most six connections. This number of requests runs in parallel. */
const AT_ONCE = 4;
let running = 0;
const turns: (() => void)[] = [];

/** Waits until fewer than `AT_ONCE` questions are on their way. */
async function inTurn<T>(act: () => Promise<T>, signal: AbortSignal | undefined): Promise<T> {
  if (signal?.aborted) throw new Error(UNWANTED);
  if (running >= AT_ONCE) await turn(signal);
  else running += 1;
  try {
    return await act();
  } finally {
    const next = turns.shift();
    if (next) next();
    else running -= 1;
  }
}

/** Resolves when a slot is passed on. Leaves the queue when the request is aborted. */
function turn(signal: AbortSignal | undefined): Promise<void> {
  return new Promise((done, refuse) => {
    const leave = (): void => {
      turns.splice(turns.indexOf(take), 1);
      refuse(new Error(UNWANTED));
    };
    const take = (): void => {
      signal?.removeEventListener("abort", leave);
      done();
    };
    turns.push(take);
    signal?.addEventListener("abort", leave, { once: true });
  });
}

function textOf(body: unknown, name: "error" | "sentence"): string | null {
  const text: unknown = body !== null && typeof body === "object" ? (body as Readonly<Record<string, unknown>>)[name] : null;
  return typeof text === "string" ? text : null;
}
