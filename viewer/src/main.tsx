// Opens the page: where the answers come from, the theme, and the address.

import { render } from "preact";
import { bundled } from "./api/bundle";
import { Server } from "./api/server";
import { Catalogue } from "./model/threads";
import { formatAddress } from "./model/address";
import { Viewer, sentence } from "./model/viewer";
import { App } from "./panels/app";
import { keepAddress } from "./panels/address_bar";
import "./style.css";

async function open(root: HTMLElement): Promise<void> {
  const source = (await bundled(document)) ?? new Server();
  const summary = await source.summary();
  if (summary.api !== 1) throw new Error(`this page speaks version 1 of the answers, not ${summary.api}: reload it`);
  const dark = window.matchMedia("(prefers-color-scheme: dark)").matches;
  const viewer = new Viewer(source, new Catalogue(summary), dark ? "dark" : "light");
  root.textContent = "";
  render(<App viewer={viewer} />, root);
  if (window.location.hash.length > 1) viewer.open(window.location.hash);
  else if (summary.findings.length > 0) viewer.openFinding(0);
  keepAddress(viewer, () => formatAddress(viewer.address()));
}

const root = document.getElementById("app");
if (root) {
  open(root).catch((failure: unknown) => {
    root.textContent = `The recording cannot be shown: ${sentence(failure)}.`;
    root.setAttribute("role", "alert");
  });
}
