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
  "properties of file systems are set, inherited and shown with their sources": [
    "0",
    "0",
    "0",
    "0 here/a csimux:a 1 local, here/a compression gzip local, here/a readonly off default, here/a refquota 0 default, here/a type filesystem -, here/a mounted yes -, here/a origin - -, here/a/b csimux:a 1 inherited from here/a, here/a/b compression gzip inherited from here/a, here/a/b readonly off default, here/a/b refquota 0 default, here/a/b type filesystem -, here/a/b mounted yes -, here/a/b origin - -",
    "0",
    "0 here/a/b csimux:a 2 local, here/a/b refquota 67108864 local",
    "0",
    "0",
    "1 'refquota' property cannot be inherited",
    "0 here/a/b csimux:a 1 inherited from here/a, here/a/b csimux:none - -",
    "1 cannot set property for 'here/a': invalid property \u2026",
    "1 cannot set property for 'here/a': 'volsize' does not apply to datasets of this type",
    "1 cannot set property for 'here/a': bad numeric value \u2026",
    "1 cannot open 'here/absent': dataset does not exist",
    "1  cannot open 'here/absent': dataset does not exist",
  ],
  "volumes have the size that was asked for, and grow by whole blocks": [
    "0",
    "0 here/disk volsize 67108864 local, here/disk volblocksize 16384 local, here/disk refreservation 0 default, here/disk type volume -",
    "1 cannot set property for 'here/disk': volume size must be a multiple of volume block size",
    "0",
    "0 here/disk volsize 134217728 local",
    "1 cannot set property for 'here/disk': 'refquota' does not apply to datasets of this type",
    "1 cannot set property for 'here/disk': 'volblocksize' is readonly",
    "1 cannot create 'here/disk/below': parent is not a filesystem",
  ],
  "several snapshots are taken together or not at all, and listed backwards": [
    "0",
    "1 cannot create snapshot 'here/a@y': dataset already exists",
    "1 cannot create snapshot 'here/absent@z': dataset does not exist",
    "0 here/a@y, here/a@x, here/a",
    "0 here/a@x csimux:s 1 local, here/a@x type snapshot -, here/a@x userrefs 0 -, here/a@x defer_destroy off -, here/a@x clones  -",
    "0",
    "1 cannot set property for 'here/a@x': this property can not be modified for snapshots",
    "1  cannot open 'here/absent': dataset does not exist",
    "0 here/a@x 2, here/a@y 1",
  ],
  "holds have names, each once for a snapshot": [
    "0",
    "1 cannot hold snapshot 'here/a@s': tag already exists on this dataset",
    "0 here/a@s csimux-one",
    "1 cannot open 'here/a@absent': dataset does not exist",
    "1 cannot release hold from snapshot 'here/a@s': no such tag on this dataset",
    "0",
    "0",
  ],
  "clones have an origin until they are promoted": [
    "0",
    "1 cannot create 'here/copy': dataset already exists",
    "1 cannot open 'here/a@absent': dataset does not exist",
    "1 cannot create 'here/absent/other': parent does not exist",
    "0 here/copy origin here/a@s -, here/copy csimux:c 1 local",
    "0 here/a@s clones here/copy -",
    "1 cannot promote 'here/a': not a cloned filesystem",
    "0",
    "0 here/a origin here/copy@s -, here/copy origin - -",
    "0 here/copy@s, here/copy",
    "0",
    "1 cannot rename 'here/b': parent does not exist",
    "1 cannot open 'here/absent': dataset does not exist",
    "0",
    "0 here/b origin here/copy@t -",
  ],
  "a stream makes a dataset, continues only what fits, and leaves no token where it ended": [
    "0",
    "0 here/b csimux:r 1 local, here/b mounted no -, here/b receive_resume_token - -",
    "1",
    "0",
    "0 here/b@t, here/b@s, here/b",
    "1",
    "1",
    "1",
    "1 'here/absent' does not have any resumable receive state to abort",
  ],
  "a file system is mounted or not, and shared only if it has a property for that": [
    "0",
    "1 cannot mount 'here/a': filesystem already mounted",
    "0",
    "1 cannot unmount 'here/a': not currently mounted",
    "0 here/a mounted no -",
    "0",
    "1",
    "1 cannot open 'here/absent': dataset does not exist",
    "0",
    "1 cannot mount 'here/a': legacy mountpoint",
    "0 here/a mounted no -",
  ],
  "pools are listed with their state, and the tools have a version": ["0 tank ONLINE", "", "0 true"],
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
