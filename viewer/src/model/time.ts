// Times are whole nanoseconds since the start of the recording, as JavaScript numbers: exact up to 104 days.

/** Nanoseconds since the start of the recording. */
export type Ns = number;

const UNITS: readonly [Ns, string][] = [
  [1e9, "s"],
  [1e6, "ms"],
  [1e3, "µs"],
  [1, "ns"],
];

/** A duration with three digits and its unit: `2.41 ms`. */
export function duration(ns: Ns): string {
  if (ns === 0) return "0";
  const [scale, unit] = UNITS.find(([size]) => Math.abs(ns) >= size * 0.9995) ?? [1, "ns"];
  const value = ns / scale;
  const digits = unit === "ns" ? 0 : Math.max(0, 2 - Math.floor(Math.log10(Math.abs(value) * 1.0005)));
  return `${value.toFixed(Math.min(2, digits))} ${unit}`;
}

/** A moment, in seconds, with as many digits as `step` (the distance between neighbours) needs. */
export function moment(ns: Ns, step: Ns = 1e3): string {
  const digits = Math.min(9, Math.max(0, 9 - Math.floor(Math.log10(Math.max(1, step)) + 1e-9)));
  return `${(ns / 1e9).toFixed(digits)} s`;
}

/** A share in percent, short: `31 %`, `0.4 %`. `100 %` only for the whole. */
export function percent(share: number): string {
  const value = share * 100;
  if (!Number.isFinite(value)) return "–";
  if (value >= 99.5 && value < 100) return `${Math.min(99.9, value).toFixed(1)} %`;
  return `${value >= 9.95 || value === 0 ? Math.round(value) : value.toFixed(1)} %`;
}

/** A whole number with thin gaps between thousands. */
export function count(value: number): string {
  return Math.round(value).toString().replace(/\B(?=(\d{3})+$)/g, "\u202f");
}

/** Sizes in bytes, by powers of 1024. */
export function bytes(value: number): string {
  const units = ["B", "KiB", "MiB", "GiB", "TiB"];
  let size = value;
  let at = 0;
  while (Math.abs(size) >= 1024 && at < units.length - 1) {
    size /= 1024;
    at += 1;
  }
  return `${at === 0 || size >= 100 ? Math.round(size) : size.toFixed(1)} ${units[at]}`;
}

/** Where the ruler has a line, from `from` to `to`, at most one in `gap` pixels. */
export interface Ruler {
  readonly step: Ns;
  readonly ticks: readonly Ns[];
}

/** Ticks at 1, 2 or 5 times a power of ten. */
export function ruler(from: Ns, to: Ns, width: number, gap: number): Ruler {
  const least = Math.max(1, ((to - from) * gap) / Math.max(1, width));
  const power = 10 ** Math.floor(Math.log10(least));
  const step = [1, 2, 5, 10].map((times) => times * power).find((one) => one >= least - 1e-9) ?? 10 * power;
  const ticks: Ns[] = [];
  for (let at = Math.ceil(from / step); at * step <= to && ticks.length < 1000; at += 1) ticks.push(at * step);
  return { step, ticks };
}
