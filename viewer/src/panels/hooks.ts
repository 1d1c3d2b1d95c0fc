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

/** A part of the state. Renders again when that part changes. */
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
    // The state may have changed between rendering and subscribing.
    check();
    return viewer.store.subscribe(check);
  }, [viewer]);
  return value;
}

/** An answer that may not be there yet. */
export interface Answer<T> {
  /** The response to the current request, never to another one. */
  readonly value: T | null;
  /** The latest response to any request, for content that names its own subject. */
  readonly last: T | null;
  readonly failure: string | null;
  readonly waiting: boolean;
}

interface Kept<T> {
  readonly key: string | null;
  readonly value: T | null;
  readonly failure: string | null;
}

/** Sends a request whenever `key` changes (null: no request). A late response is dropped, and an outdated
 * request is aborted.
 */
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

/** The parts of the latest response that belong to the current request. */
export function answerTo<T>(key: string | null, kept: Kept<T>): Answer<T> {
  if (key === null) return { value: null, last: null, failure: null, waiting: false };
  const is = kept.key === key;
  return { value: is ? kept.value : null, last: kept.value, failure: is ? kept.failure : null, waiting: !is };
}
