// One flame graph on a canvas: a click zooms, a double click opens the sandwich of a function. Arrow keys and
// Enter do the same.

import { useEffect, useMemo, useRef, useState } from "preact/hooks";
import type { Flame } from "../api/types";
import { Painter } from "../draw/canvas";
import { type FlameBox, FRAME_H, boxAt, composeFlame, flameHeight, growTree, layoutFlame } from "../layout/flame";
import { visible } from "../model/text";
import { duration, percent } from "../model/time";
import { useSelected, useViewer } from "./hooks";

interface Look {
  readonly flame: Flame;
  readonly search: string;
  readonly upward: boolean;
  /** Roots are leaves of stacks, followed by callers. A node's own time is then that of stacks that begin
   * there, not of the function.
   */
  readonly leavesFirst: boolean;
  readonly label: string;
}

/** See the module. */
export function FlameCanvas({ flame, search, upward, leavesFirst, label }: Look) {
  const viewer = useViewer();
  const theme = useSelected((state) => state.theme);
  const box = useRef<HTMLDivElement>(null);
  const canvas = useRef<HTMLCanvasElement>(null);
  const [width, setWidth] = useState(0);
  const [focus, setFocus] = useState<number | null>(null);
  const [hovered, setHovered] = useState<number | null>(null);
  const tree = useMemo(() => growTree(flame), [flame]);
  useEffect(() => {
    setFocus(null);
    setHovered(null);
  }, [flame]);
  useEffect(() => {
    const element = box.current;
    if (!element) return;
    const watcher = new ResizeObserver(() => setWidth(element.clientWidth));
    watcher.observe(element);
    return () => watcher.disconnect();
  }, []);
  const known = focus !== null && focus < flame.name.length ? focus : null;
  const boxes = useMemo(() => (width > 0 ? layoutFlame(tree, width, known) : []), [tree, width, known]);
  const height = Math.max(FRAME_H, flameHeight(boxes));
  useEffect(() => {
    const pen = canvas.current?.getContext("2d", { alpha: false });
    if (!pen || !canvas.current || width === 0) return;
    const density = window.devicePixelRatio || 1;
    canvas.current.width = Math.round(width * density);
    canvas.current.height = Math.round(height * density);
    canvas.current.style.height = `${height}px`;
    pen.scale(density, density);
    const painter = new Painter(pen, theme, density);
    painter.paint([{ op: "rect", x: 0, y: 0, w: width, h: height, fill: { ink: "ground" } }]);
    painter.paint(composeFlame(tree, boxes, { search, hovered, upward, height }));
  }, [tree, boxes, search, hovered, theme, width, height, upward]);
  const at = (event: MouseEvent): FlameBox | null => boxAt(boxes, event.offsetX, upward ? height - event.offsetY : event.offsetY);
  const open = (node: number | null): void => viewer.openFunction(node === null ? null : (flame.names[flame.name[node] ?? -1] ?? null));
  return (
    <div class="flame" ref={box} data-keys>
      <canvas
        ref={canvas}
        tabIndex={0}
        role="img"
        aria-label={`${label}: arrows move, Enter zooms, Shift and Enter shows callers and callees`}
        onMouseMove={(event) => setHovered(at(event)?.node ?? null)}
        onMouseLeave={() => setHovered(null)}
        onClick={(event) => {
          const found = at(event);
          if (found) setFocus(found.node === known ? null : found.node);
        }}
        onDblClick={(event) => open(at(event)?.node ?? null)}
        onKeyDown={(event) => {
          if (event.key === "Enter") {
            event.stopPropagation();
            if (event.shiftKey) open(hovered);
            else setFocus(hovered === known ? null : hovered);
            return;
          }
          const next = neighbour(boxes, hovered, event.key, upward);
          if (next === undefined) return;
          event.preventDefault();
          event.stopPropagation();
          setHovered(next);
        }}
      />
      <p class="under" role="status">{hovered === null ? "click: zoom · double click: callers and callees" : words(flame, hovered, leavesFirst)}</p>
    </div>
  );
}

/** Name, module and times of a node. */
function words(flame: Flame, node: number, leavesFirst: boolean): string {
  const index = flame.name[node] ?? -1;
  const share = flame.total_ns > 0 ? (flame.ns[node] ?? 0) / flame.total_ns : 0;
  const module = flame.modules[index] ?? "";
  const before = flame.before_ns?.[node];
  const was = before === undefined ? "" : `, before ${duration(before)}, now ${changeWords((flame.ns[node] ?? 0) - before)}`;
  const own = leavesFirst ? "" : `, itself ${duration(flame.own_ns[node] ?? 0)}`;
  return `${visible(flame.names[index] ?? "")}${module ? ` (${visible(module)})` : ""}: ${duration(flame.ns[node] ?? 0)}, ${percent(share)}${own}${was}`;
}

/** "1.2 s more": the colour is never the only distinction. */
function changeWords(ns: number): string {
  return ns === 0 ? "the same" : `${duration(Math.abs(ns))} ${ns > 0 ? "more" : "less"}`;
}

/** The node that an arrow key leads to. Undefined for other keys. */
function neighbour(boxes: readonly FlameBox[], from: number | null, key: string, upward: boolean): number | undefined {
  const here = boxes.find((one) => one.node === from) ?? null;
  if (!here) return key.startsWith("Arrow") ? boxes[0]?.node : undefined;
  const deeper = upward ? "ArrowUp" : "ArrowDown";
  const higher = upward ? "ArrowDown" : "ArrowUp";
  const middle = here.x + here.w / 2;
  const inDepth = (depth: number): FlameBox[] => boxes.filter((one) => one.depth === depth).sort((a, b) => a.x - b.x);
  if (key === deeper) return (inDepth(here.depth + 1).find((one) => one.x + 0.1 >= here.x && one.x < here.x + here.w) ?? here).node;
  if (key === higher) return (inDepth(here.depth - 1).find((one) => one.x <= middle && middle < one.x + one.w) ?? here).node;
  const row = inDepth(here.depth);
  const at = row.indexOf(here);
  if (key === "ArrowRight") return (row[at + 1] ?? here).node;
  if (key === "ArrowLeft") return (row[at - 1] ?? here).node;
  return undefined;
}
