import { describe, expect, test } from "bun:test";
import { spawnSync } from "node:child_process";
import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { startProcess } from "../../../../lib/io/long-running-process.ts";
import type { StorageHost } from "../../../../lib/io/script.ts";
import { Worker } from "../../../../lib/io/ssh/worker.ts";
import { perTest } from "../../../contract/per-test.ts";
import { callWith, snapshotsOf, volumeOf } from "../../../contract/rig.ts";
import { zfsRig } from "../zfs-rig.ts";

// The processes that a storage host behind ssh starts for one call, in the shell that runs csimux's scripts there. A process costs the host a
// millisecond and more, and with sudo there are two. What zfs itself starts, such as exportfs, is not counted.

/** A shell with numbers of processes of its own, one after the other (pid_namespaces(7)), which containers often refuse. */
const shell = ["unshare", "-U", "-r", "-p", "-f", "sh"] as const;
const canCount = spawnSync(shell[0], [...shell.slice(1), "-c", ":"]).status === 0;

const call = callWith();
/** The name of a claim's volume. */
const claim = "pvc-0b6f8a1e-5f0c-4e1d-9a6b-1d2c3e4f5a6b";
const opened = perTest(zfsRig);

/** The storage of a model behind a shell, as ssh starts it. */
async function counted(driverName: string) {
  const zfs = /nfs|smb/.test(driverName) ? { datasetPermissionsMode: "0770" } : {};
  const rig = await opened({ driver: driverName, programs: true, zfs });
  const { bin, folder } = rig.fake;
  const asSamba = `#!/bin/sh\n[ "$1" = /var/lib/samba/usershares ] && set -- '${folder}/usershares'\nexec /bin/ls "$@"\n`;
  writeFileSync(join(bin, "ls"), asSamba, { mode: 0o755 });
  const env = { PATH: `${bin}:/usr/sbin:/usr/bin:/sbin:/bin` };
  const worker = await Worker.open("host", listener => startProcess(shell, env, listener), 30_000);
  /** The number of the last process (proc(5), /proc/loadavg), which is this cat. */
  const last = async (): Promise<number> => {
    const outputs = await worker.run({ steps: [{ name: "last", argv: ["cat", "/proc/loadavg"] }] }, call.signal);
    return Number(outputs.get("last")?.stdout.trim().split(" ").at(-1));
  };
  let trips = 0;
  const host: StorageHost = {
    ...rig.host,
    script: (whole, signal) => {
      trips++;
      return worker.run(whole, signal);
    },
  };
  const between = async (work: () => Promise<unknown> | undefined): Promise<number> => {
    const before = await last();
    await work();
    return (await last()) - before;
  };
  const own = await between(async () => {});
  /** The processes of some work, and its scripts. */
  const cost = async (work: () => Promise<unknown> | undefined): Promise<string> => {
    trips = 0;
    const processes = (await between(work)) - own;
    return `${processes} in ${trips}`;
  };
  return { driver: rig.on(host), cost, close: () => worker.close() };
}

describe.skipIf(!canCount)("a storage host behind ssh starts this number of processes", () => {
  test.each([
    ["zfs-generic-nfs", ["6 in 1", "3 in 2", "3 in 1", "6 in 2"]],
    ["zfs-generic-smb", ["8 in 4", "3 in 2", "3 in 1", "7 in 2"]],
    ["zfs-generic-iscsi", ["13 in 3", "3 in 2", "3 in 1", "7 in 3"]],
    ["zfs-generic-nvmeof", ["13 in 3", "3 in 2", "3 in 1", "7 in 3"]],
  ])("%s: %j to create, to take a snapshot, to delete that, to delete", async (name, wanted) => {
    const { driver, cost, close } = await counted(name);
    // The first of each needs more: the datasets above, and the names of all snapshots.
    await driver.create(volumeOf("first"), call);
    await snapshotsOf(driver).create("s-first", "first", {}, call);
    const found = [
      await cost(() => driver.create(volumeOf(claim), call)),
      await cost(() => snapshotsOf(driver).create("s", claim, {}, call)),
      await cost(() => snapshotsOf(driver).delete(`${claim}@s`, call)),
      await cost(() => driver.delete(claim, call)),
    ];
    close();
    expect(found).toEqual(wanted);
  });
});
