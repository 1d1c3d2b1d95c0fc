// Where the time went: of the whole run, or of the range and threads that are selected.

import { useEffect, useRef, useState } from "preact/hooks";
import type { Ledger } from "../api/types";
import { Painter } from "../draw/canvas";
import { type Share, composeLedger, sharesOf } from "../layout/ledger";
import { classLook } from "../model/classes";
import { visible } from "../model/text";
import { duration, percent } from "../model/time";
import { ON_CPU } from "../model/viewer";
import { useAnswer, useSelected, useViewer } from "./hooks";
import { Swatch } from "./swatch";

const BAR_H = 18;
/** Classes below this share are named together. */
const LISTED = 0.001;

/** See the module. */
export function LedgerBar() {
  const viewer = useViewer();
  const range = useSelected((state) => state.range);
  const answer = useAnswer(range ? `${range.from}/${range.to}` : null, (signal) => viewer.source.ledger(range ?? viewer.whole, [], signal), 60);
  const { summary } = viewer.catalogue;
  const known: Ledger | null = range ? answer.value : summary.ledger;
  const of = range ? `selected ${duration(range.to - range.from)}` : "whole run";
  // Until a range is added up, the previous list keeps its space but is hidden. Otherwise the page would jump
  // with every drag.
  const ledger = known ?? answer.last ?? summary.ledger;
  const all = sharesOf(ledger, summary.classes);
  const shares = known ? all : [];
  const figures = known ? `${duration(known.total_ns)} of thread time` : (answer.failure ?? "adding up …");
  const note = range ? answer.value?.note : "";
  const [listed, small] = [all.filter((one) => one.ns >= ledger.total_ns * LISTED), all.filter((one) => one.ns < ledger.total_ns * LISTED)];
  return (
    <section class="ledger" aria-label={`where the time went, ${of}`} aria-busy={answer.waiting}>
      <div class="ledger-words">
        <h2>
          Where the time went <small>{of}: {figures}</small>
        </h2>
        <ul class={known ? "" : "unknown"} aria-hidden={known ? undefined : "true"}>
          {listed.map(({ name, ns }) => (
            <li key={name} title={`${classLook(name).words}: ${duration(ns)}`}>
              <Swatch name={name} /> {name} <b>{percent(ledger.total_ns > 0 ? ns / ledger.total_ns : 0)}</b>
            </li>
          ))}
          {small.length > 0 && (
            <li class="muted" title={small.map(({ name, ns }) => `${name}: ${duration(ns)}`).join("\n")}>{small.length === 1 ? `${small[0]?.name} < 0.1 %` : `${small.length} more < 0.1 %`}</li>
          )}
          {note && <li class="muted">{note}</li>}
          {all.length === 0 && <li>no time of any thread is in it</li>}
        </ul>
      </div>
      <Bar shares={shares} />
      {!range && <BusiestLine />}
      {!range && <KnownWorkLine />}
    </section>
  );
}

/** The function with most of the work. */
function BusiestLine() {
  const viewer = useViewer();
  const { busiest } = viewer.catalogue.summary;
  if (!busiest) return null;
  const name = (fn: string) => <button class="link" onClick={() => viewer.openFunction(fn, ON_CPU)} title="its flame graph">{visible(fn)}</button>;
  return (
    <p class="busiest">
      {percent(busiest.share)} ± {percent(busiest.error)} of useful in {name(busiest.function)}
      {busiest.mostly_in && <>, mostly in {name(busiest.mostly_in)}</>}
      {busiest.called_for && <>, {percent(busiest.called_for_share ?? 0)} of that for {name(busiest.called_for)}</>}
    </p>
  );
}

/** Kind of much of the work. */
function KnownWorkLine() {
  const known = useViewer().catalogue.summary.known_work;
  if (!known) return null;
  return (
    <p class="busiest" title={`${visible(known.what)}. ${visible(known.advice)}`}>
      {percent(known.share)} ± {percent(known.error)} of useful: {visible(known.what)}
    </p>
  );
}

function Bar({ shares }: { shares: readonly Share[] }) {
  const canvas = useRef<HTMLCanvasElement>(null);
  const theme = useSelected((state) => state.theme);
  const [width, setWidth] = useState(0);
  useEffect(() => {
    const box = canvas.current?.parentElement;
    if (!box) return;
    const watcher = new ResizeObserver(() => setWidth(box.clientWidth));
    watcher.observe(box);
    return () => watcher.disconnect();
  }, []);
  useEffect(() => {
    const pen = canvas.current?.getContext("2d");
    if (!pen || !canvas.current || width === 0) return;
    const density = window.devicePixelRatio || 1;
    canvas.current.width = Math.round(width * density);
    canvas.current.height = Math.round(BAR_H * density);
    canvas.current.style.height = `${BAR_H}px`;
    pen.scale(density, density);
    new Painter(pen, theme, density).paint(composeLedger(shares, { width, height: BAR_H }));
  }, [shares.map((one) => `${one.name} ${one.ns}`).join(), theme, width]);
  return <div class="bar"><canvas ref={canvas} aria-hidden="true" /></div>;
}
