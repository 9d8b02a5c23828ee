import { afterAll, beforeAll, expect, test } from "bun:test";
import { chmod, mkdtemp, readdir, readFile, rm, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { mountCapability } from "../../scripts/client.ts";
import { codeOf, mebibytes, untilDone, type World } from "../serve/world.ts";
import { foldersOf, type Made, startCsimux, whileMounted } from "./rig.ts";
import { run } from "./run.ts";
import { leftSince, traces } from "./traces.ts";

/** The lab's SMB user, with a password that is easy to detect in outputs. */
const user = "csi";
const password = "csi";
const secrets = { mount_flags: `username=${user},password=${password}` };

let before: ReadonlySet<string>;
let base: string;
let world: World;
let other: World;
beforeAll(async () => {
  before = await traces();
  base = await mkdtemp("/srv/smb-");
  await chmod(base, 0o777);
  await run(["net", "usershare", "add", "csimux-lab", base, "", "S-1-1-0:F", "guest_ok=n"]);
  const connection = [
    "driver: smb-client",
    "smb:",
    "  shareHost: 127.0.0.1",
    "  shareBasePath: csimux-lab",
    "  controllerBasePath: /nowhere/mounted",
    "node:",
    "  mount:",
    `    mount_flags: username=${user},password=${password},vers=3.1.1`,
  ];
  const connections = { files: [...connection, ""].join("\n") };
  world = await startCsimux({ connections });
  other = await startCsimux({ connections, env: { CSI_NODE_ID: "other" } });
});
afterAll(async () => {
  expect(await other.end()).toEqual([]);
  expect(await world.end()).toEqual([]);
  await run(["net", "usershare", "delete", "csimux-lab"]);
  await rm(base, { recursive: true });
  expect(await leftSince(before)).toEqual([]);
});

async function make(name: string): Promise<Made> {
  const { volume } = await untilDone(() => world.create(name, "files", {}, 60_000));
  if (!volume) throw new Error("no volume");
  return volume;
}

test("the life of a volume on a share that csimux mounted itself; the password appears nowhere", async () => {
  const made = await make("pvc-1");
  await whileMounted(
    world,
    made,
    async path => {
      await writeFile(join(path, "hello"), "from a pod");
      expect(await readFile(`${base}/v/pvc-1/hello`, "utf8")).toBe("from a pod");
      // A pod that is not root: it sees the mount without the folders above it.
      const touch = 'cd "$1" && exec setpriv --reuid=65534 --regid=65534 --clear-groups touch unprivileged';
      await run(["sh", "-c", touch, "sh", path]);
      const placed = { volumeId: made.volumeId, volumePath: path };
      const { usage } = await world.node("nodeGetVolumeStats", placed, 60_000);
      expect((usage[0]?.total ?? 0n) > 0n).toBe(true);
      await whileMounted(
        other,
        made,
        async there => {
          expect(await readFile(join(there, "hello"), "utf8")).toBe("from a pod");
          await writeFile(join(there, "answer"), "from another node");
        },
        { secrets },
      );
      expect(await readFile(join(path, "answer"), "utf8")).toBe("from another node");
      await world.controller(
        "controllerExpandVolume",
        { volumeId: made.volumeId, capacityRange: mebibytes(5) },
        60_000,
      );
      await world.node("nodeExpandVolume", { ...placed, capacityRange: mebibytes(5) }, 60_000);
      const volumes = join(world.sandbox.stateDir, "volumes");
      const records = await Promise.all((await readdir(volumes)).map(file => readFile(join(volumes, file), "utf8")));
      expect(records.join()).not.toContain("password");
      expect(await world.daemon.log()).not.toContain("password=csi");
    },
    { secrets },
  );
  await whileMounted(
    world,
    made,
    async path => {
      expect(await readFile(join(path, "hello"), "utf8")).toBe("from a pod");
      await expect(writeFile(join(path, "hello"), "no")).rejects.toThrow("EROFS");
    },
    { secrets: { username: user, password }, readonly: true },
  );
  await untilDone(() => world.controller("deleteVolume", { volumeId: made.volumeId }, 60_000));
  expect(await readdir(`${base}/v`).catch(() => [])).toEqual([]);
});

test("a wrong password is reported as such, and leaves nothing behind", async () => {
  const made = await make("pvc-2");
  const { staging } = foldersOf(world, made);
  await run(["mkdir", "-p", staging]);
  const request = {
    volumeId: made.volumeId,
    volumeCapability: mountCapability,
    volumeContext: { ...made.volumeContext },
    stagingTargetPath: staging,
    secrets: { username: user, password: "wrong" },
  };
  const permissionDenied = 7;
  expect(await codeOf(world.node("nodeStageVolume", request, 60_000))).toBe(permissionDenied);
  expect(await readdir(join(world.sandbox.stateDir, "volumes"))).toEqual([]);
  await untilDone(() => world.controller("deleteVolume", { volumeId: made.volumeId }, 60_000));
});
