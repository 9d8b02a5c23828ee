import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import { writeFile } from "node:fs/promises";
import { join } from "node:path";
import { gunzipSync } from "node:zlib";
import { random } from "../../lint/mutants.ts";
import { type BackupRig, backupRig, hasBackupRig } from "../../serve/changed-blocks/backup-rig.ts";
import { mebibytes, type World } from "../../serve/world.ts";
import { guestShell, guestTraces, leftInGuest, making, sshLines } from "../beside.ts";
import { startCsimux } from "../rig.ts";

// The verifier of csi-snapshot-metadata, with a real API server, over pairs of snapshots of a zvol in the guest.

const limitMs = 2_400_000;
const block = 4096;
/** The number of snapshots, which make 105 lists; the volume is expanded before the third. */
const snapshots = 14;
const pick = random(20261127);

let before: ReadonlySet<string>;
let world: World;
let rig: BackupRig;

const connection = async (): Promise<string> =>
  [
    "driver: zfs-generic-iscsi",
    ...(await sshLines()),
    "zfs:",
    "  datasetParentName: tank/changed/v",
    "  detachedSnapshotsDatasetParentName: tank/changed/s",
    "  zvolBlocksize: 4K",
    "iscsi:",
    "  targetPortal: 127.0.0.1:3260",
    "  shareStrategy: targetCli",
    "  shareStrategyTargetCli:",
    "    basename: iqn.2025-01.lab.csimux:changed",
    "    tpg: {}",
    "    block: {}",
    "",
  ].join("\n");

/** Writes at random, discards (--force, because a target holds the zvol) and writes zeroes in the guest, and answers what the volume holds then. */
async function changed(volume: string, size: number): Promise<Buffer> {
  const device = `/dev/zvol/tank/changed/v/${volume}`;
  const blocks = size / block;
  const at = () => pick(blocks - 64);
  const lines: string[] = [];
  for (let left = 6; left > 0; left--)
    lines.push(
      `dd if=/dev/urandom of=$1 bs=${block} seek=${at()} count=${1 + pick(16)} conv=notrunc,nocreat status=none`,
    );
  lines.push(`dd if=/dev/zero of=$1 bs=${block} seek=${at()} count=${1 + pick(32)} conv=notrunc,nocreat status=none`);
  // Where something holds the disk, pages that are not written yet refuse a discard (Linux 6.1, block/bdev.c, truncate_bdev_range).
  lines.push("blockdev --flushbufs $1");
  for (let left = 2; left > 0; left--)
    lines.push(`blkdiscard --force -o ${at() * block} -l ${(1 + pick(64)) * block} $1`);
  lines.push("blockdev --flushbufs $1", "sync", "dd if=$1 bs=1M iflag=direct status=none | gzip -1 | base64 -w 0");
  return gunzipSync(Buffer.from(await guestShell(lines.join(" && "), device), "base64"));
}

describe.skipIf(!hasBackupRig())("the verifier of csi-snapshot-metadata", () => {
  beforeAll(async () => {
    before = await guestTraces();
    world = await startCsimux({ connections: { changed: await connection() } });
    rig = await backupRig(world.sandbox.socket, "csimux.example");
  }, limitMs);
  afterAll(async () => {
    await rig?.end();
    expect(await world.end()).toEqual([]);
    await guestShell("zfs destroy -r tank/changed 2>/dev/null || :");
    expect(await leftInGuest(before)).toEqual([]);
  }, limitMs);

  test(
    "agrees with every pair of snapshots, with an expansion between",
    async () => {
      const { volumeId } = await making(world, "changed", "disk", { size: 8 });
      await rig.claim("disk", volumeId);
      const images: Buffer[] = [];
      for (let at = 0; at < snapshots; at++) {
        if (at === 2)
          await world.controller("controllerExpandVolume", { volumeId, capacityRange: mebibytes(12) }, 120_000);
        images.push(await changed("disk", (at < 2 ? 8 : 12) << 20));
        await rig.snapshot("disk", `s${at}`);
      }
      const fileOf = async (name: string, content: Buffer, length: number): Promise<string> => {
        const file = join(rig.api.folder, name);
        await writeFile(file, Buffer.concat([content, Buffer.alloc(length - content.length)]));
        return file;
      };
      let agreed = 0;
      for (const [at, image] of images.entries())
        for (const [base, old] of [[undefined, Buffer.alloc(0)] as const, ...images.slice(0, at).entries()]) {
          const source = await fileOf("source", image, image.length);
          const target = await fileOf("target", old, image.length);
          const args = ["-s", `s${at}`, `-src=${source}`, `-tgt=${target}`];
          const { code, stderr } = await rig.client(
            "verifier",
            base === undefined ? args : [...args, "-p", `s${base}`],
          );
          expect([at, base, code, stderr]).toEqual([at, base, 0, ""]);
          process.stderr.write(`s${at} since ${base === undefined ? "the beginning" : `s${base}`}: verified\n`);
          agreed++;
        }
      expect(agreed).toBe((snapshots * (snapshots + 1)) / 2);
      // It sees what a list does not name.
      const [source, target] = [
        await fileOf("source", images[3] ?? Buffer.alloc(0), 12 << 20),
        await fileOf("target", Buffer.alloc(0), 12 << 20),
      ];
      const other = await rig.client("verifier", ["-s", "s3", "-p", "s2", `-src=${source}`, `-tgt=${target}`]);
      expect([other.code, other.stderr]).toEqual([1, expect.stringContaining("do not match")]);
      for (let at = 0; at < snapshots; at++) await rig.api.ok("-n", "shop", "delete", "volumesnapshot", `s${at}`);
      await rig.api.ok("wait", "--for=delete", "volumesnapshotcontent", "--all", "--timeout=120s");
      await world.controller("deleteVolume", { volumeId }, 120_000);
    },
    limitMs,
  );
});
