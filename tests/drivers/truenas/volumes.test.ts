import { describe, expect, test } from "bun:test";
import { CsiError } from "../../../lib/core/errors.ts";
import { callWith, getVolume, gib, snapshotsOf, volumeIds, volumeOf } from "../../contract/rig.ts";
import type { Double } from "../../fakes/truenas/double.ts";
import { numberOf, recentVersions } from "../../fakes/truenas/versions.ts";
import { drawn } from "../../sample.ts";
import { pause } from "../../waiting.ts";
import { on, openOn, parent, protocolsOf, refusal, remainsOf } from "./rig.ts";

const call = callWith();

/** The time limit of tests with many volumes, in milliseconds. */
const limitMs = 120_000;

/** Repeats the work once after "unavailable", as the sidecars do. */
async function retried<T>(work: () => Promise<T>): Promise<T> {
  try {
    return await work();
  } catch (error) {
    if (!(error instanceof CsiError && error.code === "unavailable")) throw error;
    return work();
  }
}

const methods = (double: Double): readonly string[] => double.requests.map(({ method }) => method);

const prefix = "democratic-csi:";

describe.each(recentVersions)("on TrueNAS %s", version => {
  const number = numberOf(version);

  test.concurrent.each(protocolsOf(version))(
    "a lost answer to any change of %s results in exactly one object after a retry",
    async protocol => {
      // Each waits until it may log in again.
      const scenes = (["before", "after"] as const).flatMap(when =>
        drawn([...Array(12).keys()], 4, number).map(skip => ({ when, skip })),
      );
      const play = ({ when, skip }: (typeof scenes)[number]): Promise<void> =>
        on({ version }, protocol, async (driver, double) => {
          double.faults.loseOnce(/\.(?:create|update|delete|destroy|clone|rename)$/, when, skip);
          const { id } = await retried(() => driver.create(volumeOf("pvc-1"), call));
          await retried(() => driver.create(volumeOf("pvc-1"), call));
          const { tables } = double.state;
          const rows =
            protocol === "iscsi" ? tables.extent : protocol === "nvmeof" ? tables.nvmetSubsys : tables[protocol];
          expect([skip, when, rows.length]).toEqual([skip, when, 1]);
          await retried(() => driver.delete(id, call));
          expect([skip, when, remainsOf(double)]).toEqual([skip, when, []]);
        });
      await Promise.all(scenes.map(play));
    },
    limitMs,
  );

  test.concurrent.each(protocolsOf(version))(
    "a share over %s exists again after a refused deletion of its volume",
    async protocol => {
      await on({ version }, protocol, async (driver, double) => {
        const { id, context } = await driver.create(volumeOf("pvc-1"), call);
        const tables = () =>
          JSON.stringify(double.state.tables, (key, value) => (key === "id" ? undefined : value)).length;
        const before = tables();
        double.busy.add(`${parent}/${id}`);
        expect((await refusal(driver.delete(id, call))).code).toBe("aborted");
        expect(tables()).toBe(before);
        expect((await getVolume(driver, id)).context).toEqual(context);
        double.busy.clear();
        await driver.delete(id, call);
        expect(remainsOf(double)).toEqual([]);
      });
    },
    limitMs,
  );

  test.each(protocolsOf(version))(
    "a noted id over %s that belongs to another volume's share now is not deleted",
    async protocol => {
      await on({ version }, protocol, async (driver, double) => {
        const { id } = await driver.create(volumeOf("pvc-1"), call);
        const other = await driver.create(volumeOf("pvc-2"), call);
        const [mine, theirs] = [id, other.id].map(each => double.state.datasets[`${parent}/${each}`]);
        // As after a restore of TrueNAS' configuration: the note names a row that is another volume's now.
        for (const [key, value] of Object.entries(theirs?.user ?? {}))
          if (mine && /_id$/.test(key) && key.startsWith(`${prefix}freenas`)) mine.user[key] = value;
        await driver.delete(id, call);
        expect(await getVolume(driver, other.id)).toEqual(other);
        const left = remainsOf(double).filter(each => !each.startsWith(parent));
        expect(left.length).toBe(protocol === "iscsi" ? 3 : protocol === "nvmeof" ? 3 : 1);
      });
    },
  );

  test("a volume of democratic-csi is published, expanded, snapshotted and deleted", async () => {
    await on({ version }, "nfs", async (driver, double) => {
      const { id, context } = await driver.create(volumeOf("pvc-1"), call);
      const dataset = double.state.datasets[`${parent}/${id}`];
      if (!dataset) throw new Error("no dataset");
      dataset.user = {
        [`${prefix}managed_resource`]: "true",
        [`${prefix}provision_success`]: "true",
        [`${prefix}csi_volume_name`]: "pvc-1",
        [`${prefix}volume_context_provisioner_driver`]: "freenas-api-nfs",
        [`${prefix}freenas_nfs_share_id`]: "1",
        [`${prefix}csi_share_volume_context`]: `{"node_attach_driver":"nfs","server":"old","share":"/mnt/${parent}/${id}"}`,
      };
      const volume = await getVolume(driver, id);
      // The server is that of the file, whatever the storage says.
      expect(volume.context).toMatchObject({ server: context["server"], share: `/mnt/${parent}/${id}` });
      expect(await driver.create(volumeOf("pvc-1"), call)).toEqual(volume);
      expect(double.state.tables.nfs).toHaveLength(1);
      expect((await driver.expand?.expand(id, { required: 2n * gib, limit: undefined }, call))?.bytes).toBe(2n * gib);
      const snapshot = await snapshotsOf(driver).create("s", id, {}, call);
      expect(snapshot.id).toBe(`${id}@s`);
      await snapshotsOf(driver).delete(snapshot.id, call);
      await driver.delete(id, call);
      expect(remainsOf(double)).toEqual([]);
    });
  });

  test("snapshots of other programs are destroyed with a volume, CSI snapshots and clones prevent its deletion, and no other volume changes", async () => {
    await on({ version }, "nfs", async (driver, double) => {
      const { id } = await driver.create(volumeOf("pvc-1"), call);
      const other = await driver.create(volumeOf("pvc-2"), call);
      const clone = await driver.create(volumeOf("clone", gib, { kind: "volume", id }), call);
      expect((await refusal(driver.delete(id, call))).code).toBe("failed-precondition");
      // The refusal came before the export was taken away.
      expect(double.state.tables.nfs).toHaveLength(3);
      await driver.delete(clone.id, call);
      await driver.create(volumeOf("pvc-3"), call);
      double.state.snapshots[`${parent}/${id}@auto-2026`] = {
        ...{ dataset: `${parent}/${id}`, name: "auto-2026", user: {}, guid: "7", createtxg: 7, creation: 7 },
        ...{ holds: 0, deferred: false },
      };
      await snapshotsOf(driver).create("s", id, {}, call);
      expect((await refusal(driver.delete(id, call))).code).toBe("failed-precondition");
      await snapshotsOf(driver).delete(`${id}@s`, call);
      await driver.delete(id, call);
      expect([...(await volumeIds(driver))].sort()).toEqual([other.id, "pvc-3"].sort());
      const deletions = double.requests.filter(({ method }) => /(?:delete|destroy)$/.test(method));
      expect(
        deletions.filter(({ params }) => /"(?:recursive|all_snapshots)":true/.test(JSON.stringify(params))),
      ).toEqual([]);
    });
  });

  test("a held snapshot of another program refuses a deletion before a share is withdrawn and before another snapshot is destroyed", async () => {
    await on({ version }, "nfs", async (driver, double) => {
      const { id } = await driver.create(volumeOf("pvc-1"), call);
      for (const name of ["auto-1", "auto-2"])
        double.state.snapshots[`${parent}/${id}@${name}`] = {
          ...{ dataset: `${parent}/${id}`, name: name, user: {}, guid: "7", createtxg: 7, creation: 7 },
          ...{ holds: 0, deferred: false },
        };
      const held = double.state.snapshots[`${parent}/${id}@auto-2`];
      if (held) held.holds = 1;
      double.requests.length = 0;
      const refused = await refusal(driver.delete(id, call));
      expect([refused.code, refused.message]).toEqual(["failed-precondition", expect.stringContaining("auto-2")]);
      expect(methods(double).filter(method => /\.(?:delete|destroy|update)$/.test(method))).toEqual([]);
      if (held) held.holds = 0;
      await driver.delete(id, call);
      expect(remainsOf(double)).toEqual([]);
    });
  });

  test("mode and owner are set, also for root, and a failed job fails the creation", async () => {
    const zfs = { datasetPermissionsMode: "0770", datasetPermissionsUser: "0", datasetPermissionsGroup: "3000" };
    await on(
      { version },
      "nfs",
      async (driver, double) => {
        const { id } = await driver.create(volumeOf("pvc-1"), call);
        expect(double.state.datasets[`${parent}/${id}`]).toMatchObject({ mode: 0o770, uid: 0, gid: 3000 });
        const changes = double.requests.filter(({ method }) => method.startsWith("filesystem."));
        expect(changes.map(({ method }) => method)).toEqual(["filesystem.setperm", "filesystem.stat"]);
        double.accounts.addKey("9-weak", [
          "DATASET_WRITE",
          "DATASET_DELETE",
          "SNAPSHOT_WRITE",
          "SNAPSHOT_DELETE",
          "ZFS_RESOURCE_READ",
        ]);
        const weak = openOn(double, "nfs", { key: "9-weak", zfs });
        expect(await refusal(weak.create(volumeOf("pvc-2"), call))).toMatchObject({
          message: expect.stringContaining("FILESYSTEM_ATTRS_WRITE"),
        });
        await weak.close?.();
      },
      { zfs },
    );
  });

  test("settings of an SMB share are sent in the form of the version; those that no version has any more are ignored", async () => {
    const smb = { shareHost: "nas", shareAccessBasedEnumeration: true, shareGuestOk: true, shareGuestOnly: true };
    const more = { smb: { ...smb, shareShowHiddenFiles: true, shareDefaultPermissions: true } };
    await on(
      { version },
      "smb",
      async (driver, double) => {
        await driver.create(volumeOf("pvc-1"), call);
        const [share] = double.state.tables.smb;
        if (number >= 2510)
          expect(share).toMatchObject({ access_based_share_enumeration: true, options: { guestok: true } });
        else expect(share).toMatchObject({ abe: true, guestok: true });
      },
      { more },
    );
  });

  test("access control lists are set through the API, in addition to existing entries, and after the mode", async () => {
    const zfs = {
      datasetPermissionsMode: "0770",
      datasetPermissionsAcls: ["-m everyone@:read_set:allow,u:1000:full_set:fd:allow", "-m owner@:rwx:fd:allow"],
    };
    await on(
      { version },
      "smb",
      async (driver, double) => {
        const { id } = await driver.create(volumeOf("pvc-1"), call);
        const list = double.state.datasets[`${parent}/${id}`]?.acl as { tag: string; id?: number; flags: object }[];
        expect(list.map(({ tag }) => tag)).toEqual(["USER", "owner@", "group@", "everyone@"]);
        expect(list[0]).toMatchObject({
          ...{ id: 1000, type: "ALLOW", flags: { FILE_INHERIT: true, DIRECTORY_INHERIT: true, INHERIT_ONLY: false } },
          perms: { READ_DATA: true, WRITE_ACL: true, SYNCHRONIZE: true },
        });
        expect(list[3]).toMatchObject({ perms: { READ_DATA: true, WRITE_DATA: false, READ_ACL: true } });
        // As on a volume that a call has left half made.
        delete double.state.datasets[`${parent}/${id}`]?.user[`${prefix}provision_success`];
        await driver.create(volumeOf("pvc-1"), call);
        expect(double.state.datasets[`${parent}/${id}`]?.acl).toEqual(list);
      },
      { zfs },
    );
    const posix = { datasetPermissionsAcls: ["-m u:1000:rwx,d:u:1000:r-x"] };
    await on(
      { version },
      "nfs",
      async (driver, double) => {
        const { id } = await driver.create(volumeOf("pvc-1"), call);
        const list = double.state.datasets[`${parent}/${id}`]?.acl as { tag: string; default: boolean }[];
        const entries = list.map(each => `${each.default ? "d:" : ""}${each.tag}`).sort();
        expect(entries).toEqual(
          ["USER", "USER_OBJ", "GROUP_OBJ", "OTHER", "MASK"].flatMap(tag => [tag, `d:${tag}`]).sort(),
        );
      },
      { zfs: posix },
    );
  });

  test("properties are sent as the API spells them, also those that it keeps under other names", async () => {
    const zfs = {
      datasetProperties: {
        "org.freenas:description": "volume {{ parameters.[csi.storage.k8s.io/pvc/name] }}",
        compression: "zstd",
        atime: "off",
        dedup: "off",
        recordsize: "128K",
        "my:own": "{{ name }}",
      },
    };
    await on(
      { version },
      "nfs",
      async (driver, double) => {
        const spec = { ...volumeOf("pvc-1"), parameters: { "csi.storage.k8s.io/pvc/name": "data" } };
        const { id } = await driver.create(spec, call);
        const dataset = double.state.datasets[`${parent}/${id}`];
        expect(dataset?.user).toMatchObject({ "org.freenas:description": "volume data", "my:own": "pvc-1" });
        expect(dataset?.native).toMatchObject({
          compression: "zstd",
          atime: "off",
          dedup: "off",
          recordsize: "131072",
        });
      },
      { zfs },
    );
  });

  test.each(["nfs", "iscsi"] as const)("a class sets encryption and compression of volumes over %s", async protocol => {
    await on({ version }, protocol, async (driver, double) => {
      const parameters = { "zfs.encryption": "on", "zfs.compression": "zstd" };
      const { id } = await driver.create({ ...volumeOf("pvc-1"), parameters }, call);
      const native = { encryption: "aes-256-gcm", compression: "zstd" };
      expect(double.state.datasets[`${parent}/${id}`]?.native).toMatchObject(native);
      const made = double.requests.find(({ method }) => method === "pool.dataset.create");
      expect(made?.params).toMatchObject([{ encryption: true, encryption_options: { generate_key: true } }]);
      // A clone has the key of its origin.
      const copy = await driver.create({ ...volumeOf("copy", gib, { kind: "volume", id }), parameters }, call);
      await driver.delete(copy.id, call);
      for (const [name, value] of Object.entries({ "zfs.encryption": "rot13", "zfs.logbias": "latency" }))
        expect((await refusal(driver.create({ ...volumeOf("pvc-2"), parameters: { [name]: value } }, call))).code).toBe(
          "failed-precondition",
        );
      await driver.delete(id, call);
      expect(remainsOf(double)).toEqual([]);
    });
  });

  test("compression and deduplication of block devices are applied; a sparse one may exceed the free space", async () => {
    const zfs = { zvolCompression: "lz4", zvolDedup: "on" };
    await on(
      { version },
      "iscsi",
      async (driver, double) => {
        const { id } = await driver.create(volumeOf("pvc-1", 2000n * gib), call);
        expect(double.state.datasets[`${parent}/${id}`]?.native).toMatchObject({
          compression: "lz4",
          dedup: "on",
          volsize: String(2000n * gib),
        });
        expect((await driver.expand?.expand(id, { required: 3000n * gib, limit: undefined }, call))?.bytes).toBe(
          3000n * gib,
        );
      },
      { zfs },
    );
  });

  test("a file system smaller than the least quota of the server gets that size, or is out of range", async () => {
    await on({ version }, "nfs", async driver => {
      const small = { ...volumeOf("pvc-1"), range: { required: 1000n, limit: undefined } };
      expect((await driver.create(small, call)).bytes).toBe(gib);
      const capped = { ...volumeOf("pvc-2"), range: { required: 1000n, limit: 2000n } };
      expect((await refusal(driver.create(capped, call))).code).toBe("out-of-range");
    });
  });

  test("a listing of many volumes takes one request, and GetCapacity changes nothing", async () => {
    await on({ version }, "nfs", async (driver, double) => {
      for (let n = 0; n < 12; n++) await driver.create(volumeOf(`pvc-${n}`), call);
      double.requests.length = 0;
      expect(await volumeIds(driver)).toHaveLength(12);
      expect(methods(double)).toHaveLength(1);
      double.requests.length = 0;
      expect(await driver.capacity?.available({}, call)).toBeGreaterThan(gib);
      expect(methods(double).filter(method => !/query$/.test(method))).toEqual([]);
      double.requests.length = 0;
      await snapshotsOf(driver).create("s", "pvc-1", {}, call);
      expect(methods(double).length).toBeLessThan(12);
    });
  });
});

test("volumes survive an upgrade of the system from 24.10 to 26", async () => {
  await on({ version: "24.10" }, "iscsi", async (driver, double) => {
    const made = await driver.create(volumeOf("pvc-1"), call);
    for (const version of ["25.10", "26.0"] as const) {
      double.away = true;
      double.cut();
      await refusal(getVolume(driver, made.id));
      double.restart(version);
      double.away = false;
      while ((await refusal(getVolume(driver, made.id))).code !== "ok") await pause(20);
      expect(await driver.create(volumeOf("pvc-1"), call)).toEqual(made);
      await driver.delete((await driver.create(volumeOf(`of-${version}`), call)).id, call);
    }
    await driver.delete(made.id, call);
    expect(remainsOf(double)).toEqual([]);
  });
});
