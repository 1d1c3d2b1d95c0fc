// The head of the page: the recorded command, the confidence, and the search.

import { visible } from "../model/text";
import { count, duration, percent } from "../model/time";
import { useSelected, useViewer } from "./hooks";
import { Search } from "./search";

/** See the module. */
export function Header() {
  const viewer = useViewer();
  const theme = useSelected((state) => state.theme);
  const { summary } = viewer.catalogue;
  const command = visible(summary.command.join(" ")) || "(no command)";
  const { cpus } = viewer.catalogue;
  return (
    <header class="head">
      <h1>holdup</h1>
      <span class="command" title={command}>{command}</span>
      <span class="facts">{`${duration(summary.wall_ns)} on ${cpus} CPU${cpus === 1 ? "" : "s"}`}</span>
      <Trust />
      <span class="grow" />
      <Search />
      <button onClick={() => viewer.store.set({ theme: theme === "dark" ? "light" : "dark" })} title="dark or light (T)">
        {theme === "dark" ? "light" : "dark"}
      </button>
      <button onClick={() => viewer.store.set({ help: true })} title="keys and colours (?)">help</button>
    </header>
  );
}

/** Losses, cost of the recording, and missing data. */
function Trust() {
  const { summary } = useViewer().catalogue;
  const { loss, cost } = summary;
  const damaged = summary.damaged ?? [];
  const lost = loss.events + loss.uncounted + damaged.length > 0;
  const lostWords = `lost ${count(loss.events)} events${loss.uncounted > 0 ? ` and ${count(loss.uncounted)} stretches` : ""}${damaged.length > 0 ? `, damaged: ${damaged.map((one) => one.table).join(", ")}` : ""}`;
  // That nothing was lost is known once all is read.
  if (summary.first_look) {
    return (
      <>
        {lost && <span class="facts bad">{lostWords}</span>}
        <span class="facts">being read …</span>
      </>
    );
  }
  const notes: string[] = [];
  if (summary.backend !== "bpf") notes.push(`recorded without BPF (${summary.backend}): ${visible(summary.backend_reason)}`);
  if (summary.recovered) notes.push("the recorder did not exit normally: the recording ends with its journal");
  for (const one of summary.thinned) notes.push(visible(one));
  const short = [summary.backend !== "bpf" && `backend ${summary.backend}`, summary.recovered && "recovered", summary.thinned.length > 0 && "thinned"];
  const warning = short.filter((one) => one !== false).join(", ");
  return (
    <>
      <span class={lost ? "facts bad" : "facts"}>
        {lost ? lostWords : "lost nothing"}
      </span>
      {typeof cost.percent === "number" && <span class="facts">{`recording cost ${percent(cost.percent / 100)}`}</span>}
      {warning !== "" && (
        <details class="notes">
          <summary>{warning}</summary>
          <ul>{notes.map((one) => <li key={one}>{one}</li>)}</ul>
        </details>
      )}
    </>
  );
}
