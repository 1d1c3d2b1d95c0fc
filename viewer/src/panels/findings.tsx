// What holds the program up: the findings, the most rewarding first, and the way through their places.

import { useEffect, useRef } from "preact/hooks";
import type { Finding } from "../api/types";
import { visible } from "../model/text";
import { count, duration, moment } from "../model/time";
import { useSelected, useViewer } from "./hooks";

/** See the module. */
export function Findings() {
  const viewer = useViewer();
  const open = useSelected((state) => state.finding);
  const { findings, skipped, pending, first_look } = viewer.catalogue.summary;
  return (
    <aside class="findings" aria-label="findings" aria-busy={pending === true}>
      <h2>What holds it up</h2>
      {first_look && (
        <p class="none pending" role="status">
          The recording is being read … This first look shows when threads ran, waited for a CPU and waited; what for, and why, comes in a moment.
        </p>
      )}
      {pending && !first_look && <p class="none pending" role="status">The findings are being computed … The timeline, the flame graphs and the ledger are ready.</p>}
      {!pending && findings.length === 0 && <p class="none">No rule found a cause worth naming. The ledger shows where the time went.</p>}
      <ComputesNote />
      <ol>
        {findings.map((one, at) => (
          <Entry key={at} finding={one} index={at} open={at === open} />
        ))}
      </ol>
      {skipped.length > 0 && (
        <details>
          <summary>{`${count(skipped.length)} rule${skipped.length === 1 ? "" : "s"} could not be judged`}</summary>
          <ul>{skipped.map((one) => <li key={one.rule}><b>{one.rule}</b>: {visible(one.reason)}</li>)}</ul>
        </details>
      )}
    </aside>
  );
}

/** Note that the program mainly computes, and what would help most. */
function ComputesNote() {
  const computes = useViewer().catalogue.summary.computes;
  if (!computes || computes.share === null) return null;
  return (
    <div class="computes">
      <p>{visible(computes.summary.join(" "))}</p>
      <ul>{computes.advice.map((one) => <li key={one}>{visible(one)}</li>)}</ul>
    </div>
  );
}

function Entry({ finding, index, open }: { finding: Finding; index: number; open: boolean }) {
  const viewer = useViewer();
  const head = useRef<HTMLButtonElement>(null);
  useEffect(() => {
    if (open && index > 0) head.current?.scrollIntoView({ block: "nearest" });
  }, [open]);
  return (
    <li class={open ? "finding open" : "finding"}>
      <button ref={head} class="finding-head" aria-expanded={open} onClick={() => (open ? viewer.closeFinding() : viewer.openFinding(index))}>
        <span class="number">{index + 1}</span>
        <span class="rule">{finding.rule}</span>
        <span class="gain">{finding.gain_text}</span>
        <span class="subject">{visible(finding.subject)}</span>
      </button>
      {open && <Details finding={finding} index={index} />}
    </li>
  );
}

function Details({ finding, index }: { finding: Finding; index: number }) {
  const viewer = useViewer();
  const occurrence = useSelected((state) => state.occurrence);
  const symptoms = (viewer.catalogue.summary.symptoms ?? []).filter((one) => one.of === index);
  const places = finding.evidence.length;
  const shown = finding.evidence[occurrence];
  return (
    <div class="finding-body">
      {places > 0 && (
        <div class="steps" role="group" aria-label="places of this finding, the worst first">
          <button onClick={() => viewer.step(-1)} title="previous place (P)">‹ prev</button>
          <span role="status">{`place ${occurrence + 1} of ${places}`}</span>
          <button onClick={() => viewer.step(1)} title="next place (N)">next ›</button>
        </div>
      )}
      {shown && (
        <p class="place">
          {`${moment(shown.start_ns, 1e5)}: ${viewer.catalogue.threadName(shown.thread)}${shown.duration_ns > 0 ? `, ${duration(shown.duration_ns)}` : ""}. `}
          {visible(shown.note)}
        </p>
      )}
      {finding.summary.map((one, at) => <p key={at}>{visible(one)}</p>)}
      <p class="muted">{`cost ${duration(finding.cost_ns)} of thread time, ${finding.confidence} confidence`}</p>
      {symptoms.map((one) => (
        <p key={one.rule} title={one.summary.map(visible).join("\n")} class="muted">{`also seen as ${one.rule}: ${visible(one.subject)}`}</p>
      ))}
      {finding.advice.length > 0 && (
        <>
          <h3>Try</h3>
          <ul>{finding.advice.map((one, at) => <li key={at}>{visible(one)}</li>)}</ul>
        </>
      )}
      {places > 1 && <Places finding={finding} index={index} occurrence={occurrence} />}
    </div>
  );
}

/** The places of a finding, each a way to go there. */
function Places({ finding, index, occurrence }: { finding: Finding; index: number; occurrence: number }) {
  const viewer = useViewer();
  return (
    <>
      <h3>Where, the worst first</h3>
      <ol class="places">
        {finding.evidence.map((one, at) => (
          <li key={at}>
            <button class="link" aria-current={at === occurrence ? "location" : undefined} title={visible(one.note)} onClick={() => viewer.openFinding(index, at)}>
              <span>{moment(one.start_ns, 1e5)}</span>
              <span class="who">{viewer.catalogue.threadName(one.thread)}</span>
              <span class="amount">{duration(one.duration_ns)}</span>
            </button>
          </li>
        ))}
      </ol>
    </>
  );
}
