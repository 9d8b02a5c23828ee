import { describe, expect, test } from "bun:test";
import { CsiError } from "../../../lib/core/errors.ts";
import { onlyVanished as missedOnlyVanished } from "../../../lib/drivers/directory/backups/restic.ts";
import { isVolumeId, Layout } from "../../../lib/drivers/directory/layout.ts";
import {
  backupId,
  oldSource,
  parseBackupId,
  parseSnapshotId,
  partsOfTree,
  snapshotId,
  snapshotKey,
  usualSource,
} from "../../../lib/drivers/directory/snapshot-ids.ts";
import { onlyVanished } from "../../../lib/drivers/directory/tools.ts";
import { failure } from "../../../lib/drivers/failure.ts";
import { explain, toolFailure } from "../../../lib/drivers/file-failures.ts";
import { pageOf } from "../../../lib/drivers/pages.ts";
import { sizeFrom } from "../../../lib/drivers/sizes.ts";
import { CommandError } from "../../../lib/io/runner.ts";
import { codeOf } from "../../contract/driver-volumes.ts";

const subject = { connection: "c1", explain };
const volume = "pvc-01234567-89ab-cdef-0123-456789abcdef";
const old = `${volume}-snapshot-fedcba98-7654-3210-fedc-ba9876543210`;

describe("volume ids", () => {
  test.each(["a", "0", "A_b-c", volume, "x".repeat(128)])("%p is one", id => expect(isVolumeId(id)).toBe(true));
  test.each(["", ".", "..", "-a", "_a", "a/b", "a.b", "a b", "a\n", "ä", "a~b", "x".repeat(129)])("%p is none", id =>
    expect(isVolumeId(id)).toBe(false),
  );
});

describe("snapshot ids", () => {
  test.each([
    ["f/snap-1", "_snap-1", "snap-1"],
    [old, old, undefined],
    [`snapshot_driver=filecopy&snapshot_id=${old}`, old, undefined],
    [`snapshot_id=${old}&snapshot_driver=filecopy`, old, undefined],
    ["snapshot_driver=filecopy&snapshot_id=a-b%3A1%2B2", "a-b:1+2", undefined],
    ["snapshot_driver=filecopy&snapshot_id=a-b+c", "a-b+c", undefined],
    ["snapshot_driver=filecopy&snapshot_id=a-b..c", "a-b..c", undefined],
    ["a-..", "a-..", undefined],
  ])("%p is the folder %p", (id, tree, key) => expect(parseSnapshotId(id)).toEqual({ tree, key }));

  test.each([
    "",
    "f/",
    "f/_x",
    "f/a/b",
    "f/..",
    "..",
    "..-a",
    "a-../x",
    "_snap",
    "-a-b",
    "nodash",
    "a-b/c",
    "snapshot_driver=filecopy&snapshot_id=../v/x-y",
    "snapshot_driver=filecopy&snapshot_id=_snap",
    "snapshot_driver=filecopy",
    "snapshot_driver=other&snapshot_id=a-b",
    "snapshot_id=a-b",
  ])("%p is none", id => expect(parseSnapshotId(id)).toBeUndefined());

  test.each([
    ["r/0123456789abcdef0123456789abcdef", "restic", "0123456789abcdef0123456789abcdef"],
    ["k/0123456789abcdef0123456789abcdef", "kopia", "0123456789abcdef0123456789abcdef"],
    [`snapshot_driver=restic&snapshot_id=${"a1".repeat(32)}`, "restic", "a1".repeat(32)],
    ["snapshot_driver=kopia&snapshot_id=0123456789abcdef0123456789abcdef", "kopia", "0123456789abcdef0123456789abcdef"],
  ] as const)("%p is in a repository, not a folder", (text, method, id) => {
    expect(parseBackupId(text)).toEqual({ method, id });
    expect(parseSnapshotId(text)).toBeUndefined();
    expect(backupId({ method, id: id.padEnd(64, "0") }, 60)).toBe(`${method[0]}/${id.padEnd(64, "0").slice(0, 32)}`);
  });

  const digits = "0123456789abcdef0123456789abcdef";
  test.each([
    "r/",
    "r/..",
    "r/xyz",
    "r/0123",
    // Too few digits to tell it from all others.
    "r/0123456789abcdef",
    "snapshot_driver=kopia&snapshot_id=0123456789abcdef",
    `r/${digits}/..`,
    `x/${digits}`,
    `f/${digits}`,
  ])("%p is in no repository", text => expect(parseBackupId(text)).toBeUndefined());

  test("the folder of any snapshot name leads back to its id and is never one of democratic-csi", () => {
    for (const name of ["a", old, "x".repeat(128), "../..", "_x", "ü", "f/a"]) {
      const key = snapshotKey(name, 64);
      const place = { tree: `_${key}`, key };
      expect(partsOfTree(place.tree)).toEqual(place);
      expect(parseSnapshotId(snapshotId(place))).toEqual(place);
      expect(snapshotId(place).length).toBeLessThanOrEqual(64);
    }
    expect(partsOfTree(old)).toEqual({ tree: old, key: undefined });
    expect(["lost+found", ".x", "_a.b", "..-b"].map(partsOfTree)).toEqual([undefined, undefined, undefined, undefined]);
  });

  test("the source of an old folder follows from the usual names, else from the existing volumes", () => {
    expect(usualSource(old)).toBe(volume);
    expect(usualSource("a-snap")).toBeUndefined();
    expect(oldSource("a-b-c-snap", ["a", "a-b", "x", "a-b-c-snapper"])).toBe("a-b");
    expect(oldSource("a-b-snap", [])).toBe("a-b");
  });
});

test.each([
  ["as asked", { required: 5n, limit: undefined }, 3n, 5n],
  ["the limit alone", { required: undefined, limit: 7n }, 3n, 7n],
  ["the source when nothing is asked", { required: undefined, limit: undefined }, 1n << 40n, 1n << 40n],
  ["the source between the least and the most that is asked for", { required: 1n, limit: 5n }, 3n, 3n],
  ["anything for a source of unknown size", { required: 1n, limit: 1n }, 0n, 1n],
])("the size of a copy is %s", (_, range, bytes, expected) => {
  expect(sizeFrom(range, bytes)).toBe(expected);
});

test("a copy smaller than its source is out of range", async () => {
  for (const limit of [undefined, 2n]) {
    const asked = async () => sizeFrom({ required: 2n, limit }, 3n);
    expect(await codeOf(asked())).toBe("out-of-range");
  }
});

describe("a copy may omit files that vanished from its source", () => {
  const gone = (path: string) => `cp: cannot stat '${path}': No such file or directory`;
  test.each([
    [gone("/b/v/x/a"), true],
    [`${gone("/b/v/x/a")}\ncp: cannot open '/b/v/x/c' for reading: No such file or directory\n`, true],
    [`cp: cannot stat "/b/v/x/it's": No such file or directory`, true],
    ["", false],
    [gone("/b/v/x"), false],
    [gone("/b/v/xx/a"), false],
    [`${gone("/b/v/x/a")}\n[70000 bytes omitted]\n${gone("/b/v/x/b")}`, false],
    [`${gone("/b/v/x/a")}\ncp: cannot open '/b/v/x/c' for reading: Permission denied`, false],
    ["cp: cannot create regular file '/b/.csimux/work/y/a': No such file or directory", false],
    [`cp: cannot create directory '/w/y' from '/b/v/x/a': No such file or directory`, false],
  ])("%p → %p", (stderr, expected) => expect(onlyVanished(stderr, "/b/v/x")).toBe(expected));
});

describe("a backup by restic may omit files that vanished from its source", () => {
  const error = (number: number) =>
    `{"message_type":"error","error":{"Op":"open","Path":"a","Err":${number}},"during":"archival","item":"/v/a"}\n`;
  const last = "Warning: at least one source file could not be read\n";
  const lastOf17 = `{"message_type":"exit_error","code":3,"message":"Warning: at least one source file could not be read"}\n`;
  test.each([
    [error(2) + error(2) + last, true],
    [error(2) + lastOf17, true],
    [error(2) + error(13) + last, false],
    // Words that are cut or left out may have told of anything.
    [error(2), false],
    [error(2) + last.slice(0, -1), false],
    [`${error(2)}[70000 bytes omitted]\n${error(2)}${last}`, false],
    [last, false],
    ["", false],
  ])("%p → %p", (stderr, expected) => expect(missedOnlyVanished(stderr)).toBe(expected));
});

describe("failures", () => {
  const errno = (code: string) => Object.assign(new Error(`${code}: secret text`), { code });
  test.each([
    ["ENOSPC", "resource-exhausted"],
    ["EDQUOT", "resource-exhausted"],
    ["EACCES", "failed-precondition"],
    ["EROFS", "failed-precondition"],
    ["EPERM", "failed-precondition"],
    ["EBUSY", "failed-precondition"],
    ["ENOENT", "unavailable"],
    ["ESTALE", "unavailable"],
    ["EIO", "unavailable"],
    ["EEXIST", "aborted"],
    ["ENAMETOOLONG", "failed-precondition"],
    ["EXDEV", "failed-precondition"],
    ["EBADF", "internal"],
  ] as const)("%s is %s and names the connection and the work", (name, code) => {
    const error = failure(errno(name), subject, 'create volume "a"');
    expect(error.code).toBe(code);
    expect(error.message).toStartWith('connection "c1": cannot create volume "a": ');
    expect(error.message).toContain(name);
    expect(error.message).not.toContain("secret");
  });

  test.each([
    ["missing", "failed-precondition"],
    ["denied", "failed-precondition"],
    ["cancelled", "deadline-exceeded"],
    ["timeout", "deadline-exceeded"],
    ["killed", "unavailable"],
    ["spawn", "unavailable"],
  ] as const)("a command that is %s is %s", (kind, code) => {
    expect(failure(new CommandError("local", "cp", kind, "reason"), subject, "copy").code).toBe(code);
  });

  test("a CsiError stays unchanged, and the text of an unknown error is not shown", () => {
    const own = new CsiError("not-found", "x");
    expect(failure(own, subject, "y")).toBe(own);
    expect(failure(new Error("password=1"), subject, "y").message).not.toContain("password");
  });

  test.each([
    ["cp: error writing '/x': No space left on device", "resource-exhausted"],
    ["cp: error writing '/x': Disk quota exceeded", "resource-exhausted"],
    ["cp: cannot create regular file '/x': Read-only file system", "failed-precondition"],
    ["cp: cannot open '/x' for reading: Permission denied", "failed-precondition"],
    ["cp: error reading '/x': Input/output error", "unavailable"],
    [
      'rsync: write failed on "/x": No space left on device (28)\nrsync error: error in file IO (code 11)',
      "resource-exhausted",
    ],
    ["cp: '/x': Too many levels of symbolic links", "aborted"],
    ["rm: cannot remove '/x/y': Directory not empty\nrm: cannot remove '/x/z': Not a directory", "aborted"],
    [
      'rsync: [sender] opendir "/x" failed: Too many levels of symbolic links (40)\nrsync error: x (code 23)',
      "aborted",
    ],
    ["cp: skipping file '/x', as it was replaced while being copied", "aborted"],
    ["cp: will not create hard link '/t/x' to directory '/t/y'", "aborted"],
    ["cp: cannot stat '/x: No space left on device': Not a directory", "aborted"],
    ["cp: setting permissions for '/x': Permission denied", "failed-precondition"],
    ["cp: '/x': Permission denied", "aborted"],
    ["rsync: [sender] get_acl: sys_acl_get_file(./d3, ACL_TYPE_DEFAULT): Permission denied (13)", "aborted"],
    ["rsync: [sender] get_acl: sys_acl_get_file(./f0, ACL_TYPE_ACCESS): Permission denied (13)", "failed-precondition"],
    ["cp: strange", "internal"],
    ["", "internal"],
  ] as const)("the error line %p is %s and not shown", (stderr, code) => {
    const error = toolFailure("c1", "copy", "cp", { exitCode: 1, stderr });
    expect(error.code).toBe(code);
    expect(error.message).not.toContain("/x");
  });
});

test("pages follow each other, and only a full one has a next", async () => {
  const load = async (name: string) => (name === "skip" ? undefined : name);
  const page = (token: string | undefined, max: number) =>
    pageOf(["c", "a", "skip", "b", "x/y"], isVolumeId, { token, max }, load);
  expect(await page(undefined, 2)).toEqual({ items: ["a", "b"], next: ".b" });
  expect(await page(".b", 2)).toEqual({ items: ["c"], next: undefined });
  expect(await page(".bb", 1)).toEqual({ items: ["c"], next: undefined });
  expect(await page(undefined, 3)).toEqual({ items: ["a", "b", "c"], next: undefined });
});

test("a base folder must be absolute", async () => {
  for (const base of ["", "relative/x", "/"]) {
    expect(await codeOf((async () => new Layout(base))())).toBe("failed-precondition");
  }
  expect(new Layout("/a//").tree("v", "x")).toBe("/a/v/x");
});
