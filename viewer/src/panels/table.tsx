// A table: sortable, filterable, each row links to its place in the timeline. Copied as tab-separated values.

import { useState } from "preact/hooks";
import type { Histogram, Table } from "../api/types";
import { type Sorting, asTsv, cellText, chosenRows, isNumeric } from "../model/cells";
import { histogramBars, histogramLines, histogramUnit } from "../model/histogram";
import { count, duration } from "../model/time";
import { visible } from "../model/text";
import { ON_CPU } from "../model/viewer";
import { useAnswer, useSelected, useViewer } from "./hooks";

/** More rows than this are not put on the page at once. */
const ROWS_SHOWN = 500;

/** See the module. */
export function TableView({ name }: { name: string }) {
  const viewer = useViewer();
  const answer = useAnswer(name, (signal) => viewer.source.table(name, signal));
  if (answer.failure) return <p class="hint" role="alert">{answer.failure}</p>;
  if (!answer.value) return <p class="hint">asking …</p>;
  if (answer.value.rows.length === 0) return <p class="hint">{`This recording has nothing for the table “${answer.value.label}”.`}</p>;
  return <Rows table={answer.value} />;
}

function Rows({ table }: { table: Table }) {
  const viewer = useViewer();
  const [filter, setFilter] = useState("");
  const [sorting, setSorting] = useState<Sorting>({ column: null, descending: true });
  const [copied, setCopied] = useState("");
  const range = useSelected((state) => state.range);
  const [narrowed, setNarrowed] = useState(false);
  const canNarrow = range !== null && table.places.some((one) => one !== null);
  const rows = chosenRows(viewer.catalogue, table, { words: filter, range: narrowed && canNarrow ? range : null }, sorting);
  const sortBy = (at: number): void => {
    const column = table.columns[at];
    const first = column ? isNumeric(column) || histogramUnit(column.unit) !== null : true;
    setSorting((now) => (now.column !== at ? { column: at, descending: first } : now.descending === first ? { column: at, descending: !first } : { column: null, descending: true }));
  };
  const copy = (): void => {
    copyText(asTsv(viewer.catalogue, table, rows)).then(
      () => setCopied(`${count(rows.length)} rows copied`),
      () => setCopied("the browser did not allow copying"),
    );
  };
  return (
    <div class="table-view">
      <div class="tools">
        <input type="search" aria-label="rows that hold these words" placeholder="filter rows …" value={filter} onInput={(event) => setFilter(event.currentTarget.value)} />
        {canNarrow && (
          <label title="rows with a place in the selected range (their figures are of the whole run)">
            <input type="checkbox" checked={narrowed} onChange={(event) => setNarrowed(event.currentTarget.checked)} />{` only in the selected ${duration(range.to - range.from)}`}
          </label>
        )}
        <span class="muted" role="status">{rows.length === table.rows.length ? `${count(rows.length)} rows` : `${count(rows.length)} of ${count(table.rows.length)} rows`}</span>
        <button onClick={copy}>copy as TSV</button>
        <span class="muted" role="status">{copied}</span>
        {table.note && <span class="muted">{visible(table.note)}</span>}
      </div>
      <table>
        <thead>
          <tr>
            {table.columns.map((column, at) => (
              <th key={column.name} scope="col" class={isNumeric(column) ? "number" : ""} aria-sort={sorting.column !== at ? "none" : sorting.descending ? "descending" : "ascending"}>
                <button onClick={() => sortBy(at)}>{column.label}{sorting.column === at ? (sorting.descending ? " ▾" : " ▴") : ""}</button>
              </th>
            ))}
          </tr>
        </thead>
        <tbody>{rows.slice(0, ROWS_SHOWN).map((row) => <Row key={row} table={table} row={row} />)}</tbody>
      </table>
      {rows.length > ROWS_SHOWN && <p class="hint">{`The first ${count(ROWS_SHOWN)} of ${count(rows.length)} rows. Filter to see other rows, copy to get all of these.`}</p>}
    </div>
  );
}

function Row({ table, row }: { table: Table; row: number }) {
  const viewer = useViewer();
  const place = table.places[row] ?? null;
  return (
    <tr class={place ? "leads" : ""} onClick={() => place && viewer.goTo(place)}>
      {table.columns.map((column, at) => {
        const cell = table.rows[row]?.[at] ?? null;
        const text = cellText(viewer.catalogue, column, cell);
        if (column.unit === "function" && typeof cell === "string") {
          return <td key={column.name}><button class="link" onClick={(event) => { event.stopPropagation(); viewer.openFunction(cell, ON_CPU); }}>{text}</button></td>;
        }
        const unit = histogramUnit(column.unit);
        if (unit !== null && cell !== null && typeof cell === "object") {
          return <td key={column.name} class="histogram" title={histogramLines(unit, cell).join("\n")}><Bars histogram={cell} /> {text}</td>;
        }
        const leads = at === 0 && place !== null;
        return (
          <td key={column.name} class={isNumeric(column) ? "number" : ""}>
            {column.unit === "share" && typeof cell === "number" && <meter class="share" min={0} max={1} value={cell} aria-hidden="true" />}
            {leads ? <button class="link" onClick={(event) => { event.stopPropagation(); viewer.goTo(place); }}>{text}</button> : text}
          </td>
        );
      })}
    </tr>
  );
}

const [BAR_W, BARS_H] = [5, 16];

/** A histogram within a line, with its text next to it. */
function Bars({ histogram }: { histogram: Histogram }) {
  const bars = histogramBars(histogram);
  return (
    <svg class="bars" width={bars.length * BAR_W} height={BARS_H} aria-hidden="true">
      {bars.map((share, at) => {
        // Any count above 0 is visible.
        const height = share > 0 ? Math.max(1.5, share * BARS_H) : 0;
        return <rect key={at} x={at * BAR_W} y={BARS_H - height} width={BAR_W - 1} height={height} />;
      })}
    </svg>
  );
}

/** Copies to the clipboard. Pages from disk may lack the newer API. */
async function copyText(text: string): Promise<void> {
  if (navigator.clipboard) return navigator.clipboard.writeText(text);
  const area = document.createElement("textarea");
  area.value = text;
  document.body.append(area);
  area.select();
  const done = document.execCommand("copy");
  area.remove();
  if (!done) throw new Error("copying failed");
}
