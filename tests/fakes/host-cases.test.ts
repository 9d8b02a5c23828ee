import { expect, test } from "bun:test";
import { localRunner } from "../../lib/io/local.ts";
import { hostCases, modelOf } from "./host-cases.ts";
import { fakeZfs } from "./zfs/pools.ts";

/**
 * What the models answer to the cases that the lab runs on the real tools as well (tests/lab/fakes.lab.ts): OpenZFS 2.1 to 2.3,
 * cmd/zfs/zfs_main.c and lib/libzfs; Linux 6.1, drivers/target and drivers/nvme/target.
 */
const seen: Readonly<Record<string, readonly string[]>> = {
  "a list of snapshots is destroyed completely, or not at all if one of them is cloned": [
    "1 cannot destroy 'here/a@b': snapshot has dependent clones",
    "here here/a here/a@a here/a@b here/a@c here/copy",
    "0",
    "here here/a",
  ],
  "absent snapshots in a list are ignored": [
    "0",
    "here here/a",
    "1 could not find any snapshots to destroy; check snapshot names.",
  ],
  "a cloned snapshot that is destroyed deferred disappears with its clone": [
    "0",
    "here here/a here/a@s here/copy",
    "0",
    "here here/a",
  ],
  "a held snapshot, a cloned one and a file system with children cannot be destroyed": [
    "1 cannot destroy 'here/a': filesystem has children",
    "1",
    "here here/a here/a@s",
    "1 cannot destroy 'here/a@s': snapshot has dependent clones",
    "here here/a here/a@s here/copy",
  ],
  "an existing dataset is not created again, and an absent one is reported": [
    "1 cannot create 'here/a': dataset already exists",
    "1 cannot create 'here/absent/b': parent does not exist",
    "1 cannot open 'here/absent': dataset does not exist",
    "1 cannot rename 'here/a': dataset already exists",
  ],
  "a backstore takes an existing device only, opens it alone, and cannot go while a LUN leads to it": [
    "ok, ok, File exists, Invalid argument",
    "ok, No such file or directory, ok",
    "ok, ok",
    "ok, ok",
    "ok, File exists",
    "ok, ok",
    "ok, Device or resource busy",
    "ok, ok",
    "1 cannot destroy 'here/disk': dataset is busy",
    "ok, Invalid argument, ok",
    "ok, ok",
    "Device or resource busy, Directory not empty, Directory not empty, Directory not empty",
    "ok, ok, ok, ok",
    "ok, ok",
    "0",
  ],
  "a group takes known attributes and its other state only, and begins closed": [
    "ok, ok",
    "0 1 ",
    "Invalid argument, ok, Invalid argument",
    "No such file or directory, Invalid argument",
    "ok, ok",
    `{^é'|"secret`,
    "ok, File exists, Directory not empty",
    "ok, Operation not permitted",
    "ok, ok, ok",
  ],
  "a zvol that an enabled namespace has opened is busy until its subsystem is gone": [
    "ok, File exists, ok, Directory not empty",
    "ok, No such file or directory",
    "ok, ok",
    "Device or resource busy",
    "1 cannot destroy 'here/disk': dataset is busy",
    "ok, ok",
    "0",
  ],
};

test.each(Object.entries(hostCases))("the model of a host: %s", async (title, run) => {
  const fake = await fakeZfs();
  try {
    fake.zfs("create", "tank/cases");
    const sight = await run(modelOf(fake, localRunner({ env: { PATH: process.env["PATH"] ?? "" } })));
    expect([title, sight]).toEqual([title, seen[title] ?? []]);
    expect(fake.targets()).toEqual([]);
    fake.zfs("destroy", "tank/cases");
  } finally {
    await fake.close();
  }
});
