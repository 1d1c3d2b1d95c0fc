// Where the time went: of the whole run, or of the range and threads that are selected.

import { useEffect, useRef, useState } from "preact/hooks";
import type { Ledger } from "../api/types";
import { Painter } from "../draw/canvas";
import { type Share, composeLedger, sharesOf } from "../layout/ledger";
import { classLook } from "../model/classes";
import { visible } from "../model/text";
import { duration, percent } from "../model/time";
import { useAnswer, useSelected, useViewer } from "./hooks";
import { Swatch } from "./swatch";

const BAR_H = 18;
/** Classes below this share are named together. */
const LISTED = 0.001;

/** See the module. */
export function LedgerBar() {
  const viewer = useViewer();
  const range = useSelected((state) => state.range);
  const answer = useAnswer(range ? `${range.from}/${range.to}` : null, () => viewer.source.ledger(range ?? viewer.whole, []), 60);
  const ledger: Ledger = range && answer.value ? answer.value : viewer.catalogue.summary.ledger;
  const of = range ? (answer.failure ?? `of the selected ${duration(range.to - range.from)}`) : "of the whole run";
  const shares = sharesOf(ledger, viewer.catalogue.summary.classes);
  const [listed, small] = [shares.filter((one) => one.ns >= ledger.total_ns * LISTED), shares.filter((one) => one.ns < ledger.total_ns * LISTED)];
  return (
    <section class="ledger" aria-label={`where the time went, ${of}`} aria-busy={answer.waiting}>
      <div class="ledger-words">
        <h2>
          Where the time went <small>{of}: {duration(ledger.total_ns)} of thread time</small>
        </h2>
        <ul>
          {listed.map(({ name, ns }) => (
            <li key={name} title={`${classLook(name).words}: ${duration(ns)}`}>
              <Swatch name={name} /> {name} <b>{percent(ledger.total_ns > 0 ? ns / ledger.total_ns : 0)}</b>
            </li>
          ))}
          {small.length > 0 && (
            <li class="muted" title={small.map(({ name, ns }) => `${name}: ${duration(ns)}`).join("\n")}>{small.length === 1 ? `${small[0]?.name} < 0.1 %` : `${small.length} more < 0.1 %`}</li>
          )}
          {shares.length === 0 && <li>no time of any thread is in it</li>}
        </ul>
      </div>
      <Bar shares={shares} />
      {!range && <BusiestLine />}
      {!range && <KnownWorkLine />}
    </section>
  );
}

/** What most of the work is. */
function BusiestLine() {
  const viewer = useViewer();
  const { busiest } = viewer.catalogue.summary;
  if (!busiest) return null;
  const name = (fn: string) => <button class="link" onClick={() => viewer.openFunction(fn)} title="its flame graph">{visible(fn)}</button>;
  return (
    <p class="busiest">
      {percent(busiest.share)} ± {percent(busiest.error)} of useful in {name(busiest.function)}
      {busiest.mostly_in && <>, mostly in {name(busiest.mostly_in)}</>}
      {busiest.called_for && <>; {percent(busiest.called_for_share ?? 0)} of that for {name(busiest.called_for)}</>}
    </p>
  );
}

/** What much of it is. */
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
