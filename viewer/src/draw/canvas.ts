// Carries out draw commands on a canvas. Thin: everything worth testing happened in layout.

import { classLook } from "../model/classes";
import { fitted } from "../model/text";
import type { Draw, Fill, Ink } from "./log";
import { Textures } from "./textures";
import { INKS, type ThemeName, changeColour, classColour, textOn } from "./theme";

const FONT = "12px system-ui, sans-serif";
const FONT_SMALL = "9px system-ui, sans-serif";
const FONT_BOLD = "600 12px system-ui, sans-serif";

/** Paints one canvas. Created again when the theme or the pixel density changes. */
export class Painter {
  private readonly textures: Textures;
  /** The current fill class. Empty for other fills. */
  private filled = "";
  private readonly widths = new Map<string, number>();

  constructor(private readonly pen: CanvasRenderingContext2D, private readonly theme: ThemeName, private readonly density: number) {
    this.textures = new Textures(theme, density);
  }

  /** Executes the commands in order, on top of the existing content. */
  paint(commands: readonly Draw[]): void {
    let clips = 0;
    this.filled = "";
    for (const one of commands) {
      if (one.op !== "rect") this.filled = "";
      if (one.op === "clip") clips += 1;
      if (one.op === "unclip") clips -= 1;
      this.one(one);
    }
    for (; clips > 0; clips -= 1) this.pen.restore();
  }

  private one(draw: Draw): void {
    const pen = this.pen;
    switch (draw.op) {
      case "rect":
        this.setFill(draw.fill);
        this.rect(draw.x, draw.y, draw.w, draw.h);
        pen.globalAlpha = 1;
        return;
      case "frame":
        pen.strokeStyle = this.ink(draw.ink);
        pen.lineWidth = draw.thick;
        pen.strokeRect(draw.x, draw.y, draw.w, draw.h);
        return;
      case "line":
        return this.line(draw.points, draw.ink, draw.thick, draw.dash === true);
      case "area":
        pen.globalAlpha = draw.alpha;
        pen.fillStyle = this.ink(draw.ink);
        this.path(draw.points);
        pen.fill();
        pen.globalAlpha = 1;
        return;
      case "arrow":
        return this.arrow(draw);
      case "text":
        return this.text(draw);
      case "clip":
        pen.save();
        pen.beginPath();
        pen.rect(draw.x, draw.y, draw.w, draw.h);
        pen.clip();
        return;
      case "unclip":
        pen.restore();
    }
  }

  /** Edges on whole device pixels: half-covered ones look blurred, and cost several times as much. */
  private rect(x: number, y: number, w: number, h: number): void {
    const { density } = this;
    const [left, top] = [Math.round(x * density), Math.round(y * density)];
    const right = Math.max(left + 1, Math.round((x + w) * density));
    const bottom = Math.max(top + 1, Math.round((y + h) * density));
    this.pen.fillRect(left / density, top / density, (right - left) / density, (bottom - top) / density);
  }

  private ink(ink: Ink): string {
    return INKS[this.theme][ink];
  }

  private setFill(fill: Fill): void {
    if ("class" in fill) {
      const key = fill.plain ? fill.class : `${fill.class} textured`;
      if (key === this.filled) return;
      this.filled = key;
      this.pen.fillStyle = fill.plain ? classColour(fill.class, this.theme) : this.textures.fill(this.pen, fill.class);
    } else if ("change" in fill) {
      this.filled = "";
      this.pen.fillStyle = changeColour(fill.change);
    } else {
      this.filled = "";
      this.pen.globalAlpha = fill.alpha ?? 1;
      this.pen.fillStyle = this.ink(fill.ink);
    }
  }

  private path(points: readonly number[]): void {
    this.pen.beginPath();
    for (let at = 0; at + 1 < points.length; at += 2) this.pen.lineTo(points[at] ?? 0, points[at + 1] ?? 0);
  }

  private line(points: readonly number[], ink: Ink, thick: number, dash: boolean): void {
    this.pen.strokeStyle = this.ink(ink);
    this.pen.lineWidth = thick;
    this.pen.setLineDash(dash ? [4, 3] : []);
    this.path(points);
    this.pen.stroke();
    this.pen.setLineDash([]);
  }

  private arrow(draw: { x0: number; y0: number; x1: number; y1: number; ink: Ink }): void {
    const { x0, y0, x1, y1 } = draw;
    this.line([x0, y0, x1, y1], draw.ink, 1.5, false);
    const angle = Math.atan2(y1 - y0, x1 - x0);
    const back = (turn: number): [number, number] => [x1 - 7 * Math.cos(angle + turn), y1 - 7 * Math.sin(angle + turn)];
    this.path([x1, y1, ...back(0.45), ...back(-0.45)]);
    this.pen.fillStyle = this.ink(draw.ink);
    this.pen.fill();
  }

  private text(draw: Extract<Draw, { op: "text" }>): void {
    const pen = this.pen;
    pen.font = draw.small ? FONT_SMALL : draw.bold ? FONT_BOLD : FONT;
    const text = this.fitted(draw.text, draw.width, draw.keep);
    if (text === "") return;
    pen.textBaseline = "middle";
    pen.textAlign = draw.align ?? "left";
    if (draw.on !== undefined && classLook(draw.on).texture !== "plain") this.plate(text, draw, classColour(draw.on, this.theme));
    if (draw.plate) this.plate(text, draw, this.ink("ground"));
    pen.fillStyle = draw.onChange ? "#000000" : draw.on === undefined ? this.ink(draw.ink) : textOn(classColour(draw.on, this.theme));
    pen.fillText(text, draw.x, draw.y);
  }

  /** Words on a texture stand on a plate of the plain colour: the lines would run through the letters. */
  private plate(text: string, draw: Extract<Draw, { op: "text" }>, colour: string): void {
    const [w, h] = [this.width(text) + 4, draw.small ? 9 : 15];
    const left = draw.align === "right" ? draw.x - w + 2 : draw.align === "center" ? draw.x - w / 2 : draw.x - 2;
    this.pen.fillStyle = colour;
    this.rect(left, draw.y - h / 2, w, h);
  }

  /** The text, cut where it is too wide. Widths are remembered: measuring is what costs. */
  private fitted(text: string, width: number, keep?: number): string {
    return fitted(text, (part) => this.width(part) <= width, Math.ceil(width / 3), keep);
  }

  private width(text: string): number {
    const key = `${this.pen.font}\n${text}`;
    let width = this.widths.get(key);
    if (width === undefined) {
      if (this.widths.size > 5000) this.widths.clear();
      width = this.pen.measureText(text).width;
      this.widths.set(key, width);
    }
    return width;
  }
}
