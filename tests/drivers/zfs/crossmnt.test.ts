import { describe, expect, test } from "bun:test";
import { chmodSync, rmSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";
import type { Driver } from "../../../lib/drivers/driver.ts";
import { codeOf, messageOf } from "../../contract/driver-volumes.ts";
import { perTest } from "../../contract/per-test.ts";
import { callWith, getVolume, volumeOf } from "../../contract/rig.ts";
import { nfsCache, nfsClients } from "../../fakes/zfs/nfsd.ts";
import { crossmnt, exported, openZfs, type ZfsRig, zfsRig } from "./zfs-rig.ts";

// Volumes without exports of their own, behind an export of the folder above them.

const call = callWith();
const options = { driver: "zfs-generic-nfs", section: crossmnt };
const open = perTest(() => zfsRig(options));

const above = ({ fake }: ZfsRig): string => fake.place("tank/k/v");

const missing = async (driver: Driver): Promise<readonly string[]> =>
  [...((await driver.health?.look(call))?.volumes ?? [])].flatMap(([id, all]) =>
    all.map(({ reason, message }) => `${id} ${reason} ${message}`),
  );

test("a volume is reached by the same context as one with an export of its own, and no export is made", async () => {
  const rig = await open();
  const { context } = await rig.open().create(volumeOf("a"), call);
  const usual = await zfsRig({ driver: "zfs-generic-nfs" });
  const { context: exportedItself } = await usual.open().create(volumeOf("a"), call);
  expect(context).toEqual({ ...exportedItself, share: join(above(rig), "a") });
  expect(Object.keys(context)).toEqual(Object.keys(exportedItself));
  expect(rig.fake.find("tank/k/v/a")?.own["sharenfs"]?.value).toBe("off");
  expect(rig.fake.commands().filter(line => /share |exportfs/.test(line))).toEqual([]);
  await usual.close();
});

describe("a volume is not reported as made while the export above it does not fit", () => {
  const cases: readonly (readonly [what: string, spoil: (rig: ZfsRig) => void, says: string])[] = [
    ["there is none", rig => exported(rig.fake, ["/srv", `${above(rig)}-2`]), "exports neither"],
    ["it lacks crossmnt", rig => exported(rig.fake, [above(rig)], { crossmnt: "nocrossmnt" }), "lacks crossmnt"],
    [
      "a nearer one lacks crossmnt",
      rig => {
        exported(rig.fake, [above(rig)], { crossmnt: "nocrossmnt" });
        const line = "10.0.0.0/8(rw,crossmnt,root_squash,anonuid=65534)";
        appended(rig, `${dirname(above(rig))}\t${line}\n`);
      },
      "lacks crossmnt",
    ],
    [
      "root of a node is root",
      rig => exported(rig.fake, [above(rig)], { root_squash: "no_root_squash" }),
      "root of a node",
    ],
    [
      "anonymous users are root",
      rig => exported(rig.fake, [above(rig)], { "anonuid=65534": "anonuid=0" }),
      "root of a node",
    ],
    [
      "other clients are root through one further above",
      rig => appended(rig, "/\t192.168.0.0/16(rw,crossmnt,no_root_squash,no_all_squash)\n"),
      "the export of / to 192.168.0.0/16",
    ],
    ["others than root may write above the volumes", rig => chmodSync(above(rig), 0o777), "can be written by others"],
    ["the exports cannot be read", rig => writeFileSync(join(rig.fake.folder, "no-etab"), ""), "cannot be read"],
  ];
  test.each(cases)("%s", async (_, spoil, says) => {
    const rig = await open();
    spoil(rig);
    const driver = rig.open();
    expect(await codeOf(driver.create(volumeOf("a"), call))).toBe("unavailable");
    expect(await messageOf(driver.create(volumeOf("a"), call))).toContain(says);
    expect(await codeOf(getVolume(driver, "a"))).toBe("not-found");
    chmodSync(above(rig), 0o755);
    rmSync(join(rig.fake.folder, "no-etab"), { force: true });
    exported(rig.fake, [above(rig)]);
    expect((await driver.create(volumeOf("a"), call)).id).toBe("a");
  });
});

test("all squashed, and read from an export of the pool, is as good", async () => {
  const rig = await open();
  exported(rig.fake, [dirname(above(rig))], { root_squash: "no_root_squash", no_all_squash: "all_squash" });
  expect((await rig.open().create(volumeOf("a"), call)).id).toBe("a");
});

test("an export that no longer fits is a finding of each volume, and csimux exports nothing", async () => {
  const rig = await open();
  const driver = rig.open();
  await driver.create(volumeOf("a"), call);
  await driver.create(volumeOf("b"), call);
  expect(await missing(driver)).toEqual([]);
  exported(rig.fake, []);
  const found = await missing(driver);
  expect(found.map(line => line.slice(0, 14))).toEqual(["a ShareMissing", "b ShareMissing"]);
  expect(driver.health?.restore).toBeUndefined();
});

test("a volume that has an export of its own from before needs no other one", async () => {
  const rig = await open();
  const before = openZfs({ driver: "zfs-generic-nfs", folder: rig.fake.folder }, rig.host);
  await before.create(volumeOf("old"), call);
  exported(rig.fake, []);
  expect(await missing(rig.open())).toEqual([]);
});

test("it is not deleted while an NFS client holds a file open, nor while the server holds on to it", async () => {
  const rig = await open();
  const driver = rig.open();
  await driver.create(volumeOf("a"), call);
  const place = rig.fake.place("tank/k/v/a");
  nfsCache(rig.fake.folder, [place]);
  nfsClients(rig.fake.folder, [{ id: 3, open: [place] }]);
  expect(await messageOf(driver.delete("a", call))).toContain("NFS clients hold files in");
  expect((await getVolume(driver, "a")).id).toBe("a");
  nfsClients(rig.fake.folder, []);
  await driver.delete("a", call);
  expect(await rig.remains()).toEqual([]);
});

const appended = ({ fake }: ZfsRig, text: string): void =>
  writeFileSync(join(fake.folder, "etab"), text, { flag: "a" });
