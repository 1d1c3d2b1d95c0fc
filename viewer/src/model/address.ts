// The address of a view: the part after the `#`, as printed in reports (`#t=4.213&thread=12`). Foreign text:
// invalid parts are ignored, never guessed.

import type { Ns } from "./time";
import type { Range } from "./view";

/** A tab below the timeline: `why`, `stacks`, `source`, or a table by its name. One that there is not is shown as `why`. */
export type Tab = string;

/** Content of an address. */
export interface Address {
  /** A time to show. */
  readonly t?: Ns;
  /** The recording's own number of a thread. */
  readonly thread?: number;
  /** Range of the timeline. */
  readonly view?: Range;
  /** A selected span of time. */
  readonly range?: Range;
  /** A finding, counted from 1 as reports do. */
  readonly finding?: number;
  /** Which place of the finding, counted from 1, the worst first. */
  readonly place?: number;
  readonly tab?: Tab;
  /** A function whose stacks or source are shown. */
  readonly fn?: string;
  /** Which time the stacks are of. */
  readonly kind?: string;
  /** Stacks from callees to callers. */
  readonly reverse?: boolean;
  /** Stacks of the chosen thread only. */
  readonly alone?: boolean;
}

/** Parses the part after the `#` (with or without it). */
export function parseAddress(hash: string): Address {
  const asked = new URLSearchParams(hash.replace(/^#/, ""));
  const t = seconds(asked.get("t"));
  const thread = whole(asked.get("thread"));
  const view = span(asked.get("view"));
  const range = span(asked.get("range"));
  const finding = whole(asked.get("finding"));
  const place = whole(asked.get("place"));
  const kind = /^[a-z][a-z-]{0,30}$/.exec(asked.get("kind") ?? "")?.[0];
  const tab = /^[a-z][a-z-]{0,30}$/.exec(asked.get("tab") ?? "")?.[0];
  const fn = asked.get("fn");
  return {
    ...(t !== null && { t }),
    ...(thread !== null && { thread }),
    ...(view && { view }),
    ...(range && { range }),
    ...(finding !== null && { finding }),
    ...(place !== null && { place }),
    ...(tab && { tab }),
    ...(fn && { fn }),
    ...(kind && { kind }),
    ...(asked.get("reverse") === "1" && { reverse: true }),
    ...(asked.get("alone") === "1" && { alone: true }),
  };
}

/** The address as text, without the `#`. */
export function formatAddress(address: Address): string {
  const parts: string[] = [];
  if (address.t !== undefined) parts.push(`t=${inSeconds(address.t)}`);
  if (address.thread !== undefined) parts.push(`thread=${address.thread}`);
  if (address.view) parts.push(`view=${inSeconds(address.view.from)},${inSeconds(address.view.to)}`);
  if (address.range) parts.push(`range=${inSeconds(address.range.from)},${inSeconds(address.range.to)}`);
  if (address.finding !== undefined) parts.push(`finding=${address.finding}`);
  if (address.place !== undefined) parts.push(`place=${address.place}`);
  if (address.tab) parts.push(`tab=${address.tab}`);
  if (address.fn) parts.push(`fn=${encodeURIComponent(address.fn)}`);
  if (address.kind) parts.push(`kind=${address.kind}`);
  if (address.reverse) parts.push("reverse=1");
  if (address.alone) parts.push("alone=1");
  return parts.join("&");
}

function inSeconds(ns: Ns): string {
  return (Math.round(ns) / 1e9).toFixed(9).replace(/\.?0+$/, "");
}

function seconds(text: string | null): Ns | null {
  if (text === null || !/^\d{1,9}(\.\d+)?$/.test(text)) return null;
  return Math.round(Number(text) * 1e9);
}

function whole(text: string | null): number | null {
  return text !== null && /^\d{1,9}$/.test(text) ? Number(text) : null;
}

function span(text: string | null): Range | null {
  const [from, to, more] = (text ?? "").split(",").map(seconds);
  if (from === undefined || to === undefined || from === null || to === null || more !== undefined) return null;
  return from < to ? { from, to } : null;
}
