// Names of threads, functions and files come from the recorded program and may contain any text. They are
// only added to the page as text (never as HTML). Invisible characters, and those that change the writing
// direction, are shown escaped.

const HIDDEN = /[\u0000-\u001f\u007f-\u009f\u00ad\u061c\u115f\u1160\u180e\u200b-\u200f\u2028-\u202e\u2060-\u206f\u3164\ufeff\ufff9-\ufffb\ufffd]/g;

const SHORT: Readonly<Record<string, string>> = { "\n": "\\n", "\r": "\\r", "\t": "\\t", "\0": "\\0", "\u001b": "\\e" };

/** The name with everything invisible made visible. */
export function visible(name: string): string {
  return name.replace(HIDDEN, (char) => SHORT[char] ?? `\\u{${(char.codePointAt(0) ?? 0).toString(16)}}`);
}

/** At most `length` characters (not halves of them), with an ellipsis where something is missing. */
export function shortened(text: string, length: number): string {
  const chars = Array.from(text);
  return chars.length <= length ? text : `${chars.slice(0, Math.max(0, length - 1)).join("")}…`;
}

/** The text, shortened to fit with an ellipsis before its last `keep` characters, which distinguish similar
 * names. Empty if not even these fit. */
export function fitted(text: string, fits: (text: string) => boolean, mostChars: number, keep = 0): string {
  if (fits(text)) return text;
  const chars = Array.from(text);
  const tail = keep > 0 ? chars.slice(-keep).join("") : "";
  const cut = (length: number): string => `${chars.slice(0, length).join("").trimEnd()}…${tail}`;
  let [low, high] = [0, Math.min(chars.length - keep, mostChars)];
  while (low < high) {
    const middle = Math.ceil((low + high) / 2);
    if (fits(cut(middle))) low = middle;
    else high = middle - 1;
  }
  if (low > 0) return cut(low);
  return keep > 0 ? fitted(text, fits, mostChars) : "";
}

/** The common part of names that only differ in numbers: `worker-*` for `worker-12`. */
export function stem(name: string): string {
  return name.replace(/\d+/g, "*");
}

/** The most specific part of a path. */
export function basename(path: string): string {
  return path.slice(path.lastIndexOf("/") + 1) || path;
}

/** One row of tab-separated values: a tab or line break inside a value must not make a new one. */
export function tsvRow(values: readonly string[]): string {
  return values.map((value) => visible(value)).join("\t");
}
