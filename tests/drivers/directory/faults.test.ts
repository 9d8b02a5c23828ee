import { afterEach, beforeEach, describe, expect, test } from "bun:test";
import { mkdir, rename, rm, stat, truncate, writeFile } from "node:fs/promises";
import { type Files, localFiles } from "../../../lib/io/files.ts";
import type { CommandRunner } from "../../../lib/io/runner.ts";
import { below } from "../../../scripts/check/below.ts";
import { codeOf } from "../../contract/driver-volumes.ts";
import { callWith, findVolume, getVolume, gib, snapshotsOf, volumeIds, volumeOf } from "../../contract/rig.ts";
import { leftOn, openOn, systemRunner, temporaryFolder } from "./directory-rig.ts";

const call = callWith();
const page = { token: undefined, max: 10 };
const isRoot = process.getuid?.() === 0;

let base = "";
beforeEach(async () => {
  base = await temporaryFolder();
});
afterEach(() => rm(base, { recursive: true, force: true }));

describe("while the base folder is missing", () => {
  const operations = (driver: ReturnType<typeof openOn>): Readonly<Record<string, () => Promise<unknown>>> => ({
    create: () => driver.create(volumeOf("b"), call),
    clone: () => driver.create(volumeOf("b", gib, { kind: "volume", id: "a" }), call),
    delete: () => driver.delete("a", call),
    get: () => getVolume(driver, "a"),
    find: () => findVolume(driver, "a"),
    expand: async () => driver.expand?.expand("a", { required: 1n, limit: undefined }, call),
    list: async () => driver.inventory?.list(page, call),
    capacity: async () => driver.capacity?.available({}, call),
    check: async () => driver.check?.(call),
    "create snapshot": () => snapshotsOf(driver).create("s", "a", {}, call),
    "delete snapshot": () => snapshotsOf(driver).delete("f/s", call),
    "get snapshot": () => snapshotsOf(driver).get("f/s", call),
    "list snapshots": () => snapshotsOf(driver).list({ volumeId: undefined }, page, call),
  });
  const names = Object.keys(operations(openOn("/nowhere")));

  test.each(names)(
    "%s is unavailable, creates nothing, and shows the path of the folder in the log alone",
    async name => {
      const driver = openOn(base);
      await driver.create(volumeOf("a"), call);
      await rename(base, `${base}-away`);
      try {
        const failed = await (operations(driver)[name]?.() ?? Promise.resolve()).catch((error: Error) => error);
        expect(failed).toMatchObject({ code: "unavailable" });
        const { message, cause } = failed as Error;
        expect(message).toContain(
          "<base folder> does not exist; mount or create the folder that controllerBasePath names",
        );
        expect(message).not.toContain(base);
        expect(String(cause)).toContain(base);
        expect(await stat(base).catch(() => "absent")).toBe("absent");
      } finally {
        await rename(`${base}-away`, base);
      }
      expect(await volumeIds(driver)).toEqual(["a"]);
    },
  );

  test.each(names)("%s is unavailable if a required share is not mounted", async name => {
    const driver = openOn(base, { kind: "nfs-client", settings: { shareHost: "nas" } });
    expect(await codeOf(operations(driver)[name]?.() ?? Promise.resolve())).toBe("unavailable");
    expect(below(base)).toEqual([]);
  });

  test("a file in place of the base folder is not a base folder", async () => {
    await writeFile(`${base}/file`, "");
    expect(await codeOf(openOn(`${base}/file`).create(volumeOf("a"), call))).toBe("unavailable");
  });
});

test.each(["entry", "readText"] as const)(
  "what a call without an answer has made is asked for again while the share denies access (%s)",
  async step => {
    const driver = openOn(base);
    await driver.create(volumeOf("a"), call);
    await snapshotsOf(driver).create("s", "a", {}, call);
    const denied = async () => {
      throw Object.assign(new Error("denied"), { code: "EACCES" });
    };
    const refused = openOn(base, { files: { ...localFiles, [step]: denied } });
    expect(await codeOf(refused.create(volumeOf("a"), call))).toBe("unavailable");
    expect(await codeOf(snapshotsOf(refused).create("s", "a", {}, call))).toBe("unavailable");
    await expect(refused.create(volumeOf("a"), call)).rejects.toThrow("let csimux write to the base folder");
  },
);

test.each([
  ["nfs-client", 0x6969],
  ["smb-client", 0xfe534d42],
  ["lustre-client", 0x0bd00bd0],
] as const)("%s works on a file system of its type", async (kind, type) => {
  const files: Files = { ...localFiles, statfs: async () => ({ type, availableBytes: 5n }) };
  const driver = openOn(base, { kind, files, settings: { shareHost: "nas" } });
  await driver.create(volumeOf("a"), call);
  expect(await driver.capacity?.available({}, call)).toBe(5n);
});

test("the type of a file system is the kernel's", async () => {
  const { type } = await localFiles.statfs("/proc");
  expect(type).toBe(0x9fa0);
});

describe.skipIf(!isRoot)("on a full disk", () => {
  const mounted = async (work: () => Promise<void>) => {
    const signal = call.signal;
    const argv = ["mount", "-t", "tmpfs", "-o", "size=256k", "tmpfs", base] as const;
    const { exitCode, stderr } = await systemRunner.run({ argv }, signal);
    expect([exitCode, stderr]).toEqual([0, ""]);
    try {
      await work();
    } finally {
      await systemRunner.run({ argv: ["umount", base] }, signal);
    }
  };
  const fill = async (path: string) => {
    await writeFile(path, Buffer.alloc(1 << 20)).catch(error => expect(error.code).toBe("ENOSPC"));
  };

  test("a copy is resource-exhausted, leaves nothing, and works when there is space", () =>
    mounted(async () => {
      const driver = openOn(base);
      await driver.create(volumeOf("a"), call);
      await writeFile(`${base}/v/a/big`, Buffer.alloc(150 << 10, 1));
      const before = below(base);
      const spec = volumeOf("b", gib, { kind: "volume", id: "a" });
      expect(await codeOf(driver.create(spec, call))).toBe("resource-exhausted");
      expect(await codeOf(snapshotsOf(driver).create("s", "a", {}, call))).toBe("resource-exhausted");
      expect(below(base).filter(name => name !== ".csimux/work")).toEqual([...before]);
      await truncate(`${base}/v/a/big`, 4096);
      expect(await codeOf(driver.create(spec, call))).toBe("ok");
      for (const id of ["a", "b"]) await driver.delete(id, call);
      expect(await leftOn(base)).toEqual([]);
    }));

  test("a create is resource-exhausted and leaves nothing, and volumes can still be deleted", () =>
    mounted(async () => {
      const driver = openOn(base);
      await driver.create(volumeOf("a"), call);
      await mkdir(`${base}/v/old`);
      await fill(`${base}/v/old/big`);
      const before = below(base);
      expect(await codeOf(driver.create(volumeOf("b"), call))).toBe("resource-exhausted");
      expect(below(base)).toEqual([...before]);
      await driver.delete("old", call);
      await driver.delete("a", call);
      expect(await leftOn(base)).toEqual([]);
    }));
});

test("a volume can be deleted on a disk too full for a new folder", async () => {
  const full = async () => {
    throw Object.assign(new Error("full"), { code: "ENOSPC" });
  };
  const driver = openOn(base);
  await driver.create(volumeOf("a"), call);
  await writeFile(`${base}/v/a/file`, "x");
  await openOn(base, { files: { ...localFiles, makeFolder: full, writeText: full } }).delete("a", call);
  expect(await leftOn(base)).toEqual([]);
});

describe("on a file system that turns read-only, as after an error of its disk", () => {
  const refused = async () => {
    throw Object.assign(new Error("read-only"), { code: "EROFS" });
  };
  const changes = {
    makeFolder: refused,
    removeFolder: refused,
    removeFile: refused,
    rename: refused,
    writeText: refused,
    chmod: refused,
    chown: refused,
  };
  const later = { ...localFiles, ...changes, sync: refused };

  test("before any change, the answer is final", async () => {
    const driver = openOn(base);
    await driver.create(volumeOf("a"), call);
    const frozen = openOn(base, { files: later });
    expect(await codeOf(frozen.create(volumeOf("b"), call))).toBe("failed-precondition");
    expect(await codeOf(snapshotsOf(frozen).create("s", "a", {}, call))).toBe("failed-precondition");
    expect(await codeOf(frozen.delete("a", call))).toBe("failed-precondition");
    expect(await volumeIds(frozen)).toEqual(["a"]);
  });

  test.each(["makeFolder", "chmod", "rename", "sync"] as const)(
    "after the first %s, the answer is not final, and the retry finishes the work",
    async verb => {
      const settings = verb === "chmod" || verb === "rename" ? { mode: 0o777 } : {};
      await openOn(base, { settings }).create(volumeOf("other"), call);
      const files: Files = { ...localFiles };
      const turn: Files = {
        ...localFiles,
        [verb]: async () => {
          Object.assign(files, later);
          return refused();
        },
      };
      Object.assign(files, turn);
      const driver = openOn(base, { files, settings });
      expect(await codeOf(driver.create(volumeOf("a"), call))).toBe("unavailable");
      expect(await codeOf(driver.create(volumeOf("a"), call))).toBe("unavailable");
      expect(await codeOf(openOn(base, { settings }).create(volumeOf("a"), call))).toBe("ok");
      for (const id of ["a", "other"]) await openOn(base).delete(id, call);
      expect(await leftOn(base)).toEqual([]);
    },
  );

  test("a failed copy that cannot be removed is not final", async () => {
    await openOn(base).create(volumeOf("a"), call);
    const runner: CommandRunner = {
      where: "test",
      run: async () => ({ stdout: "", stderr: "cp: cannot create regular file: Read-only file system\n", exitCode: 1 }),
    };
    const files: Files = { ...localFiles, removeFile: refused, removeFolder: refused, rename: refused };
    const driver = openOn(base, { files, runner });
    const clone = volumeOf("b", gib, { kind: "volume", id: "a" });
    expect(await codeOf(driver.create(clone, call))).toBe("unavailable");
    expect(await codeOf(snapshotsOf(driver).create("s", "a", {}, call))).toBe("unavailable");
    await openOn(base).create(clone, call);
    const { id } = await snapshotsOf(openOn(base)).create("s", "a", {}, call);
    await snapshotsOf(openOn(base)).delete(id, call);
    for (const name of ["a", "b"]) await openOn(base).delete(name, call);
    expect(await leftOn(base)).toEqual([]);
  });
});

test("an interrupted removal of an unrecorded volume leaves a record for the next create of its name", async () => {
  await mkdir(`${base}/v/old`, { recursive: true });
  await writeFile(`${base}/v/old/file`, "x");
  const dead = async () => {
    throw new Error("killed");
  };
  const runner = { where: "test", run: dead };
  expect(await codeOf(openOn(base, { runner }).delete("old", call))).toBe("unavailable");
  const driver = openOn(base);
  await driver.create(volumeOf("old"), call);
  await driver.delete("old", call);
  expect(await leftOn(base)).toEqual([]);
});

test("half a line at the end of a record does not invalidate the line before it", async () => {
  const driver = openOn(base);
  await driver.create(volumeOf("a"), call);
  const record = `${base}/.csimux/v.a.json`;
  await writeFile(record, '\n{"name":"a","byt', { flag: "a" });
  expect((await getVolume(openOn(base), "a")).bytes).toBe(gib);
  await driver.expand?.expand("a", { required: 2n * gib, limit: undefined }, call);
  expect((await getVolume(openOn(base), "a")).bytes).toBe(2n * gib);
});

test("a damaged record does not hide a volume, and one of a snapshot can be deleted", async () => {
  const driver = openOn(base);
  await driver.create(volumeOf("a"), call);
  const { id } = await snapshotsOf(driver).create("s", "a", {}, call);
  for (const name of ["v.a", "s.s"]) await writeFile(`${base}/.csimux/${name}.json`, "\0\0{}\n[1]\n");
  expect(await volumeIds(driver)).toEqual(["a"]);
  expect((await getVolume(driver, "a")).bytes).toBe(0n);
  expect(await codeOf(snapshotsOf(driver).get(id, call))).toBe("internal");
  expect(await codeOf(snapshotsOf(driver).create("s", "a", {}, call))).toBe("already-exists");
  await snapshotsOf(driver).delete(id, call);
  await driver.delete("a", call);
  expect(await leftOn(base)).toEqual([]);
});

test("the record distinguishes two names with one id", async () => {
  const driver = openOn(base);
  await driver.create(volumeOf("a"), call);
  await writeFile(
    `${base}/.csimux/v.a.json`,
    '{"name":"A","bytes":"1073741824","created":"2026-01-01T00:00:00Z","connection":"c1"}\n',
  );
  expect(await codeOf(driver.create(volumeOf("a"), call))).toBe("already-exists");
  expect(await findVolume(driver, "a")).toBeUndefined();
});

test("a delete of a snapshot in progress is refused until it has ended", async () => {
  const driver = openOn(base);
  await driver.create(volumeOf("a"), call);
  const making = snapshotsOf(driver).create("s", "a", {}, call);
  expect(await codeOf(snapshotsOf(driver).delete("f/s", call))).toBe("aborted");
  const { id } = await making;
  await snapshotsOf(driver).delete(id, call);
});

test.each(["restic", "kopia", "other"])(
  "snapshots by %s without settings are refused before anything is created",
  async method => {
    const driver = openOn(base);
    await driver.create(volumeOf("a"), call);
    expect(await codeOf(snapshotsOf(driver).create("s", "a", { driver: method }, call))).toBe("invalid-argument");
    const configured = openOn(base, { settings: { snapshotDriver: method } });
    expect(await codeOf(snapshotsOf(configured).create("s", "a", {}, call))).toBe("invalid-argument");
    expect(await codeOf(snapshotsOf(configured).create("s", "a", { driver: "filecopy" }, call))).toBe("ok");
  },
);
