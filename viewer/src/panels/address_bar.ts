// Updates the part after the `#`, and follows changes of it.

import type { Viewer } from "../model/viewer";

const QUIET_MS = 250;

/** From now on, the address is that of the current view. */
export function keepAddress(viewer: Viewer, address: () => string): void {
  let timer: ReturnType<typeof setTimeout> | undefined;
  let written = window.location.hash.replace(/^#/, "");
  const write = (): void => {
    written = address();
    // Some browsers refuse this for pages from disk, or when asked often: the address is then merely old.
    try {
      window.history.replaceState(null, "", `#${written}`);
    } catch {
      return;
    }
  };
  viewer.store.subscribe(() => {
    clearTimeout(timer);
    timer = setTimeout(write, QUIET_MS);
  });
  window.addEventListener("hashchange", () => {
    const now = window.location.hash.replace(/^#/, "");
    if (now !== written) viewer.open(now);
  });
}
