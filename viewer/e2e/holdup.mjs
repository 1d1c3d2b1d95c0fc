// Starts the real binary: `holdup view`, and `holdup view --html`.

import { spawn } from "node:child_process";
import { once } from "node:events";
import { join } from "node:path";
import { pathToFileURL } from "node:url";

const ADDRESS = /http:\/\/127\.0\.0\.1:\d+\/[0-9a-f]+\//;

/** Serves a recording; resolves with the address that it prints. */
export async function servedByHoldup(holdup, recording) {
  const child = spawn(holdup, ["view", "--no-open", recording], { stdio: ["ignore", "pipe", "pipe"] });
  const url = await new Promise((done, refuse) => {
    let said = "";
    const listen = (chunk) => {
      said += String(chunk);
      const found = ADDRESS.exec(said);
      if (found) done(found[0]);
    };
    child.stdout.on("data", listen);
    child.stderr.on("data", listen);
    child.on("exit", () => refuse(new Error(`holdup view ended: ${said}`)));
  });
  return { url, end: () => child.kill("SIGINT") };
}

/** Writes a recording as one file; resolves with its address. */
export async function writtenByHoldup(holdup, recording, folder) {
  const file = join(folder, "recording.html");
  const child = spawn(holdup, ["view", "--html", file, recording], { stdio: "inherit" });
  const [status] = await once(child, "exit");
  if (status !== 0) throw new Error(`holdup view --html ended with ${status}`);
  return pathToFileURL(file).href;
}
