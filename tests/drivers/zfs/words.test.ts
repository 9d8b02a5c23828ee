import { expect, test } from "bun:test";
import { missingNames, refusal } from "../../../lib/drivers/zfs/cli/answers.ts";
import type { ZfsFailure } from "../../../lib/drivers/zfs/zfs.ts";

// Texts as OpenZFS 2.1 to 2.3 write them in the locale C.
const texts: readonly (readonly [string, ZfsFailure])[] = [
  ["cannot open 'tank/a': dataset does not exist", "absent"],
  ["cannot create snapshot 'tank/a@s': dataset does not exist\nno snapshots were created", "absent"],
  ["cannot create 'tank/a': parent does not exist", "absent"],
  ["could not find any snapshots to destroy; check snapshot names.", "absent"],
  ["cannot open 'tank': no such pool", "pool-absent"],
  ["cannot create 'tank/a': dataset already exists", "exists"],
  ["cannot receive new filesystem stream: destination 'tank/a' exists\nmust specify -F to overwrite it", "exists"],
  [
    "cannot destroy 'tank/a': filesystem has children\nuse '-r' to destroy the following datasets:\ntank/a@s",
    "dependents",
  ],
  [
    "cannot destroy 'tank/a': volume has dependent clones\nuse '-R' to destroy the following datasets:\ntank/b",
    "dependents",
  ],
  ["cannot destroy snapshot tank/a@s: snapshot is cloned", "dependents"],
  ["cannot destroy snapshot tank/a@s: it's being held. Run 'zfs holds -r tank/a@s' to see holders.", "held"],
  ["cannot destroy 'tank/a': dataset is busy", "busy"],
  ["cannot unmount '/tank/a': pool or dataset is busy", "busy"],
  ["cannot unmount '/tank/a': unmount failed", "busy"],
  ["failed to create /etc/exports.d: File exists", "busy"],
  ["the lock /run/lock/csimux-zfs-3 is busy", "busy"],
  ["cannot create 'tank/a': out of space", "full"],
  ["cannot set property for 'tank/a': size is greater than available space", "full"],
  ["cannot set property for 'tank/a': size is less than current used or reserved space", "size"],
  ["cannot create 'tank/a': permission denied", "denied"],
  ["sudo: a password is required", "denied"],
  ["cannot create 'tank/a': invalid property 'share'", "invalid"],
  ["cannot set property for 'tank/a': 'casesensitivity' is readonly", "invalid"],
  ["cannot open 'tank/a': pool I/O is currently suspended", "suspended"],
  ["the names below tank/k/v are cut", "incomplete"],
  ["the mountpoint of tank/k/v/a is cut", "incomplete"],
  ["internal error: out of memory", "other"],
];

test.each(texts)("%j means %s", (stderr, failure) => {
  expect(refusal({ exitCode: 1, stdout: "", stderr }).failure).toBe(failure);
});

test("an answer with complaints about absent names alone tells which names are absent", () => {
  const absent = (stderr: string) => [...missingNames({ exitCode: 1, stdout: "", stderr })];
  const both = "cannot open 'tank/a': dataset does not exist\ncannot open 'tank/b': dataset does not exist\n";
  expect(absent(both)).toEqual(["tank/a", "tank/b"]);
  const other = "cannot open 'tank/a': dataset does not exist\ncannot open 'tank/b': I/O error\n";
  expect(() => absent(other)).toThrow();
  expect(() => absent("")).toThrow(expect.objectContaining({ failure: "incomplete" }));
});
