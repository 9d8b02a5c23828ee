import { expect, test } from "bun:test";
import { execFileSync } from "node:child_process";
import { closeSync, openSync } from "node:fs";
import { mkdir, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { mountCapability } from "../../scripts/client.ts";
import { isHostRoot } from "../root.ts";
import { codeOf, status, World } from "./world.ts";

/** A file system whose server never says a word (fuse(4)): every call on it waits. Answers how to end that. */
function mountSilence(folder: string): () => void {
  const device = openSync("/dev/fuse", "r+");
  const options = "fd=3,rootmode=40000,user_id=0,group_id=0";
  execFileSync("mount", ["-i", "-t", "fuse", "-o", options, "silence", folder], {
    stdio: ["ignore", "ignore", "pipe", device],
  });
  return () => {
    execFileSync("umount", ["--lazy", folder]);
    closeSync(device);
  };
}

const deadFile = (base: string) =>
  [
    "driver: nfs-client",
    "nfs:",
    "  shareHost: dead.example",
    "  shareBasePath: /exports",
    `  controllerBasePath: ${base}`,
    "",
  ].join("\n");

const deadDisk = (base: string) =>
  ["driver: local-hostpath", "local-hostpath:", `  shareBasePath: ${base}`, `  controllerBasePath: ${base}`, ""].join(
    "\n",
  );

/** Connections to hang: the file of each, how many folders of one mount they use, and what of the base folder is silent. */
const kinds: readonly (readonly [
  what: string,
  file: (base: string, name: string) => string,
  folders: readonly string[],
  silent: string,
])[] = [
  ["servers", (base, name) => deadFile(base).replace("dead.example", `${name}.example`), [""], ""],
  ["mounts on this machine", deadDisk, ["", "/a", "/b"], ""],
  // The base folder is found to be on a local disk, and answers; what is below it does not.
  ["local disks", deadDisk, [""], "/v"],
];

/** Containers may have the device and not the right to open it; users may open it and not mount what it serves. */
function canMountFuse(): boolean {
  if (!isHostRoot) return false;
  try {
    closeSync(openSync("/dev/fuse", "r+"));
    return true;
  } catch {
    return false;
  }
}

test.skipIf(!canMountFuse()).each(kinds)(
  "while two %s hang under many calls, other connections are served as before, and csimux ends when told to",
  async (_, file, folders, silent) => {
    const ends: (() => void)[] = [];
    const names: string[] = [];
    const world = await World.start("off", ["fast"], async ({ folder, connections }) => {
      for (const mount of ["dead-1", "dead-2"]) {
        const base = join(folder, mount);
        await mkdir(base + silent, { recursive: true });
        ends.push(mountSilence(base + silent));
        for (const [at, below] of folders.entries()) {
          const name = `${mount}-${at}`;
          names.push(name);
          await writeFile(join(connections, `${name}.yaml`), file(base + below, name));
        }
      }
    });
    try {
      const calls = Array.from({ length: 80 }, (_, at) => ({
        name: names[at % names.length] ?? "",
        volume: `pvc-${at}`,
      }));
      const hanging = calls.flatMap(({ name, volume }) => [
        codeOf(world.create(volume, name, {}, 3000)),
        codeOf(world.controller("controllerGetVolume", { volumeId: `v:${name}/got-${volume}` }, 3000)),
        codeOf(world.controller("deleteVolume", { volumeId: `v:${name}/gone-${volume}` }, 3000)),
      ]);
      for (let at = 0; at < 40; at++) {
        const { volume } = await world.create(`pvc-${at}`, "fast");
        await world.controller("deleteVolume", { volumeId: volume?.volumeId ?? "" });
      }
      expect(new Set(await Promise.all(hanging))).toEqual(new Set([status.deadlineExceeded]));
      expect(await codeOf(world.create("later", "fast"))).toBe("ok");
      expect(await codeOf(world.controller("deleteVolume", { volumeId: "v:fast/later" }))).toBe("ok");
      expect(await world.stored("fast")).toEqual([]);
    } finally {
      const left = world.end();
      for (const end of ends) end();
      expect(await left).toEqual([]);
    }
  },
  60_000,
);

test.skipIf(!canMountFuse())(
  "while volumes on a hung mount are staged again and again, others are staged as before",
  async () => {
    const ends: (() => void)[] = [];
    let silent = "";
    const world = await World.start("off", ["fast"], async ({ folder }) => {
      silent = join(folder, "silent");
      await mkdir(silent);
      ends.push(mountSilence(silent));
    });
    const staging = (name: string) => join(world.sandbox.folder, `staging-${name}`);
    const stage = async (volumeId: string, path: string) => {
      const name = volumeId.replace(/.*\//, "");
      await mkdir(staging(name), { recursive: true });
      const volumeContext = { node_attach_driver: "hostpath", path };
      const request = { volumeId, volumeContext, stagingTargetPath: staging(name), volumeCapability: mountCapability };
      return codeOf(world.node("nodeStageVolume", request, 3000));
    };
    try {
      const hanging = Array.from({ length: 40 }, (_, at) => stage(`v:dead/pvc-${at}`, `${silent}/v/pvc-${at}`));
      const { volume } = await world.create("later", "fast");
      const volumeId = volume?.volumeId ?? "";
      expect(await stage(volumeId, volume?.volumeContext["path"] ?? "")).toBe("ok");
      expect(new Set(await Promise.all(hanging))).toEqual(new Set([status.deadlineExceeded]));
      expect((await world.probe()).ready).toBe(true);
      await world.node("nodeUnstageVolume", { volumeId, stagingTargetPath: staging("later") });
      await world.controller("deleteVolume", { volumeId });
    } finally {
      const left = world.end();
      for (const end of ends) end();
      expect(await left).toEqual([]);
    }
  },
  60_000,
);
