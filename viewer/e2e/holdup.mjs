// Starts the real binary: `holdup view`, and `holdup view --html`.

import { spawn } from "node:child_process";
import { once } from "node:events";
import { copyFile, rm } from "node:fs/promises";
import { join } from "node:path";
import { fileURLToPath, pathToFileURL } from "node:url";

/** The page as it was built last, whatever the binary holds. */
const PAGE = ["--page", fileURLToPath(new URL("../dist", import.meta.url))];
const ADDRESS = /http:\/\/127\.0\.0\.1:\d+\/[0-9a-f]+\//;

/** Serves a recording, or two. Resolves with the printed address. */
export async function servedByHoldup(holdup, recording, { env = {}, before } = {}) {
  const recordings = before ? [before, recording] : [recording];
  const child = spawn(holdup, ["view", "--no-open", ...PAGE, ...recordings], { stdio: ["ignore", "pipe", "pipe"], env: { ...process.env, ...env } });
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

/** Imports another tool's file as a recording. Resolves with its path. */
export async function imported(holdup, file, folder, name = "imported.holdup") {
  const recording = join(folder, name);
  await rm(recording, { recursive: true, force: true });
  await run(holdup, ["import", file, "-o", recording]);
  return recording;
}

/** Writes a recording as one file. Resolves with its address. */
export async function writtenByHoldup(holdup, recording, folder) {
  const file = join(folder, "recording.html");
  await run(holdup, ["view", "--force", "--html", file, ...PAGE, recording]);
  return pathToFileURL(file).href;
}

/** Records OCaml domains that stop each other while another program occupies a CPU. Throws a sentence if that
 * is not possible here.
 */
export async function stoppedDomains(holdup, folder) {
  const from = fileURLToPath(new URL("../../cases/preempted-domain/", import.meta.url));
  const [program, recording] = [join(folder, "domains"), join(folder, "domains.holdup")];
  for (const file of ["domains.ml", "pin.c"]) await copyFile(join(from, file), join(folder, file));
  await run("ocamlopt", ["-g", "-o", program, "pin.c", "domains.ml"], folder).catch(() => {
    throw new Error("no OCaml 5 in PATH (which finding is first depends on the machine, so only who asks for it by PATH gets it)");
  });
  await rm(recording, { recursive: true, force: true });
  const stranger = spawn("taskset", ["-c", "1", "sh", "-c", "while :; do :; done"], { stdio: "ignore" });
  try {
    await run(holdup, ["run", "-q", "-o", recording, "--", program, "300"]);
  } finally {
    stranger.kill("SIGKILL");
  }
  return recording;
}

async function run(program, args, cwd) {
  const child = spawn(program, args, { stdio: ["ignore", "ignore", "pipe"], cwd });
  let said = "";
  child.stderr.on("data", (chunk) => (said += String(chunk)));
  // Rejects if there is no such program.
  const [status] = await once(child, "exit");
  if (status !== 0) throw new Error(`${program} ${args[0]} ended with ${status}: ${said}`);
}
