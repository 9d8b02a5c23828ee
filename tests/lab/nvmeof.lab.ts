import { afterAll, beforeAll, expect, test } from "bun:test";
import { readdir, readFile } from "node:fs/promises";
import type { World } from "../serve/world.ts";
import { diskCases, limitMs } from "./disk-cases.ts";
import { livesAsBlock, livesMounted, mounting, show, takeDown } from "./disk-volume.ts";
import { type Made, startCsimux, unmountVolume } from "./rig.ts";
import { run } from "./run.ts";
import { leftSince, traces } from "./traces.ts";
import { destroyZvol, makeZvol } from "./zfs/lio.ts";
import { makeSubsystem, nqn, removeSubsystem, resized } from "./zfs/nvmet.ts";

let before: ReadonlySet<string>;
let world: World;
beforeAll(async () => {
  before = await traces();
  world = await startCsimux({ connections: {} });
}, limitMs);
afterAll(async () => {
  expect(await world.end()).toEqual([]);
  expect(await leftSince(before)).toEqual([]);
}, limitMs);

const addresses = ["127.0.0.1", "127.0.0.2"];

/** A subsystem with namespaces 1 and 2, each a zvol of 320 MiB, at two addresses, while `work` uses it. */
async function withSubsystem(work: (grow: () => Promise<void>) => Promise<void>): Promise<void> {
  const names = ["disk0", "disk1"];
  for (const name of names) await makeZvol(name);
  try {
    await makeSubsystem(names, addresses);
    await work(async () => {
      await run(["zfs", "set", "volsize=640M", "tank/disk0"]);
      await resized(1);
    });
  } finally {
    await takeDown(world);
    await removeSubsystem();
    for (const name of names) await destroyZvol(name);
  }
}

const volume = (more: Readonly<Record<string, string>> = {}): Made => ({
  volumeId: `v:lab/${more["nsid"] ?? "disk"}`,
  volumeContext: {
    node_attach_driver: "nvmeof",
    nqn,
    nsid: "1",
    transport: "tcp://127.0.0.1",
    transports: "",
    ...more,
  },
});

/** How many connections with the subsystem this machine has. */
async function connections(): Promise<number> {
  const names = await readdir("/sys/class/nvme").catch(() => []);
  const found = await Promise.all(
    names.map(name => readFile(`/sys/class/nvme/${name}/subsysnqn`, "utf8").catch(() => "")),
  );
  return found.filter(text => text.trim() === nqn).length;
}

diskCases({
  world: () => world,
  during: withSubsystem,
  volumes: [volume(), volume({ nsid: "2" })],
  sessions: connections,
});

test(
  "a namespace lives its life as a block device over two ways, of which a third is dead",
  async () => {
    await withSubsystem(async grow => {
      const shown = volume({ transports: "tcp://127.0.0.2:4420,tcp://127.0.0.1:4999" });
      await show(world, shown, { capability: mounting("ext4") });
      expect(await connections()).toBe(2);
      await unmountVolume(world, shown);
      expect(await connections()).toBe(0);
      await livesMounted(world, { volume: shown }, "ext4", grow);
    });
    await withSubsystem(grow => livesAsBlock(world, { volume: volume({ transports: "tcp://127.0.0.2" }) }, grow));
  },
  limitMs,
);
