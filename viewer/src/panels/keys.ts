// What keys do. The help overlay lists them from here.

import type { Viewer } from "../model/viewer";

interface Binding {
  readonly keys: readonly string[];
  /** As the help overlay shows them. */
  readonly shown: string;
  readonly words: string;
  readonly act: (viewer: Viewer) => void;
}

/** Every key, in the order of the help overlay. */
export const BINDINGS: readonly Binding[] = [
  { keys: ["w"], shown: "W", words: "zoom in", act: (v) => v.zoom(0.6) },
  { keys: ["s"], shown: "S", words: "zoom out", act: (v) => v.zoom(1 / 0.6) },
  { keys: ["a"], shown: "A", words: "earlier", act: (v) => v.pan(-0.2) },
  { keys: ["d"], shown: "D", words: "later", act: (v) => v.pan(0.2) },
  { keys: ["0"], shown: "0", words: "the whole run", act: (v) => v.show(v.whole) },
  { keys: ["f", "z"], shown: "F", words: "zoom to the selected range or slice", act: (v) => v.frameSelection() },
  { keys: ["n"], shown: "N", words: "next place of the finding", act: (v) => v.step(1) },
  { keys: ["p"], shown: "P", words: "previous place of the finding", act: (v) => v.step(-1) },
  { keys: ["j"], shown: "J", words: "next finding", act: (v) => v.stepFinding(1) },
  { keys: ["k"], shown: "K", words: "previous finding", act: (v) => v.stepFinding(-1) },
  { keys: ["Enter"], shown: "Enter", words: "go to the thread that the chosen slice waited for", act: (v) => v.followFirst() },
  { keys: ["Backspace"], shown: "Backspace", words: "back to the previous slice", act: (v) => v.goBack() },
  { keys: ["ArrowLeft"], shown: "←", words: "previous slice, same thread", act: (v) => v.neighbour("previous") },
  { keys: ["ArrowRight"], shown: "→", words: "next slice, same thread", act: (v) => v.neighbour("next") },
  { keys: ["c"], shown: "C", words: "a lane for each CPU, on or off", act: (v) => v.store.set({ cpus: !v.state.cpus }) },
  { keys: ["g"], shown: "G", words: "counters of the runtime (heap, …), on or off", act: (v) => v.store.set({ counters: !v.state.counters }) },
  { keys: ["x"], shown: "X", words: "critical path, on or off", act: (v) => v.store.set({ path: !v.state.path }) },
  { keys: ["t"], shown: "T", words: "dark or light", act: (v) => v.store.set({ theme: v.state.theme === "dark" ? "light" : "dark" }) },
  { keys: ["/"], shown: "/", words: "search", act: () => document.getElementById("search")?.focus() },
  { keys: ["?"], shown: "?", words: "this help", act: (v) => v.store.set({ help: !v.state.help }) },
  { keys: ["Escape"], shown: "Esc", words: "close, clear the selection", act: escape },
];

function escape(viewer: Viewer): void {
  const { help, range, finding } = viewer.state;
  if (help) viewer.store.set({ help: false });
  else if (range) viewer.select(null);
  else if (finding !== null) viewer.closeFinding();
  else viewer.store.set({ picked: null, back: [] });
}

/** The relevant properties of the focused element. */
interface Focused {
  readonly tagName?: string;
  readonly type?: string;
  readonly closest?: (selector: string) => unknown;
}

/** Kinds of input that take no text. */
const SWITCHES = ["checkbox", "radio", "button"];

/** The element that has the focus needs the key itself. */
export function isTaken(focused: Focused | null, name: string): boolean {
  const tag = focused?.tagName ?? "";
  const isSwitch = tag === "INPUT" && SWITCHES.includes(focused?.type ?? "");
  if (["INPUT", "SELECT", "TEXTAREA"].includes(tag) && !isSwitch) return true;
  if (name === " ") return isSwitch || isIn(focused, "button, a, summary, [role=option], [data-keys]");
  if (name === "Enter") return isIn(focused, "button, a, summary, [role=option], [data-keys]");
  return name.startsWith("Arrow") && isIn(focused, "[role=option], [data-keys]");
}

function isIn(focused: Focused | null, selector: string): boolean {
  return Boolean(focused?.closest?.(selector));
}

/** Executes a key's command, unless the reader is typing or a button handles the key. */
export function handleKey(viewer: Viewer, event: KeyboardEvent): void {
  if (event.ctrlKey || event.metaKey || event.altKey || event.defaultPrevented) return;
  const name = event.key.length === 1 ? event.key.toLowerCase() : event.key;
  // Content behind the help must not move.
  if (viewer.state.help && name !== "?" && name !== "Escape") return;
  if (isTaken(event.target as Focused | null, name)) return;
  const digit = /^[1-9]$/.test(name) ? Number(name) : 0;
  if (digit > 0) {
    const tabs = ["why", "stacks", ...viewer.catalogue.summary.tables.map((one) => one.name), "source"];
    const tab = tabs[digit - 1];
    if (tab) viewer.openTab(tab);
    return;
  }
  const binding = BINDINGS.find((one) => one.keys.includes(name));
  if (!binding) return;
  event.preventDefault();
  binding.act(viewer);
}
