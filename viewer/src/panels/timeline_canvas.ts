// The timeline's canvas: sizes, pointer and wheel, and when to paint. `layout/timeline.ts` has the painting,
// and `model/viewer.ts` the actions.

import type { CriticalPath, LaneRows, Wakeups } from "../api/types";
import { Painter } from "../draw/canvas";
import { type Part, SPAN_H, rowIndexAt, spanAt } from "../layout/lane";
import { LANE_H, type Row, type Rows, layoutRows, rowAt } from "../layout/rows";
import { LABEL_W, OVERVIEW_H, PINNED_H, type TimelineInput, composeTimeline, ownCounters } from "../layout/timeline";
import type { State, Viewer } from "../model/viewer";
import type { Catalogue } from "../model/threads";
import { type Range, sameRange, toNs } from "../model/view";
import { hoverText, spanText } from "./hover";
import { labelOf } from "./labels";
import { TimelineTiles } from "./timeline_tiles";

/** State of a drag. */
type Drag =
  | { readonly kind: "pan"; readonly x: number; readonly y: number; readonly view: Range; readonly scroll: number; moved: boolean }
  | { readonly kind: "select"; readonly from: number; moved: boolean }
  | { readonly kind: "overview"; moved: boolean };

/** Elements that the canvas works with. */
export interface Parts {
  readonly canvas: HTMLCanvasElement;
  /** Scrolls vertically, while the canvas stays in place. */
  readonly scroller: HTMLElement;
  /** As high as all rows, so that the scroller has something to scroll. */
  readonly spacer: HTMLElement;
  readonly hover: HTMLElement;
}

/** See the module. */
export class TimelineCanvas {
  private tiles: TimelineTiles;
  /** Data and range of the last painting. */
  private painted: { readonly catalogue: Catalogue; readonly view: Range };
  private painter: Painter | null = null;
  private painterKey = "";
  private rows: Rows = { rows: [], height: 0 };
  private rowsOf: readonly unknown[] = [];
  private frame = 0;
  private ended = false;
  private drag: Drag | null = null;
  private pointer: number | null = null;
  private revealed: State["reveal"] = null;
  private readonly undo: (() => void)[] = [];
  wakeups: Wakeups | null = null;
  path: CriticalPath | null = null;

  constructor(private readonly viewer: Viewer, private readonly parts: Parts) {
    this.tiles = this.newTiles();
    this.painted = { catalogue: viewer.catalogue, view: viewer.state.view };
    this.listen();
    this.undo.push(viewer.store.subscribe(() => this.ask()));
    const watcher = new ResizeObserver(() => this.ask());
    watcher.observe(parts.scroller);
    this.undo.push(() => watcher.disconnect());
    this.ask();
  }

  /** Lets go of everything. */
  end(): void {
    this.ended = true;
    this.tiles.end();
    cancelAnimationFrame(this.frame);
    for (const undo of this.undo) undo();
  }

  private newTiles(): TimelineTiles {
    return new TimelineTiles(this.viewer.source, this.viewer.catalogue.summary.zoom, this.viewer.whole.to, (failure) => {
      if (failure) this.viewer.fail(failure);
      this.ask();
    });
  }

  /** Paints with the next frame. */
  ask(): void {
    if (this.frame === 0 && !this.ended) this.frame = requestAnimationFrame(() => this.paint());
  }

  private get width(): number {
    return this.parts.scroller.clientWidth;
  }

  private get height(): number {
    return this.parts.scroller.clientHeight;
  }

  private paint(): void {
    this.frame = 0;
    const pen = this.resized();
    if (!pen) {
      this.parts.canvas.dataset["idle"] = "true";
      this.viewer.fail(new Error("This browser has no canvas support, so there is no timeline. Findings, Why and tables still work."));
      return;
    }
    const { catalogue, view } = this.viewer.state;
    // The findings brought another place to show. It is requested like the first one of the next opening,
    // with the same words, so that its responses are cached.
    if (catalogue !== this.painted.catalogue && !sameRange(view, this.painted.view)) {
      this.tiles.end();
      this.tiles = this.newTiles();
    }
    this.painted = { catalogue, view };
    this.tiles.begin(this.viewer.state.view, this.width - LABEL_W);
    this.layout();
    this.painter?.paint(composeTimeline(this.input()));
    this.tiles.flush();
    // Tests wait for this: the view is completely rendered.
    this.parts.canvas.dataset["idle"] = String(this.tiles.idle);
  }

  /** The canvas in the scroller's size, sharp on every screen. */
  private resized(): CanvasRenderingContext2D | null {
    const { canvas } = this.parts;
    const density = window.devicePixelRatio || 1;
    const [w, h] = [Math.round(this.width * density), Math.round(this.height * density)];
    if (canvas.width !== w || canvas.height !== h) {
      canvas.width = w;
      canvas.height = h;
      canvas.style.width = `${this.width}px`;
      canvas.style.height = `${this.height}px`;
    }
    const pen = canvas.getContext("2d", { alpha: false });
    if (!pen) return null;
    pen.setTransform(density, 0, 0, density, 0, 0);
    const key = `${this.viewer.state.theme}/${density}`;
    if (!this.painter || key !== this.painterKey) {
      this.painter = new Painter(pen, this.viewer.state.theme, density);
      this.painterKey = key;
    }
    return pen;
  }

  /** Computes the rows again after a relevant change, and scrolls the requested lane into view. */
  private layout(): void {
    const { state, catalogue } = this.viewer;
    const below = cpuBelow(state);
    const counters = ownCounters(this.tiles.overview());
    const depths = catalogue.summary.threads.reduce((sum, one) => sum + this.tiles.depthOf(one.id), 0);
    const of = [catalogue, depths, counters.join("\n"), state.counters, state.folded, state.full, state.others, state.cpus, state.finding, below?.thread, below?.cpu, state.reveal, this.wakeups];
    if (of.some((one, at) => !Object.is(one, this.rowsOf[at])) || this.rowsOf.length === 0) {
      this.rowsOf = of;
      const finding = state.finding === null ? undefined : catalogue.summary.findings[state.finding];
      const needed = new Set([...(finding ? catalogue.threadsOf(finding) : []), ...(state.reveal ? [state.reveal.thread] : [])]);
      this.rows = layoutRows({
        threads: catalogue.summary.threads, processes: catalogue.summary.processes, folded: state.folded, full: state.full,
        others: state.others, spanDepths: (thread) => this.tiles.depthOf(thread), counters, countersOpen: state.counters,
        cpus: state.cpus ? catalogue.summary.cpus.map((one) => one.cpu) : [], cpuBelow: below, needed,
      });
      this.parts.spacer.style.height = `${this.rows.height + PINNED_H}px`;
    }
    if (state.reveal !== this.revealed) {
      this.revealed = state.reveal;
      this.reveal(state.reveal?.thread ?? -1);
    }
  }

  private reveal(thread: number): void {
    const found = this.rows.rows.find((one) => one.kind === "thread" && one.id === thread);
    if (!found) return;
    const { scroller } = this.parts;
    const room = this.height - PINNED_H;
    if (found.y < scroller.scrollTop) scroller.scrollTop = Math.max(0, found.y - 30);
    else if (found.y + 2 * found.h > scroller.scrollTop + room) scroller.scrollTop = found.y + 3 * found.h - room;
  }

  private input(): TimelineInput {
    const { state, catalogue, whole } = this.viewer;
    const { summary } = catalogue;
    const finding = state.finding === null ? undefined : summary.findings[state.finding];
    return {
      size: { width: this.width, height: this.height, scroll: this.parts.scroller.scrollTop },
      view: state.view,
      whole,
      rows: this.rows.rows,
      classNames: catalogue.classNames,
      label: (row) => labelOf(catalogue, row, finding),
      threadName: (thread, width) => catalogue.nameIn(thread, width),
      classKinds: summary.classes.map((one) => one.kind),
      isTarget: (thread) => catalogue.threads.get(thread)?.target === true,
      slices: (thread) => this.tiles.slices(thread),
      cpus: (cpu) => this.tiles.cpus(cpu),
      spans: (thread) => this.tiles.spans(thread),
      samples: (thread) => (state.view.to - state.view.from < 2e9 ? this.tiles.samples(thread) : []),
      counters: this.tiles.counters(),
      overview: this.tiles.overview(),
      cpuCount: Math.max(1, catalogue.cpus),
      range: state.range,
      picked: state.picked?.slice ?? null,
      wakeups: this.wakeups,
      lit: (finding?.evidence ?? []).map((one) => ({ thread: one.thread, from: one.start_ns, to: one.start_ns + one.duration_ns })),
      current: state.occurrence,
      losses: summary.losses.map((one) => ({ from: one.start_ns, to: one.end_ns })),
      path: state.path ? this.path : null,
      pointer: this.pointer,
    };
  }

  // --- pointer and wheel ---

  private listen(): void {
    const { canvas, scroller } = this.parts;
    const on = <K extends keyof HTMLElementEventMap>(to: HTMLElement, name: K, act: (event: HTMLElementEventMap[K]) => void): void => {
      to.addEventListener(name, act, { passive: false });
      this.undo.push(() => to.removeEventListener(name, act));
    };
    on(scroller, "scroll", () => this.ask());
    on(canvas, "wheel", (event) => this.wheel(event));
    on(canvas, "pointerdown", (event) => this.down(event));
    on(canvas, "pointermove", (event) => this.move(event));
    on(canvas, "pointerup", (event) => this.up(event));
    on(canvas, "pointercancel", () => (this.drag = null));
    on(canvas, "pointerleave", () => this.leave());
    on(canvas, "dblclick", () => this.viewer.frameSelection());
  }

  private ns(x: number, range: Range): number {
    return toNs(Math.max(LABEL_W, x), range, LABEL_W, Math.max(1, this.width - LABEL_W));
  }

  private wheel(event: WheelEvent): void {
    const scale = event.deltaMode === 1 ? 16 : event.deltaMode === 2 ? 400 : 1;
    const sideways = event.shiftKey && event.deltaX === 0 ? event.deltaY : event.deltaX;
    const upright = event.shiftKey && event.deltaX === 0 ? 0 : event.deltaY;
    const fits = this.rows.height <= this.height - PINNED_H;
    const zooms = event.ctrlKey || event.metaKey || fits || event.offsetY < PINNED_H;
    if (sideways !== 0) this.viewer.pan((sideways * scale) / Math.max(1, this.width - LABEL_W));
    if (zooms && upright !== 0) {
      // A touchpad's pinch sends small steps with Ctrl, a mouse wheel steps of about 100.
      const gain = event.ctrlKey && Math.abs(event.deltaY) < 40 ? 0.012 : 0.0025;
      this.viewer.zoom(Math.exp(Math.max(-100, Math.min(100, upright * scale)) * gain), this.ns(event.offsetX, this.viewer.state.view));
    }
    if (zooms || sideways !== 0) event.preventDefault();
  }

  private down(event: PointerEvent): void {
    if (event.button !== 0) return;
    this.parts.canvas.focus({ preventScroll: true });
    if (event.offsetX < LABEL_W) return this.clickLabel(this.rowUnder(event.offsetY));
    this.parts.canvas.setPointerCapture(event.pointerId);
    const { view } = this.viewer.state;
    if (event.offsetY < OVERVIEW_H) {
      this.drag = { kind: "overview", moved: false };
      this.dragTo(event);
    } else if (event.offsetY < PINNED_H || event.shiftKey) {
      this.drag = { kind: "select", from: this.ns(event.offsetX, view), moved: false };
    } else {
      this.drag = { kind: "pan", x: event.offsetX, y: event.offsetY, view, scroll: this.parts.scroller.scrollTop, moved: false };
    }
  }

  private move(event: PointerEvent): void {
    if (this.drag) this.dragTo(event);
    else this.hover(event);
    this.pointer = event.offsetX >= LABEL_W ? this.ns(event.offsetX, this.viewer.state.view) : null;
    this.ask();
  }

  private dragTo(event: PointerEvent): void {
    const { drag, viewer } = this;
    if (!drag) return;
    this.parts.hover.hidden = true;
    if (drag.kind === "overview") {
      const { view, whole } = { view: viewer.state.view, whole: viewer.whole };
      const half = (view.to - view.from) / 2;
      const at = this.ns(event.offsetX, whole);
      viewer.show({ from: at - half, to: at + half });
    } else if (drag.kind === "select") {
      const at = this.ns(event.offsetX, viewer.state.view);
      const pixels = (Math.abs(at - drag.from) / (viewer.state.view.to - viewer.state.view.from)) * (this.width - LABEL_W);
      drag.moved ||= pixels > 3;
      if (drag.moved) viewer.select({ from: Math.min(at, drag.from), to: Math.max(at, drag.from) });
    } else {
      drag.moved ||= Math.hypot(event.offsetX - drag.x, event.offsetY - drag.y) > 3;
      if (!drag.moved) return;
      const by = ((drag.x - event.offsetX) / (this.width - LABEL_W)) * (drag.view.to - drag.view.from);
      viewer.show({ from: drag.view.from + by, to: drag.view.to + by });
      this.parts.scroller.scrollTop = drag.scroll + drag.y - event.offsetY;
    }
  }

  private up(event: PointerEvent): void {
    const drag = this.drag;
    this.drag = null;
    if (!drag || drag.moved) return;
    if (drag.kind === "select") this.viewer.select(null);
    if (drag.kind === "pan") this.clickLane(event);
  }

  private clickLane(event: PointerEvent): void {
    const row = this.rowUnder(event.offsetY);
    const at = this.ns(event.offsetX, this.viewer.state.view);
    if (row?.kind === "thread") void this.viewer.pick(this.sliceUnder(row.id, at) ?? { thread: row.id, at }, false);
    else if (row?.kind === "cpu") {
      const thread = this.occupant(row.id, at);
      if (thread >= 0) void this.viewer.pick({ thread, at }, true);
    } else this.clickLabel(row);
  }

  private clickLabel(row: Row | null): void {
    const { viewer } = this;
    if (row?.kind === "process") viewer.toggleProcess(row.id);
    else if (row?.kind === "more") viewer.toggleMore(row.id);
    else if (row?.kind === "group" && row.id === "others") viewer.store.set({ others: !viewer.state.others });
    else if (row?.kind === "group" && row.id === "counters") viewer.store.set({ counters: !viewer.state.counters });
    else if (row?.kind === "group") viewer.store.set({ cpus: false });
    else if (row?.kind === "thread") {
      const { view } = viewer.state;
      void viewer.pick({ thread: row.id, at: (view.from + view.to) / 2 }, false);
    }
  }

  private rowUnder(y: number): Row | null {
    return y < PINNED_H ? null : rowAt(this.rows.rows, y - PINNED_H + this.parts.scroller.scrollTop);
  }

  /** The slice at a moment, by its row if it was not merged with others. */
  private sliceUnder(thread: number, at: number): { thread: number; row: number } | null {
    const part = partAt(this.tiles.slices(thread), at);
    const row = part ? (part.rows.row[rowIndexAt(part.rows, at)] ?? -1) : -1;
    return row >= 0 ? { thread, row } : null;
  }

  private occupant(cpu: number, at: number): number {
    const part = this.tiles.cpus(cpu).find((one) => at >= one.from && at < one.to);
    return part ? (part.rows.thread[rowIndexAt(part.rows, at)] ?? -1) : -1;
  }

  private hover(event: PointerEvent): void {
    const { hover, canvas } = this.parts;
    const row = event.offsetX >= LABEL_W ? this.rowUnder(event.offsetY) : null;
    const text = row ? this.textOf(row, this.ns(event.offsetX, this.viewer.state.view), event.offsetY) : "";
    canvas.style.cursor = text !== "" || (row && row.kind !== "thread") ? "pointer" : "default";
    hover.hidden = text === "";
    if (text === "") return;
    hover.textContent = text;
    const box = canvas.getBoundingClientRect();
    hover.style.left = `${Math.min(event.clientX + 14, window.innerWidth - hover.offsetWidth - 8)}px`;
    const below = event.clientY + 18;
    hover.style.top = `${below + hover.offsetHeight > box.bottom + 120 ? event.clientY - hover.offsetHeight - 10 : below}px`;
  }

  /** Tooltip of a place in a row. */
  private textOf(row: Row, at: number, y: number): string {
    const { catalogue } = this.viewer;
    if (row.kind === "cpu") return `CPU ${row.id}\n${this.occupantText(row.id, at)}`;
    if (row.kind !== "thread") return "";
    const above = y - PINNED_H + this.parts.scroller.scrollTop - row.y;
    if (above < row.h - LANE_H) {
      const span = spanAt(this.tiles.spans(row.id), at, Math.floor(above / SPAN_H));
      return span ? spanText(catalogue, span.rows, span.index) : "";
    }
    const part = partAt(this.tiles.slices(row.id), at);
    return part ? hoverText(catalogue, row.id, part.rows, rowIndexAt(part.rows, at)) : "";
  }

  private occupantText(cpu: number, at: number): string {
    const thread = this.occupant(cpu, at);
    return thread >= 0 ? `ran ${this.viewer.catalogue.threadTitle(thread)}` : "idle, or too short to show: zoom in";
  }

  private leave(): void {
    this.parts.hover.hidden = true;
    this.pointer = null;
    this.ask();
  }
}

function partAt(parts: readonly Part<LaneRows>[], at: number): Part<LaneRows> | null {
  return parts.find((one) => at >= one.from && at < one.to) ?? null;
}

/** The CPU to show below the selected thread: the one that it waited for, according to Why. */
export function cpuBelow(state: State): { thread: number; cpu: number } | null {
  const slice = state.picked?.slice;
  return slice && slice.occupied_cpu >= 0 ? { thread: slice.thread, cpu: slice.occupied_cpu } : null;
}
