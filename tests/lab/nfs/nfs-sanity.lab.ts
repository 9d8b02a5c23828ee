import { afterAll, beforeAll, expect, test } from "bun:test";
import { mkdtemp, rm } from "node:fs/promises";
import type { World } from "../../serve/world.ts";
import { hasSanity, sanityAgainst, startCsimux } from "../rig.ts";
import { run } from "../run.ts";
import { leftSince, traces } from "../traces.ts";

let before: ReadonlySet<string>;
let base: string;
let world: World;
beforeAll(async () => {
  before = await traces();
  base = await mkdtemp("/srv/nfs-sanity-");
  await run(["exportfs", "-o", "rw,no_root_squash,insecure", `127.0.0.1:${base}`]);
  const lines = ["driver: nfs-client", "nfs:", "  shareHost: 127.0.0.1", `  shareBasePath: ${base}`];
  world = await startCsimux({ connections: { nas: [...lines, "  controllerBasePath: /nowhere", ""].join("\n") } });
});
afterAll(async () => {
  expect(await world.end()).toEqual([]);
  await run(["exportfs", "-u", `127.0.0.1:${base}`]);
  await rm(base, { recursive: true });
  expect(await leftSince(before)).toEqual([]);
});

test.skipIf(!hasSanity())(
  "csi-sanity passes with an NFS export that csimux mounts itself",
  async () => {
    const tally = await sanityAgainst(world, { connection: "nas" });
    expect(tally).toMatchObject({ failed: 0 });
    expect(tally.passed).toBeGreaterThan(50);
  },
  1_800_000,
);
