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
  readonly value: T | null;
  readonly failure: string | null;
  readonly waiting: boolean;
}

/** Asks anew whenever `key` changes (null: asks nothing); an answer that comes too late is dropped. The last value stays meanwhile. */
export function useAnswer<T>(key: string | null, ask: () => Promise<T>, wait_ms = 0): Answer<T> {
  const [answer, setAnswer] = useState<Answer<T>>({ value: null, failure: null, waiting: key !== null });
  useEffect(() => {
    if (key === null) {
      setAnswer({ value: null, failure: null, waiting: false });
      return;
    }
    let current = true;
    setAnswer((before) => ({ ...before, waiting: true }));
    const timer = setTimeout(() => {
      ask().then(
        (value) => current && setAnswer({ value, failure: null, waiting: false }),
        (failure: unknown) => current && setAnswer({ value: null, failure: sentence(failure), waiting: false }),
      );
    }, wait_ms);
    return () => {
      current = false;
      clearTimeout(timer);
    };
  }, [key]);
  return answer;
}
