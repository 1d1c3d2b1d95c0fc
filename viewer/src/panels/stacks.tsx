// Flame graphs: of the whole program, or of a thread, a range and a function; from roots down, from leaves up, or both (a sandwich).

import { useMemo, useState } from "preact/hooks";
import type { Flame, FlameAsk } from "../api/types";
import { foundShare, growTree } from "../layout/flame";
import { visible } from "../model/text";
import { count, duration, percent } from "../model/time";
import { FlameCanvas } from "./flame_canvas";
import { useAnswer, useSelected, useViewer } from "./hooks";

/** See the module. */
export function Stacks() {
  const viewer = useViewer();
  const { flames, classes, against } = viewer.catalogue.summary;
  const fn = useSelected((state) => state.fn);
  const range = useSelected((state) => state.range);
  const picked = useSelected((state) => state.picked?.ask.thread ?? null);
  const [kind, setKind] = useState(flames[0]?.kind ?? "on-cpu");
  const [reverse, setReverse] = useState(false);
  const [oneThread, setOneThread] = useState(false);
  const [search, setSearch] = useState("");
  const [compared, setCompared] = useState(true);
  const compares = against != null && compared;
  const ask: FlameAsk = {
    kind,
    ...(range && { from: range.from, to: range.to }),
    ...(oneThread && picked !== null && { threads: [picked] }),
    ...(reverse && fn === null && { reverse: true }),
    ...(fn !== null && { function: fn }),
    ...(compares && { against: true }),
  };
  const below = useAnswer(JSON.stringify(ask), () => viewer.source.flame(ask), 30);
  const above = useAnswer(fn === null ? null : JSON.stringify(ask), () => viewer.source.flame({ ...ask, reverse: true }), 30);
  const kinds = [...flames, ...classes.filter((one) => one.kind === "wait").map((one) => ({ kind: one.name, label: one.name }))];
  const known = [...new Map(kinds.map((one) => [one.kind, one])).values()];
  return (
    <div class="stacks">
      <div class="tools">
        <label>stacks of{" "}
          <select value={kind} onChange={(event) => setKind(event.currentTarget.value)}>
            {known.map((one) => <option key={one.kind} value={one.kind}>{visible(one.label)}</option>)}
          </select>
        </label>
        <label><input type="checkbox" checked={oneThread} disabled={picked === null} onChange={(event) => setOneThread(event.currentTarget.checked)} />{" "}
          {picked === null ? "chosen thread only" : `${viewer.catalogue.threadName(picked)} only`}</label>
        <label><input type="checkbox" checked={reverse} disabled={fn !== null} onChange={(event) => setReverse(event.currentTarget.checked)} /> callers (reversed)</label>
        {against != null && (
          <label title={`before: ${visible(against.command.join(" "))}, ${duration(against.wall_ns)}`}>
            <input type="checkbox" checked={compared} onChange={(event) => setCompared(event.currentTarget.checked)} /> what changed</label>
        )}
        <input type="search" aria-label="light functions whose name holds" placeholder="light functions named …" value={search}
          onInput={(event) => setSearch(event.currentTarget.value)} />
        {fn !== null && <span class="chip">sandwich of <b>{visible(fn)}</b> <button aria-label="end the sandwich" onClick={() => viewer.openFunction(null)}>✕</button></span>}
        {fn !== null && <button onClick={() => viewer.openTab("source")}>source</button>}
        {range && <span class="muted">{`of the selected ${duration(range.to - range.from)}`}</span>}
      </div>
      {compares && <Changes flame={below.value} />}
      {below.failure && <p class="hint" role="alert">{below.failure}</p>}
      {fn === null && below.value && <Single flame={below.value} search={search} />}
      {fn !== null && <Sandwich above={above.value} below={below.value} search={search} />}
      {!below.value && below.waiting && <p class="hint">asking …</p>}
    </div>
  );
}

/** The two colours of a comparison, and what they cannot show. */
function Changes({ flame }: { flame: Flame | null }) {
  const before = flame?.before_total_ns;
  if (flame === null || before === undefined) return null;
  return (
    <p class="words">
      <span class="change more">more than before</span> <span class="change less">less</span>
      {` now ${duration(flame.total_ns)}, before ${duration(before)}: widths are of now, what is gone is not drawn`}
    </p>
  );
}

function Single({ flame, search }: { flame: Flame; search: string }) {
  if (flame.name.length === 0) return <Nothing flame={flame} />;
  return (
    <>
      <Words flame={flame} search={search} />
      <div class="flame-and-list">
        <FlameCanvas flame={flame} search={search} upward={false} label="flame graph" />
        <Functions flame={flame} />
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
      <h3>who called it</h3>
      <FlameCanvas flame={above} search={search} upward label="callers, upwards" />
      <h3>what it called</h3>
      <FlameCanvas flame={below} search={search} upward={false} label="callees, downwards" />
    </>
  );
}

function Nothing({ flame }: { flame: Flame }) {
  return (
    <p class="hint">
      {flame.total_ns === 0 ? "There is no such time here." : `No stack tells where these ${duration(flame.total_ns)} went.`}
    </p>
  );
}

/** What the picture rests on. */
function Words({ flame, search }: { flame: Flame; search: string }) {
  const waits = flame.slices > 0 ? `, ${count(flame.slices_with_stack)} of ${count(flame.slices)} waits have a stack` : "";
  const error = flame.error_ns > 0 ? ` ± ${duration(flame.error_ns)}` : "";
  return (
    <p class="words" role="status">
      {`${duration(flame.total_ns)}${error}${flame.samples > 0 ? `, ${count(flame.samples)} samples` : ""}${waits}`}
      {search !== "" && `; “${visible(search)}” is in ${percent(foundShare(flame, search))} of it`}
    </p>
  );
}

const FUNCTIONS_SHOWN = 12;

/** The functions with the most own time, as a list: the same picture for keyboards and screen readers. */
function Functions({ flame }: { flame: Flame }) {
  const viewer = useViewer();
  const tree = useMemo(() => growTree(flame), [flame]);
  const own = new Map<number, number>();
  tree.flame.name.forEach((name, node) => own.set(name, (own.get(name) ?? 0) + (flame.own_ns[node] ?? 0)));
  const top = [...own].filter(([, ns]) => ns > 0).sort((a, b) => b[1] - a[1] || a[0] - b[0]).slice(0, FUNCTIONS_SHOWN);
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
