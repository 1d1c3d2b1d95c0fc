// Requests to the server: aborted requests are not repeated.

import { afterEach, expect, it, vi } from "vitest";
import { FirstLook } from "../src/api/first_look";
import { Server } from "../src/api/server";
import { bundle, synthetic } from "./synthetic.mjs";

afterEach(() => {
  vi.unstubAllGlobals();
  vi.useRealTimers();
});

const answer = (status: number, body: unknown) => ({ status, ok: status < 300, json: () => Promise.resolve(body) });
const rest = (): Promise<void> => new Promise((done) => setTimeout(done, 0));

it("what is not known yet is asked again until nobody wants it", async () => {
  vi.useFakeTimers();
  const asked = vi.fn(() => Promise.resolve(answer(202, { sentence: "", switches: 0 })));
  vi.stubGlobal("fetch", asked);
  const wanted = new AbortController();
  const refused = expect(new Server().path({ from: 0, to: 1 }, wanted.signal)).rejects.toThrow();
  await vi.advanceTimersByTimeAsync(2000);
  const times = asked.mock.calls.length;
  expect(times).toBeGreaterThan(3);
  wanted.abort();
  await vi.advanceTimersByTimeAsync(2000);
  await refused;
  expect(asked.mock.calls.length).toBe(times);
});

it("who does not want to wait for its turn any more leaves it to others", async () => {
  const done: (() => void)[] = [];
  const asked: string[] = [];
  vi.stubGlobal("fetch", (address: string) => {
    asked.push(address);
    return new Promise((go) => done.push(() => go(answer(200, { results: [] }))));
  });
  const server = new Server();
  const first = ["a", "b", "c", "d"].map((text) => server.search(text));
  const wanted = new AbortController();
  const left = expect(server.search("left", wanted.signal)).rejects.toThrow();
  const last = server.search("last");
  wanted.abort();
  await left;
  for (let n = 0; n < 5; n += 1) {
    await rest();
    done[n]?.();
  }
  await Promise.all([...first, last]);
  expect(asked.filter((one) => one.includes("left"))).toEqual([]);
  expect(asked.length).toBe(5);
});

it("a first look asks for nothing that speaks of classes: its own have other names", async () => {
  const asked = vi.fn(() => Promise.resolve(answer(200, {})));
  vi.stubGlobal("fetch", asked);
  const look = new FirstLook(bundle(synthetic()));
  void look.ledger();
  void look.slice();
  void look.path();
  await rest();
  expect(asked).not.toHaveBeenCalled();
});
