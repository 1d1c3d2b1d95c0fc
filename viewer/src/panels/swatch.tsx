// A little patch of a class's colour and texture.

import { useEffect, useRef } from "preact/hooks";
import { Painter } from "../draw/canvas";
import { useSelected } from "./hooks";

/** A class's colour and texture. The name is next to it, so screen readers can skip it. */
export function Swatch({ name, width = 16, height = 12 }: { name: string; width?: number; height?: number }) {
  const canvas = useRef<HTMLCanvasElement>(null);
  const theme = useSelected((state) => state.theme);
  useEffect(() => {
    const pen = canvas.current?.getContext("2d");
    const density = window.devicePixelRatio || 1;
    if (!pen || !canvas.current) return;
    canvas.current.width = Math.round(width * density);
    canvas.current.height = Math.round(height * density);
    canvas.current.style.width = `${width}px`;
    canvas.current.style.height = `${height}px`;
    pen.scale(density, density);
    new Painter(pen, theme, density).paint([{ op: "rect", x: 0, y: 0, w: width, h: height, fill: { class: name } }]);
  }, [name, theme, width, height]);
  return <canvas ref={canvas} class="swatch" aria-hidden="true" />;
}
