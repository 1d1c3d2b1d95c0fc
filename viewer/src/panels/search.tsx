// Search for threads, functions, spans, processes, locks and findings.

import { useEffect, useRef, useState } from "preact/hooks";
import type { SearchResult } from "../api/types";
import { visible } from "../model/text";
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
  const answer = useAnswer(open && asked !== "" ? asked : null, (signal) => viewer.source.search(asked, signal), 120);
  // Earlier results stay visible until new ones arrive: each line still leads to its own result.
  const results = asked === "" ? [] : (answer.last ?? []);
  /** The words for which Enter was pressed before their answer came. */
  const entered = useRef("");
  useEffect(() => {
    setAt(0);
    if (answer.value && entered.current === asked) choose(answer.value[0]);
  }, [answer.value]);
  const choose = (result: SearchResult | undefined): void => {
    entered.current = "";
    if (!result) return;
    setOpen(false);
    input.current?.blur();
    viewer.openResult(result);
  };
  const key = (event: KeyboardEvent): void => {
    event.stopPropagation();
    if (event.key === "ArrowDown" || event.key === "ArrowUp") {
      event.preventDefault();
      setAt((now) => Math.max(0, Math.min(results.length - 1, now + (event.key === "ArrowDown" ? 1 : -1))));
    } else if (event.key === "Enter") {
      if (answer.value) choose(answer.value[at]);
      else entered.current = asked;
    } else if (event.key === "Escape") {
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
          entered.current = "";
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
          {!answer.failure && results.length === 0 && <li class="none">{answer.waiting ? "searching …" : "no name matches"}</li>}
        </ul>
      )}
    </div>
  );
}
