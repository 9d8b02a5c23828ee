import { expect, test } from "bun:test";
import type { Driver } from "../../../../lib/drivers/driver.ts";
import { codeOf } from "../../../contract/driver-volumes.ts";
import { perTest } from "../../../contract/per-test.ts";
import { callWith, snapshotIds, snapshotsOf, volumeIds, volumeOf } from "../../../contract/rig.ts";
import { around, dataset, type ZfsRig, zfsRig } from "../zfs-rig.ts";

const call = callWith();
const opened = perTest(zfsRig);

/** What zfs says of a damaged dataset in a list, which ends there with 0 (OpenZFS 2.0 to 2.4, lib/libzfs/libzfs_iter.c, zfs_do_list_ioctl). */
const words = "cannot iterate filesystems: I/O error\n";

/** A driver on a host that lists nothing of these volumes and behind them. */
const withoutVolumes = (rig: ZfsRig, ...ids: readonly string[]): Driver =>
  rig.on(
    around(rig.host, async (_, run) => {
      const outputs = [...(await run())].map(([name, output]) => {
        if (!/^(?:list|names|below .*)$/.test(name)) return [name, output] as const;
        const left = output.stdout.split("\n").filter(line => !ids.some(id => line.startsWith(dataset(id))));
        return [name, { ...output, stdout: left.join("\n"), stderr: `${output.stderr}${words}` }] as const;
      });
      return new Map(outputs);
    }),
  );

test.each(["zfs-generic-nfs", "zfs-generic-iscsi"])(
  "%s: what a damaged dataset keeps zfs from listing is neither reported as deleted nor made again",
  async driver => {
    const rig = await opened({ driver });
    const whole = rig.open();
    for (const id of ["a", "b"]) await whole.create(volumeOf(id), call);
    await whole.groupSnapshots?.create("g", ["a", "b"], {}, call);
    await snapshotsOf(whole).create("s", "a", {}, call);
    const cut = withoutVolumes(rig, "a", "b");
    expect(await codeOf(cut.groupSnapshots?.delete("g", [], call) ?? Promise.resolve())).toBe("unavailable");
    expect(await codeOf(snapshotsOf(cut).create("s", "b", {}, call))).toBe("unavailable");
    expect(await codeOf(snapshotIds(cut))).toBe("unavailable");
    expect(await codeOf(volumeIds(cut))).toBe("unavailable");
    expect(await codeOf(cut.delete("a", call))).not.toBe("ok");
    await whole.groupSnapshots?.delete("g", [], call);
    await snapshotsOf(whole).delete("a@s", call);
    for (const id of ["a", "b"]) await whole.delete(id, call);
    expect(await rig.remains()).toEqual([]);
  },
);
