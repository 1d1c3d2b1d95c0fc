// Serves the built page with answers from the made-up recording, under the same policy as holdup's server.
// `node e2e/serve.mjs [THREADS]` prints its address.

import { createServer } from "node:http";
import { readFile } from "node:fs/promises";
import { fileURLToPath } from "node:url";
import { answer, synthetic } from "../test/synthetic.mjs";

const DIST = new URL("../dist/", import.meta.url);
const TYPES = { html: "text/html; charset=utf-8", js: "text/javascript; charset=utf-8", css: "text/css; charset=utf-8" };
const POLICY = "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self' data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'";

/** Requests with a response only after the findings are derived. */
const LATE = /^(slice|path|search|tables\/.*)$/;

/** Thread states, before there are classes. */
function firstLook(recording) {
  const ask = (path, words) => answer(recording, path, new URLSearchParams(words));
  const all = ask("summary", "");
  const classes = [["running", "running"], ["run-queue", "queue"], ["waiting", "wait"], ["unknown", "unknown"]];
  const doing = (one) => Math.max(0, classes.findIndex(([, kind]) => kind === all.classes[one]?.kind));
  const summary = { ...all, pending: true, first_look: true, findings: [], classes: classes.map(([name, kind], rank) => ({ name, kind, rank })) };
  const out = { api: 1, summary, "counters/0/0": ask("counters", "level=0&tile=0") };
  for (const { id } of all.threads) {
    const [lane] = ask("lanes", `level=0&tile=0&threads=${id}`).lanes;
    out[`lanes/${id}/0/0`] = { ...lane, class: lane.class.map(doing), mix: lane.mix.map(() => null), row: lane.row.map(() => -1) };
  }
  return out;
}

/**
 * Starts the server. Resolves with the address, a function that stops it, and one that advances the opening
 * by a stage. With `stages`, the opening waits at `reading`, at a first `look`, and at `findings`, until it
 * is advanced.
 */
export async function serve(recording, stages = []) {
  const server = createServer((request, response) => {
    const url = new URL(request.url ?? "/", "http://127.0.0.1");
    const send = (status, type, body) => {
      response.writeHead(status, { "content-type": type, "content-security-policy": POLICY, "x-content-type-options": "nosniff" });
      response.end(body);
    };
    if (url.pathname.startsWith("/token/api/")) {
      const path = url.pathname.slice("/token/api/".length);
      const isLate = LATE.test(path) || url.searchParams.has("complete");
      if (path === "first-look" && stages[0] !== "reading") {
        return send(200, "application/json", JSON.stringify(stages[0] === "look" ? firstLook(recording) : null));
      }
      if (stages[0] === "reading" || stages[0] === "look" || (stages[0] === "findings" && isLate)) {
        return send(202, "application/json", JSON.stringify({ stage: stages[0], sentence: `it is at its ${stages[0]}`, switches: 12_345_678 }));
      }
      let found = answer(recording, path, url.searchParams);
      if (stages.length > 0 && path === "summary") found = { ...found, pending: true, findings: [] };
      send(found ? 200 : 404, "application/json", JSON.stringify(found ?? { error: "there is no such thing" }));
      return;
    }
    const name = url.pathname === "/token/" ? "index.html" : url.pathname.replace("/token/", "");
    if (!/^[a-z]+\.[a-z]+$/.test(name)) return send(404, "text/plain", "no");
    readFile(new URL(name, DIST)).then((body) => send(200, TYPES[name.split(".")[1]] ?? "text/plain", body), () => send(404, "text/plain", "no"));
  });
  await new Promise((done) => server.listen(0, "127.0.0.1", done));
  return { url: `http://127.0.0.1:${server.address().port}/token/`, end: () => server.close(), goOn: () => stages.shift(), isSlow: stages.length > 0 };
}

if (process.argv[1] === fileURLToPath(import.meta.url)) {
  const { url } = await serve(synthetic({ threads: Number(process.argv[2] ?? 4) }));
  console.log(url);
}
