import { afterAll, beforeAll, expect, test } from "bun:test";
import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { mkdir, mkdtemp, readdir, readFile, rm, rmdir, writeFile } from "node:fs/promises";
import { join } from "node:path";
import type { World } from "../../serve/world.ts";
import { diskCases, limitMs } from "../disk-cases.ts";
import { mounting, show } from "../disk-volume.ts";
import { executable, startCsimux, unmountVolume } from "../rig.ts";
import { run, waitFor } from "../run.ts";
import { leftSince, traces } from "../traces.ts";
import { iscsiSessions, iscsiVolume, withTarget } from "./iscsi-target.ts";

// As on Talos: iscsid has a mount namespace and an /etc/iscsi of its own, and the host has no program at all, no shell, env or iscsiadm.
// csimux is in a mount and a process namespace of its own, has the privileges of the shipped pod, and the host's root at /host.

const units = ["iscsid.socket", "iscsid.service"];

let before: ReadonlySet<string>;
let world: World;
/** The folder that is /etc/iscsi for iscsid only. */
let own: string;
/** csimux's folders: what is mounted there is mounted for everybody, like kubelet's folder in the pod. */
let shared: string;
let daemon: ChildProcess | undefined;

/** What csimux is started with: one process is the first of its namespace, and another one outside passes signals to it. */
const pod = `set -e
mount --make-slave /
mount --make-rprivate /proc
mount -t tmpfs host /host
mkdir /host/proc
mount --rbind /proc /host/proc
mount --bind /dev/null /usr/sbin/iscsiadm
mount --bind /dev/null /usr/sbin/iscsid
exec unshare --pid sh -c '
sh -c "mount -t proc proc /proc && exec \\"\\$@\\"" first "$@" & child=$!
trap "kill -TERM $child" TERM
wait $child; code=$?
[ $code -le 128 ] || { wait $child; code=$?; }
exit $code' pod "$@"`;

async function startIscsid(): Promise<void> {
  const script = 'mount --bind "$1" /etc/iscsi && exec iscsid -f';
  // As a slave it sees the mounts of volumes end, which the container of an extension never sees at all.
  const argv = ["--mount", "--propagation", "slave", "sh", "-c", script, "iscsid", own] as const;
  daemon = spawn("unshare", argv, { stdio: ["ignore", "inherit", "inherit"] });
  daemon.on("error", () => {});
  const listens = async () => (await readFile("/proc/net/unix", "utf8")).includes("@ISCSIADM_ABSTRACT_NAMESPACE");
  await waitFor("iscsid", async () => ((await listens()) ? true : undefined));
}

async function killIscsid(): Promise<void> {
  const last = daemon;
  daemon = undefined;
  if (!last || last.exitCode !== null || last.signalCode !== null) return;
  last.kill("SIGKILL");
  await once(last, "exit");
}

beforeAll(async () => {
  before = await traces();
  // Masked, because iscsiadm starts them when no iscsid answers (iscsid.conf, iscsid.startup).
  await run(["systemctl", "mask", "--runtime", "--now", ...units]);
  own = await mkdtemp("/var/tmp/iscsi-");
  await run(["cp", "/etc/iscsi/iscsid.conf", "/etc/iscsi/initiatorname.iscsi", own]);
  await startIscsid();
  shared = await mkdtemp("/var/tmp/shared-");
  await run(["mount", "--bind", shared, shared]);
  // Not of the group of the root's mount, or each mount would appear below it as well.
  for (const kind of ["--make-private", "--make-shared"]) await run(["mount", kind, shared]);
  process.env["TMPDIR"] = shared;
  await mkdir("/host");
  const command = ["unshare", "--mount", "--propagation", "unchanged", "sh", "-c", pod, "pod", executable] as const;
  world = await startCsimux({ connections: {}, command });
}, limitMs);
afterAll(async () => {
  expect(await world.end()).toEqual([]);
  await rmdir("/host");
  await run(["umount", shared]);
  await rmdir(shared);
  await killIscsid();
  await rm(own, { recursive: true });
  await run(["systemctl", "unmask", "--runtime", ...units]);
  await run(["systemctl", "start", "iscsid.socket"]);
  expect(await leftSince(before)).toEqual([]);
}, limitMs);

const recordsIn = (folder: string): Promise<readonly string[]> => readdir(join(folder, "nodes")).catch(() => []);

diskCases({
  world: () => world,
  during: work => withTarget(() => world, work),
  volumes: [iscsiVolume(), iscsiVolume({ lun: "1" })],
  sessions: iscsiSessions,
});

test(
  "without iscsid nothing is attached or left, the message names iscsiadm, and the next try works",
  async () => {
    await withTarget(
      () => world,
      async () => {
        await killIscsid();
        const refused = show(world, iscsiVolume(), { capability: mounting("ext4") });
        await expect(refused).rejects.toThrow(/FAILED_PRECONDITION.*iscsiadm is not installed/s);
        expect(await recordsIn(own)).toEqual([]);
        await startIscsid();
        await show(world, iscsiVolume(), { capability: mounting("ext4") });
        await unmountVolume(world, iscsiVolume());
      },
    );
  },
  limitMs,
);

test(
  "an iscsid that is killed and started again while a volume is mounted: its session is used, and ended with the last volume",
  async () => {
    await withTarget(
      () => world,
      async () => {
        const [first, second] = [iscsiVolume(), iscsiVolume({ lun: "1" })];
        const options = { capability: mounting("ext4") };
        const path = await show(world, first, options);
        expect(await recordsIn(own)).toEqual([first.volumeContext["iqn"] ?? ""]);
        expect(await recordsIn("/etc/iscsi")).toEqual([]);
        await killIscsid();
        await startIscsid();
        await writeFile(join(path, "hello"), "still there");
        await show(world, second, options);
        expect(await iscsiSessions()).toBe(1);
        for (const each of [second, first]) await unmountVolume(world, each);
        expect(await iscsiSessions()).toBe(0);
        expect(await recordsIn(own)).toEqual([]);
        expect(await readFile(join(await show(world, first, options), "hello"), "utf8")).toBe("still there");
        await killIscsid();
        await startIscsid();
        await unmountVolume(world, first);
        expect(await iscsiSessions()).toBe(0);
      },
    );
  },
  limitMs,
);
