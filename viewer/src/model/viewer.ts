// What the viewer shows, and everything that can be done with it. No drawing, no page: panels and the timeline show this state
// and call these actions, and so do tests.

import type { SliceAsk, Source } from "../api/source";
import type { Evidence, SearchResult, SliceAnswer, ThreadId, WhyLink } from "../api/types";
import { type Address, type Tab, parseAddress } from "./address";
import { Store } from "./store";
import { Catalogue } from "./threads";
import type { Ns } from "./time";
import { type Range, SAMPLE_SPAN_NS, framed, inside, panned, sameRange, zoomed } from "./view";

/** A selected slice. `slice` arrives later. */
export interface Picked {
  readonly ask: SliceAsk;
  readonly slice: SliceAnswer | null;
  readonly failure: string | null;
}

/** Kinds of stacks that links lead to: on a CPU, off the CPU, and of the wakers. */
export const ON_CPU = "on-cpu";
export const OFF_CPU = "off-cpu";
export const WAKERS = "wakers";

/** Selection and form of stacks. */
export interface StackLook {
  /** Null: of the first kind that there is. */
  readonly kind: string | null;
  /** From callees to callers. */
  readonly reverse: boolean;
  /** Only the selected thread. */
  readonly alone: boolean;
  /** In the colours of what changed, where there is another recording. */
  readonly compared: boolean;
}

/** A state for the back button. */
interface Step {
  readonly ask: SliceAsk;
  readonly view: Range;
}

/** Everything that determines the screen's content, except sizes. */
export interface State {
  /** The available data. For a long recording, findings come later than lanes. */
  readonly catalogue: Catalogue;
  readonly view: Range;
  /** The span of time that the user selected. */
  readonly range: Range | null;
  readonly picked: Picked | null;
  readonly back: readonly Step[];
  /** Index of the open finding, and which of its places is shown. */
  readonly finding: number | null;
  readonly occurrence: number;
  readonly tab: Tab;
  /** The function that the stacks or the source are about. */
  readonly fn: string | null;
  readonly stacks: StackLook;
  readonly folded: ReadonlySet<number>;
  readonly full: ReadonlySet<string>;
  readonly others: boolean;
  readonly cpus: boolean;
  /** The rows of a runtime's counters. */
  readonly counters: boolean;
  readonly path: boolean;
  readonly theme: "light" | "dark";
  readonly help: boolean;
  /** A lane to scroll into view. A new object each time. */
  readonly reveal: { readonly thread: ThreadId } | null;
  /** The latest error, for the reader. */
  readonly failure: string | null;
}

/** State and actions. */
export class Viewer {
  readonly store: Store<State>;
  readonly whole: Range;
  /** The address that named a finding before there were any. */
  private awaited: Address | null = null;
  /** Ends the question about the slice that was chosen last. */
  private asking: AbortController | null = null;

  constructor(readonly source: Source, catalogue: Catalogue, theme: "light" | "dark") {
    this.whole = { from: 0, to: Math.max(1, catalogue.summary.wall_ns) };
    this.store = new Store<State>({
      catalogue, view: this.whole, range: null, picked: null, back: [], finding: null, occurrence: 0, tab: "why", fn: null,
      stacks: { kind: null, reverse: false, alone: false, compared: true },
      folded: new Set(), full: new Set(), others: false, cpus: false, counters: false, path: false, theme, help: false, reveal: null, failure: null,
    });
  }

  get state(): State {
    return this.store.state;
  }

  get catalogue(): Catalogue {
    return this.state.catalogue;
  }

  /** Takes over the summary with the findings. Shows the first finding, unless the reader has navigated
   * already.
   */
  adopt(catalogue: Catalogue): void {
    const { picked, range, view, tab, finding } = this.state;
    const untouched = picked === null && range === null && finding === null && tab === "why" && sameRange(view, this.whole);
    this.store.set({ catalogue });
    const named = this.awaited && this.named(this.awaited);
    if (untouched) this.openFinding(named?.finding ?? 0, named?.occurrence ?? 0);
    else if (named && finding === null) this.store.set(named);
  }

  // --- moving ---

  show(view: Range): void {
    const next = inside(view, this.whole);
    if (!sameRange(next, this.state.view)) this.store.set({ view: next });
  }

  zoom(factor: number, at?: Ns): void {
    const { view, picked } = this.state;
    const slice = picked?.slice;
    const middle = slice ? (slice.start_ns + slice.end_ns) / 2 : NaN;
    const anchor = at ?? (middle >= view.from && middle <= view.to ? middle : (view.from + view.to) / 2);
    this.show(zoomed(view, factor, anchor, this.whole));
  }

  pan(share: number): void {
    this.show(panned(this.state.view, share, this.whole));
  }

  /** Shows the selection: the range, else the slice. */
  frameSelection(): void {
    const { range, picked } = this.state;
    if (range) this.show(framed(range, this.whole, 0.9));
    else if (picked?.slice) this.show(framed({ from: picked.slice.start_ns, to: picked.slice.end_ns }, this.whole));
  }

  select(range: Range | null): void {
    const next = range === null ? null : inside(range, this.whole);
    if (!sameRange(next, this.state.range)) this.store.set({ range: next });
  }

  // --- slices and why ---

  /** Chooses a slice and asks why it is as it is. `jump`: the timeline goes there. */
  async pick(ask: SliceAsk, jump: boolean, remember = true): Promise<void> {
    const before = this.state.picked;
    const back = remember && before ? [...this.state.back.slice(-99), { ask: before.ask, view: this.state.view }] : this.state.back;
    const picked: Picked = { ask, slice: null, failure: null };
    this.asking?.abort();
    const asking = (this.asking = new AbortController());
    this.store.set({ picked, back, tab: "why" });
    if (jump) this.store.set({ reveal: { thread: ask.thread } });
    try {
      const slice = await this.source.slice(ask, asking.signal);
      if (this.state.picked !== picked) return;
      // From now on it is named by its row: that stays true if the moment was at its edge.
      this.store.set({ picked: { ask: slice.row < 0 ? ask : { thread: slice.thread, row: slice.row }, slice, failure: null } });
      if (jump) this.bringIntoView({ from: slice.start_ns, to: slice.end_ns });
    } catch (failure) {
      if (this.state.picked === picked) this.store.set({ picked: { ...picked, failure: sentence(failure) } });
    }
  }

  /** Goes where a link of the chain leads. */
  follow(link: WhyLink): void {
    if (link.thread < 0) return;
    const ask: SliceAsk = link.row >= 0 ? { thread: link.thread, row: link.row } : { thread: link.thread, at: middleOf(link) };
    void this.pick(ask, true);
  }

  /** Follows the first link that leads somewhere else: "why did it wait?". */
  followFirst(): void {
    const slice = this.state.picked?.slice;
    if (!slice) return;
    const link = slice.why.slice(1).find((one) => one.thread >= 0 && (one.thread !== slice.thread || one.row !== slice.row));
    if (link) this.follow(link);
  }

  /** Returns to the slice before. */
  goBack(): void {
    const step = this.state.back.at(-1);
    if (!step) return;
    this.store.set({ back: this.state.back.slice(0, -1), view: step.view });
    void this.pick(step.ask, false, false);
    this.store.set({ reveal: { thread: step.ask.thread } });
  }

  /** The slice before or after the chosen one, of the same thread. */
  neighbour(by: "previous" | "next"): void {
    const slice = this.state.picked?.slice;
    const row = slice?.[by] ?? -1;
    if (slice && row >= 0) void this.pick({ thread: slice.thread, row }, true, false);
  }

  // --- findings ---

  /** Opens a finding and shows one of its places, by default the first, which is the worst. */
  openFinding(index: number, occurrence = 0): void {
    const finding = this.catalogue.summary.findings[index];
    if (!finding) return;
    this.store.set({ finding: index, occurrence });
    const evidence = finding.evidence[occurrence];
    if (evidence) this.showEvidence(evidence);
  }

  closeFinding(): void {
    this.store.set({ finding: null, occurrence: 0 });
  }

  /** Next (1) or previous (-1) place of the open finding. Opens the first finding if none is open. */
  step(by: 1 | -1): void {
    const { finding, occurrence } = this.state;
    if (finding === null) return this.openFinding(0);
    const places = this.catalogue.summary.findings[finding]?.evidence.length ?? 0;
    if (places > 0) this.openFinding(finding, (occurrence + by + places) % places);
  }

  /** Next or previous finding. */
  stepFinding(by: 1 | -1): void {
    const all = this.catalogue.summary.findings.length;
    if (all > 0) this.openFinding(this.state.finding === null ? 0 : (this.state.finding + by + all) % all);
  }

  private showEvidence(evidence: Evidence): void {
    const around = evidence.table === "samples" ? SAMPLE_SPAN_NS / 2 : 0;
    const span = { from: evidence.start_ns - around, to: evidence.start_ns + evidence.duration_ns + around };
    this.show(framed(span, this.whole, 1 / 3));
    const { thread, row } = evidence;
    void this.pick(row >= 0 ? { thread, row } : { thread, at: evidence.start_ns + evidence.duration_ns / 2 }, false);
    this.store.set({ reveal: { thread: evidence.thread } });
  }

  // --- other places ---

  /** Goes to a span of a thread's life, as tables and search results name it. */
  goTo(place: { thread: ThreadId; start_ns: Ns; end_ns: Ns }): void {
    const thread = this.catalogue.threads.get(place.thread);
    const wholeLife = thread && place.start_ns <= thread.start_ns && place.end_ns >= thread.end_ns;
    if (place.end_ns > place.start_ns) {
      this.show(framed({ from: place.start_ns, to: place.end_ns }, this.whole, wholeLife ? 1 : 1 / 3));
    }
    if (place.thread < 0) return;
    this.store.set({ reveal: { thread: place.thread } });
    if (!wholeLife && place.end_ns > place.start_ns) {
      void this.pick({ thread: place.thread, at: (place.start_ns + place.end_ns) / 2 }, false);
    }
  }

  /** Shows a function's stacks: those of a kind, where it was seen in one. */
  openFunction(fn: string | null, kind?: string): void {
    this.store.set({ fn, tab: "stacks" });
    if (kind !== undefined) this.lookAt({ kind });
  }

  /** Shows other stacks, or the same otherwise. */
  lookAt(look: Partial<StackLook>): void {
    this.store.set({ stacks: { ...this.state.stacks, ...look } });
  }

  /** Opens a search result. */
  openResult(result: SearchResult): void {
    if (result.kind === "function") return this.openFunction(result.name, ON_CPU);
    if (result.kind === "finding") {
      const index = this.catalogue.summary.findings.findIndex((one) => one.rule === result.name && one.subject === result.detail);
      return this.openFinding(index);
    }
    if (result.kind === "lock") this.openTab("locks");
    this.goTo(result);
  }

  openTab(tab: Tab): void {
    this.store.set({ tab });
  }

  toggleProcess(id: number): void {
    this.store.set({ folded: toggled(this.state.folded, id) });
  }

  /** Shows or hides the threads of a "more" row. */
  toggleMore(id: string): void {
    this.store.set({ full: toggled(this.state.full, id) });
  }

  fail(failure: unknown): void {
    this.store.set({ failure: sentence(failure) });
  }

  // --- addresses ---

  /** The address of the current view. */
  address(): Address {
    const { view, range, picked, finding, occurrence, tab, fn, stacks } = this.state;
    const slice = picked?.slice;
    return {
      ...(slice && { t: slice.start_ns, thread: slice.thread }),
      // A moment alone would be shown from near.
      ...((slice || !sameRange(view, this.whole)) && { view }),
      ...(range && { range }),
      ...(finding !== null && { finding: finding + 1 }),
      ...(finding !== null && occurrence > 0 && { place: occurrence + 1 }),
      ...(tab !== "why" && { tab }),
      ...(fn && { fn }),
      ...(stacks.kind !== null && { kind: stacks.kind }),
      ...(stacks.reverse && { reverse: true }),
      ...(stacks.alone && { alone: true }),
    };
  }

  /** Shows the view of an address. Invalid parts are ignored. */
  open(hash: string): void {
    const asked = parseAddress(hash);
    if (this.catalogue.summary.pending) this.awaited = asked.finding === undefined ? null : asked;
    const named = this.named(asked);
    if (named && asked.t === undefined) this.openFinding(named.finding, named.occurrence);
    else if (named) this.store.set(named);
    if (asked.range) this.select(asked.range);
    if (asked.t !== undefined) this.openMoment(asked.t, asked.thread, asked.view === undefined);
    else if (asked.thread !== undefined) this.store.set({ reveal: { thread: asked.thread } });
    if (asked.view) this.show(asked.view);
    if (asked.fn) this.store.set({ fn: asked.fn });
    if (asked.kind || asked.reverse || asked.alone) {
      this.lookAt({ kind: asked.kind ?? null, reverse: asked.reverse === true, alone: asked.alone === true });
    }
    if (asked.tab) this.store.set({ tab: asked.tab });
  }

  /** The finding and place of an address: the given place, otherwise the one with its thread and time. */
  private named({ finding, place, thread, t }: Address): { finding: number; occurrence: number } | null {
    const index = (finding ?? 0) - 1;
    const evidence = this.catalogue.summary.findings[index]?.evidence;
    if (!evidence) return null;
    const covers = (one: Evidence): boolean => one.thread === thread && t !== undefined && one.start_ns <= t && t <= one.start_ns + one.duration_ns;
    const said = (place ?? 0) - 1;
    const at = said in evidence ? said : evidence.findIndex(covers);
    return { finding: index, occurrence: Math.max(0, at) };
  }

  private openMoment(t: Ns, thread: ThreadId | undefined, jump: boolean): void {
    const length = Math.min(this.whole.to, 20e6);
    this.show({ from: t - length / 2, to: t + length / 2 });
    if (thread !== undefined && this.catalogue.threads.has(thread)) {
      void this.pick({ thread, at: t }, jump);
      this.store.set({ reveal: { thread } });
    }
  }

  /** Moves as little as needed for the span to be seen, and zooms in where it would be too narrow to see. */
  private bringIntoView(span: Range): void {
    const { view } = this.state;
    const share = (span.to - span.from) / (view.to - view.from);
    const seen = span.from >= view.from && span.to <= view.to;
    if (share < 0.01 || share > 3) this.show(framed(span, this.whole, 1 / 3));
    else if (!seen) {
      const middle = (span.from + span.to) / 2;
      const half = (view.to - view.from) / 2;
      this.show({ from: middle - half, to: middle + half });
    }
  }
}

function middleOf(link: { start_ns: Ns; end_ns: Ns }): Ns {
  return (link.start_ns + link.end_ns) / 2;
}

function toggled<T>(set: ReadonlySet<T>, id: T): ReadonlySet<T> {
  const next = new Set(set);
  if (!next.delete(id)) next.add(id);
  return next;
}

/** A failure as a sentence for the reader. */
export function sentence(failure: unknown): string {
  return failure instanceof Error ? failure.message : String(failure);
}
