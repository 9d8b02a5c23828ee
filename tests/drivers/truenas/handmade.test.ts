import { describe, expect, test } from "bun:test";
import type { Driver } from "../../../lib/drivers/driver.ts";
import { callWith, gib, volumeOf } from "../../contract/rig.ts";
import type { Double } from "../../fakes/truenas/double.ts";
import type { Row } from "../../fakes/truenas/state.ts";
import { scaleVersions, type Version, versions } from "../../fakes/truenas/versions.ts";
import { datasetOf } from "./foreign.ts";
import { type Protocol, protocolsOf, refusal, truenasRig } from "./rig.ts";
import { sshRig } from "./ssh-rig.ts";

/** What a person made under the very name that csimux would use stays as it is, and the call says what exists there. */

const call = callWith();
const theirs = "tank/theirs";
const isDisk = (protocol: Protocol): boolean => protocol === "iscsi" || protocol === "nvmeof";

/** A driver with its storage, and how a person makes a dataset there by hand. */
interface Rig {
  readonly driver: Driver;
  readonly double: Double;
  makeDataset(name: string): void;
  close(): Promise<void>;
}

async function overApi(protocol: Protocol, version: Version) {
  const { double, open, close } = await truenasRig(protocol, { version });
  const { state } = double;
  return {
    driver: open(),
    double,
    parent: "tank/k8s/v",
    makeDataset(name: string) {
      state.datasets[name] = datasetOf(name, isDisk(protocol) ? "VOLUME" : "FILESYSTEM", 77);
    },
    /** Everything on the storage, to compare. */
    all: () => structuredClone([state.datasets, state.snapshots, state.tables]),
    close,
  };
}

async function overSsh(protocol: Protocol, version: Version): Promise<Rig> {
  const { double, fake, open, close } = await sshRig(protocol, version);
  return {
    driver: open(),
    double,
    makeDataset: name => fake.zfs("create", ...(isDisk(protocol) ? ["-s", "-V", String(gib)] : []), name),
    close,
  };
}

/** Something under the name of a volume's: it is the volume's own, made by an interrupted creation, until `takeOver` gives it to others. */
interface Foreign {
  readonly what: string;
  readonly protocol: Protocol;
  /** The request after which the creation breaks off. */
  readonly after: RegExp;
  takeOver(double: Double): void;
}

const lastOf = (rows: readonly Row[]): Row => rows.at(-1) ?? { id: 0 };

const foreigners: readonly Foreign[] = [
  {
    what: "SMB share",
    protocol: "smb",
    after: /^sharing\.smb\.create$/,
    takeOver: ({ state: { tables } }) => Object.assign(lastOf(tables.smb), { path: `/mnt/${theirs}` }),
  },
  {
    what: "iSCSI extent",
    protocol: "iscsi",
    after: /^iscsi\.extent\.create$/,
    takeOver: ({ state: { tables } }) => Object.assign(lastOf(tables.extent), { disk: `zvol/${theirs}` }),
  },
  {
    what: "iSCSI target",
    protocol: "iscsi",
    after: /^iscsi\.target\.create$/,
    takeOver({ state: { tables } }) {
      tables.extent.push({ ...lastOf(tables.extent), id: 90, name: "theirs", disk: `zvol/${theirs}` });
      tables.targetextent.push({ id: 90, target: lastOf(tables.target).id, extent: 90, lunid: 0 });
    },
  },
  {
    what: "NVMe subsystem",
    protocol: "nvmeof",
    after: /^nvmet\.subsys\.create$/,
    takeOver({ state: { tables } }) {
      const subsys_id = lastOf(tables.nvmetSubsys).id;
      tables.nvmetNamespace.push({ id: 90, nsid: 1, device_type: "ZVOL", device_path: `zvol/${theirs}`, subsys_id });
    },
  },
];

const reaches = [
  ["the API", scaleVersions, overApi],
  ["ssh", versions, overSsh],
] as const;

for (const [reach, reachable, open] of reaches)
  describe.each(reachable)(`on TrueNAS %s over ${reach}`, version => {
    test.concurrent.each(foreigners.filter(({ protocol }) => protocolsOf(version).includes(protocol)))(
      "a $what of others with the name of a volume's is named in the refusal and stays unchanged",
      async ({ what, protocol, after, takeOver }) => {
        const { driver, double, makeDataset, close } = await open(protocol, version);
        double.faults.loseOnce(after, "after");
        expect(await refusal(driver.create(volumeOf("pvc-1"), call))).toMatchObject({ code: "unavailable" });
        makeDataset(theirs);
        takeOver(double);
        const before = structuredClone(double.state.tables);
        const { code, message } = await refusal(driver.create(volumeOf("pvc-1"), call));
        expect([code, message]).toEqual([
          "failed-precondition",
          expect.stringMatching(new RegExp(`the ${what} "pvc-1.*exists`)),
        ]);
        await driver.delete("pvc-1", call);
        // The extent of the volume, made before its target, goes with the volume.
        const kept = before.extent.filter(({ disk }) => disk === `zvol/${theirs}`);
        expect(double.state.tables).toEqual(what === "iSCSI target" ? { ...before, extent: kept } : before);
        await close();
      },
    );
  });

/** Up to 25.10 pool.dataset.delete removes everything that serves a dataset before it refuses. */
describe.each(scaleVersions)("on TrueNAS %s", version => {
  test.concurrent.each(["nfs", "iscsi"] as const)(
    "a deletion over %s that is refused because of a clone leaves all shares and targets, also those made by hand",
    async protocol => {
      const { driver, double, parent, all, close } = await overApi(protocol, version);
      const { id } = await driver.create(volumeOf("pvc-1"), call);
      const clone = await driver.create(volumeOf("clone", gib, { kind: "volume", id }), call);
      double.state.tables.smb.push({ id: 9, name: "by-hand", path: `/mnt/${parent}/${id}/sub`, enabled: true });
      const before = all();
      expect((await refusal(driver.delete(id, call))).code).toBe("failed-precondition");
      expect(all()).toEqual(before);
      await driver.delete(clone.id, call);
      await driver.delete(id, call);
      expect(Object.keys(double.state.datasets).some(name => name.startsWith(`${parent}/`))).toBe(false);
      await close();
    },
  );
});
