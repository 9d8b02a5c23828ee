import type { Code } from "../../core/errors.ts";
import type { ErrorMapping } from "../failure.ts";
import { ZfsError, type ZfsFailure } from "./zfs.ts";

/** What a refusal of ZFS means to a caller, and what to do about it. */
const meanings: Readonly<Record<ZfsFailure, readonly [Code, string]>> = {
  absent: ["not-found", "it does not exist"],
  "parent-absent": ["aborted", "another call may be creating it; repeat the call"],
  "pool-absent": ["unavailable", "correct the dataset names of the connection, or import the pool"],
  exists: ["aborted", "something of this name exists; repeat the call"],
  busy: ["aborted", "somebody uses it still; repeat the call"],
  used: ["failed-precondition", "it stays as it was"],
  unshared: ["failed-precondition", "it is not shared: set its sharenfs or sharesmb again, or delete the volume"],
  dependents: ["failed-precondition", "delete what was made from it first"],
  held: ["failed-precondition", "a snapshot is held (zfs holds); release it first"],
  full: ["resource-exhausted", "the pool, or the quota above it, is full"],
  denied: ["permission-denied", "let the account run zfs: as root, with sudo without a password, or with zfs allow"],
  suspended: ["unavailable", "the pool is suspended: mend its disks, then zpool clear"],
  size: ["out-of-range", "the size does not fit what is stored"],
  invalid: ["failed-precondition", "correct the properties of the connection or of the class"],
  incomplete: [
    "unavailable",
    "see what stands between zfs and csimux there (sudo, a wrapper, a login shell, a proxy), then retry",
  ],
  other: ["internal", "see the storage host"],
};

/** The words of ZFS, in ours; undefined for a failure that is not ZFS's. */
export function zfsErrorMapping(error: unknown): ErrorMapping | undefined {
  if (!(error instanceof ZfsError)) return undefined;
  const [code, advice] = meanings[error.failure];
  const text = `${error.message}; ${advice}`;
  return error.failure === "pool-absent" || error.failure === "suspended"
    ? { code, text, refused: "unusable" }
    : { code, text };
}
