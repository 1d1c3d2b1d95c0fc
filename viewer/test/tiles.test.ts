// Requested tiles, and the tiles that replace missing ones.

import { describe, expect, it } from "vitest";
import type { TileKey } from "../src/api/source";
import { TileStore, levelFor, tilesIn } from "../src/api/tiles";

const ZOOM = { base_ns: 2 ** 30, cells: 512, level_max: 10 };

function store(have: (lane: number, key: TileKey) => { complete: boolean } | null) {
  const asked: string[] = [];
  const made = new TileStore<{ complete: boolean }>(
    (key, lanes) => {
      asked.push(`${key.level}/${key.tile}:${lanes.join(",")}`);
      return Promise.resolve(new Map(lanes.flatMap((lane) => { const one = have(lane, key); return one ? [[lane, one] as const] : []; })));
    },
    () => undefined,
    100,
  );
  const settle = async (): Promise<void> => {
    made.flush();
    await new Promise((done) => setTimeout(done, 0));
    made.begin();
  };
  return { made, asked, settle };
}

describe("levels", () => {
  it("have cells of at least a pixel", () => {
    for (const nsPerPixel of [1, 500, 5000, 1e6, 1e9]) {
      const level = levelFor(ZOOM, nsPerPixel);
      const cell = ZOOM.base_ns / 2 ** level / ZOOM.cells;
      if (level > 0) expect(cell).toBeGreaterThanOrEqual(nsPerPixel);
      if (level < ZOOM.level_max) expect(cell / 2).toBeLessThan(nsPerPixel);
    }
  });
  it("have no tiles behind the end", () => {
    expect(tilesIn(ZOOM, 1, 0, 2 ** 30, 2 ** 29 + 1)).toEqual([0, 1]);
    expect(tilesIn(ZOOM, 1, 0, 2 ** 30, 2 ** 29)).toEqual([0, 0]);
    expect(tilesIn(ZOOM, 0, 0, 0, 0)).toEqual([0, 0]);
  });
});

describe("tiles", () => {
  it("are asked for together, once", async () => {
    const { made, asked, settle } = store(() => ({ complete: false }));
    for (const lane of [1, 2, 1]) expect(made.find(lane, { level: 3, tile: 5 })).toBeNull();
    await settle();
    expect(asked).toEqual(["3/5:1,2"]);
    expect(made.find(2, { level: 3, tile: 5 })).toMatchObject({ level: 3, tile: 5 });
    expect(made.idle).toBe(true);
  });
  it("are stood in for by a coarser one meanwhile", async () => {
    const { made, settle } = store(() => ({ complete: false }));
    made.find(1, { level: 0, tile: 0 });
    await settle();
    expect(made.find(1, { level: 4, tile: 9 })).toMatchObject({ level: 0, tile: 0 });
    await settle();
    expect(made.find(1, { level: 4, tile: 9 })).toMatchObject({ level: 4, tile: 9 });
  });
  it("are not asked for where a complete one says it all", async () => {
    const { made, asked, settle } = store(() => ({ complete: true }));
    made.find(1, { level: 2, tile: 1 });
    await settle();
    expect(made.find(1, { level: 7, tile: 40 })).toMatchObject({ level: 2, tile: 1 });
    await settle();
    expect(asked).toEqual(["2/1:1"]);
  });
  it("that could not be fetched are asked for again, later", async () => {
    let [now, fails] = [0, true];
    const asked: number[] = [];
    const made = new TileStore<{ complete: boolean }>((_, lanes) => {
      asked.push(now);
      return fails ? Promise.reject(new Error("gone")) : Promise.resolve(new Map(lanes.map((lane) => [lane, { complete: true }])));
    }, () => undefined, 100, () => now);
    const frame = async (): Promise<unknown> => {
      made.begin();
      const found = made.find(1, { level: 2, tile: 1 });
      made.flush();
      await new Promise((done) => setTimeout(done, 0));
      return found;
    };
    for (now = 0; now < 1000; now += 100) expect(await frame()).toBeNull();
    expect(asked).toEqual([0]);
    expect(made.idle).toBe(true);
    fails = false;
    await frame();
    expect(asked).toEqual([0, 1000]);
    expect(await frame()).toMatchObject({ level: 2, tile: 1 });
    made.end();
  });
  it("that do not exist lead to their parents", async () => {
    const { made, asked, settle } = store((_, key) => (key.level <= 1 ? { complete: false } : null));
    for (let n = 0; n < 6; n += 1) {
      made.find(1, { level: 3, tile: 7 });
      await settle();
    }
    expect(made.find(1, { level: 3, tile: 7 })).toMatchObject({ level: 1, tile: 1 });
    expect(asked).toEqual(["3/7:1", "2/3:1", "1/1:1"]);
    expect(made.idle).toBe(true);
  });
});
