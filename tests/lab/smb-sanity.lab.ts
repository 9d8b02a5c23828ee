import { afterAll, beforeAll, expect, test } from "bun:test";
import { chmod, mkdtemp, rm } from "node:fs/promises";
import type { World } from "../serve/world.ts";
import { hasSanity, sanityAgainst, startCsimux } from "./rig.ts";
import { run } from "./run.ts";
import { leftSince, traces } from "./traces.ts";

let before: ReadonlySet<string>;
let base: string;
let world: World;
beforeAll(async () => {
  before = await traces();
  base = await mkdtemp("/srv/smb-sanity-");
  await chmod(base, 0o777);
  await run(["net", "usershare", "add", "csimux-sanity", base, "", "S-1-1-0:F", "guest_ok=n"]);
  // Controller and node log in with the flags of the connection file; the suite passes no secrets.
  const lines = ["driver: smb-client", "smb:", "  shareHost: 127.0.0.1", "  shareBasePath: csimux-sanity"];
  const flags = ["  controllerBasePath: /nowhere", "node:", "  mount:", "    mount_flags: username=csi,password=csi"];
  world = await startCsimux({ connections: { files: [...lines, ...flags, ""].join("\n") } });
});
afterAll(async () => {
  expect(await world.end()).toEqual([]);
  await run(["net", "usershare", "delete", "csimux-sanity"]);
  await rm(base, { recursive: true });
  expect(await leftSince(before)).toEqual([]);
});

test.skipIf(!hasSanity())(
  "csi-sanity passes with an SMB share that csimux mounts itself",
  async () => {
    const tally = await sanityAgainst(world, { connection: "files" });
    expect(tally).toMatchObject({ failed: 0 });
    expect(tally.passed).toBeGreaterThan(50);
  },
  1_800_000,
);
