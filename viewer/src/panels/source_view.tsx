// A function's instructions with their cost and source lines. For an interpreted function, its lines.

import { useState } from "preact/hooks";
import { type Listing, type ListingLine, readListing } from "../model/listing";
import { basename, visible } from "../model/text";
import { count, duration, percent } from "../model/time";
import { useAnswer, useSelected, useViewer } from "./hooks";

/** For longer functions, only lines with a cost are shown at first. */
const MANY = 40;

/** See the module. */
export function SourceView() {
  const viewer = useViewer();
  const fn = useSelected((state) => state.fn);
  const answer = useAnswer(fn, (signal) => viewer.source.annotate(fn ?? "", signal).then(readListing));
  if (fn === null) return <p class="hint">Choose a function in Stacks, in a table or by the search: its instructions or lines are shown here with their cost.</p>;
  if (answer.failure) return <p class="hint" role="alert">{`${visible(fn)}: ${answer.failure}`}</p>;
  if (!answer.value) return <p class="hint">{answer.waiting ? "asking …" : ""}</p>;
  return <ListingView key={fn} listing={answer.value} />;
}

function ListingView({ listing }: { listing: Listing }) {
  const [hotOnly, setHotOnly] = useState(listing.lines.length > MANY && listing.lines.some((one) => one.own_ns > 0));
  const most = listing.lines.reduce((top, one) => Math.max(top, one.own_ns), 0);
  const own = listing.lines.reduce((sum, one) => sum + one.own_ns, 0);
  const shown = hotOnly ? around(listing.lines) : listing.lines;
  const byLine = listing.unit === "line";
  const calls = listing.lines.some((one) => one.below_ns > 0);
  return (
    <div class="listing">
      <div class="tools">
        <b>{visible(listing.name)}</b>
        <span class="muted">{`${visible(basename(listing.module))}, ${duration(own)} in itself, ${count(listing.lines.length)} ${listing.unit}s`}</span>
        <label><input type="checkbox" checked={hotOnly} onChange={(event) => setHotOnly(event.currentTarget.checked)} /> hot lines only</label>
      </div>
      <table>
        <thead><tr><th scope="col" class="number">share</th><th scope="col" class="number">time</th>{calls && <th scope="col" class="number">in calls</th>}<th scope="col" class="number">{byLine ? "line" : "address"}</th><th scope="col">{byLine ? "code" : "instruction"}</th><th scope="col">source</th></tr></thead>
        <tbody>
          {shown.map((one) => (
            <tr key={one.address} class={most > 0 && one.own_ns > most / 3 ? "hot-line" : ""}>
              <td class="number">{one.own_ns > 0 ? percent(own > 0 ? one.own_ns / own : 0) : ""}</td>
              <td class="number">{one.own_ns > 0 ? duration(one.own_ns) : ""}</td>
              {calls && <td class="number">{one.below_ns > 0 ? duration(one.below_ns) : ""}</td>}
              <td class="number mono">{one.address.toString(byLine ? 10 : 16)}</td>
              <td class={byLine ? "mono source-line" : "mono"}>{visible(one.text)}</td>
              <td class="muted">{one.file === null ? "" : `${visible(basename(one.file))}${one.line === null ? "" : `:${one.line}`}`}</td>
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  );
}

/** Lines with a cost, and four on each side. */
function around(lines: readonly ListingLine[]): readonly ListingLine[] {
  return lines.filter((_, at) => lines.slice(Math.max(0, at - 4), at + 5).some((one) => one.own_ns > 0 || one.below_ns > 0));
}
