// Types of the made-up recording, as far as tests use them.
import type { Bundle } from "../src/api/bundle";
import type { CounterTile, Flame, LaneRows, SliceAnswer, Summary, Table } from "../src/api/types";

export interface Recording {
  readonly wall: number;
  readonly compared: boolean;
  readonly lives: readonly (readonly [number, number, number, number])[][];
  readonly zoom: Summary["zoom"];
}
export const HOSTILE: string;
export function synthetic(options?: { threads?: number; wall?: number; mean?: number; compared?: boolean }): Recording;
export function summary(recording: Recording): Summary;
export function lane(recording: Recording, thread: number, level: number, tile: number): LaneRows;
export function counters(recording: Recording, level: number, tile: number): CounterTile;
export function slice(recording: Recording, thread: number, which: { row?: number; at?: number }): SliceAnswer | null;
export function flame(kind: string, fn?: string, against?: boolean): Flame;
export function table(recording: Recording, name: string): Table;
export function answer(recording: Recording, path: string, query: URLSearchParams): unknown;
export function bundle(recording: Recording): Bundle;
