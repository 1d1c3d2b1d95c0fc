// What a flame graph does when it is touched: a click zooms, Search (or Ctrl-F) marks, Reset zoom goes back.
"use strict";
(() => {
  const byId = (id) => document.getElementById(id);
  const area = byId("frames");
  const left = +area.dataset.left, width = +area.dataset.width, character = +area.dataset.character;
  const frames = [...area.children].map((g) => ({
    g, rect: g.querySelector("rect"), text: g.querySelector("text"), title: g.querySelector("title").textContent,
    from: +g.dataset.f, width: +g.dataset.w, depth: +g.dataset.d, name: g.dataset.n,
  }));
  const tiny = 1e-6;

  const place = (frame, from, share) => {
    const w = share * width;
    frame.rect.setAttribute("x", left + from * width);
    frame.rect.setAttribute("width", Math.max(w - 0.4, 0.2));
    frame.text.setAttribute("x", left + from * width + 3);
    const columns = Math.floor((w - 6) / character);
    const fits = frame.name.length <= columns;
    frame.text.textContent = columns < 3 ? "" : fits ? frame.name : frame.name.slice(0, columns - 1) + "…";
  };

  const zoom = (to) => {
    for (const frame of frames) {
      const inside = frame.from >= to.from - tiny && frame.from + frame.width <= to.from + to.width + tiny;
      const around = frame.from <= to.from + tiny && frame.from + frame.width >= to.from + to.width - tiny;
      const shown = frame.depth >= to.depth ? inside : around;
      frame.g.style.display = shown ? "" : "none";
      frame.g.classList.toggle("dim", frame.depth < to.depth);
      if (shown && frame.depth >= to.depth) place(frame, (frame.from - to.from) / to.width, frame.width / to.width);
      else if (shown) place(frame, 0, 1);
    }
    byId("reset").style.visibility = to.depth < 0 ? "hidden" : "visible";
  };
  const whole = { from: 0, width: 1, depth: -1 };

  const search = (text) => {
    const wanted = (text || "").toLowerCase();
    let share = 0;
    let end = -1;
    const hits = frames.filter((frame) => {
      const hit = wanted !== "" && frame.name.toLowerCase().includes(wanted);
      frame.g.classList.toggle("found", hit);
      return hit;
    });
    // A frame within a found one counts once.
    hits.sort((a, b) => a.from - b.from || b.width - a.width);
    for (const hit of hits) {
      if (hit.from >= end - tiny) {
        share += hit.width;
        end = hit.from + hit.width;
      }
    }
    byId("found").textContent = wanted === "" ? "" : `found: ${(share * 100).toFixed(1)} %`;
  };

  for (const frame of frames) {
    frame.g.addEventListener("click", () => zoom(frame));
    frame.g.addEventListener("mouseenter", () => { byId("hover").textContent = frame.title; });
    frame.g.addEventListener("mouseleave", () => { byId("hover").textContent = ""; });
  }
  byId("reset").addEventListener("click", () => zoom(whole));
  byId("search").addEventListener("click", () => search(prompt("Functions whose name holds")));
  addEventListener("keydown", (event) => {
    if (event.key === "Escape") zoom(whole);
    if (event.key === "f" && (event.ctrlKey || event.metaKey)) {
      event.preventDefault();
      search(prompt("Functions whose name holds"));
    }
  });
})();
