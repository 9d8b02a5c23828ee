import { describe, expect, test } from "bun:test";
import { callWith, volumeOf } from "../../../contract/rig.ts";
import { numberOf, recentVersions } from "../../../fakes/truenas/versions.ts";
import { on, openOn, parent, refusal, remainsOf } from "../rig.ts";

// Options of connection files and classes that a TrueNAS refuses, changes, or asks for more roles for.

const call = callWith();

describe.each(recentVersions)("on TrueNAS %s", version => {
  test("networks are sent in canonical form and without those in others, so that a repeated creation finds its share", async () => {
    const networks = ["10.0.0.5/24", "10.0.0.7/32", "10.0.0.0/24", "2001:DB8::1/64"];
    const more = { nfs: { shareHost: "nas", shareAllowedNetworks: networks } };
    await on(
      { version },
      "nfs",
      async (_, double) => {
        double.accounts.addKey("2-mortal");
        double.faults.decide("2-mortal", () => (double.state.tables.nfs.length > 0 ? "before" : undefined));
        const dying = openOn(double, "nfs", { key: "2-mortal", more });
        await refusal(dying.create(volumeOf("a"), call));
        await dying.close?.();
        const second = openOn(double, "nfs", { more });
        expect(await refusal(second.create(volumeOf("a"), call))).toEqual({ code: "ok", message: "" });
        await second.close?.();
        expect(double.state.tables.nfs.map(row => row["networks"])).toEqual([["10.0.0.0/24", "2001:db8::/64"]]);
      },
      { more },
    );
  });

  test("a value that a class chooses and the server refuses is named, also before the parent dataset exists", async () => {
    await on({ version }, "nfs", async (driver, double) => {
      const spec = { ...volumeOf("a"), parameters: { "zfs.dedup": "sha512" } };
      const { code, message } = await refusal(driver.create(spec, call));
      expect(message).toMatch(/dedup/);
      expect(message).not.toContain("parent dataset");
      expect(code).toMatch(/^(?:failed-precondition|invalid-argument)$/);
      expect(remainsOf(double)).toEqual([]);
    });
  });

  test("an algorithm of encryption is refused before the request where the server knows none", async () => {
    await on({ version }, "nfs", async (driver, double) => {
      const spec = { ...volumeOf("a"), parameters: { "zfs.encryption": "aes-128-gcm" } };
      const { code, message } = await refusal(driver.create(spec, call));
      if (numberOf(version) < 2600) return expect(code).toBe("ok");
      expect([code, message]).toEqual(["failed-precondition", expect.stringContaining("only on, off and aes-256-gcm")]);
      expect(double.requests.filter(({ method }) => method === "pool.dataset.create")).toEqual([]);
    });
  });

  // Since 24.10 (do_create in plugins/smb.py of TS-24.10.2.4).
  test.skipIf(numberOf(version) < 2410)(
    "lines of smb.conf need a full administrator, and the check says so where the system answers roles",
    async () => {
      const more = { smb: { shareHost: "nas", shareAuxiliaryConfigurationTemplate: "vfs objects = x" } };
      await on({ version }, "smb", async (_, double) => {
        const roles = ["DATASET_WRITE", "DATASET_DELETE", "SNAPSHOT_WRITE", "SNAPSHOT_DELETE", "ZFS_RESOURCE_READ"];
        double.accounts.addKey("3-some", [...roles, "ZFS_RESOURCE_DELETE", "SHARING_SMB_WRITE", "SERVICE_READ"]);
        const driver = openOn(double, "smb", { key: "3-some", more });
        expect(await refusal(driver.create(volumeOf("a"), call))).toMatchObject({
          code: "failed-precondition",
          message: expect.stringContaining("restricted to users with full administrative privileges"),
        });
        const said = await refusal(driver.check?.(call) ?? Promise.resolve());
        if (version === "24.10") expect(said.code).toBe("ok");
        else expect(said).toMatchObject({ code: "permission-denied", message: expect.stringContaining("FULL_ADMIN") });
        await driver.close?.();
      });
    },
  );

  test("volumes for SMB that are made at once all get their access control lists", async () => {
    await on({ version }, "smb", async (driver, double) => {
      double.jobs.ms = 20;
      const names = Array.from({ length: 12 }, (_, n) => `v${n}`);
      await Promise.all(names.map(name => driver.create(volumeOf(name), call)));
      expect(names.filter(name => double.state.datasets[`${parent}/${name}`]?.acl === undefined)).toEqual([]);
    });
  });

  test.each(["nfs", "smb"] as const)("a disabled share over %s is not taken for the volume's", async protocol => {
    await on({ version }, protocol, async (driver, double) => {
      await driver.create(volumeOf("a"), call);
      for (const row of double.state.tables[protocol]) row["enabled"] = false;
      expect(await refusal(driver.create(volumeOf("a"), call))).toMatchObject({
        code: "unavailable",
        message: expect.stringContaining("is disabled; enable or remove it"),
      });
    });
  });

  test("a target whose extent is gone, disabled or of another zvol counts as missing", async () => {
    await on({ version }, "iscsi", async (driver, double) => {
      const { id } = await driver.create(volumeOf("a"), call);
      const found = async () =>
        [...((await driver.health?.look(call))?.volumes.get(id) ?? [])].map(each => each.reason);
      expect(await found()).toEqual([]);
      const { extent, targetextent } = double.state.tables;
      const [row] = extent;
      for (const change of [{ enabled: false }, { disk: "zvol/tank/other" }]) {
        const before = { ...row };
        Object.assign(row ?? {}, change);
        expect([change, await found()]).toEqual([change, ["TargetMissing"]]);
        Object.assign(row ?? {}, before);
      }
      expect(await found()).toEqual([]);
      targetextent.length = 0;
      expect(await found()).toEqual(["TargetMissing"]);
    });
  });
});

test("before TrueNAS 25.04 a name in an access control list is refused with what to do; later it is taken", async () => {
  const more = { datasetPermissionsAcls: ["-m u:csi:rwx"] };
  for (const version of ["24.10", "25.04"] as const)
    await on(
      { version },
      "nfs",
      async driver => {
        const { code, message } = await refusal(driver.create(volumeOf("a"), call));
        if (version === "25.04") expect(code).toBe("ok");
        else expect(message).toContain('before TrueNAS 25.04 the access control entry "u:csi:rwx" must have a number');
      },
      { zfs: more },
    );
});
