// What panels decide without a page: whose keys are whose, which answer belongs to which question.

import { describe, expect, it } from "vitest";
import type { SliceAnswer } from "../src/api/types";
import type { Source } from "../src/api/source";
import { Catalogue } from "../src/model/threads";
import { Viewer } from "../src/model/viewer";
import { answerTo } from "../src/panels/hooks";
import { handleKey, isTaken } from "../src/panels/keys";
import { cpuBelow } from "../src/panels/timeline_canvas";
import { slice, summary, synthetic } from "./synthetic.mjs";

const RECORDING = synthetic();
const viewerOf = (): Viewer => new Viewer({ slice: () => new Promise(() => undefined) } as Partial<Source> as Source, new Catalogue(summary(RECORDING)), "light");

/** An element inside others, by the selectors that find one of them. */
const element = (tagName: string, type = "", within: readonly string[] = []) => ({
  tagName, type, closest: (selector: string) => selector.split(", ").some((one) => within.includes(one)) || null,
});

describe("keys", () => {
  it("are taken by who is typed into, and no more of them than it needs by anything else", () => {
    for (const typed of [element("INPUT", "text"), element("INPUT", "search"), element("SELECT"), element("TEXTAREA")]) {
      expect(["w", "ArrowLeft", "Enter", "?"].every((name) => isTaken(typed, name))).toBe(true);
    }
    const button = element("BUTTON", "", ["button"]);
    expect(["Enter", " ", "ArrowLeft", "n"].map((name) => isTaken(button, name))).toEqual([true, true, false, false]);
    const box = element("INPUT", "checkbox");
    expect([" ", "ArrowRight", "w", "?"].map((name) => isTaken(box, name))).toEqual([true, false, false, false]);
    const flame = element("CANVAS", "", ["[data-keys]"]);
    expect(["ArrowUp", "Enter", "w"].map((name) => isTaken(flame, name))).toEqual([true, true, false]);
    expect(isTaken(null, "ArrowLeft")).toBe(false);
  });
  it("move nothing below the help", () => {
    const viewer = viewerOf();
    const press = (key: string): void => handleKey(viewer, { key, target: null, preventDefault: () => undefined } as Partial<KeyboardEvent> as KeyboardEvent);
    press("?");
    const before = viewer.state;
    for (const key of ["n", "w", "2", "Enter", "x"]) press(key);
    expect(viewer.state).toBe(before);
    press("Escape");
    expect(viewer.state.help).toBe(false);
    press("2");
    expect(viewer.state.tab).toBe("stacks");
  });
});

it("an answer stands under its own question only", () => {
  const kept = { key: "1/2", value: "figures", failure: null };
  expect(answerTo("1/2", kept)).toEqual({ value: "figures", last: "figures", failure: null, waiting: false });
  expect(answerTo("1/3", kept)).toEqual({ value: null, last: "figures", failure: null, waiting: true });
  expect(answerTo("1/3", { ...kept, failure: "no" }).failure).toBeNull();
  expect(answerTo(null, kept)).toEqual({ value: null, last: null, failure: null, waiting: false });
});

it("the CPU below a thread that waited for one is that of which Why tells", () => {
  const viewer = viewerOf();
  const row = RECORDING.lives[1]?.findIndex(([, , index]) => index === 13) ?? -1;
  const found = slice(RECORDING, 1, { row });
  if (!found) throw new Error("nobody waits for a CPU");
  const shown = (one: SliceAnswer) => cpuBelow({ ...viewer.state, picked: { ask: { thread: 1, row }, slice: one, failure: null } });
  expect(found.cpu).not.toBe(found.occupied_cpu);
  expect(shown(found)).toEqual({ thread: 1, cpu: found.occupied_cpu });
  expect(shown({ ...found, occupied_cpu: -1 })).toBeNull();
});
