import { writeFile } from "node:fs/promises";
import { join } from "node:path";
import { type Double, startDouble } from "../../tests/fakes/truenas/double.ts";
import { datasetsOf } from "../../tests/fakes/truenas/on-zfs.ts";
import { tableNames } from "../../tests/fakes/truenas/state.ts";
import { numberOf, type Version, versions } from "../../tests/fakes/truenas/versions.ts";
import { fakeZfs } from "../../tests/fakes/zfs/pools.ts";
import { startSshd } from "../../tests/io/ssh/sshd.ts";
import type { Sandbox } from "../sandbox.ts";
import type { Storage } from "./storages.ts";

/** The TrueNAS drivers on a double of each version that supports them: with the API only, and with ZFS over ssh. */

const shares = {
  nfs: { nfs: { shareHost: "127.0.0.1" } },
  smb: { smb: { shareHost: "127.0.0.1" } },
  iscsi: { iscsi: { targetPortal: "127.0.0.1", targetGroups: [{ targetGroupPortalGroup: "main" }] } },
  nvmeof: { nvmeof: { transports: ["tcp://127.0.0.1:4420"] } },
} as const;

type Way = keyof typeof shares;

const usual = /^tank(?:\/k(?:\/[vs])?)?$/;

/** The connection file "nas". */
function writeFileFor(way: Way, nas: Double, { connections }: Sandbox, driver: string, more: object): Promise<void> {
  const httpConnection = { protocol: "http", host: "127.0.0.1", port: nas.port, apiKey: "1-secret" };
  const quotas = way === "nfs" || way === "smb" ? { datasetEnableQuotas: true } : {};
  const zfs = { datasetParentName: "tank/k/v", detachedSnapshotsDatasetParentName: "tank/k/s", ...quotas };
  const file = { driver, httpConnection, zfs, ...shares[way], ...more };
  return writeFile(join(connections, "nas.yaml"), JSON.stringify(file));
}

/** Returns a function that lists the tables of a double that have changed in length since. */
function changedTables({ state }: Double): () => readonly string[] {
  const before = tableNames.map(name => state.tables[name].length);
  return () => tableNames.filter((name, at) => state.tables[name].length !== before[at]);
}

/** A TrueNAS with datasets over its API. */
const beginApi =
  (way: Way, version: Version) =>
  async (sandbox: Sandbox): Promise<Storage> => {
    const nas = await startDouble({ version });
    const changed = changedTables(nas);
    await writeFileFor(way, nas, sandbox, `truenas-api-${way}`, {});
    const left = async () => [
      ...Object.keys(nas.state.datasets).filter(name => !usual.test(name)),
      ...Object.keys(nas.state.snapshots),
      ...changed(),
    ];
    return { left, stop: () => nas.close() };
  };

/** A TrueNAS with a real sshd, with a model of zfs on the PATH of its sessions; the double shares its datasets. */
const beginSsh =
  (way: Way, version: Version) =>
  async (sandbox: Sandbox): Promise<Storage> => {
    const fake = await fakeZfs();
    const sshd = await startSshd({ env: { PATH: `${fake.bin}:/usr/sbin:/usr/bin:/sbin:/bin` } });
    const nas = await startDouble({ version, elsewhere: datasetsOf(fake) });
    const changed = changedTables(nas);
    const { port, clientKey: privateKey, hostKey } = sshd;
    const sshConnection = { host: "127.0.0.1", port, username: "root", privateKey, hostKey };
    await writeFileFor(way, nas, sandbox, `truenas-${way}`, { sshConnection });
    const left = async () => {
      const names = fake.with(pools => pools.all().map(({ name }) => name));
      return [...names.filter(name => !usual.test(name)), ...changed()];
    };
    const stop = async () => {
      await nas.close();
      await sshd.stop();
      await fake.close();
    };
    return { left, stop };
  };

/** The default selection: most protocols, each generation of the API. The others run if named. */
const usualOnes: readonly string[] = ["api-smb 24.10", "api-iscsi 25.10", "api-nfs 26.0", "iscsi 24.10", "nvmeof 26.0"];

const ways = ["nfs", "smb", "iscsi", "nvmeof"] as const;

/** Variants for sanity.ts. */
export const truenasVariants = (["api-", ""] as const).flatMap(reach =>
  ways.flatMap(way =>
    versions
      .filter(version => numberOf(version) >= (way === "nvmeof" ? 2510 : reach === "" ? 0 : 2108))
      .map(version => ({
        name: `truenas-${reach}${way} on TrueNAS ${version}, without nodes`,
        kind: "off" as const,
        parameters: { connection: "nas" },
        leave: "Node Service",
        begin: (reach === "" ? beginSsh : beginApi)(way, version),
        named: !usualOnes.includes(`${reach}${way} ${version}`),
      })),
  ),
);
