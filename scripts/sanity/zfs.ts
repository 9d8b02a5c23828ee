import { writeFile } from "node:fs/promises";
import { join } from "node:path";
import { fakeZfs } from "../../tests/fakes/zfs/pools.ts";
import type { Sandbox } from "../sandbox.ts";
import type { Storage } from "./storages.ts";

const zfs = { datasetParentName: "tank/k/v", detachedSnapshotsDatasetParentName: "tank/k/s" };
const quotas = { ...zfs, datasetEnableQuotas: true };
const byProperty = (name: string, value: string) => ({
  shareHost: "127.0.0.1",
  shareStrategy: "setDatasetProperties",
  shareStrategySetDatasetProperties: { properties: { [name]: value } },
});
const attributes = { allow_any_host: 1 };
const nvmet = { basename: "nqn.2025-01.org.example:zfs", ports: ["1", "2"], subsystem: { attributes } };
const reach = { transport: "tcp://127.0.0.1:4420" };

/** The connection files by driver. */
const files = {
  "zfs-generic-nfs": { driver: "zfs-generic-nfs", zfs: quotas, nfs: byProperty("sharenfs", "rw") },
  "zfs-generic-smb": { driver: "zfs-generic-smb", zfs: quotas, smb: byProperty("sharesmb", "on") },
  "zfs-generic-iscsi": {
    driver: "zfs-generic-iscsi",
    zfs,
    iscsi: {
      targetPortal: "127.0.0.1:3260",
      shareStrategy: "targetCli",
      shareStrategyTargetCli: { basename: "iqn.2025-01.org.example:zfs" },
    },
  },
  "zfs-generic-nvmeof": {
    driver: "zfs-generic-nvmeof",
    zfs,
    nvmeof: { ...reach, shareStrategy: "nvmetCli", shareStrategyNvmetCli: nvmet },
  },
  "zfs-local-dataset": { driver: "zfs-local-dataset", zfs: quotas },
  "zfs-local-zvol": { driver: "zfs-local-zvol", zfs },
} as const;

/** Drivers that the suite is run against. */
export const zfsDrivers = Object.keys(files) as readonly (keyof typeof files)[];

/**
 * Runs csimux in a separate mount namespace, in which the model provides the kernel's view of targets and udev's of zvols.
 * Nothing of it is visible outside.
 */
const inside = `mount -t tmpfs csimux /sys
mkdir -p /sys/kernel/config
ln -s "$1/lio" /sys/kernel/config/target
ln -s "$1/nvmet" /sys/kernel/config/nvmet
dev="$1/devices"
mkdir -p "$dev"
mount -t tmpfs csimux "$dev"
for each in null zero full random urandom; do touch "$dev/$each"; mount --bind "/dev/$each" "$dev/$each"; done
mkdir "$dev/shm"
ln -s "$1/dev" "$dev/zvol"
mount --rbind "$dev" /dev
shift
exec "$@"`;

/** A host with a pool, and the connection "zfs" with this driver. */
export async function beginZfs(driver: (typeof zfsDrivers)[number], { connections }: Sandbox): Promise<Storage> {
  const fake = await fakeZfs();
  // Without it, nothing is reported as deleted.
  fake.zfs("create", "-p", zfs.datasetParentName);
  await writeFile(join(connections, "zfs.yaml"), JSON.stringify(files[driver]));
  return {
    left: async () => [
      ...fake
        .with(pools => pools.all().map(({ name }) => name))
        .filter(name => !/^tank(?:\/k(?:\/[vs])?)?$/.test(name)),
      ...fake.targets(),
    ],
    stop: () => fake.close(),
    env: { PATH: `${fake.bin}:/usr/sbin:/usr/bin:/sbin:/bin` },
    wrap: ["unshare", "--mount", "sh", "-ec", inside, "sh", fake.folder],
  };
}
