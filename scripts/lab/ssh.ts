import type { ChildProcess } from "node:child_process";
import { join } from "node:path";
import { setTimeout as pause } from "node:timers/promises";
import { quoted } from "../../lib/io/script.ts";
import { type Spawned, type SpawnOptions, spawned } from "../spawned.ts";
import { guestPorts, hostPort } from "./machine.ts";
import { cache, type Image } from "./place.ts";

/** ssh to a guest, as root. */
export interface Ssh {
  /** The equivalent ssh command line, without a remote command. */
  readonly argv: readonly [string, ...string[]];
  /** Runs a command in the guest. Arguments are quoted. */
  run(argv: readonly string[], options?: SpawnOptions): Promise<Spawned>;
  /** Closes the connection that is kept open between commands. */
  close(): Promise<void>;
}

/**
 * Fast algorithms, and one connection for all commands: a new one takes a second on an emulated processor.
 * A guest's host key changes with every guest, so it is not verified.
 */
function sshArguments(image: Image, number: number): readonly [string, ...string[]] {
  const options = [
    "StrictHostKeyChecking=no",
    "UserKnownHostsFile=/dev/null",
    "LogLevel=ERROR",
    "IdentitiesOnly=yes",
    "KexAlgorithms=curve25519-sha256",
    "Ciphers=aes128-ctr",
    "ConnectTimeout=15",
    "ControlMaster=auto",
    `ControlPath=${join(cache, `ssh-${number}`)}`,
    "ControlPersist=120",
  ];
  const port = String(hostPort(number, guestPorts.ssh));
  return [
    "ssh",
    "-F",
    "none",
    "-i",
    image.key,
    "-p",
    port,
    ...options.flatMap(option => ["-o", option]),
    "root@127.0.0.1",
  ];
}

/** ssh to a guest of an image. Connects on first use. */
export function sshTo(image: Image, number: number): Ssh {
  const argv = sshArguments(image, number);
  return {
    argv,
    run: (command, options) => spawned([...argv, command.map(quoted).join(" ")], { cwd: "/", ...options }),
    async close() {
      const [program, ...rest] = argv;
      await spawned([program, "-O", "exit", ...rest], { cwd: "/", timeoutMs: 5000 });
    },
  };
}

/** Waits until a guest answers; throws if its machine has ended or after `timeoutMs`. */
export async function waitForSsh(ssh: Ssh, machine: ChildProcess, timeoutMs: number): Promise<void> {
  const until = Date.now() + timeoutMs;
  for (;;) {
    const { code, stderr } = await ssh.run(["true"], { timeoutMs: 20_000 });
    if (code === 0) return;
    if (machine.exitCode !== null || machine.signalCode !== null)
      throw new Error("the machine has ended; see qemu.log and console.log");
    if (Date.now() > until) throw new Error(`no ssh after ${timeoutMs / 1000} s: ${stderr.trim()}`);
    await pause(300);
  }
}
