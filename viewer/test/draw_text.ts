// Draw commands as lines of text, so that a test reads like a picture.

import type { Draw, Fill } from "../src/draw/log";

const round = (value: number): string => String(Math.round(value * 10) / 10);

function fill(one: Fill): string {
  if ("change" in one) return `change ${round(one.change)}`;
  return "class" in one ? `${one.class}${one.plain ? " plain" : ""}` : one.ink;
}

/** One line a command: what, where, how it looks. */
export function drawText(commands: readonly Draw[]): string[] {
  return commands.map((one) => {
    switch (one.op) {
      case "rect":
        return `rect ${round(one.x)},${round(one.y)} ${round(one.w)}×${round(one.h)} ${fill(one.fill)}`;
      case "text":
        return `text ${round(one.x)},${round(one.y)} ${one.text}`;
      case "frame":
        return `frame ${round(one.x)},${round(one.y)} ${round(one.w)}×${round(one.h)} ${one.ink}`;
      case "arrow":
        return `arrow ${round(one.x0)},${round(one.y0)} → ${round(one.x1)},${round(one.y1)}`;
      case "line":
      case "area":
        return `${one.op} ${one.points.map(round).join(" ")} ${one.ink}`;
      case "clip":
        return `clip ${round(one.x)},${round(one.y)} ${round(one.w)}×${round(one.h)}`;
      case "unclip":
        return "unclip";
    }
  });
}
