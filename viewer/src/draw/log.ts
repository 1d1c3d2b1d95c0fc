// What layout hands to drawing: a list of plain commands. Tests read it; `canvas.ts` carries it out.

/** Colours by role; the theme says what they look like. */
export type Ink =
  | "ground" | "raised" | "line" | "faint" | "text" | "muted" | "accent" | "selection" | "mark" | "good" | "warn" | "path";

/**
 * How an area is filled: a ledger class with its texture (`plain`: without, where it is too narrow to show), an ink, or what
 * became of it: a `change` from -1 (less than before) to 1 (more).
 */
export type Fill =
  | { readonly class: string; readonly plain?: boolean }
  | { readonly ink: Ink; readonly alpha?: number }
  | { readonly change: number };

/** One command. Pixels of CSS, from the top left of the canvas. */
export type Draw =
  | { readonly op: "rect"; readonly x: number; readonly y: number; readonly w: number; readonly h: number; readonly fill: Fill }
  | { readonly op: "frame"; readonly x: number; readonly y: number; readonly w: number; readonly h: number; readonly ink: Ink; readonly thick: number }
  | { readonly op: "line"; readonly points: readonly number[]; readonly ink: Ink; readonly thick: number; readonly dash?: boolean }
  | { readonly op: "area"; readonly points: readonly number[]; readonly ink: Ink; readonly alpha: number }
  | { readonly op: "arrow"; readonly x0: number; readonly y0: number; readonly x1: number; readonly y1: number; readonly ink: Ink }
  | {
      readonly op: "text";
      readonly x: number;
      readonly y: number;
      readonly text: string;
      readonly ink: Ink;
      /** Text is cut to this width, with an ellipsis; shorter than one letter: not drawn. */
      readonly width: number;
      /** So many characters at its end stay where it is cut. */
      readonly keep?: number;
      readonly align?: "left" | "right" | "center";
      readonly bold?: boolean;
      readonly small?: boolean;
      /** Drawn on a class's colour: black or white, whichever reads better. */
      readonly on?: string;
      /** Drawn over a picture: it stands on a plate of the page's ground. */
      readonly plate?: boolean;
      /** Drawn on the colour of a change: those are all bright. */
      readonly onChange?: boolean;
    }
  | { readonly op: "clip"; readonly x: number; readonly y: number; readonly w: number; readonly h: number }
  | { readonly op: "unclip" };
