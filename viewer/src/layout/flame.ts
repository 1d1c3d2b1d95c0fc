// A call tree as rectangles. Pure. Roots are at the top and callees below (an icicle), so that reading starts
// at the root. With `upward` the tree grows up from the bottom, for the callers' half of a sandwich.

import type { Flame } from "../api/types";
import type { Draw } from "../draw/log";
import { visible } from "../model/text";

export const FRAME_H = 19;

/** A visible node. */
export interface FlameBox {
  readonly node: number;
  readonly x: number;
  readonly y: number;
  readonly w: number;
  readonly depth: number;
}

/** The tree with the children of each node. */
export interface FlameTree {
  readonly flame: Flame;
  readonly children: readonly (readonly number[])[];
  readonly roots: readonly number[];
}

/** Children by name, so that places are the same from one picture to the next. */
export function growTree(flame: Flame): FlameTree {
  const children: number[][] = flame.name.map(() => []);
  const roots: number[] = [];
  flame.parent.forEach((parent, node) => {
    if (parent >= 0 && parent < node) children[parent]?.push(node);
    else roots.push(node);
  });
  const byTime = (a: number, b: number): number => (flame.ns[b] ?? 0) - (flame.ns[a] ?? 0) || a - b;
  for (const list of children) list.sort(byTime);
  roots.sort(byTime);
  return { flame, children, roots };
}

/** Boxes of what can be seen when `focus` (null: everything) fills the width. Ancestors of the focus are above it, full width. */
export function layoutFlame(tree: FlameTree, width: number, focus: number | null): FlameBox[] {
  const { flame } = tree;
  const out: FlameBox[] = [];
  const ancestors: number[] = [];
  for (let node = focus === null ? -1 : flame.parent[focus] ?? -1; node >= 0; node = flame.parent[node] ?? -1) ancestors.unshift(node);
  ancestors.forEach((node, depth) => out.push({ node, x: 0, y: depth * FRAME_H, w: width, depth }));
  const total = focus === null ? Math.max(1, flame.total_ns) : Math.max(1, flame.ns[focus] ?? 1);
  const todo: { nodes: readonly number[]; x: number; depth: number }[] = [
    { nodes: focus === null ? tree.roots : [focus], x: 0, depth: ancestors.length },
  ];
  for (let next = todo.pop(); next; next = todo.pop()) {
    let x = next.x;
    for (const node of next.nodes) {
      const w = ((flame.ns[node] ?? 0) / total) * width;
      if (w < 0.5) break;
      out.push({ node, x, y: next.depth * FRAME_H, w, depth: next.depth });
      todo.push({ nodes: tree.children[node] ?? [], x, depth: next.depth + 1 });
      x += w;
    }
  }
  return out;
}

/**
 * Own time of functions, by name, the largest first. In a tree from callees to callers, it is the time of the
 * roots. There, the own time of a node is the time of stacks that began in it.
 */
export function ownTimes(flame: Flame, leavesFirst: boolean): [name: number, ns: number][] {
  const own = new Map<number, number>();
  flame.name.forEach((name, node) => {
    const ns = !leavesFirst ? flame.own_ns[node] : (flame.parent[node] ?? -1) < 0 ? flame.ns[node] : 0;
    own.set(name, (own.get(name) ?? 0) + (ns ?? 0));
  });
  return [...own].filter(([, ns]) => ns > 0).sort((a, b) => b[1] - a[1] || a[0] - b[0]);
}

/** Height that the boxes need. */
export function flameHeight(boxes: readonly FlameBox[]): number {
  return boxes.reduce((most, one) => Math.max(most, one.y + FRAME_H), 0);
}

/** How the boxes look. */
export interface FlameLook {
  /** Nodes whose name contains this text are highlighted. Empty for none. */
  readonly search: string;
  readonly hovered: number | null;
  readonly upward: boolean;
  readonly height: number;
}

/** Change of each node since the other recording, from -1 to 1 (the greatest change). Null without another
 * recording.
 */
export function changesOf(flame: Flame): readonly number[] | null {
  const before = flame.before_ns;
  if (!before) return null;
  const changes = flame.ns.map((ns, node) => ns - (before[node] ?? 0));
  const most = changes.reduce((greatest, one) => Math.max(greatest, Math.abs(one)), 1);
  return changes.map((one) => one / most);
}

/** Commands for the boxes. */
export function composeFlame(tree: FlameTree, boxes: readonly FlameBox[], look: FlameLook): Draw[] {
  const { flame } = tree;
  const out: Draw[] = [];
  const needle = look.search.toLowerCase();
  const changes = changesOf(flame);
  for (const box of boxes) {
    const index = flame.name[box.node] ?? -1;
    const name = flame.names[index] ?? "";
    const y = look.upward ? look.height - box.y - FRAME_H : box.y;
    const w = Math.max(0.5, box.w - (box.w > 3 ? 1 : 0));
    const found = needle !== "" && name.toLowerCase().includes(needle);
    const kernel = flame.kernel[box.node] === 1;
    const fill = found ? "spin" : kernel ? "kernel" : "useful";
    const changed = changes && !found;
    if (changed) out.push({ op: "rect", x: box.x, y, w, h: FRAME_H - 1, fill: { change: changes[box.node] ?? 0 } });
    else {
      out.push({ op: "rect", x: box.x, y, w, h: FRAME_H - 1, fill: { class: fill, plain: true } });
      const shade = hashShare(flame.modules[index] ?? "") * 0.2;
      out.push({ op: "rect", x: box.x, y, w, h: FRAME_H - 1, fill: { ink: "ground", alpha: found ? 0 : shade } });
    }
    if (w > 22) {
      const on = changed ? { onChange: true } : { on: fill };
      out.push({ op: "text", x: box.x + 4, y: y + FRAME_H / 2 - 0.5, text: visible(name), ink: "text", width: w - 8, ...on });
    }
    if (look.hovered === box.node) out.push({ op: "frame", x: box.x + 0.5, y: y + 0.5, w: w - 1, h: FRAME_H - 2, ink: "text", thick: 1.5 });
  }
  return out;
}

/** The box under a pixel. */
export function boxAt(boxes: readonly FlameBox[], x: number, y: number): FlameBox | null {
  return boxes.find((one) => x >= one.x && x < one.x + one.w && y >= one.y && y < one.y + FRAME_H) ?? null;
}

/** Time of the nodes whose name contains the text. Nested matches count once. */
export function foundShare(flame: Flame, search: string): number {
  const needle = search.toLowerCase();
  if (needle === "" || flame.total_ns <= 0) return 0;
  const inside: boolean[] = [];
  let sum = 0;
  flame.name.forEach((index, node) => {
    const parent = flame.parent[node] ?? -1;
    const above = parent >= 0 && inside[parent] === true;
    const here = (flame.names[index] ?? "").toLowerCase().includes(needle);
    if (here && !above) sum += flame.ns[node] ?? 0;
    inside[node] = above || here;
  });
  return sum / flame.total_ns;
}

/** A constant share (0 to 1) per text: the shade of a module. */
function hashShare(text: string): number {
  let hash = 7;
  for (let at = 0; at < text.length; at += 1) hash = (hash * 31 + text.charCodeAt(at)) >>> 0;
  return (hash % 97) / 97;
}
