import { expect, test } from "bun:test";
import { spawnSync } from "node:child_process";
import { existsSync, mkdirSync, mkdtempSync, readFileSync, rmSync, symlinkSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { ZfsCli } from "../../../../lib/drivers/zfs/cli/cli.ts";
import { datasetLock } from "../../../../lib/drivers/zfs/cli/lock.ts";
import type { CreationResult, Permissions, ZfsError } from "../../../../lib/drivers/zfs/zfs.ts";
import { localRunner } from "../../../../lib/io/local.ts";
import { localHost } from "../../../../lib/io/local-host.ts";
import { perTest } from "../../../contract/per-test.ts";
import { callWith } from "../../../contract/rig.ts";

// The real shell that makes and finishes a file system, with a zfs that notes what it does.

const { signal } = callWith();
const dataset = "tank/whole/a";

/** The programs of the host, with zfs and flock(1). */
const programs = ["sh", "cat", "printf", "chmod", "false"] as const;

interface Host {
  /** Where the file system is mounted, as zfs get prints it after its name; by default the folder of the test. */
  readonly rows?: string;
  readonly exists?: boolean;
  readonly withFlock?: boolean;
  /** The verb that fails. */
  readonly failing?: string;
  readonly mode?: string;
}

const opened = perTest(async () => {
  const folder = mkdtempSync(join(tmpdir(), "csimux-whole-"));
  return { folder, close: async () => rmSync(folder, { recursive: true }) };
});

/** Makes the file system on such a host; what zfs did, and how it was set. */
async function make({ rows, exists = false, withFlock = true, failing = "", mode }: Host) {
  const { folder } = await opened();
  const place = join(folder, "place");
  mkdirSync(place, { mode: 0o700 });
  const bin = join(folder, "bin");
  mkdirSync(bin);
  for (const each of [...programs, ...(withFlock ? ["flock"] : [])])
    symlinkSync(spawnSync("sh", ["-c", `command -v ${each}`], { encoding: "utf8" }).stdout.trim(), join(bin, each));
  const shown = `mounted\tyes\t-\n${dataset}\tmountpoint\t${place}\tinherited from tank`;
  writeFileSync(join(folder, "rows"), `${dataset}\t${rows ?? shown}\n`);
  writeFileSync(
    join(bin, "zfs"),
    `#!/bin/sh
printf '%s\\n' "$1" >>'${folder}/verbs'
[ "$1" != '${failing}' ] || { echo "cannot $1: permission denied" >&2; exit 1; }
case $1 in
  create) ${exists ? `echo "cannot create '${dataset}': dataset already exists" >&2; exit 1` : ":"};;
  get)
    flock -n '/run/lock/csimux-${datasetLock(dataset)}' : && echo free >>'${folder}/verbs' || :
    cat '${folder}/rows';;
  set) shift; printf '%s\\n' "$@" >'${folder}/set';;
esac
`,
    { mode: 0o755 },
  );
  const host = localHost(localRunner({ env: { PATH: bin } }));
  const cli = new ZfsCli(host, { zfs: ["zfs"], zpool: "zpool", privileged: [] });
  const permissions: Permissions | undefined =
    mode === undefined ? undefined : { mode, user: undefined, group: undefined, acls: [], aclsProgram: "setfacl" };
  const finished = (mountpoint: string) => ({ "c:x": JSON.stringify({ a: "it's", share: mountpoint }), "c:done": "1" });
  const made = await cli
    .create(
      { name: dataset, values: { "c:name": "it's a" }, volsize: undefined, permissions, finished },
      false,
      { names: [dataset], properties: ["mounted", "mountpoint"] },
      signal,
    )
    .catch((error: ZfsError) => error);
  const text = (name: string) => (existsSync(join(folder, name)) ? readFileSync(join(folder, name), "utf8") : "");
  return { made, place, verbs: text("verbs").trim().split("\n"), set: text("set").trim().split("\n") };
}

const isMade = (made: CreationResult | ZfsError): readonly [boolean, boolean | undefined] =>
  made instanceof Error ? expect.unreachable(made.message) : [made.made, made.finished];

test("a file system is made, read, permitted and finished under one lock, with its mount point in the values", async () => {
  const { made, place, verbs, set } = await make({ mode: "0750" });
  expect(isMade(made)).toEqual([true, true]);
  expect(verbs).toEqual(["create", "get", "set"]);
  expect(set).toEqual([`c:x={"a":"it's","share":"${place}"}`, "c:done=1", dataset]);
  expect(made).toMatchObject({ entries: new Map([[dataset, expect.anything()]]) });
});

test("a path with a blank and quotes of a shell is kept as it is", async () => {
  const path = "/tank/it's $(a) `b`";
  const { made, set } = await make({ rows: `mounted\tyes\t-\n${dataset}\tmountpoint\t${path}\tlocal` });
  expect(isMade(made)).toEqual([true, true]);
  expect(set[0]).toBe(`c:x={"a":"it's","share":"${path}"}`);
});

test.each([
  ["a path that JSON has in another form", { rows: `mounted\tyes\t-\n${dataset}\tmountpoint\t/tank/a"b\tlocal` }],
  ["a path with a backslash", { rows: `mounted\tyes\t-\n${dataset}\tmountpoint\t/tank/a\\b\tlocal` }],
  ["a file system that is not mounted", { rows: `mounted\tno\t-\n${dataset}\tmountpoint\t/tank/a\tlocal` }],
  ["one that its node mounts", { rows: `mounted\tno\t-\n${dataset}\tmountpoint\tlegacy\tlocal` }],
])("%s is made, and left to be finished", async (_, host) => {
  const { made, verbs } = await make(host);
  expect([isMade(made), verbs]).toEqual([
    [true, false],
    ["create", "get"],
  ]);
});

test("without flock(1) nothing keeps others away, so the file system is left to be finished", async () => {
  const { made, verbs } = await make({ withFlock: false });
  expect(isMade(made)).toEqual([true, false]);
  expect(verbs.filter(each => each !== "free")).toEqual(["create", "get"]);
});

test.each([
  ["create", "denied", ["create", "get"]],
  ["get", "denied", ["create", "get", "get"]],
  ["set", "denied", ["create", "get", "set", "get"]],
])("a zfs %s that fails is reported as %s", async (failing, failure, verbs) => {
  const found = await make({ failing });
  expect(found.made).toMatchObject({ failure });
  expect(found.verbs.filter(each => each !== "free")).toEqual(verbs);
});

test("what cannot be permitted is not finished", async () => {
  const { made, set } = await make({ mode: "no-mode" });
  expect(made).toMatchObject({ failure: "other", message: expect.stringContaining("chmod") });
  expect(set).toEqual([""]);
});

test("one that exists is read, and not changed", async () => {
  const { made, verbs } = await make({ exists: true, mode: "0750" });
  expect(isMade(made)).toEqual([false, undefined]);
  expect(verbs.filter(each => each !== "free")).toEqual(["create", "get"]);
});
