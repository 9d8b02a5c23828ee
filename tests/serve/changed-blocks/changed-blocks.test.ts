import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import { mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { putModelledZstream } from "../../fakes/zfs/zstream.ts";
import { type NightRig, nightRig } from "../night/night-rig.ts";
import { mebibytes, World } from "../world.ts";
import { type BackupRig, backupRig, hasBackupRig } from "./backup-rig.ts";

// csi-snapshot-metadata and the clients of its repository, an API server of Kubernetes with its snapshot controller, and csimux with a host
// whose ZFS is a model. The programs are those of `make test-cluster`; without them this is skipped.

const block = 16_384;
const size = 8 << 20;
const limitMs = 300_000;

let host: NightRig;
let rig: BackupRig;
/** What the snapshots of the claim "disk" hold, and their handles. */
const images: Record<string, Buffer> = {};
const handles: Record<string, string> = {};

/** Writes blocks of a volume; 0 is zeroes. */
function write(volume: string, blocks: Readonly<Record<number, number>>): Buffer {
  const folder = host.zfs.place(`tank/disks/v/${volume}`);
  mkdirSync(folder, { recursive: true });
  const file = join(folder, "data");
  const image = host.zfs.with(() => {
    try {
      return readFileSync(file);
    } catch {
      return Buffer.alloc(size);
    }
  });
  for (const [number, byte] of Object.entries(blocks))
    image.fill(byte, Number(number) * block, (Number(number) + 1) * block);
  writeFileSync(file, image);
  return image;
}

/** A list as the lister prints it. */
type Listed = readonly {
  readonly block_metadata_type: number;
  readonly volume_capacity_bytes: number;
  readonly block_metadata: readonly { readonly byte_offset?: number; readonly size_bytes: number }[];
}[];

async function listed(...args: readonly string[]): Promise<Listed> {
  const { code, stdout, stderr } = await rig.client("lister", ["-o", "json", ...args]);
  expect([code, stderr]).toEqual([0, ""]);
  return JSON.parse(stdout) as Listed;
}

/** The ranges of a list as numbers and counts of blocks. */
const ranges = (list: Listed) =>
  list
    .flatMap(each => each.block_metadata)
    .map(({ byte_offset = 0, size_bytes }) => [byte_offset / block, size_bytes / block]);

const refused = async (...args: readonly string[]): Promise<string> => {
  const { code, stderr } = await rig.client("lister", args);
  expect(code).toBe(1);
  return stderr;
};

describe.skipIf(!hasBackupRig())("a backup tool with csi-snapshot-metadata", () => {
  beforeAll(async () => {
    host = await nightRig();
    putModelledZstream(host.zfs.bin, host.zfs.folder);
    rig = await backupRig(host.world.sandbox.socket, "csimux.example");
    const made = async (connection: string, name: string) => {
      await host.world.create(name, connection, { capacityRange: mebibytes(8) });
      await rig.claim(name, `v:${connection}/${name}`);
    };
    await made("disks", "disk");
    await made("disks", "other");
    await made("files", "folder");
    const steps = { s1: { 0: 1, 1: 2, 5: 3, 6: 4 }, s2: { 1: 9, 5: 0, 9: 7 }, s3: { 9: 0, 400: 1 } };
    for (const [name, blocks] of Object.entries(steps)) {
      images[name] = Buffer.from(write("disk", blocks));
      handles[name] = await rig.snapshot("disk", name);
    }
    write("other", { 3: 3 });
    handles["foreign"] = await rig.snapshot("other", "foreign");
    await rig.snapshot("folder", "files");
  }, limitMs);
  afterAll(async () => {
    await rig?.end();
    expect(await host.end()).toEqual([]);
  }, limitMs);

  test(
    "gets the blocks of a snapshot, with the size of its volume",
    async () => {
      const list = await listed("-s", "s1");
      expect(ranges(list)).toEqual([
        [0, 2],
        [5, 2],
      ]);
      expect(list.map(each => [each.block_metadata_type, each.volume_capacity_bytes])).toEqual([[2, size]]);
    },
    limitMs,
  );

  test(
    "gets what was changed between two snapshots, by the name of the earlier one or by its handle",
    async () => {
      const delta = [
        [1, 1],
        [5, 1],
        [9, 1],
      ];
      expect(ranges(await listed("-s", "s2", "-p", "s1"))).toEqual(delta);
      expect(ranges(await listed("-s", "s2", "-P", handles["s1"] ?? ""))).toEqual(delta);
    },
    limitMs,
  );

  test(
    "gets as many ranges in a message as it asks for, and continues where it was",
    async () => {
      const list = await listed("-s", "s2", "-p", "s1", "-max-results=2");
      expect(list.map(each => each.block_metadata.length)).toEqual([2, 1]);
      const rest = await listed("-s", "s2", "-p", "s1", `-starting-offset=${5 * block}`);
      expect(ranges(rest)).toEqual([
        [5, 1],
        [9, 1],
      ]);
    },
    limitMs,
  );

  test(
    "verifies with the contents of the snapshots that nothing is missing, and sees if the earlier one is another",
    async () => {
      const names = ["s1", "s2", "s3"] as const;
      const fileOf = (name: string, content: Buffer | undefined) => {
        const file = join(rig.api.folder, name);
        writeFileSync(file, content ?? "");
        return file;
      };
      const zeroes = Buffer.alloc(size);
      const verified = (name: string, base: string | undefined, from: Buffer | undefined) => {
        const devices = [`-src=${fileOf("source", images[name])}`, `-tgt=${fileOf("target", from)}`];
        return rig.client("verifier", ["-s", name, ...(base === undefined ? [] : ["-p", base]), ...devices]);
      };
      for (const [at, name] of names.entries()) {
        expect([name, await verified(name, undefined, zeroes)]).toMatchObject([name, { code: 0, stderr: "" }]);
        for (const base of names.slice(0, at))
          expect([name, base, await verified(name, base, images[base])]).toMatchObject([
            name,
            base,
            { code: 0, stderr: "" },
          ]);
      }
      const { code, stderr } = await verified("s3", "s2", images["s1"]);
      expect([code, stderr]).toEqual([1, expect.stringContaining("source and target device contents do not match")]);
    },
    limitMs,
  );

  test.each([
    [
      "an earlier snapshot of another volume",
      ["-s", "s1", "-p", "foreign"],
      "InvalidArgument",
      "are not of one volume",
    ],
    ["an earlier snapshot that is later", ["-s", "s1", "-p", "s2"], "InvalidArgument", "was not taken before"],
    ["a handle of another driver", ["-s", "s1", "-P", "snap-1"], "NotFound", "is not an id of this driver"],
    ["an offset behind the end", ["-s", "s1", `-starting-offset=${size + 1}`], "OutOfRange", "is behind the"],
    ["a snapshot of files", ["-s", "files"], "FailedPrecondition", "make a full backup"],
  ] as const)(
    "reads why there is no list: %s",
    async (_, args, code, text) => {
      const said = await refused(...args);
      expect(said).toContain(`code = ${code}`);
      expect(said).toContain(text);
    },
    limitMs,
  );

  test(
    "needs the default class where a snapshot names none",
    async () => {
      await rig.known(handles["s1"] ?? "", "known");
      const isDefault = "snapshot.storage.kubernetes.io/is-default-class=true";
      expect(await refused("-s", "known")).toContain("no default VolumeSnapshotClass");
      await rig.api.ok("annotate", "volumesnapshotclass", "csimux", isDefault);
      expect(await listed("-s", "known")).toEqual(await listed("-s", "s1"));
    },
    limitMs,
  );

  test(
    "finds no sidecar while no connection has disks of ZFS",
    async () => {
      const world = await World.start();
      try {
        const { code, stderr } = await rig.sidecarOn(world.sandbox.socket);
        expect(code).toBe(1);
        expect(stderr).toContain("does not support the SNAPSHOT_METADATA_SERVICE");
      } finally {
        await world.end();
      }
    },
    limitMs,
  );

  test(
    "needs the right to read snapshots, which the sidecar checks",
    async () => {
      const admin = rig.api.kubeconfig("admin");
      const account = ["-service-account", "stranger", "-service-account-namespace", "shop"];
      const { code, stderr } = await rig.client("lister", ["-s", "s1", ...account], admin);
      expect([code, stderr]).toEqual([1, expect.stringContaining("code = PermissionDenied")]);
      const own = [...account.slice(0, 1), "backup", ...account.slice(2)];
      expect((await rig.client("lister", ["-s", "s1", ...own], admin)).code).toBe(0);
    },
    limitMs,
  );
});
