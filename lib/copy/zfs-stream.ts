/**
 * What `zfs send` and `zfs receive` print, in the C locale (OpenZFS 2.4.99, lib/libzfs/libzfs_sendrecv.c and libzfs_util.c; the messages
 * have been the same since 0.8). Both exit with 1 for every failure, so only the messages distinguish them.
 */

/**
 * Why a stream failed: the receiver's pool or programs do not support one of its features ("unsupported"); its resume token is no longer
 * valid ("token"); the target is full ("full"); a person must change something first ("refused").
 */
export type ZfsStreamFault = "unsupported" | "token" | "full" | "refused";

/** Each fault with its messages, and what to do. */
const faults: readonly (readonly [ZfsStreamFault, RegExp, string])[] = [
  [
    "unsupported",
    /pool must be upgraded to receive|unsupported version or feature|stream has unsupported feature|kernel modules must be upgraded/,
    "upgrade the pool or ZFS of the target",
  ],
  [
    "token",
    /used in the initial send|incremental source 0x\w+ no longer exists|resume token is corrupt/,
    "retrying from the beginning",
  ],
  [
    "full",
    /out of space|space quota exceeded|No space left on device|[Qq]uota exceeded/,
    "free space on the target, or raise its quota; then the copy continues where it stopped",
  ],
  ["refused", /key must be loaded/, "load the key of the dataset (zfs load-key)"],
  [
    "refused",
    /password is required|not allowed to execute|not in the sudoers/,
    "allow the account to run zfs by sudo without a password",
  ],
  ["refused", /permission denied/i, "give the account the permissions (zfs allow, or sudo)"],
  ["refused", /command not found|: not found$|failed to execute/m, "install ZFS, or correct the path of zfs"],
  [
    "refused",
    /has been modified|does not\s+match incremental source|destination already exists|requires -L|need -L|crypto parameters/,
    "cancel the copy, and let it start again",
  ],
];

/** The fault in a program's messages, and what to do about it; undefined for all others, which the next attempt may not meet. */
export function faultOf(words: string): { readonly fault: ZfsStreamFault; readonly advice: string } | undefined {
  const found = faults.find(([, pattern]) => pattern.test(words));
  return found && { fault: found[0], advice: found[2] };
}

/** Whether `zfs send` reports that a snapshot does not exist (libzfs_dataset.c, zfs_open): it was destroyed, or its pool is not imported. */
export const saysAbsent = (words: string, snapshot: string): boolean =>
  words.includes(`cannot open '${snapshot}': dataset does not exist`);

/** A line of `zfs send -vP` each second: the time, the bytes so far and the snapshot. */
const progressLine = /^\d\d:\d\d:\d\d\t(\d+)\t/;

/** Other lines of `zfs send -vP`: the estimate, and the content of a token. */
const otherLine = /^(full|incremental|size)\t|^resume token contents|^nvlist version|^\t/;

/** Before the token, which `zfs receive -s` prints when a stream ends early. */
const tokenAdvice = "A resuming stream can be generated";

/** What a program reports, without the lines of `zfs send -vP` and without a token: in one line, cut to 300 characters. */
export const wordsOf = (stderr: string): string =>
  (stderr.split(tokenAdvice)[0] ?? "")
    .split("\n")
    .filter(line => line.trim() !== "" && !progressLine.test(line) && !otherLine.test(line))
    .map(line => line.trim())
    .join(" ")
    .slice(0, 300);

/** Finds the bytes so far in the stderr of `zfs send -vP`, which arrives in pieces. */
export function sentBytes(report: (bytes: bigint) => void): (chunk: Uint8Array) => void {
  let rest = "";
  return chunk => {
    const lines = (rest + Buffer.from(chunk).toString("latin1")).split("\n");
    rest = (lines.pop() ?? "").slice(-4096);
    const last = lines.map(line => progressLine.exec(line)?.[1]).findLast(bytes => bytes !== undefined);
    if (last !== undefined) report(BigInt(last));
  };
}
