// The causes of the selected slice: the reason of the wait, the holder or occupant, and its activity. Every
// link leads to a place.

import type { Frame, SliceAnswer, WhyLink } from "../api/types";
import { classLook } from "../model/classes";
import { where, withoutRepeats } from "../model/frames";
import { visible } from "../model/text";
import { count, duration, moment, percent } from "../model/time";
import { OFF_CPU, ON_CPU, WAKERS } from "../model/viewer";
import { useSelected, useViewer } from "./hooks";
import { Swatch } from "./swatch";

const BASIS_WORDS: Readonly<Record<string, string>> = {
  "owner-word": "read from the lock itself",
  waker: "from the wakeup",
  occupant: "from the CPU's occupant",
  slices: "from the schedule",
};

/** See the module. */
export function Why() {
  const viewer = useViewer();
  const picked = useSelected((state) => state.picked);
  const back = useSelected((state) => state.back.length);
  if (!picked) {
    return <p class="hint">Click a slice in the timeline, or a finding, to see why a thread was late. <kbd>?</kbd> lists the keys.</p>;
  }
  if (picked.failure) {
    return (
      <div class="why-head">
        <button disabled={back === 0} onClick={() => viewer.goBack()} title="back (Backspace)">‹ back</button>
        <p class="hint" role="alert">{picked.failure}</p>
      </div>
    );
  }
  const slice = picked.slice;
  if (!slice) return <p class="hint">asking …</p>;
  return (
    <div class="why">
      <div class="why-main">
        <div class="why-head">
          <button disabled={back === 0} onClick={() => viewer.goBack()} title="back (Backspace)">‹ back</button>
          <h2 aria-live="polite">{title(viewer.catalogue.threadName(slice.thread), slice, viewer.catalogue.className(slice.class))}</h2>
          <span class="grow" />
          <button disabled={slice.previous < 0} onClick={() => viewer.neighbour("previous")} title="slice before (←)">‹ slice</button>
          <button disabled={slice.next < 0} onClick={() => viewer.neighbour("next")} title="slice after (→)">slice ›</button>
        </div>
        <Chain slice={slice} />
        <Kept slice={slice} />
        <Facts slice={slice} />
      </div>
      <div class="why-side">
        {slice.samples.length > 0 && <Hot slice={slice} />}
        {(slice.stack.length > 0 || slice.state === "blocked" || slice.state === "running") && <Stack label={stackLabel(slice)} frames={slice.stack} kind={slice.state === "running" ? ON_CPU : OFF_CPU} />}
        {slice.waker && slice.waker.stack.length > 0 && <Stack label="stack of the thread that woke it" frames={slice.waker.stack} kind={WAKERS} />}
      </div>
    </div>
  );
}

function title(name: string, slice: SliceAnswer, className: string): string {
  const length = duration(slice.end_ns - slice.start_ns);
  if (slice.state === "running") return `What did ${name} do for ${length}?`;
  return className === "run-queue" ? `Why did ${name} not run for ${length}?` : `Why did ${name} wait for ${length}?`;
}

function Chain({ slice }: { slice: SliceAnswer }) {
  return (
    <ol class="chain">
      {slice.why.map((link, at) => (
        <Link key={at} link={link} first={at === 0} />
      ))}
    </ol>
  );
}

function Link({ link, first }: { link: WhyLink; first: boolean }) {
  const viewer = useViewer();
  const name = link.class >= 0 ? viewer.catalogue.className(link.class) : null;
  const leads = link.thread >= 0 && !first;
  return (
    <li>
      {name && <Swatch name={name} />}
      <span>{visible(link.text)}</span>
      {link.basis !== "" && <span class="basis">{BASIS_WORDS[link.basis] ?? visible(link.basis)}</span>}
      {leads && <button onClick={() => viewer.follow(link)}>{`go to ${viewer.catalogue.threadName(link.thread)}`}</button>}
    </li>
  );
}

/** Effect of this slice on others: threads that waited because this thread arrived last. */
function Kept({ slice }: { slice: SliceAnswer }) {
  const viewer = useViewer();
  const { catalogue } = viewer;
  if (!slice.kept_waiting?.length) return null;
  return (
    <ul class="chain kept" aria-label="threads that waited for it">
      {slice.kept_waiting.map((one, at) => (
        <li key={at}>
          <span>
            <b>{`${catalogue.threadName(one.thread)} waited ${duration(one.end_ns - one.start_ns)} for it`}</b>
            {one.name ? `: it was the last at the ${visible(one.name)}` : ": it was the last to arrive"}
          </span>
          <button onClick={() => viewer.follow({ ...one, text: "", class: -1, basis: "" })}>{`go to ${catalogue.threadName(one.thread)}`}</button>
        </li>
      ))}
    </ul>
  );
}

function Facts({ slice }: { slice: SliceAnswer }) {
  const viewer = useViewer();
  const { catalogue } = viewer;
  const className = catalogue.className(slice.class);
  const length = slice.end_ns - slice.start_ns;
  return (
    <dl class="facts-list">
      <dt>class</dt>
      <dd><Swatch name={className} /> {className}: {classLook(className).words}</dd>
      <dt>when</dt>
      <dd>{`${moment(slice.start_ns)} for ${duration(length)}${cpuWords(slice)}`}</dd>
      {slice.stolen_ns > 0 && [<dt key="s">stolen</dt>, <dd key="sd">{`${duration(slice.stolen_ns)} by the hypervisor`}</dd>]}
      {slice.wait && [
        <dt key="w">waited for</dt>,
        <dd key="wd">{visible(slice.wait.name) || slice.wait.reason}{slice.wait.syscall !== "" && ` (${visible(slice.wait.syscall)})`}</dd>,
      ]}
      {slice.waker && [
        <dt key="k">woken by</dt>,
        <dd key="kd">
          {slice.waker.thread >= 0 ? (
            <button class="link" onClick={() => slice.waker && void viewer.pick({ thread: slice.waker.thread, at: slice.waker.at_ns }, true)}>
              {catalogue.threadTitle(slice.waker.thread)}
            </button>
          ) : wakerWords(slice.waker.context)}
          {` at ${moment(slice.waker.at_ns)}${slice.waker.cpu >= 0 ? `, CPU ${slice.waker.cpu}` : ""}`}
        </dd>,
      ]}
      {slice.occupants.length > 0 && [
        <dt key="o">{slice.occupied_cpu >= 0 ? `CPU ${slice.occupied_cpu} ran` : "its CPU ran"}</dt>,
        <dd key="od"><Occupants slice={slice} length={length} /></dd>,
      ]}
    </dl>
  );
}

function Occupants({ slice, length }: { slice: SliceAnswer; length: number }) {
  const viewer = useViewer();
  return (
    <ul class="occupants">
      {slice.occupants.map((one) => (
        <li key={one.thread}>
          {one.thread >= 0 ? (
            <button class="link" onClick={() => void viewer.pick({ thread: one.thread, at: one.at_ns }, true)}>
              {viewer.catalogue.threadTitle(one.thread)}
            </button>
          ) : "no recorded thread"}
          {` ${duration(one.ns)} (${percent(length > 0 ? one.ns / length : 0)})`}
        </li>
      ))}
    </ul>
  );
}

/** The CPU on which it ran. For a wait for a CPU, where it ran next. */
function cpuWords(slice: SliceAnswer): string {
  if (slice.cpu < 0) return "";
  return slice.occupied_cpu >= 0 ? `, then on CPU ${slice.cpu}` : `, CPU ${slice.cpu}`;
}

function wakerWords(context: string): string {
  if (context === "timer") return "a timer";
  if (context === "irq") return "a device's interrupt";
  return context === "soft-irq" ? "a soft interrupt (network, timer, disk)" : "no recorded thread";
}

function stackLabel(slice: SliceAnswer): string {
  if (slice.stack_from === "sample") return "stack of the sample nearest to its middle";
  return slice.stack_from === "blocked" ? "stack when it blocked" : "stack";
}

function Hot({ slice }: { slice: SliceAnswer }) {
  const viewer = useViewer();
  return (
    <section>
      <h3>functions it ran (samples)</h3>
      <ul class="hot">
        {slice.samples.map((one, at) => (
          <li key={at}>
            <span class="amount">{`${count(one.samples)} ×`}</span>
            <button class="link" onClick={() => viewer.openFunction(one.name, ON_CPU)}>{visible(one.name)}</button>
          </li>
        ))}
      </ul>
    </section>
  );
}

/** `kind`: of the stacks among which this one is. */
function Stack({ label, frames, kind }: { label: string; frames: readonly Frame[]; kind: string }) {
  const viewer = useViewer();
  return (
    <section>
      <h3>{label}</h3>
      {frames.length === 0 && <p class="muted">No stack was recorded for this slice: stacks are sampled to keep recording cheap.</p>}
      <ol class="stack">
        {withoutRepeats(frames).map(({ frame, times }, at) => (
          <li key={at} class={frame.kind}>
            <button class="link" onClick={() => viewer.openFunction(frame.name, kind)} title="its flame graph">{visible(frame.name)}</button>
            <span class="muted">{`${where(frame)}${times > 1 ? ` × ${count(times)}` : ""}`}</span>
          </li>
        ))}
      </ol>
    </section>
  );
}
