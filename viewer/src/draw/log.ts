// Interface between layout and drawing: a list of plain commands. Tests read it, and `canvas.ts` executes it.

/** Colours by role. The theme defines their values. */
export type Ink =
  | "ground" | "raised" | "line" | "faint" | "text" | "muted" | "accent" | "selection" | "mark" | "good" | "warn" | "path";

/**
 * Fill of an area: a ledger class with its texture, an ink, or a `change` from -1 (less than before) to 1
 * (more). `plain` omits the texture if the area is too narrow.
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
      /** Text is cut to this width, with an ellipsis. If less than one letter fits, there is no text. */
      readonly width: number;
      /** Number of characters kept at its end if it is cut. */
      readonly keep?: number;
      readonly align?: "left" | "right" | "center";
      readonly bold?: boolean;
      readonly small?: boolean;
      /** Text on a class's colour: black or white, with the better contrast. */
      readonly on?: string;
      /** Text on a picture: with a plate in the page's background colour. */
      readonly plate?: boolean;
      /** Text on the colour of a change, which is always bright. */
      readonly onChange?: boolean;
    }
  | { readonly op: "clip"; readonly x: number; readonly y: number; readonly w: number; readonly h: number }
  | { readonly op: "unclip" };
