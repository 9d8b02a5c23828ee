import { randomUUID } from "node:crypto";
import {
  closeSync,
  constants,
  fstatSync,
  ftruncateSync,
  openSync,
  readFileSync,
  readSync,
  statSync,
  writeSync,
} from "node:fs";
import type { CommandRunner } from "./runner.ts";

const { O_CREAT, O_NOFOLLOW, O_RDWR } = constants;

/** The longest file, in bytes. */
const mostBytes = 512;

/** How long flock(1) may take, in milliseconds; it does not wait for the lock. */
const lockMs = 5_000;

const shape = /^([0-9a-f-]{36}) ([0-9a-f-]{36}) (\d{1,20})\n$/;

/**
 * An id that passes from one process to the next with the file at `path`, and never belongs to two at once: this process holds the lock of
 * the file (flock(2)) until it ends in whatever way, and gets the id only with that. So a process that has it proves that every earlier
 * process with the id has ended. The id counts only in the boot in which it was written, because the lock is one of this kernel, and only in
 * that very file, because a copy of the file has a lock of its own. Undefined if the lock is held, or nothing can be proved.
 */
export async function lockedId(path: string, { child }: CommandRunner): Promise<string | undefined> {
  if (!child) return undefined;
  let file: number | undefined;
  try {
    file = openSync(path, O_RDWR | O_CREAT | O_NOFOLLOW, 0o600);
    // The lock belongs to the open file, which the program gets as its stdin, and stays with this process when the program has ended.
    const argv = ["flock", "--nonblock", "--exclusive", "0"] as const;
    const lock = await child(argv, { stdin: file }, AbortSignal.timeout(lockMs));
    if ((await lock.ended).exitCode !== 0) throw new Error("the lock is held");
    const { ino, dev } = fstatSync(file, { bigint: true });
    const present = statSync(path, { bigint: true });
    if (present.ino !== ino || present.dev !== dev) throw new Error("the file was replaced");
    const boot = readFileSync("/proc/sys/kernel/random/boot_id", "latin1").trim();
    const buffer = Buffer.alloc(mostBytes);
    const text = buffer.toString("latin1", 0, readSync(file, buffer, 0, mostBytes, 0));
    const [, id = "", ofBoot, ofFile] = shape.exec(text) ?? [];
    if (ofBoot === boot && ofFile === String(ino)) return id;
    const fresh = randomUUID();
    ftruncateSync(file);
    writeSync(file, `${fresh} ${boot} ${ino}\n`, 0, "latin1");
    return fresh;
  } catch {
    if (file !== undefined) closeSync(file);
    return undefined;
  }
}
