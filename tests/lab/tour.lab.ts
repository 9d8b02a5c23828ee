import { afterAll, beforeAll, expect, test } from "bun:test";
import { mkdir, mkdtemp, rm } from "node:fs/promises";
import { walk } from "../../scripts/try.ts";
import { leftBelow, type World } from "../serve/world.ts";
import { startCsimux } from "./rig.ts";
import { run } from "./run.ts";
import { leftSince, traces } from "./traces.ts";

// The walk of "make try" on connections to a real NFS server that csimux mounts itself.

const names = ["fast", "archive"] as const;
let before: ReadonlySet<string>;
let base: string;
let world: World;
beforeAll(async () => {
  before = await traces();
  base = await mkdtemp("/srv/tour-");
  const connections: Record<string, string> = {};
  for (const name of names) {
    await mkdir(`${base}/${name}`);
    await run(["exportfs", "-o", "rw,no_root_squash,insecure", `127.0.0.1:${base}/${name}`]);
    const lines = ["driver: nfs-client", "nfs:", "  shareHost: 127.0.0.1", `  shareBasePath: ${base}/${name}`];
    connections[name] = [...lines, `  controllerBasePath: /nowhere/${name}`, ""].join("\n");
  }
  world = await startCsimux({ connections });
}, 600_000);
afterAll(async () => {
  expect(await world.end()).toEqual([]);
  for (const name of names) await run(["exportfs", "-u", `127.0.0.1:${base}/${name}`]);
  await rm(base, { recursive: true });
  expect(await leftSince(before)).toEqual([]);
}, 600_000);

test("the walk of make try runs on NFS connections, and leaves nothing", async () => {
  const said: string[] = [];
  await walk(world.sandbox.socket, (call, answer) => void said.push(`${call}: ${answer}`), 60_000);
  process.stderr.write(`${said.join("\n")}\n`);
  expect(said.filter(line => line.startsWith("CreateSnapshot") && !line.includes("refused"))).toHaveLength(2);
  expect(said.filter(line => line.endsWith(": gone"))).toHaveLength(4);
  for (const name of names) expect(await leftBelow(`${base}/${name}`)).toEqual([]);
}, 300_000);
