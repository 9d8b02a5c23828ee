import { expect, test } from "bun:test";
import { once } from "node:events";
import { mkdir, symlink, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { preface } from "../../../lib/csi/http2/http2-frames.ts";
import { mountCapability } from "../../../scripts/client.ts";
import { acknowledge, headers, ping, raw, settings } from "../../csi/raw.ts";
import { canMountFuse, mountSilence } from "../../fakes/silence.ts";
import { codeOf, status, World } from "../world.ts";

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
        codeOf(world.create(volume, name, {}, 1000)),
        codeOf(world.controller("controllerGetVolume", { volumeId: `v:${name}/got-${volume}` }, 1000)),
        codeOf(world.controller("deleteVolume", { volumeId: `v:${name}/gone-${volume}` }, 1000)),
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
  "csimux stops within 25 seconds as a whole, however long calls, their storages and a peer would take",
  async () => {
    let end = () => {};
    let dead = "";
    const world = await World.start("off", ["fast"], async ({ folder, connections }) => {
      dead = join(folder, "dead");
      await mkdir(dead);
      end = mountSilence(dead);
      await writeFile(join(connections, "dead.yaml"), deadDisk(dead));
    });
    try {
      // A call whose message never comes.
      const { socket, types } = await raw(world.sandbox.socket);
      socket.write(Buffer.concat([preface, settings, acknowledge, headers("localhost"), ping]));
      while (!types().includes("6/1")) await once(socket, "data");
      const hanging = [1, 2, 3].map(at => codeOf(world.create(`pvc-${at}`, "dead", {}, 120_000)));
      expect(await codeOf(world.create("pvc", "fast"))).toBe("ok");
      const { code, ms } = await world.daemon.stop();
      expect([code, ms < 25_000]).toEqual([0, true]);
      expect(await Promise.all(hanging)).not.toContain("ok");
      socket.destroy();
    } finally {
      const left = world.end();
      end();
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

test.skipIf(!canMountFuse())(
  "connection files on a mount that hangs are refused after a while, then at once, and delay no other call",
  async () => {
    let end = () => {};
    const world = await World.start("off", ["fast"], async ({ folder, connections }) => {
      const silent = join(folder, "silent");
      await mkdir(silent);
      end = mountSilence(silent);
      for (let i = 0; i < 30; i++) await symlink(join(silent, `${i}.yaml`), join(connections, `dead-${i}.yaml`));
    });
    try {
      const dead = Array.from({ length: 30 }, (_, i) => codeOf(world.create("pvc", `dead-${i}`, {}, 15_000)));
      for (let i = 0; i < 20; i++) {
        expect(await codeOf(world.create(`pvc-${i}`, "fast", {}, 3000))).toBe("ok");
        expect((await world.probe()).ready).toBe(true);
      }
      expect(new Set(await Promise.all(dead))).toEqual(new Set([status.unavailable]));
      const again = Array.from({ length: 30 }, (_, i) => codeOf(world.create("pvc", `dead-${i}`, {}, 3000)));
      expect(new Set(await Promise.all(again))).toEqual(new Set([status.unavailable]));
      expect((await world.daemon.stop()).code).toBe(0);
    } finally {
      const left = world.end();
      end();
      expect(await left).toEqual([]);
    }
  },
  60_000,
);
