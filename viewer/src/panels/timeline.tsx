// The timeline in the page: its elements, its text for screen readers, and its requests except tiles.

import { useEffect, useRef } from "preact/hooks";
import type { CriticalPath } from "../api/types";
import { count, duration, moment, percent } from "../model/time";
import type { State } from "../model/viewer";
import { useAnswer, useSelected, useViewer } from "./hooks";
import { Swatch } from "./swatch";
import { TimelineCanvas } from "./timeline_canvas";

/** See the module. */
export function Timeline() {
  const viewer = useViewer();
  const canvas = useRef<HTMLCanvasElement>(null);
  const scroller = useRef<HTMLDivElement>(null);
  const spacer = useRef<HTMLDivElement>(null);
  const hover = useRef<HTMLDivElement>(null);
  const drawn = useRef<TimelineCanvas | null>(null);
  useEffect(() => {
    if (!canvas.current || !scroller.current || !spacer.current || !hover.current) return;
    const timeline = new TimelineCanvas(viewer, {
      canvas: canvas.current, scroller: scroller.current, spacer: spacer.current, hover: hover.current,
    });
    drawn.current = timeline;
    return () => timeline.end();
  }, [viewer]);
  const leftOut = useWakeups(drawn);
  const critical = usePath(drawn);
  const none = viewer.catalogue.summary.threads.length === 0;
  return (
    <section class="timeline" aria-label="timeline">
      <div class="lanes" ref={scroller}>
        <canvas
          ref={canvas}
          tabIndex={0}
          role="application"
          aria-label="timeline of the threads. W and S zoom, A and D move. N and P step through the places of a finding. Enter follows a wait, the Why tab explains it"
        />
        <div ref={spacer} class="spacer" />
      </div>
      {none && <p class="empty">No thread of the program was recorded: there is no timeline.</p>}
      {critical.lit && <PathWords path={critical.path} />}
      <Status leftOut={leftOut} />
      <div ref={hover} class="hover" role="presentation" hidden />
    </section>
  );
}

/** Text about the visible range, with some buttons. */
function Status({ leftOut }: { leftOut: number }) {
  const viewer = useViewer();
  const view = useSelected((state) => state.view);
  const range = useSelected((state) => state.range);
  const cpus = useSelected((state) => state.cpus);
  const path = useSelected((state) => state.path);
  const length = view.to - view.from;
  return (
    <div class="status">
      <span>{`showing ${moment(view.from, length / 10)} – ${moment(view.to, length / 10)} (${duration(length)})`}</span>
      {range && <span class="range-words" role="status">{`selected ${duration(range.to - range.from)}`}</span>}
      {range && <button onClick={() => viewer.frameSelection()}>zoom to it</button>}
      {range && <button onClick={() => viewer.select(null)}>clear</button>}
      {leftOut > 0 && <span class="muted">{`${count(leftOut)} wakeups of this slice have no arrow`}</span>}
      <span class="grow" />
      <button onClick={() => viewer.zoom(0.5)} aria-label="zoom in" title="zoom in (W)">+</button>
      <button onClick={() => viewer.zoom(2)} aria-label="zoom out" title="zoom out (S)">−</button>
      <button onClick={() => viewer.show(viewer.whole)} title="the whole run (0)">whole run</button>
      <button aria-pressed={cpus} onClick={() => viewer.store.set({ cpus: !cpus })} title="a lane for each CPU (C)">CPUs</button>
      <button aria-pressed={path} onClick={() => viewer.store.set({ path: !path })} title="highlight the critical path (X)">critical path</button>
    </div>
  );
}

/** Wakeups around the selected slice. Returns the number of omitted ones. */
function useWakeups(drawn: { readonly current: TimelineCanvas | null }): number {
  const viewer = useViewer();
  const slice = useSelected((state: State) => state.picked?.slice ?? null);
  const key = slice ? `${slice.thread}/${slice.start_ns}` : null;
  const answer = useAnswer(key, (signal) => {
    if (!slice) return Promise.reject(new Error("no slice is chosen"));
    return viewer.source.wakeups({ from: slice.start_ns, to: slice.end_ns + 1 }, [slice.thread], signal);
  }, 30);
  useEffect(() => {
    if (!drawn.current) return;
    drawn.current.wakeups = slice ? answer.value : null;
    drawn.current.ask();
  }, [answer.value, slice]);
  return answer.value?.left_out ?? 0;
}

const PATH_CLASSES = 5;
/** Classes below this share of the path are not named. */
const LISTED = 0.001;

/** Composition of the view's critical path: only shortening these parts shortens the run. Null: not known yet. */
function PathWords({ path }: { path: CriticalPath | null }) {
  const { catalogue } = useViewer();
  const classes = path?.classes ?? [];
  const total = classes.reduce((sum, ns) => sum + ns, 0);
  const most = classes.map((ns, at) => ({ ns, name: catalogue.className(at) })).filter((one) => one.ns > 0 && one.ns >= total * LISTED).sort((a, b) => b.ns - a.ns);
  return (
    <div class="path-words" role="status">
      <b>critical path of the visible range</b>
      {path === null && <span>adding up …</span>}
      {most.slice(0, PATH_CLASSES).map(({ name, ns }) => (
        <span key={name}><Swatch name={name} />{` ${name} ${percent(total > 0 ? ns / total : 0)}`}</span>
      ))}
    </div>
  );
}

/** The critical path of the visible range, if it is highlighted. */
function usePath(drawn: { readonly current: TimelineCanvas | null }): { lit: boolean; path: CriticalPath | null } {
  const viewer = useViewer();
  const lit = useSelected((state) => state.path);
  const view = useSelected((state) => state.view);
  const answer = useAnswer(lit ? `${view.from}/${view.to}` : null, (signal) => viewer.source.path(view, signal), 120);
  // The path of the view before lies where it lay: it stays until there is another.
  useEffect(() => {
    if (!drawn.current) return;
    drawn.current.path = answer.last;
    drawn.current.ask();
  }, [answer.last]);
  useEffect(() => {
    if (answer.failure === null) return;
    viewer.store.set({ path: false, failure: `no critical path: ${answer.failure}` });
  }, [answer.failure]);
  return { lit, path: answer.value };
}
