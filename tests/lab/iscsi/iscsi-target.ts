import type { World } from "../../serve/world.ts";
import { takeDown } from "../disk-volume.ts";
import type { Made } from "../rig.ts";
import { run } from "../run.ts";
import { type Chap, destroyZvol, iqn, makeTarget, makeZvol, removeTarget } from "../zfs/lio.ts";

/** A target with LUNs 0 and 1, each a zvol of 320 MiB, while `work` uses it. `grow` expands the first one to 640 MiB. */
export async function withTarget(
  world: () => World,
  work: (grow: () => Promise<void>) => Promise<void>,
  chap: Chap = {},
): Promise<void> {
  const names = ["disk0", "disk1"];
  for (const name of names) await makeZvol(name);
  try {
    await makeTarget(names, chap);
    await work(async () => {
      await run(["zfs", "set", "volsize=640M", "tank/disk0"]);
    });
  } finally {
    await takeDown(world());
    await removeTarget();
    for (const name of names) await destroyZvol(name);
  }
}

/** LUN 0 of that target over one path; `more` are other values of its context. */
export const iscsiVolume = (more: Readonly<Record<string, string>> = {}): Made => ({
  volumeId: `v:lab/${more["lun"] ?? "disk"}`,
  volumeContext: { node_attach_driver: "iscsi", iqn, lun: "0", portal: "127.0.0.1:3260", portals: "", ...more },
});

/** The number of this machine's iSCSI sessions. */
export const iscsiSessions = async (): Promise<number> =>
  Number(await run(["sh", "-c", "ls /sys/class/iscsi_session 2>/dev/null | wc -l"]));
