import { afterAll, beforeAll, expect, test } from "bun:test";
import { join } from "node:path";
import { type FakeZfs, fakeZfs } from "../../fakes/zfs/pools.ts";
import { pause } from "../../waiting.ts";

// The model of zfs itself: several processes and the test change it at once.

let fake: FakeZfs;

beforeAll(async () => {
  fake = await fakeZfs();
});
afterAll(() => fake.close());

test("changes of a test and of commands that run at the same time are all kept", async () => {
  const names = Array.from({ length: 12 }, (_, n) => `tank/v${n}`);
  const program = [process.execPath, join(fake.folder, "main.js"), "zfs", "create"];
  const env = { ...process.env, FAKE_ZFS: fake.folder };
  const running = names.map(name => Bun.spawn([...program, name], { env, stderr: "inherit" }));
  let ended = 0;
  for (const each of running) each.exited.then(() => ended++);
  let changes = 0;
  while (ended < running.length) {
    fake.with(pools => {
      pools.state.faults.delayMs = (pools.state.faults.delayMs ?? 0) + 1;
    });
    changes++;
    await pause(1);
  }
  expect(fake.with(pools => pools.state.faults.delayMs)).toBe(changes);
  expect(names.filter(name => fake.find(name) === undefined)).toEqual([]);
});
