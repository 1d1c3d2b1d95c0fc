// Opens the page: where the answers come from, the theme, and the address.

import { render } from "preact";
import { bundled } from "./api/bundle";
import { type Progress, Server } from "./api/server";
import { Catalogue } from "./model/threads";
import { formatAddress } from "./model/address";
import { count } from "./model/time";
import { Viewer, sentence } from "./model/viewer";
import { App } from "./panels/app";
import { keepAddress } from "./panels/address_bar";
import "./style.css";

async function open(root: HTMLElement): Promise<void> {
  const source = (await bundled(document)) ?? new Server((progress) => tell(root, progress));
  const summary = await source.summary(false);
  if (summary.api !== 1) throw new Error(`this page speaks version 1 of the answers, not ${summary.api}: reload it`);
  const dark = window.matchMedia("(prefers-color-scheme: dark)").matches;
  const viewer = new Viewer(source, new Catalogue(summary), dark ? "dark" : "light");
  root.textContent = "";
  root.className = "";
  render(<App viewer={viewer} />, root);
  if (window.location.hash.length > 1) viewer.open(window.location.hash);
  else if (summary.findings.length > 0) viewer.openFinding(0);
  keepAddress(viewer, () => formatAddress(viewer.address()));
  if (summary.pending) viewer.adopt(new Catalogue(await source.summary(true)));
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
