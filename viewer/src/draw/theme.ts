// Colours of the two themes, for the canvas. The style sheet has the same in variables. `test/theme.test.ts`
// checks the contrast of both.

import { classLook } from "../model/classes";
import type { Ink } from "./log";

export type ThemeName = "light" | "dark";

/** Colours by role. `muted` on `ground` and `raised` keeps the 4.5 : 1 of WCAG AA. */
export const INKS: Readonly<Record<ThemeName, Readonly<Record<Ink, string>>>> = {
  light: {
    ground: "#ffffff", raised: "#f5f6f8", line: "#d5d9df", faint: "#eceef1", text: "#1b2026", muted: "#5a636e",
    accent: "#0b5cad", selection: "#0b5cad", mark: "#b3261e", good: "#1a7f5a", warn: "#8a5a00", path: "#b3261e",
  },
  dark: {
    ground: "#14181d", raised: "#1c2128", line: "#363e48", faint: "#232a32", text: "#e8ebef", muted: "#a0abb8",
    accent: "#7ab8f5", selection: "#7ab8f5", mark: "#ff8a80", good: "#5fd0a5", warn: "#f0c060", path: "#ff8a80",
  },
};

/** Colour of a class. */
export function classColour(name: string, theme: ThemeName): string {
  const look = classLook(name);
  return theme === "light" ? look.light : look.dark;
}

/** Colour of a change from -1 (less than before) to 1 (more): those of the flame graphs that `holdup export` writes, in both themes. */
export function changeColour(change: number): string {
  const light = 96 - 36 * Math.sqrt(Math.min(1, Math.abs(change)));
  return `hsl(${change >= 0 ? 5 : 215} 75% ${Math.round(light)}%)`;
}

/** Relative luminance as WCAG defines it, of `#rrggbb`. */
export function luminance(colour: string): number {
  const channel = (at: number): number => {
    const value = Number.parseInt(colour.slice(at, at + 2), 16) / 255;
    return value <= 0.04045 ? value / 12.92 : ((value + 0.055) / 1.055) ** 2.4;
  };
  return 0.2126 * channel(1) + 0.7152 * channel(3) + 0.0722 * channel(5);
}

/** Contrast of two colours, 1 to 21. */
export function contrast(a: string, b: string): number {
  const [dark, bright] = [luminance(a), luminance(b)].sort((x, y) => x - y);
  return ((bright ?? 0) + 0.05) / ((dark ?? 0) + 0.05);
}

/** Black or white, whichever reads better on `colour`. */
export function textOn(colour: string): string {
  return contrast(colour, "#000000") >= contrast(colour, "#ffffff") ? "#000000" : "#ffffff";
}
