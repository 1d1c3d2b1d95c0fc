// Opens the page: where the answers come from, the theme, and the address.

import { render } from "preact";
import { bundled } from "./api/bundle";
import { FirstLook } from "./api/first_look";
import { type Progress, Server } from "./api/server";
import type { Source } from "./api/source";
import type { Summary } from "./api/types";
import { Catalogue } from "./model/threads";
import { formatAddress } from "./model/address";
import { count } from "./model/time";
import { sameRange } from "./model/view";
import { Viewer, sentence } from "./model/viewer";
import { App } from "./panels/app";
import { keepAddress } from "./panels/address_bar";
import "./style.css";

async function open(root: HTMLElement): Promise<void> {
  const source = (await bundled(document)) ?? new Server((progress) => tell(root, progress));
  const whole = source.summary(false);
  const first = await firstLook(source, whole);
  if (first) show(root, first);
  const summary = await whole;
  if (summary.api !== 1) throw new Error(`this page needs version 1 of the interface, not ${summary.api}: reload it`);
  const viewer = new Viewer(source, new Catalogue(summary), first?.state.theme ?? preferred());
  // If the reader has navigated since, the position is kept.
  if (first) viewer.store.set({ view: first.state.view, help: first.state.help, tab: first.state.tab });
  show(root, viewer);
  const moved = first !== null && !sameRange(first.state.view, first.whole);
  if (window.location.hash.length > 1 && !moved) viewer.open(window.location.hash);
  else if (summary.findings.length > 0 && !moved) viewer.openFinding(0);
  keepAddress(viewer, () => formatAddress(viewer.address()));
  if (summary.pending) viewer.adopt(new Catalogue(await source.summary(true)));
}

/** The preview of a long recording while it is read. Null if the recording was read first. */
async function firstLook(source: Source, whole: Promise<Summary>): Promise<Viewer | null> {
  if (!(source instanceof Server)) return null;
  const look = await Promise.race([whole.then(() => null), source.firstLook().catch(() => null)]);
  if (!look) return null;
  const first = new FirstLook(look);
  return new Viewer(first, new Catalogue(first.known), preferred());
}

function preferred(): "light" | "dark" {
  return window.matchMedia("(prefers-color-scheme: dark)").matches ? "dark" : "light";
}

function show(root: HTMLElement, viewer: Viewer): void {
  if (root.className === "opening") {
    root.textContent = "";
    root.className = "";
  }
  // Another viewer is another page: nothing of the first look is kept.
  render(<App key={viewer.catalogue.summary.first_look ? "first" : "all"} viewer={viewer} />, root);
}

/** How far the opening is, while there is nothing else to show. */
function tell(root: HTMLElement, { sentence: words, switches, seconds }: Progress): void {
  if (root.querySelector(".page")) return;
  const size = switches > 0 ? ` of ${count(switches)} switches` : "";
  let line = root.querySelector("p");
  if (!line) {
    root.textContent = "";
    root.className = "opening";
    const main = root.appendChild(document.createElement("main"));
    main.appendChild(document.createElement("h1")).textContent = "holdup";
    line = main.appendChild(document.createElement("p"));
    line.setAttribute("role", "status");
  }
  line.textContent = `The recording${size} is being opened: ${words} … ${seconds.toFixed(0)} s`;
}

const root = document.getElementById("app");
if (root) {
  open(root).catch((failure: unknown) => {
    root.textContent = `The recording cannot be shown: ${sentence(failure)}.`;
    root.setAttribute("role", "alert");
  });
}
