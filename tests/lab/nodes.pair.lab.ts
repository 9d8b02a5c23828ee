import { afterAll, beforeAll, expect, test } from "bun:test";
import { appendFile, chmod, mkdtemp, readFile, rm } from "node:fs/promises";
import { join } from "node:path";
import { leftBelow, type World } from "../serve/world.ts";
import { mounting } from "./disk-volume.ts";
import { type MountOptions, mountVolume, startCsimux, unmountVolume, whileMounted } from "./rig.ts";
import { run } from "./run.ts";
import { onSecond, secondAddress, secondTraces, startOnSecond } from "./second.ts";
import { leftSince, traces } from "./traces.ts";
import { destroyZvol, iqn, makeTarget, makeZvol, removeTarget } from "./zfs/lio.ts";
import { makeSubsystem, nqn, removeSubsystem } from "./zfs/nvmet.ts";

// The storage is a folder of the first guest; both guests have it at the same path, the second one by NFS.

let before: readonly [ReadonlySet<string>, ReadonlySet<string>];
let base: string;
/** The address of this guest, which the second one reaches. */
let own: string;
let first: World;
let second: World;
beforeAll(async () => {
  before = [await traces(), await secondTraces()];
  base = await mkdtemp("/srv/nodes-");
  await run(["exportfs", "-o", "rw,no_root_squash,insecure", `${secondAddress}:${base}`]);
  own = (await run(["hostname", "-I"])).split(" ").find(address => address.startsWith("10.77.0.")) ?? "";
  await onSecond(["mkdir", base]);
  // Taken after the volume was created: csimux checks its connections as soon as it starts.
  await onSecond(["mount", "-t", "nfs", "-o", "noac,lookupcache=none", `${own}:${base}`, base]);
  const shared = [
    "driver: local-hostpath",
    "local-hostpath:",
    `  shareBasePath: ${base}`,
    `  controllerBasePath: ${base}`,
  ];
  const setting = { connections: { shared: `${shared.join("\n")}\n` } };
  [first, second] = await Promise.all([startCsimux(setting), startOnSecond(setting)]);
});
afterAll(async () => {
  expect([await first.end(), await second.end()]).toEqual([[], []]);
  await onSecond(["umount", base]);
  await onSecond(["rmdir", base]);
  await run(["exportfs", "-u", `${secondAddress}:${base}`]);
  await rm(base, { recursive: true });
  expect(await leftSince(before[0])).toEqual([]);
  expect(await leftSince(before[1], secondTraces)).toEqual([]);
});

test("what a pod of one node wrote is what a pod of another node reads", async () => {
  const { volume } = await first.create("pvc-1", "shared");
  if (!volume) throw new Error("no volume");
  const there = { onNode: onSecond };
  const path = await mountVolume(second, volume, there);
  await onSecond(["sh", "-c", 'echo "from the second node" >"$1"', "write", join(path, "hello")]);
  await unmountVolume(second, volume);
  await whileMounted(first, volume, async folder => {
    expect(await readFile(join(folder, "hello"), "utf8")).toBe("from the second node\n");
  });
  await first.controller("deleteVolume", { volumeId: volume.volumeId });
  expect(await leftBelow(base)).toEqual([]);
});

/** A volume on a server of this guest: what leads nodes to it, how it is mounted, and how the server's side is made and taken down. */
interface Served {
  readonly context: () => Readonly<Record<string, string>>;
  readonly options: MountOptions;
  make(): Promise<void>;
  remove(): Promise<void>;
}

const served: Readonly<Record<string, Served>> = {
  nfs: {
    context: () => ({ server: own, share: `${base}/share` }),
    options: {},
    make: async () => {
      await run(["mkdir", `${base}/share`]);
      for (const client of [secondAddress, own])
        await run(["exportfs", "-o", "rw,no_root_squash,insecure", `${client}:${base}/share`]);
    },
    remove: async () => {
      for (const client of [secondAddress, own]) await run(["exportfs", "-u", `${client}:${base}/share`]);
      await rm(`${base}/share`, { recursive: true });
    },
  },
  smb: {
    context: () => ({ server: own, share: "nodes" }),
    options: { secrets: { username: "csi", password: "csi", mount_flags: "closetimeo=0" } },
    make: async () => {
      await run(["mkdir", `${base}/share`]);
      for (const folder of [base, `${base}/share`]) await chmod(folder, 0o777);
      await run(["net", "usershare", "add", "nodes", `${base}/share`, "", "S-1-1-0:F", "guest_ok=n"]);
    },
    remove: async () => {
      await run(["net", "usershare", "delete", "nodes"]);
      await rm(`${base}/share`, { recursive: true });
    },
  },
  iscsi: {
    context: () => ({ iqn, lun: "0", portal: `${own}:3260` }),
    options: { capability: mounting("ext4") },
    make: async () => {
      await makeZvol("disk0");
      await makeTarget(["disk0"]);
    },
    remove: async () => {
      await removeTarget();
      await destroyZvol("disk0");
    },
  },
  nvmeof: {
    context: () => ({ nqn, nsid: "1", transport: `tcp://${own}` }),
    options: { capability: mounting("xfs") },
    make: async () => {
      await makeZvol("disk0");
      await makeSubsystem(["disk0"], [own]);
    },
    remove: async () => {
      await removeSubsystem();
      await destroyZvol("disk0");
    },
  },
};

test.each(Object.keys(served))(
  "a volume of %s goes from one node to another and back with all that was written",
  async protocol => {
    const { context, options, make, remove } = served[protocol] as Served;
    await make();
    const volume = {
      volumeId: `v:lab/${protocol}`,
      volumeContext: { node_attach_driver: protocol, ...context() },
    };
    const there = { ...options, onNode: onSecond };
    const file = join(await mountVolume(second, volume, there), "hello");
    await onSecond(["sh", "-c", 'printf "from there" >"$1"', "write", file]);
    await unmountVolume(second, volume);
    await whileMounted(
      first,
      volume,
      async folder => {
        expect(await readFile(join(folder, "hello"), "utf8")).toBe("from there");
        await appendFile(join(folder, "hello"), " and here");
      },
      options,
    );
    expect(await onSecond(["cat", join(await mountVolume(second, volume, there), "hello")])).toBe(
      "from there and here",
    );
    await unmountVolume(second, volume);
    await remove();
  },
  600_000,
);
