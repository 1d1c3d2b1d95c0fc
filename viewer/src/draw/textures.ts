// Textures of waits, as small tiles that repeat. One tile per class, theme and pixel density.

import { classLook, type Texture } from "../model/classes";
import { type ThemeName, classColour, textOn } from "./theme";

const TILE = 8;

/** How strong a texture is: seen, but the colour and the names over it still read. */
const ALPHA: Readonly<Record<Texture, number>> = {
  plain: 0, rise: 0.42, fall: 0.42, cross: 0.4, checks: 0.22, lines: 0.4, dots: 0.28, plus: 0.45, open: 0.28,
};

/** Makes canvas patterns and keeps them. */
export class Textures {
  private readonly made = new Map<string, CanvasPattern | string>();

  constructor(private readonly theme: ThemeName, private readonly density: number) {}

  /** Returns the fill for an area of this class. */
  fill(target: CanvasRenderingContext2D, name: string): CanvasPattern | string {
    const known = this.made.get(name);
    if (known !== undefined) return known;
    const made = this.make(target, name);
    this.made.set(name, made);
    return made;
  }

  private make(target: CanvasRenderingContext2D, name: string): CanvasPattern | string {
    const look = classLook(name);
    const colour = classColour(name, this.theme);
    if (look.texture === "plain") return colour;
    const tile = document.createElement("canvas");
    tile.width = tile.height = Math.max(1, Math.round(TILE * this.density));
    const pen = tile.getContext("2d");
    if (!pen) return colour;
    pen.scale(tile.width / TILE, tile.height / TILE);
    pen.fillStyle = colour;
    pen.fillRect(0, 0, TILE, TILE);
    pen.strokeStyle = pen.fillStyle = textOn(colour);
    pen.globalAlpha = ALPHA[look.texture];
    pen.lineWidth = 1.4;
    drawTexture(pen, look.texture);
    const pattern = target.createPattern(tile, "repeat");
    pattern?.setTransform(new DOMMatrix().scale(TILE / tile.width, TILE / tile.height));
    return pattern ?? colour;
  }
}

/** Strokes of one tile. Lines that leave it on one side continue on the other. */
function drawTexture(pen: CanvasRenderingContext2D, texture: Texture): void {
  const stroke = (...lines: [number, number, number, number][]): void => {
    pen.beginPath();
    for (const [x0, y0, x1, y1] of lines) {
      pen.moveTo(x0, y0);
      pen.lineTo(x1, y1);
    }
    pen.stroke();
  };
  switch (texture) {
    case "rise":
      return stroke([-2, 10, 10, -2], [-2, 2, 2, -2], [6, 10, 10, 6]);
    case "fall":
      return stroke([-2, -2, 10, 10], [6, -2, 10, 2], [-2, 6, 2, 10]);
    case "cross":
      return stroke([-2, 10, 10, -2], [-2, -2, 10, 10]);
    case "checks":
      pen.fillRect(0, 0, 4, 4);
      pen.fillRect(4, 4, 4, 4);
      return;
    case "lines":
      return stroke([0, 2, 8, 2], [0, 6, 8, 6]);
    case "plus":
      return stroke([2, 4, 6, 4], [4, 2, 4, 6]);
    case "dots":
      pen.fillRect(1, 1, 1.5, 1.5);
      pen.fillRect(5, 5, 1.5, 1.5);
      return;
    case "open":
      return stroke([-2, 10, 10, -2]);
    case "plain":
      return;
  }
}
