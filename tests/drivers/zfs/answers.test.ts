import { expect, test } from "bun:test";
import { CsiError } from "../../../lib/core/errors.ts";
import { entriesOf, missingNames, outputOf, refusal } from "../../../lib/drivers/zfs/cli/answers.ts";
import { permissionSteps } from "../../../lib/drivers/zfs/cli/steps.ts";
import { throwSnapshotFailure } from "../../../lib/drivers/zfs/snapshots.ts";
import type { ZfsStorage } from "../../../lib/drivers/zfs/storage.ts";
import { answerOf, lackingOf } from "../../../lib/drivers/zfs/targets/host-answers.ts";
import type { ZfsFailure } from "../../../lib/drivers/zfs/zfs.ts";
import { localRunner } from "../../../lib/io/local.ts";
import type { Output } from "../../../lib/io/runner.ts";
import type { Script } from "../../../lib/io/script.ts";
import { gib, volumeOf } from "../../contract/rig.ts";
import { testCall } from "../../fakes/memory-driver.ts";
import { codeOf } from "../../mux/world.ts";
import { zfsRig } from "./zfs-rig.ts";

const properties = ["type", "guid", "democratic-csi:csi_snapshot_name"];
const names = ["tank/v", "tank/v@a", "tank/v@b"];
const rows = names.flatMap(name => properties.map(property => `${name}\t${property}\tx\tlocal`));
const text = (lines: readonly string[]): string => lines.map(line => `${line}\n`).join("");

test("a complete answer has every property of every name", () => {
  const entries = entriesOf(text(rows), properties);
  expect(entries.map(({ name, properties: all }) => [name, [...all.keys()]])).toEqual(
    names.map(name => [name, properties]),
  );
});

test("an answer that lost, repeated or exchanged any row is refused", () => {
  for (const [at, row] of rows.entries()) {
    const [before, after] = [rows.slice(0, at), rows.slice(at + 1)];
    expect(() => entriesOf(text([...before, ...after]), properties)).toThrow("is not complete");
    expect(() => entriesOf(text([...before, row, row, ...after]), properties)).toThrow("is not complete");
    const [next, ...rest] = after;
    if (next !== undefined)
      expect(() => entriesOf(text([...before, next, row, ...rest]), properties)).toThrow("is not complete");
  }
});

test("an answer that ends within a line is refused", () => {
  const whole = text(rows);
  for (let at = 1; at < whole.length; at++)
    if (whole[at - 1] !== "\n") expect(() => entriesOf(whole.slice(0, at), properties)).toThrow("is not complete");
});

test("a step that was skipped has no output", () => {
  const output: Output = { stdout: "x", stderr: "", exitCode: 0 };
  expect(outputOf(new Map([["read", output]]), "read")).toBe(output);
  expect(() => outputOf(new Map([["read", output]]), "list")).toThrow('the step "list" was skipped');
});

// CSI, "Timeouts": what is left after a final answer is never deleted.
test.each([
  ["none exists", [], "resource-exhausted", ["undone"]],
  ["all exist", ["tank/v@a", "tank/v@b"], "unavailable", []],
  ["one exists", ["tank/v@b"], "unavailable", []],
  ["it is not known", undefined, "unavailable", []],
] as const)(
  "a full pool is a final answer to a call for snapshots only where none is left: %s",
  async (_, found, code, done) => {
    const undone: string[] = [];
    const read = async () => {
      if (!found) throw new Error("the host does not answer");
      return new Map(found.map(name => [name, {}]));
    };
    const storage = { names: { pool: "tank" }, zfs: { read }, connection: "a", explain: () => undefined };
    const full = new CsiError("resource-exhausted", "the pool is full");
    const taken = throwSnapshotFailure(
      storage as unknown as ZfsStorage,
      full,
      ["tank/v@a", "tank/v@b"],
      "s",
      testCall(),
      async () => void undone.push("undone"),
    );
    expect(await codeOf(taken)).toBe(code);
    expect(undone).toEqual([...done]);
  },
);

test("permissions apply to the mount point of a dataset, never to a folder above it, wherever the answer about it is cut", async () => {
  const rows = "tank/v/a\tmounted\tyes\t-\ntank/v/a\tmountpoint\t/mnt/tank/v/a\tinherited from tank\n";
  const words = { zfs: ["zfs"], zpool: "zpool", privileged: ["echo"] } as const;
  const permissions = { mode: "0770", user: "1000", group: undefined, acls: [], aclsProgram: "setfacl" };
  const [step] = permissionSteps(words, "tank/v/a", permissions, undefined);
  if (!step) throw new Error("there is no step");
  const runner = localRunner({ env: { PATH: "/usr/bin:/bin" } });
  const said = async (look: string) => {
    const [program, ...rest] = step.argv;
    const argv = [program, ...rest.map(word => (typeof word === "string" ? word : look.replace(/\n+$/, "")))] as const;
    return runner.run({ argv }, AbortSignal.timeout(60_000));
  };
  const whole = "chown 1000 /mnt/tank/v/a\nchmod 0770 /mnt/tank/v/a\n";
  expect((await said(rows)).stdout).toBe(whole);
  for (let at = 0; at < rows.length; at++) expect(["", whole]).toContain((await said(rows.slice(0, at))).stdout);
  expect((await said(rows.slice(0, rows.indexOf("/mnt") + 4))).stderr).toBe("the mountpoint of tank/v/a is cut\n");
});

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
  expect(() => absent(other)).toThrow(
    expect.objectContaining({ failure: "other", message: "cannot open 'tank/b': I/O error" }),
  );
  expect(() => absent("")).toThrow(expect.objectContaining({ failure: "incomplete" }));
});

test("a list that zfs could not complete does not count, although it exits with 0", () => {
  const listed = (stderr: string) => missingNames({ exitCode: 0, stdout: "tank/a\ntank\n", stderr });
  const cut = expect.objectContaining({ failure: "incomplete", message: expect.stringContaining("I/O error") });
  expect(() => listed("cannot iterate filesystems: I/O error\n")).toThrow(cut);
  const suspended = "cannot iterate filesystems: pool I/O is currently suspended\n";
  expect(() => listed(suspended)).toThrow(expect.objectContaining({ failure: "suspended" }));
});

const answer = (stdout: string, exitCode = 0): ReadonlyMap<string, Output> =>
  new Map([["look", { stdout, stderr: "", exitCode }]]);
const complete = `${JSON.stringify({ lacking: { "iqn.2024-01.org.example:a": ["lun", "portal"] } })}\n`;

test("a complete answer about targets names what each lacks, and may be empty", () => {
  const found = (text: string) => [...lackingOf(answerOf(answer(text), "look"))];
  expect(found(complete)).toEqual([["iqn.2024-01.org.example:a", ["lun", "portal"]]]);
  expect(found('{"lacking": {}}\n')).toEqual([]);
});

test("an answer that is cut anywhere is refused despite its exit code 0, because a missing target would be left behind", () => {
  for (const text of [complete, '{"done": true, "ignored": []}\n', '{"refused": "foreign", "device": "/dev/sda"}\n'])
    for (let at = 0; at < text.length; at++)
      expect(() => answerOf(answer(text.slice(0, at)), "look")).toThrow("a part of the answer is missing");
  for (const text of ["{}\n", "[]\n", "null\n", '{"done": false}\n', '{"lacking": []}\n'])
    expect(() => answerOf(answer(text), "look")).toThrow("cannot inspect the target");
});

test("an answer of a failed step is refused, complete or not", () => {
  expect(() => answerOf(answer(complete, 1), "look")).toThrow("cannot inspect the target");
});

test("words of zfs that csimux does not know prove nothing, so no answer to them is final, and each names its call", async () => {
  const rig = await zfsRig({ driver: "zfs-generic-nfs" });
  try {
    const { id } = await rig.open().create(volumeOf("a"), testCall());
    const stderr = "cannot open 'tank/k/v': I/O error\n";
    const failed = { stdout: "", stderr, exitCode: 1 };
    const script = async ({ steps }: Script) => new Map(steps.map(({ name }) => [name, failed] as const));
    const driver = rig.on({ ...rig.host, script });
    const source = { kind: "volume", id } as const;
    const calls: Readonly<Record<string, () => Promise<unknown> | undefined>> = {
      'create volume "b"': () => driver.create(volumeOf("b"), testCall()),
      'delete volume "a"': () => driver.delete(id, testCall()),
      'look up volume "a"': () => driver.names?.find("a", testCall()),
      'create snapshot "s"': () => driver.snapshots?.create("s", id, {}, testCall()),
      'expand volume "a"': () => driver.expand?.expand(id, { required: 2n * gib, limit: undefined }, testCall()),
      'protect the content of volume "a"': () => driver.copySource?.protect(source, "v:c/b", 0, testCall()),
      'look for a copy into volume "a"': () => driver.copyTarget?.find(id, testCall()),
    };
    for (const [doing, run] of Object.entries(calls)) {
      const error = await Promise.resolve(run()).catch((thrown: unknown) => thrown);
      const message = expect.stringContaining(`: cannot ${doing}: cannot open 'tank/k/v': I/O error;`);
      expect([doing, error]).toEqual([doing, expect.objectContaining({ code: "unavailable", message })]);
    }
    // The storage has answered, so calls to it are not held back.
    expect(await codeOf(driver.check?.(testCall()) ?? Promise.resolve())).toBe("internal");
  } finally {
    await rig.close();
  }
});
