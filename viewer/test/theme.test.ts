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

// Machado, Oliveira and Fernandes 2009, at full strength. Rows of a matrix on linear RGB.
const BLINDNESS: Readonly<Record<string, readonly (readonly [number, number, number])[]>> = {
  none: [[1, 0, 0], [0, 1, 0], [0, 0, 1]],
  protanopia: [[0.152286, 1.052583, -0.204868], [0.114503, 0.786281, 0.099216], [-0.003882, -0.048116, 1.051998]],
  deuteranopia: [[0.367322, 0.860646, -0.227968], [0.280085, 0.672501, 0.047413], [-0.01182, 0.04294, 0.968881]],
  tritanopia: [[1.255528, -0.076749, -0.178779], [-0.078411, 0.930809, 0.147602], [0.004733, 0.691367, 0.3039]],
};

/** CIELAB of `#rrggbb` as seen by this eye. */
function lab(colour: string, eye: readonly (readonly [number, number, number])[]): number[] {
  const linear = [1, 3, 5].map((at) => {
    const value = Number.parseInt(colour.slice(at, at + 2), 16) / 255;
    return value <= 0.04045 ? value / 12.92 : ((value + 0.055) / 1.055) ** 2.4;
  });
  const times = (row: readonly number[], of: readonly number[]): number => row.reduce((sum, part, at) => sum + part * (of[at] ?? 0), 0);
  const seen = eye.map((row) => Math.min(1, Math.max(0, times(row, linear))));
  const [x, y, z] = [[0.4124, 0.3576, 0.1805], [0.2126, 0.7152, 0.0722], [0.0193, 0.1192, 0.9505]].map((row, at) => {
    const part = times(row, seen) / ([0.9505, 1, 1.089][at] ?? 1);
    return part > 0.008856 ? Math.cbrt(part) : 7.787 * part + 16 / 116;
  });
  return [116 * (y ?? 0) - 16, 500 * ((x ?? 0) - (y ?? 0)), 200 * ((y ?? 0) - (z ?? 0))];
}

/** Minimum distance of two adjacent colours that are distinguishable at a glance. */
const APART_MIN = 12;

describe.each(Object.entries(BLINDNESS))("to eyes with %s", (_, eye) => {
  it.each(THEMES)("classes of one texture have colours that can be told apart in the %s theme", (theme) => {
    const close: string[] = [];
    for (const one of CLASSES) {
      for (const other of CLASSES) {
        if (one.name >= other.name || one.texture !== other.texture) continue;
        const [a, b] = [lab(classColour(one.name, theme), eye), lab(classColour(other.name, theme), eye)];
        const apart = Math.hypot(...a.map((part, at) => part - (b[at] ?? 0)));
        if (apart < APART_MIN) close.push(`${one.name} ${other.name} ${one.texture} ${apart.toFixed(1)}`);
      }
    }
    expect(close).toEqual([]);
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
