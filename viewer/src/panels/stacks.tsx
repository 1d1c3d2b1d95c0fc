// Flame graphs of the whole program, or of a thread, a range and a function. From roots down, from leaves up,
// or both (a sandwich).

import { useMemo, useState } from "preact/hooks";
import type { Flame, FlameAsk } from "../api/types";
import { foundShare, ownTimes } from "../layout/flame";
import { visible } from "../model/text";
import { count, duration, percent } from "../model/time";
import { FlameCanvas } from "./flame_canvas";
import { ON_CPU } from "../model/viewer";
import { useAnswer, useSelected, useViewer } from "./hooks";

/** See the module. */
export function Stacks() {
  const viewer = useViewer();
  const { flames, classes, against } = viewer.catalogue.summary;
  const fn = useSelected((state) => state.fn);
  const range = useSelected((state) => state.range);
  const picked = useSelected((state) => state.picked?.ask.thread ?? null);
  const { kind: chosen, reverse, alone, compared } = useSelected((state) => state.stacks);
  const kind = chosen ?? flames[0]?.kind ?? ON_CPU;
  const [search, setSearch] = useState("");
  const compares = against != null && compared;
  const ask: FlameAsk = {
    kind,
    ...(range && { from: range.from, to: range.to }),
    ...(alone && picked !== null && { threads: [picked] }),
    ...(reverse && fn === null && { reverse: true }),
    ...(fn !== null && { function: fn }),
    ...(compares && { against: true }),
  };
  const below = useAnswer(JSON.stringify(ask), (signal) => viewer.source.flame(ask, signal), 30);
  const above = useAnswer(fn === null ? null : JSON.stringify(ask), (signal) => viewer.source.flame({ ...ask, reverse: true }, signal), 30);
  const named = (name: string) => ({ kind: name, label: name });
  const kinds = [...flames, ...classes.filter((one) => one.kind === "wait").map((one) => named(one.name)), named(kind)];
  const known = kinds.filter((one, at) => kinds.findIndex((other) => other.kind === one.kind) === at);
  return (
    <div class="stacks">
      <div class="tools">
        <label>stacks of{" "}
          <select value={kind} onChange={(event) => viewer.lookAt({ kind: event.currentTarget.value })}>
            {known.map((one) => <option key={one.kind} value={one.kind}>{visible(one.label)}</option>)}
          </select>
        </label>
        <label><input type="checkbox" checked={alone} disabled={picked === null} onChange={(event) => viewer.lookAt({ alone: event.currentTarget.checked })} />{" "}
          {picked === null ? "chosen thread only" : `${viewer.catalogue.threadName(picked)} only`}</label>
        <label><input type="checkbox" checked={reverse} disabled={fn !== null} onChange={(event) => viewer.lookAt({ reverse: event.currentTarget.checked })} /> callers (reversed)</label>
        {against != null && (
          <label title={`before: ${visible(against.command.join(" "))}, ${duration(against.wall_ns)}`}>
            <input type="checkbox" checked={compared} onChange={(event) => viewer.lookAt({ compared: event.currentTarget.checked })} /> what changed</label>
        )}
        <input type="search" aria-label="light functions whose name holds" placeholder="light functions named …" value={search}
          onInput={(event) => setSearch(event.currentTarget.value)} />
        {fn !== null && <span class="chip">sandwich of <b>{visible(fn)}</b> <button aria-label="end the sandwich" onClick={() => viewer.openFunction(null)}>✕</button></span>}
        {fn !== null && <button onClick={() => viewer.openTab("source")}>source</button>}
        {range && <span class="muted">{`selection: ${duration(range.to - range.from)}`}</span>}
      </div>
      {compares && <Changes flame={below.value} />}
      {below.failure && <p class="hint" role="alert">{below.failure}</p>}
      {fn === null && below.value && <Single flame={below.value} search={search} reverse={reverse} />}
      {fn !== null && <Sandwich above={above.value} below={below.value} search={search} />}
      {(below.waiting || above.waiting) && <p class="hint" role="status">adding up …</p>}
    </div>
  );
}

/** The two colours of a comparison, and its limits. */
function Changes({ flame }: { flame: Flame | null }) {
  const before = flame?.before_total_ns;
  if (flame === null || before === undefined) return null;
  return (
    <p class="words">
      <span class="change more">more than before</span> <span class="change less">less</span>
      {` now ${duration(flame.total_ns)}, before ${duration(before)}: widths show the present recording, functions that disappeared are not shown`}
    </p>
  );
}

function Single({ flame, search, reverse }: { flame: Flame; search: string; reverse: boolean }) {
  if (flame.name.length === 0) return <Nothing flame={flame} />;
  return (
    <>
      <Words flame={flame} search={search} />
      <div class="flame-and-list">
        <FlameCanvas flame={flame} search={search} upward={false} leavesFirst={reverse} label={reverse ? "flame graph, from callees to callers" : "flame graph"} />
        <Functions flame={flame} reverse={reverse} />
      </div>
    </>
  );
}

function Sandwich({ above, below, search }: { above: Flame | null; below: Flame | null; search: string }) {
  if (!above || !below) return null;
  if (below.name.length === 0 && above.name.length === 0) return <Nothing flame={below} />;
  return (
    <>
      <Words flame={below} search={search} />
      <h3>callers</h3>
      <FlameCanvas flame={above} search={search} upward leavesFirst label="callers, upwards" />
      <h3>callees</h3>
      <FlameCanvas flame={below} search={search} upward={false} leavesFirst={false} label="callees, downwards" />
    </>
  );
}

function Nothing({ flame }: { flame: Flame }) {
  return (
    <p class="hint">
      {flame.total_ns === 0 ? "There is no such time here." : `No stack was recorded for these ${duration(flame.total_ns)}.`}
    </p>
  );
}

/** Basis of the picture. */
function Words({ flame, search }: { flame: Flame; search: string }) {
  const waits = flame.slices > 0 ? `, ${count(flame.slices_with_stack)} of ${count(flame.slices)} waits have a stack` : "";
  const error = flame.error_ns > 0 ? ` ± ${duration(flame.error_ns)}` : "";
  return (
    <p class="words" role="status">
      {`${duration(flame.total_ns)}${error}${flame.samples > 0 ? `, ${count(flame.samples)} samples` : ""}${waits}`}
      {search !== "" && `, “${visible(search)}” is in ${percent(foundShare(flame, search))} of it`}
    </p>
  );
}

const FUNCTIONS_SHOWN = 12;

/** The functions with the most own time, as a list: the same picture for keyboards and screen readers. */
function Functions({ flame, reverse }: { flame: Flame; reverse: boolean }) {
  const viewer = useViewer();
  const top = useMemo(() => ownTimes(flame, reverse).slice(0, FUNCTIONS_SHOWN), [flame, reverse]);
  return (
    <section aria-label="functions with the most time of their own">
      <h3>most time of their own</h3>
      <ul class="hot">
        {top.map(([name, ns]) => (
          <li key={name}>
            <span class="amount">{percent(flame.total_ns > 0 ? ns / flame.total_ns : 0)}</span>
            <button class="link" onClick={() => viewer.openFunction(flame.names[name] ?? null)}>{visible(flame.names[name] ?? "")}</button>
          </li>
        ))}
      </ul>
    </section>
  );
}
