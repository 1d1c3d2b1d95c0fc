// The page: head, ledger, findings next to the timeline, tabs below.

import type { ComponentChildren } from "preact";
import { useEffect, useRef, useState } from "preact/hooks";
import type { Tab } from "../model/address";
import type { Viewer } from "../model/viewer";
import { Findings } from "./findings";
import { Header } from "./header";
import { Help } from "./help";
import { ViewerContext, useSelected, useViewer } from "./hooks";
import { handleKey } from "./keys";
import { LedgerBar } from "./ledger";
import { SourceView } from "./source_view";
import { Stacks } from "./stacks";
import { TableView } from "./table";
import { Timeline } from "./timeline";
import { Why } from "./why";

/** The whole page. */
export function App({ viewer }: { viewer: Viewer }) {
  return (
    <ViewerContext.Provider value={viewer}>
      <Page />
    </ViewerContext.Provider>
  );
}

function Page() {
  const viewer = useViewer();
  const theme = useSelected((state) => state.theme);
  // The whole page depends on the catalogue.
  useSelected((state) => state.catalogue);
  const help = useSelected((state) => state.help);
  useEffect(() => {
    document.documentElement.dataset["theme"] = theme;
  }, [theme]);
  useEffect(() => {
    const listener = (event: KeyboardEvent): void => handleKey(viewer, event);
    window.addEventListener("keydown", listener);
    return () => window.removeEventListener("keydown", listener);
  }, [viewer]);
  const [below, setBelow] = useState(270);
  return (
    <div class="page" data-look={viewer.catalogue.summary.first_look ? "first" : "all"}>
      <Header />
      <LedgerBar />
      <main class="middle">
        <Findings />
        <Timeline />
      </main>
      <Splitter height={below} change={setBelow} />
      <Below height={below} />
      {help && <Help />}
    </div>
  );
}

/** Moves the border between timeline and tabs: by pointer, or by the arrow keys. */
function Splitter({ height, change }: { height: number; change: (height: number) => void }) {
  const set = (value: number): void => change(Math.round(Math.max(90, Math.min(window.innerHeight - 260, value))));
  return (
    <div
      class="splitter"
      role="separator"
      aria-orientation="horizontal"
      aria-label="height of the lower panel"
      aria-valuenow={height}
      aria-valuemin={90}
      tabIndex={0}
      onPointerDown={(event) => event.currentTarget.setPointerCapture(event.pointerId)}
      onPointerMove={(event) => event.currentTarget.hasPointerCapture(event.pointerId) && set(window.innerHeight - event.clientY)}
      onKeyDown={(event) => {
        if (event.key !== "ArrowUp" && event.key !== "ArrowDown") return;
        event.preventDefault();
        event.stopPropagation();
        set(height + (event.key === "ArrowUp" ? 20 : -20));
      }}
    />
  );
}

/** Tabs that there are, with their labels: some depend on what the recording has. */
export function tabsOf(viewer: Viewer): readonly { tab: Tab; label: string }[] {
  const tables = viewer.catalogue.summary.tables.map((one) => ({ tab: one.name, label: one.label }));
  return [{ tab: "why", label: "Why" }, { tab: "stacks", label: "Stacks" }, ...tables, { tab: "source", label: "Source" }];
}

function Below({ height }: { height: number }) {
  const viewer = useViewer();
  const tab = useSelected((state) => state.tab);
  const tabs = tabsOf(viewer);
  const panel = useRef<HTMLElement>(null);
  useEffect(() => {
    if (panel.current) panel.current.style.height = `${height}px`;
  }, [height]);
  const known = tabs.some((one) => one.tab === tab) ? tab : "why";
  const move = (by: number): void => {
    const at = tabs.findIndex((one) => one.tab === known);
    const next = tabs[(at + by + tabs.length) % tabs.length];
    if (!next) return;
    viewer.openTab(next.tab);
    document.getElementById(`tab-${next.tab}`)?.focus();
  };
  return (
    <section class="below" ref={panel} aria-label="details">
      <div class="tabs" role="tablist" aria-label="details">
        {tabs.map(({ tab: name, label }) => (
          <button
            key={name}
            id={`tab-${name}`}
            role="tab"
            aria-selected={name === known}
            aria-controls="tab-panel"
            tabIndex={name === known ? 0 : -1}
            onClick={() => viewer.openTab(name)}
            onKeyDown={(event) => {
              if (event.key !== "ArrowRight" && event.key !== "ArrowLeft") return;
              event.stopPropagation();
              move(event.key === "ArrowRight" ? 1 : -1);
            }}
          >
            {label}
          </button>
        ))}
        <Failure />
      </div>
      <div class="tab-panel" id="tab-panel" role="tabpanel" aria-labelledby={`tab-${known}`} tabIndex={0}>
        {panelOf(known)}
      </div>
    </section>
  );
}

function panelOf(tab: Tab): ComponentChildren {
  if (tab === "why") return <Why />;
  if (tab === "stacks") return <Stacks />;
  if (tab === "source") return <SourceView />;
  return <TableView key={tab} name={tab} />;
}

function Failure() {
  const viewer = useViewer();
  const failure = useSelected((state) => state.failure);
  if (failure === null) return null;
  return (
    <span class="failure" role="alert">
      {failure}
      <button aria-label="dismiss" onClick={() => viewer.store.set({ failure: null })}>✕</button>
    </span>
  );
}
