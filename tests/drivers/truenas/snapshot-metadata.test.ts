import { expect, test } from "bun:test";
import { writeFileSync } from "node:fs";
import { join } from "node:path";
import type { Driver } from "../../../lib/drivers/driver.ts";
import { localRunner } from "../../../lib/io/local.ts";
import { localHost } from "../../../lib/io/local-host.ts";
import { codeOf } from "../../contract/driver-volumes.ts";
import { callWith, snapshotsOf, volumeOf } from "../../contract/rig.ts";
import { startDouble } from "../../fakes/truenas/double.ts";
import { datasetsOf } from "../../fakes/truenas/on-zfs.ts";
import { recentVersions, type Version, versions } from "../../fakes/truenas/versions.ts";
import { zfsOf } from "../../fakes/truenas/zfs-program.ts";
import { fakeZfs } from "../../fakes/zfs/pools.ts";
import { dump, freed, objects, putZstream, written } from "../../fakes/zfs/zstream.ts";
import { openOn } from "./rig.ts";
import { openOverSsh } from "./ssh-rig.ts";

const call = callWith();
const bytes = 64n << 20n;
const block = 16_384n;

/** A driver for zvols of a double, whose lists are made over ssh; zvols are made over ssh, too, or over the API. */
async function opened(version: Version, kind: "ssh" | "api") {
  const fake = await fakeZfs();
  const double = await startDouble({ version, ...(kind === "ssh" && { elsewhere: datasetsOf(fake) }) });
  const local = localRunner({ env: { PATH: `${fake.bin}:/usr/sbin:/usr/bin:/sbin:/bin` } });
  putZstream(fake.bin);
  const list = (name: string, ...records: readonly string[]) =>
    writeFileSync(join(fake.bin, name), dump(...objects(8n * block), ...records));
  list("whole", written(0n, 2n * block));
  list("later", written(0n, block), freed(4n * block, block));
  const key = "1-secret";
  double.accounts.addKey(key);
  // What the API made, zfs(8) sees with the next command.
  const shown = zfsOf(double.state, fake, local);
  return {
    driver:
      kind === "api"
        ? openOn(double, "iscsi", { key, host: localHost(local) })
        : openOverSsh({ double, host: localHost(local), name: "truenas-iscsi", protocol: "iscsi", key }),
    async seen() {
      if (kind === "api") await shown.run({ argv: ["zfs", "list"] }, call.signal).catch(() => {});
    },
    async [Symbol.asyncDispose]() {
      await double.close();
      await fake.close();
    },
  };
}

/** The blocks of a list, as numbers: the first, and how many. */
async function blocksOf(driver: Driver, id: string, base?: string): Promise<readonly (readonly number[])[]> {
  const all: (readonly number[])[] = [];
  for await (const { capacity, ranges } of driver.snapshotMetadata?.ranges(id, base, 0n, call) ?? []) {
    expect(capacity).toBe(bytes);
    all.push(...ranges.map(each => [Number(each.offset / block), Number(each.bytes / block)]));
  }
  return all;
}

// Older APIs cannot keep the properties of volumes.
const kinds = [
  ...versions.map(version => ({ version, kind: "ssh" as const })),
  ...recentVersions.map(version => ({ version, kind: "api" as const })),
];

test.each(kinds)(
  "the changed blocks of a zvol of TrueNAS $version that is managed by $kind are listed over ssh",
  async ({ version, kind }) => {
    await using rig = await opened(version, kind);
    const { driver } = rig;
    await driver.create(volumeOf("a", bytes), call);
    for (const name of ["s1", "s2"]) await snapshotsOf(driver).create(name, "a", {}, call);
    await rig.seen();
    expect(await blocksOf(driver, "a@s2")).toEqual([[0, 2]]);
    expect(await blocksOf(driver, "a@s2", "a@s1")).toEqual([
      [0, 1],
      [4, 1],
    ]);
    expect(await codeOf(blocksOf(driver, "a@s1", "a@s2"))).toBe("invalid-argument");
    expect(await codeOf(blocksOf(driver, "a@none"))).toBe("not-found");
    await driver.close?.();
  },
);

test("TrueNAS whose file names no system for ssh lists no blocks", async () => {
  const double = await startDouble({ version: "25.10" });
  const driver = openOn(double, "iscsi");
  expect(driver.snapshotMetadata).toBeUndefined();
  await driver.close?.();
  await double.close();
});
