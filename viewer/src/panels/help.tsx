// Keys, pointer and colours, over the page.

import { useEffect, useRef } from "preact/hooks";
import { classLook } from "../model/classes";
import { useViewer } from "./hooks";
import { BINDINGS } from "./keys";
import { Swatch } from "./swatch";

const POINTER: readonly [string, string][] = [
  ["click", "choose a slice and show why it waited"],
  ["drag a lane", "move in time, and up and down"],
  ["drag the ruler, or Shift and drag", "select a range: its own ledger and stacks, and tables for it"],
  ["drag the top strip", "go anywhere in the run"],
  ["wheel", "zoom. If the lanes do not fit, scroll: Ctrl and wheel (or a pinch) zooms"],
  ["wheel sideways, or Shift and wheel", "move in time"],
  ["1 to 9", "the tabs below"],
];

/** See the module. */
export function Help() {
  const viewer = useViewer();
  const dialog = useRef<HTMLDialogElement>(null);
  useEffect(() => {
    dialog.current?.showModal();
  }, []);
  const close = (): void => viewer.store.set({ help: false });
  return (
    <dialog ref={dialog} class="help" aria-label="keys and colours" onClose={close} onClick={(event) => event.target === dialog.current && close()}>
      <div class="help-columns">
        <section>
          <h2>Keys</h2>
          <dl>{BINDINGS.flatMap((one) => [<dt key={`k${one.shown}`}><kbd>{one.shown}</kbd></dt>, <dd key={`w${one.shown}`}>{one.words}</dd>])}</dl>
        </section>
        <section>
          <h2>Pointer</h2>
          <dl>{POINTER.flatMap(([what, words]) => [<dt key={`k${what}`}>{what}</dt>, <dd key={`w${what}`}>{words}</dd>])}</dl>
        </section>
        <section>
          <h2>Colours</h2>
          <p>Running is plain, waiting has a texture. Where many slices share a pixel, a column shows the share of each.</p>
          <dl class="legend">
            {viewer.catalogue.classNames.flatMap((name) => [
              <dt key={`k${name}`}><Swatch name={name} /> {name}</dt>,
              <dd key={`w${name}`}>{classLook(name).words}</dd>,
            ])}
          </dl>
        </section>
      </div>
      <button onClick={close}>close</button>
    </dialog>
  );
}
