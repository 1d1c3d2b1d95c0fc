// Colours: contrast, textures, and one palette for canvas and page.

import { describe, expect, it } from "vitest";
import { readFileSync } from "node:fs";
import { INKS, changeColour, classColour, contrast, textOn } from "../src/draw/theme";
import { CLASSES, classLook } from "../src/model/classes";

const THEMES = ["light", "dark"] as const;

describe("contrast", () => {
  it.each(THEMES)("of words is WCAG AA in the %s theme", (theme) => {
    const inks = INKS[theme];
    for (const ground of [inks.ground, inks.raised]) {
      for (const ink of ["text", "muted", "accent", "mark", "good", "warn"] as const) {
        expect(contrast(inks[ink], ground), `${ink} on ${ground}`).toBeGreaterThanOrEqual(4.5);
      }
    }
  });
  it.each(THEMES)("of names on a class's colour is WCAG AA in the %s theme", (theme) => {
    for (const { name } of CLASSES) {
      const colour = classColour(name, theme);
      expect(contrast(textOn(colour), colour), name).toBeGreaterThanOrEqual(4.5);
    }
  });
});

it("what changed has the colours of exported flame graphs, on which black can be read", () => {
  const svg = readFileSync(new URL("../../crates/report/src/flame/svg.rs", import.meta.url), "utf8");
  expect(svg).toContain("96.0 - 36.0 * strength.sqrt()");
  expect(svg).toContain("{ 5 } else { 215 }");
  expect([-1, -0.25, 0, 1].map(changeColour)).toEqual(["hsl(215 75% 60%)", "hsl(215 75% 78%)", "hsl(5 75% 96%)", "hsl(5 75% 60%)"]);
});

describe("classes", () => {
  it("that run are plain, all others have a texture", () => {
    for (const one of CLASSES) expect(one.texture === "plain", one.name).toBe(["useful", "kernel", "gc-work", "spin"].includes(one.name));
  });
  it("that look alike without colour differ in texture or brightness", () => {
    const seen = new Set(CLASSES.map((one) => `${one.texture} ${one.light}`));
    expect(seen.size).toBe(CLASSES.length);
  });
  it("are all those of the ledger", () => {
    const rust = readFileSync(new URL("../../crates/findings/src/derive/class.rs", import.meta.url), "utf8");
    const names = [...rust.matchAll(/Class::\w+ => "([a-z-]+)"/g)].map((one) => one[1] ?? "");
    expect(names.length).toBeGreaterThan(10);
    expect(names.filter((name) => !CLASSES.some((one) => one.name === name))).toEqual([]);
  });
  it("of a newer holdup are drawn as unknown, under their own name", () => expect(classLook("quantum-wait")).toMatchObject({ name: "quantum-wait", texture: "open" }));
});

it("the style sheet has the colours of the canvas", () => {
  const css = readFileSync(new URL("../src/style.css", import.meta.url), "utf8");
  const [light = "", dark = ""] = css.split('[data-theme="dark"]');
  for (const [theme, text] of [["light", light], ["dark", dark]] as const) {
    for (const ink of ["ground", "raised", "line", "faint", "text", "muted", "accent", "mark", "warn"] as const) {
      expect(text, `${theme} ${ink}`).toContain(`--${ink}: ${INKS[theme][ink]};`);
    }
  }
});
