import { describe, expect, test } from "bun:test";
import { readFileSync } from "node:fs";
import { rolesFor } from "../../../lib/drivers/truenas/requirements.ts";
import { callWith, gib, reasonsOf, snapshotsOf, volumeOf } from "../../contract/rig.ts";
import { on, openOn, type Protocol, refusal, remainsOf } from "./rig.ts";

const call = callWith();
const protocols = ["nfs", "smb", "iscsi", "nvmeof"] as const;
/** Versions whose accounts have roles that auth.me answers, and what each can share. */
const versions = ["25.04", "25.10", "26.0"] as const;
const numberOf = (version: string): number => Number(version.replace(".", "").padEnd(4, "0"));
const cases = versions.flatMap(version =>
  protocols
    .filter(protocol => protocol !== "nvmeof" || numberOf(version) >= 2510)
    .map(protocol => [version, protocol] as const),
);
const permissions = { datasetPermissionsMode: "0770", datasetPermissionsUser: "1000" };
const needed = (protocol: Protocol, version: string): readonly string[] =>
  rolesFor({ protocol, datasets: true, permissions: protocol === "nfs", auxiliary: false }, numberOf(version));
const zfs = (protocol: Protocol): object => (protocol === "nfs" ? { zfs: permissions } : {});

describe.each(cases)("on TrueNAS %s, shared over %s", (version, protocol) => {
  test("the roles on the page are sufficient for the whole life of a volume", async () => {
    await on({ version }, protocol, async (_, double) => {
      double.accounts.addKey("5-least", needed(protocol, version));
      const driver = openOn(double, protocol, { key: "5-least", ...zfs(protocol) });
      await driver.check?.(call);
      const { id } = await driver.create(volumeOf("pvc-1"), call);
      // The states of pools need one more role, and without it are left out.
      expect(await reasonsOf(driver)).toEqual({});
      const snapshots = snapshotsOf(driver);
      const snapshot = await snapshots.create("s1", id, {}, call);
      const clone = await driver.create(volumeOf("pvc-2", gib, { kind: "snapshot", id: snapshot.id }), call);
      expect(await driver.kept?.list(call)).toMatchObject([{ neededBy: [{ kind: "volume", name: clone.id }] }]);
      await driver.expand?.expand(id, { required: 2n * gib, limit: undefined }, call);
      await driver.delete(clone.id, call);
      await snapshots.delete(snapshot.id, call);
      await driver.delete(id, call);
      expect(remainsOf(double)).toEqual([]);
      await driver.close?.();
    });
  });

  test("the check names every role that an account lacks", async () => {
    await on({ version }, protocol, async (_, double) => {
      for (const [index, lacking] of needed(protocol, version).entries()) {
        const key = `${index + 10}-weak`;
        double.accounts.addKey(
          key,
          needed(protocol, version).filter(role => role !== lacking),
        );
        const driver = openOn(double, protocol, { key, ...zfs(protocol) });
        expect(await refusal(driver.check?.(call) ?? Promise.resolve())).toMatchObject({
          code: "permission-denied",
          message: expect.stringContaining(`lacks the role ${lacking};`),
        });
        await driver.close?.();
      }
      double.accounts.addKey("40-none", []);
      const driver = openOn(double, protocol, { key: "40-none", ...zfs(protocol) });
      const { message } = await refusal(driver.check?.(call) ?? Promise.resolve());
      for (const role of needed(protocol, version)) expect(message).toContain(role);
      await driver.close?.();
    });
  });
});

test("SHARING_ADMIN is not sufficient, because it can delete nothing", async () => {
  const includes = [
    "DATASET_WRITE",
    "SHARING_NFS_WRITE",
    "FILESYSTEM_ATTRS_WRITE",
    "SERVICE_READ",
    "ZFS_RESOURCE_READ",
  ];
  await on({ version: "25.10" }, "nfs", async (_, double) => {
    double.accounts.addKey("6-sharing", includes);
    const driver = openOn(double, "nfs", { key: "6-sharing" });
    expect((await refusal(driver.check?.(call) ?? Promise.resolve())).message).toContain(
      "DATASET_DELETE, SNAPSHOT_WRITE, SNAPSHOT_DELETE",
    );
    await driver.close?.();
  });
});

test("a version that answers no roles passes the check", async () => {
  await on({ version: "24.10" }, "nfs", async (_, double) => {
    double.accounts.addKey("7-any", needed("nfs", "24.10"));
    const driver = openOn(double, "nfs", { key: "7-any" });
    expect(await refusal(driver.check?.(call) ?? Promise.resolve())).toMatchObject({ code: "ok" });
    await driver.close?.();
  });
});

test("the page names every role that the check requires", () => {
  const page = readFileSync(new URL("../../../examples/guide/storage/truenas.md", import.meta.url), "utf8");
  for (const [version, protocol] of cases)
    for (const role of needed(protocol, version)) expect(page).toContain(`\`${role}\``);
});
