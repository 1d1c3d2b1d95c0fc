// The ledger's classes: names, colours and textures. Colours come from the palettes of Okabe and Ito, and of
// Tol. They were adjusted so that colours with the same texture are distinguishable for colour-blind eyes
// (`test/theme.test.ts` computes it). Every wait has a texture and running has none, so that colour is never
// the only distinction. No texture has vertical lines, which would look like edges of slices. Rust defines
// the classes (`findings/derive/class.rs`).

/** How an area is filled besides its colour. */
export type Texture = "plain" | "rise" | "fall" | "cross" | "checks" | "lines" | "dots" | "plus" | "open";

/** The viewer's properties of a class. */
export interface ClassLook {
  readonly name: string;
  /** For people who have not read the glossary. */
  readonly words: string;
  readonly texture: Texture;
  readonly light: string;
  readonly dark: string;
  /** On a CPU: without texture. */
  readonly running: boolean;
}

function look(name: string, words: string, texture: Texture, light: string, dark: string): ClassLook {
  return { name, words, texture, light, dark, running: texture === "plain" };
}

/** Every class that a server may send, in the order of reports. */
export const CLASSES: readonly ClassLook[] = [
  look("useful", "running the program's own code", "plain", "#1f9d76", "#2bb58a"),
  look("kernel", "running in the kernel: a syscall, fault or interrupt", "plain", "#23609c", "#3f83c4"),
  look("gc-work", "running the garbage collector", "plain", "#b98ae0", "#c9a3ea"),
  look("spin", "running, but only waiting in a loop", "plain", "#c05f2b", "#e08750"),
  look("lock-wait", "waits for a lock", "rise", "#d1495b", "#e8707f"),
  look("gc-wait", "waits for the garbage collector", "rise", "#a06cc8", "#bd93dd"),
  look("join-wait", "waits for a thread to exit, or at a barrier", "fall", "#b8568f", "#d884b4"),
  look("work-wait", "idle: waits for work", "dots", "#a3adb9", "#5d6876"),
  look("io-wait", "waits for the disk", "lines", "#56a6d8", "#6fb8e6"),
  look("net-wait", "waits for the network", "lines", "#23827e", "#2b938f"),
  look("pipe-wait", "waits for a pipe", "lines", "#8db35a", "#a3c773"),
  look("sleep", "sleeps until its own timer", "dots", "#e6e2d0", "#3d4651"),
  look("child-wait", "waits for a child process", "dots", "#c9b68f", "#8a7a55"),
  look("fault-wait", "waits in a page fault", "plus", "#c98a6b", "#d89f82"),
  look("kernel-wait", "waits inside the kernel", "plus", "#8fa3bd", "#7d90a8"),
  look("stopped", "stopped by job control or a debugger", "plus", "#a8a29a", "#6d6862"),
  look("run-queue", "runnable, waiting for a CPU", "checks", "#e6a817", "#f0bc42"),
  look("stolen", "steal time: the hypervisor ran another virtual machine", "cross", "#7a6a5a", "#a8947f"),
  look("unknown", "not recorded", "open", "#dcdfe3", "#333b44"),
];

/** Thread states, used in the preview. */
const FIRST_LOOK: readonly ClassLook[] = [
  look("running", "running: on a CPU", "plain", "#4f7f96", "#7aa7bd"),
  look("waiting", "waiting: the reason is being loaded", "dots", "#c3cad2", "#454f5b"),
];

const BY_NAME: ReadonlyMap<string, ClassLook> = new Map([...CLASSES, ...FIRST_LOOK].map((one) => [one.name, one]));
const STRANGER = look("unknown", "a class unknown to this viewer", "open", "#dcdfe3", "#333b44");

/** Returns the look of a class. A class unknown to this viewer has its own name and the look of an unknown
 * one.
 */
export function classLook(name: string): ClassLook {
  return BY_NAME.get(name) ?? { ...STRANGER, name };
}
