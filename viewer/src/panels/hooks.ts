// How panels read the state and ask for answers.

import { createContext } from "preact";
import { useContext, useEffect, useRef, useState } from "preact/hooks";
import { type State, type Viewer, sentence } from "../model/viewer";

export const ViewerContext = createContext<Viewer | null>(null);

/** The viewer of this page. */
export function useViewer(): Viewer {
  const viewer = useContext(ViewerContext);
  if (!viewer) throw new Error("no viewer");
  return viewer;
}

/** A part of the state; draws again when that part changes. */
export function useSelected<T>(select: (state: State) => T): T {
  const viewer = useViewer();
  const [, redraw] = useState(0);
  const value = select(viewer.state);
  const latest = useRef({ value, select });
  latest.current = { value, select };
  useEffect(() => {
    const check = (): void => {
      if (!Object.is(latest.current.select(viewer.state), latest.current.value)) redraw((n) => n + 1);
    };
    // The state may have changed between drawing and now, when nobody listened yet.
    check();
    return viewer.store.subscribe(check);
  }, [viewer]);
  return value;
}

/** An answer that may not be there yet. */
export interface Answer<T> {
  /** What was answered to what is asked now: never what belongs to another question. */
  readonly value: T | null;
  /** What was answered last, to whatever: for what may be shown under its own name, or as a picture that says where it belongs. */
  readonly last: T | null;
  readonly failure: string | null;
  readonly waiting: boolean;
}

interface Kept<T> {
  readonly key: string | null;
  readonly value: T | null;
  readonly failure: string | null;
}

/** Asks anew whenever `key` changes (null: asks nothing); an answer that comes too late is dropped, and nobody goes on asking for it. */
export function useAnswer<T>(key: string | null, ask: (signal: AbortSignal) => Promise<T>, wait_ms = 0): Answer<T> {
  const [kept, keep] = useState<Kept<T>>({ key: null, value: null, failure: null });
  useEffect(() => {
    if (key === null) {
      keep({ key, value: null, failure: null });
      return;
    }
    const wanted = new AbortController();
    const timer = setTimeout(() => {
      ask(wanted.signal).then(
        (value) => wanted.signal.aborted || keep({ key, value, failure: null }),
        (failure: unknown) => wanted.signal.aborted || keep({ key, value: null, failure: sentence(failure) }),
      );
    }, wait_ms);
    return () => {
      wanted.abort();
      clearTimeout(timer);
    };
  }, [key]);
  return answerTo(key, kept);
}

/** What of the last answer is one to the question that is asked now. */
export function answerTo<T>(key: string | null, kept: Kept<T>): Answer<T> {
  if (key === null) return { value: null, last: null, failure: null, waiting: false };
  const is = kept.key === key;
  return { value: is ? kept.value : null, last: kept.value, failure: is ? kept.failure : null, waiting: !is };
}
