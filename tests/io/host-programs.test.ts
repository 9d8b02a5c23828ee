import { afterEach, beforeEach, expect, test } from "bun:test";
import { type ChildProcess, execFileSync, spawn } from "node:child_process";
import { once } from "node:events";
import { chmodSync, mkdirSync, mkdtempSync, readFileSync, rmSync, symlinkSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { hostPrograms } from "../../lib/io/host-programs.ts";
import { localRunner } from "../../lib/io/local.ts";
import type { Command, CommandRunner } from "../../lib/io/runner.ts";
import { isHostRoot } from "../root.ts";

const signal = new AbortController().signal;
const local = localRunner({ env: { PATH: process.env["PATH"] ?? "" } });

let folder = "";
const running: ChildProcess[] = [];
beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), "csimux-host-"));
});
afterEach(async () => {
  for (const child of running.splice(0)) {
    child.kill("SIGKILL");
    if (child.exitCode === null && child.signalCode === null) await once(child, "exit");
  }
  rmSync(folder, { recursive: true, force: true });
});

/** Keeps the commands, and runs none. */
function recording(): CommandRunner & { readonly seen: Command[] } {
  const seen: Command[] = [];
  return {
    where: "local",
    seen,
    async run(command) {
      seen.push(command);
      return { stdout: "", stderr: "", exitCode: 0 };
    },
  };
}

/** A host's /proc with these processes: their numbers, names and mount namespaces. */
function fakeProc(processes: readonly (readonly [pid: string, name: string, namespace: string])[]): string {
  const root = join(folder, "root");
  rmSync(root, { recursive: true, force: true });
  for (const [pid, name, namespace] of processes) {
    mkdirSync(join(root, "proc", pid, "ns"), { recursive: true });
    writeFileSync(join(root, "proc", pid, "comm"), `${name}\n`);
    symlinkSync(namespace, join(root, "proc", pid, "ns/mnt"));
  }
  return root;
}

test("a program of the host gets its variables in its environment, not in arguments, which every user can read", async () => {
  const runner = recording();
  const argv = ["mount.objectivefs", "a", "/b"] as const;
  await hostPrograms(runner, "/host").run({ argv, env: { SECRET_KEY: "s3cr3t" } }, signal);
  expect(runner.seen.map(each => each.argv.join(" "))).toEqual(["chroot /host mount.objectivefs a /b"]);
  expect(runner.seen[0]?.env).toMatchObject({ SECRET_KEY: "s3cr3t", PATH: expect.stringContaining("/usr/local/sbin") });
});

const system = ["1", "systemd", "mnt:[1]"] as const;
const chroot = (root: string) => `chroot ${root} iscsiadm -m session`;

test.each([
  ["no iscsid runs", [system], undefined],
  ["iscsid is in the host's mount namespace", [system, ["7", "iscsid", "mnt:[1]"]], undefined],
  ["iscsid has its own", [system, ["7", "iscsid", "mnt:[2]"], ["8", "iscsid", "mnt:[2]"]], "7"],
  ["a container has one, too", [system, ["7", "iscsid", "mnt:[2]"], ["9", "iscsid", "mnt:[1]"]], undefined],
  ["the host's processes are not seen", [["7", "iscsid", "mnt:[2]"]], undefined],
] as const)("iscsiadm runs where iscsid runs: %s", async (_title, processes, pid) => {
  const root = fakeProc(processes);
  const runner = recording();
  const host = hostPrograms(runner, root);
  await host.run({ argv: ["iscsiadm", "-m", "session"] }, signal);
  await host.run({ argv: ["multipath", "-l"] }, signal);
  const entered = `nsenter --mount=${root}/proc/${pid}/ns/mnt --net=${root}/proc/${pid}/ns/net -- iscsiadm -m session`;
  expect(runner.seen.map(({ argv }) => argv.join(" "))).toEqual([
    pid === undefined ? chroot(root) : entered,
    `chroot ${root} multipath -l`,
  ]);
  expect(await host.rootOf("iscsiadm")).toBe(pid === undefined ? root : `${root}/proc/${pid}/root`);
  expect(await host.rootOf("multipath")).toBe(root);
});

test("an iscsid that was started again is found, and so is another process with its old number", async () => {
  const root = fakeProc([system, ["7", "iscsid", "mnt:[2]"]]);
  const host = hostPrograms(recording(), root);
  expect(await host.rootOf("iscsiadm")).toBe(`${root}/proc/7/root`);
  fakeProc([system, ["7", "sh", "mnt:[2]"], ["11", "iscsid", "mnt:[3]"]]);
  expect(await host.rootOf("iscsiadm")).toBe(`${root}/proc/11/root`);
  fakeProc([system, ["11", "iscsid", "mnt:[4]"], ["7", "sh", "mnt:[2]"]]);
  expect(await host.rootOf("iscsiadm")).toBe(`${root}/proc/11/root`);
  fakeProc([system]);
  expect(await host.rootOf("iscsiadm")).toBe(root);
});

/** Starts a process that is called iscsid, with files of its own in its own mount namespace, as an extension of Talos has. Returns its number. */
async function startDaemon(number: number): Promise<string> {
  const program = join(folder, "iscsid");
  execFileSync("cp", ["--remove-destination", "/bin/sleep", program]);
  const script = `mount -t tmpfs own /mnt && mkdir /mnt/etc && echo ${number} > /mnt/etc/records &&
    printf '#!/bin/sh\\ncat /mnt/etc/records; echo "$@"\\n' > /mnt/iscsiadm && chmod 755 /mnt/iscsiadm &&
    mount --bind /mnt /usr/local/sbin && echo ready && exec ${program} 600`;
  const child = spawn("unshare", ["--mount", "--propagation", "private", "sh", "-c", script], {
    stdio: ["ignore", "pipe", "inherit"],
  });
  running.push(child);
  await once(child.stdout, "data");
  const named = () => readFileSync(`/proc/${child.pid}/comm`, "utf8").trim() === "iscsid";
  for (const end = Date.now() + 10_000; !named() && Date.now() < end; ) await new Promise(setImmediate);
  return String(child.pid);
}

test.skipIf(!isHostRoot)(
  "a real iscsid in a mount namespace of its own: its program and its files are found, also after its restart",
  async () => {
    // The first process of this machine may hide its namespaces, so another one is the host's here.
    const root = fakeProc([
      ["1", "systemd", execFileSync("readlink", ["/proc/self/ns/mnt"], { encoding: "utf8" }).trim()],
    ]);
    const host = hostPrograms(local, root);
    for (const number of [1, 2]) {
      const pid = await startDaemon(number);
      symlinkSync(`/proc/${pid}`, join(root, "proc", pid));
      const { stdout, exitCode } = await host.run({ argv: ["iscsiadm", "-m", "node"] }, signal);
      expect([exitCode, stdout]).toEqual([0, `${number}\n-m node\n`]);
      expect(readFileSync(join(await host.rootOf("iscsiadm"), "mnt/etc/records"), "utf8")).toBe(`${number}\n`);
      const [daemon] = running.splice(0);
      daemon?.kill("SIGKILL");
      if (daemon) await once(daemon, "exit");
    }
  },
);

test.skipIf(!isHostRoot)("a host without env and without a shell runs its programs", async () => {
  const root = join(folder, "bare");
  mkdirSync(join(root, "usr/local/sbin"), { recursive: true });
  // Statically linked, so that it needs nothing of the host (libc-bin of Debian).
  execFileSync("cp", ["/sbin/ldconfig", join(root, "usr/local/sbin/iscsiadm")]);
  chmodSync(join(root, "usr/local/sbin/iscsiadm"), 0o755);
  const host = hostPrograms(local, root);
  expect((await host.run({ argv: ["iscsiadm", "--version"] }, signal)).stdout).toContain("ldconfig");
  expect((await host.run({ argv: ["multipath", "-h"] }, signal)).exitCode).toBe(127);
});
