// Frames of a stack, in words.

import type { Frame } from "../api/types";
import { basename, visible } from "./text";

/** A function that calls itself from one place is one line, with how often. */
export function withoutRepeats(frames: readonly Frame[]): { frame: Frame; times: number }[] {
  const out: { frame: Frame; times: number }[] = [];
  for (const frame of frames) {
    const last = out.at(-1);
    if (last && last.frame.name === frame.name && last.frame.module === frame.module && where(last.frame) === where(frame)) last.times += 1;
    else out.push({ frame, times: 1 });
  }
  return out;
}

/** File and line, or else the binary. */
export function where(frame: Frame): string {
  const inlined = frame.inlined ? " (inlined)" : "";
  if (frame.file) return ` ${visible(basename(frame.file))}${frame.line ? `:${frame.line}` : ""}${inlined}`;
  return frame.kind === "kernel" ? " kernel" : ` ${visible(basename(frame.module))}${inlined}`;
}
