// Search for threads, functions, spans, processes, locks and findings.

import { useEffect, useRef, useState } from "preact/hooks";
import type { SearchResult } from "../api/types";
import { visible } from "../model/text";
import type { Viewer } from "../model/viewer";
import { useAnswer, useViewer } from "./hooks";

export const SEARCH_ID = "search";

/** See the module. */
export function Search() {
  const viewer = useViewer();
  const [text, setText] = useState("");
  const [open, setOpen] = useState(false);
  const [at, setAt] = useState(0);
  const input = useRef<HTMLInputElement>(null);
  const asked = text.trim();
  const answer = useAnswer(open && asked !== "" ? asked : null, () => viewer.source.search(asked), 120);
  const results = asked === "" ? [] : (answer.value ?? []);
  useEffect(() => setAt(0), [answer.value]);
  const choose = (result: SearchResult | undefined): void => {
    if (!result) return;
    setOpen(false);
    input.current?.blur();
    openResult(viewer, result);
  };
  const key = (event: KeyboardEvent): void => {
    event.stopPropagation();
    if (event.key === "ArrowDown" || event.key === "ArrowUp") {
      event.preventDefault();
      setAt((now) => Math.max(0, Math.min(results.length - 1, now + (event.key === "ArrowDown" ? 1 : -1))));
    } else if (event.key === "Enter") choose(results[at]);
    else if (event.key === "Escape") {
      setOpen(false);
      input.current?.blur();
    }
  };
  const shown = open && asked !== "";
  return (
    <div class="search">
      <input
        id={SEARCH_ID}
        ref={input}
        type="text"
        placeholder="/ search threads, functions, spans"
        role="combobox"
        aria-autocomplete="list"
        aria-label="search threads, functions, spans, processes, locks, findings"
        aria-expanded={shown}
        aria-controls="search-results"
        {...(shown && results.length > 0 ? { "aria-activedescendant": `result-${at}` } : {})}
        autocomplete="off"
        spellcheck={false}
        value={text}
        onInput={(event) => {
          setText(event.currentTarget.value);
          setOpen(true);
        }}
        onFocus={() => setOpen(true)}
        onBlur={() => setTimeout(() => setOpen(false), 150)}
        onKeyDown={key}
      />
      {shown && (
        <ul class="results" id="search-results" role="listbox" aria-label="search results">
          {results.map((one, index) => (
            <li
              key={`${one.kind}/${one.thread}/${one.name}/${index}`}
              id={`result-${index}`}
              role="option"
              aria-selected={index === at}
              onPointerDown={(event) => {
                event.preventDefault();
                choose(one);
              }}
            >
              <span class="kind">{one.kind}</span>
              <span class="name">{visible(one.name)}</span>
              <span class="detail">{visible(one.detail)}</span>
            </li>
          ))}
          {answer.failure && <li class="none">{answer.failure}</li>}
          {!answer.failure && results.length === 0 && <li class="none">{answer.waiting ? "searching …" : "nothing has that in its name"}</li>}
        </ul>
      )}
    </div>
  );
}

/** Goes to what was found. */
function openResult(viewer: Viewer, result: SearchResult): void {
  if (result.kind === "function") viewer.openFunction(result.name);
  else if (result.kind === "finding") {
    const index = viewer.catalogue.summary.findings.findIndex((one) => one.rule === result.name || one.subject === result.name);
    if (index >= 0) viewer.openFinding(index);
  } else {
    if (result.kind === "lock") viewer.openTab("locks");
    viewer.goTo(result);
  }
}
