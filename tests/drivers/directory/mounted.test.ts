import { afterEach, beforeEach, describe, expect, test } from "bun:test";
import { mkdir, readdir, readFile, rm, symlink, writeFile } from "node:fs/promises";
import { getuid } from "node:process";
import { parseMountinfo } from "../../../lib/core/mountinfo.ts";
import { mountsIn, mountsOf } from "../../../lib/drivers/directory/mounted.ts";
import { type Files, localFiles } from "../../../lib/io/files.ts";
import type { CommandRunner } from "../../../lib/io/runner.ts";
import { below } from "../../../scripts/check/below.ts";
import { codeOf } from "../../contract/driver-volumes.ts";
import { callWith, gib, snapshotsOf, volumeIds, volumeOf } from "../../contract/rig.ts";
import { leftOn, openOn, systemRunner, temporaryFolder } from "./directory-rig.ts";

const call = callWith();
const isRoot = getuid?.() === 0;

let base = "";
beforeEach(async () => {
  base = await temporaryFolder();
});
afterEach(() => rm(base, { recursive: true, force: true }));

describe("the mounts in a folder", () => {
  const table = [
    "21 1 8:1 / / rw - ext4 /dev/sda1 rw",
    "30 21 8:1 /x /b/v/a\\040b/sub rw - ext4 /dev/sda1 rw",
    "31 21 8:1 /x /b/v/a rw shared:7 - ext4 /dev/sda1 rw",
    "",
  ].join("\n");
  test.each([
    ["/b/v/a", ["/b/v/a"]],
    ["/b/v/a b", ["/b/v/a b/sub"]],
    ["/b/v/a b/sub", ["/b/v/a b/sub"]],
    ["/b/v", ["/b/v/a b/sub", "/b/v/a"]],
    ["/b/v/a b/su", []],
    ["/c", []],
  ])("%p: %p", (folder, points) => expect(mountsIn(table, folder)).toEqual(points));
});

describe("the mount points of a folder", () => {
  const table = parseMountinfo(
    [
      "21 1 8:1 / / rw",
      "22 21 8:2 /data /srv/base rw",
      "30 21 8:2 /data/v/a /pods/1 rw",
      "31 21 8:2 /data/v/b/sub /pods/2 rw",
      "32 21 8:2 /data/v/c//deleted /pods/3 rw",
      "33 21 8:3 /data/v/d /pods/4 rw",
      "34 21 8:2 /data/v/ee /pods/5 rw",
      "35 21 8:1 /x/v/f /pods/6 rw",
    ]
      .map(line => `${line} - ext4 /dev/sda rw`)
      .concat("40 21 0:50 / /mnt rw - nfs4 nas:/k8s/ rw", "41 21 0:50 / /pods/7 rw - nfs4 nas:/k8s/v/g rw")
      .join("\n"),
  );
  test.each([
    ["/srv/base/v/a", ["/pods/1"]],
    ["/srv/base/v/b", ["/pods/2"]],
    ["/srv/base/v/c", []],
    ["/srv/base/v/d", []],
    ["/srv/base/v/e", []],
    ["/x/v/f", ["/pods/6"]],
    ["/mnt/v/g", ["/pods/7"]],
    ["/mnt/v/h", []],
  ])("%p: %p", (folder, points) => expect(mountsOf(table, folder)).toEqual(points));
});

describe.skipIf(!isRoot)("a tree that is mounted elsewhere", () => {
  test.each([
    ["empty", ""],
    ["with content", "sub"],
  ])("is not deleted until it is unmounted: %s", async (_, sub) => {
    const run = async (...argv: [string, ...string[]]) =>
      expect(await systemRunner.run({ argv }, call.signal)).toMatchObject({ exitCode: 0 });
    const driver = openOn(base);
    await driver.create(volumeOf("a"), call);
    await mkdir(`${base}/v/a/${sub}`, { recursive: true });
    const { id } = await snapshotsOf(driver).create("s", "a", {}, call);
    const place = `${base}/place`;
    await mkdir(place);
    for (const [tree, remove] of [
      ["v/a", () => driver.delete("a", call)],
      ["s/_s", () => snapshotsOf(driver).delete(id, call)],
    ] as const) {
      await run("mount", "--bind", `${base}/${tree}/${sub}`, place);
      try {
        const error = await remove().catch(reason => reason);
        expect(error).toMatchObject({ code: "failed-precondition" });
        expect(error.message).toContain(place.replace(base, "<base folder>"));
        await readdir(`${base}/${tree}/${sub}`);
      } finally {
        await run("umount", place);
      }
      await remove();
    }
    await rm(place, { recursive: true });
    expect(await leftOn(base)).toEqual([]);
  });
});

describe.skipIf(!isRoot)("a bind mount of the same file system in a tree", () => {
  const run = async (...argv: [string, ...string[]]) => {
    const { exitCode, stderr } = await systemRunner.run({ argv }, call.signal);
    expect([exitCode, stderr]).toEqual([0, ""]);
  };
  const outside = () => `${base}/outside`;

  /** A driver whose base folder is a link, and the mount point in `tree` below it. */
  const withMount = async (tree: string, work: (driver: ReturnType<typeof openOn>) => Promise<void>) => {
    const driver = openOn(`${base}/link`);
    await mkdir(`${base}/real`);
    await symlink(`${base}/real`, `${base}/link`);
    await mkdir(outside());
    await writeFile(`${outside()}/precious`, "kept");
    await driver.create(volumeOf("a"), call);
    await mkdir(`${base}/real/v/a/in side`);
    await writeFile(`${base}/real/v/a/file`, "content");
    await snapshotsOf(driver).create("s", "a", {}, call);
    const point = `${base}/real/${tree}/in side`;
    await run("mount", "--bind", outside(), point);
    try {
      await work(driver);
    } finally {
      await run("umount", point);
    }
    expect(await readFile(`${outside()}/precious`, "utf8")).toBe("kept");
  };

  test("keeps a volume from being deleted, and nothing inside or outside is lost", async () => {
    await withMount("v/a", async driver => {
      const error = await driver.delete("a", call).catch(reason => reason);
      expect(error).toMatchObject({ code: "failed-precondition" });
      expect(error.message).toContain("in side");
      expect((await readdir(`${base}/real/v/a`)).sort()).toEqual(["file", "in side"]);
    });
    await openOn(`${base}/link`).delete("a", call);
    expect(await volumeIds(openOn(`${base}/link`))).toEqual([]);
  });

  test("keeps a snapshot from being deleted", () =>
    withMount("s/_s", async driver => {
      expect(await codeOf(snapshotsOf(driver).delete("f/s", call))).toBe("failed-precondition");
    }));

  test("keeps the remains of an interrupted removal from being swept", () =>
    withMount("v/a", async driver => {
      const runner: CommandRunner = {
        where: "test",
        run: async () => {
          throw new Error("the process was killed");
        },
      };
      await mkdir(`${base}/real/v/b/in side`, { recursive: true });
      await writeFile(`${base}/real/v/b/file`, "content");
      expect(await codeOf(openOn(`${base}/link`, { runner }).delete("b", call))).toBe("unavailable");
      const [left = ""] = await readdir(`${base}/real/.csimux/work`);
      const point = `${base}/real/.csimux/work/${left}/in side`;
      await run("mount", "--bind", outside(), point);
      expect(await codeOf(driver.delete("b", call))).toBe("failed-precondition");
      const [taken = ""] = await readdir(`${base}/real/.csimux/work`);
      await run("umount", `${base}/real/.csimux/work/${taken}/in side`);
      expect(await codeOf(driver.delete("b", call))).toBe("ok");
    }));
});

describe("a base folder whose parts are on several file systems or in several quota projects", () => {
  const part = (path: string) => path.slice(base.length + 1).split("/")[0];
  const apart: Files = {
    ...localFiles,
    rename: async (from, to) => {
      if (part(from) === part(to)) return localFiles.rename(from, to);
      throw Object.assign(new Error("Invalid cross-device link"), { code: "EXDEV" });
    },
  };

  test("lets volumes with content be deleted", async () => {
    const driver = openOn(base, { files: apart });
    await driver.create(volumeOf("a"), call);
    await writeFile(`${base}/v/a/file`, "content");
    await driver.delete("a", call);
    expect(await leftOn(base)).toEqual([]);
  });

  test("refuses copies and says why", async () => {
    const driver = openOn(base, { files: apart });
    await driver.create(volumeOf("a"), call);
    const error = await driver.create(volumeOf("b", gib, { kind: "volume", id: "a" }), call).catch(reason => reason);
    expect(error).toMatchObject({ code: "failed-precondition" });
    expect(error.message).toContain("one file system");
    expect(below(base)).toEqual([".csimux", ".csimux/v.a.json", ".csimux/work", "v", "v/a"]);
  });

  test("may have a link in place of v, which stays after the last volume is deleted", async () => {
    await mkdir(`${base}/elsewhere`);
    await symlink(`${base}/elsewhere`, `${base}/v`);
    const driver = openOn(base);
    for (const id of ["a", "b"]) await driver.create(volumeOf(id), call);
    await writeFile(`${base}/v/b/file`, "content");
    for (const id of ["a", "b", "b"]) expect(await codeOf(driver.delete(id, call))).toBe("ok");
    expect(await readdir(`${base}/elsewhere`)).toEqual([]);
    expect(await codeOf(driver.create(volumeOf("c"), call))).toBe("ok");
  });
});

test("an rm that takes the option for other file systems and ignores it removes nothing", async () => {
  const removals: unknown[] = [];
  // uutils before 0.10, src/uu/rm/locales/en-US.ftl: "NOT IMPLEMENTED".
  const run: CommandRunner["run"] = (command, signal) => {
    if (command.argv[0] !== "rm") return systemRunner.run(command, signal);
    if (command.argv[1] === "--version")
      return Promise.resolve({ stdout: "rm (uutils coreutils) 0.8.0\n", stderr: "", exitCode: 0 });
    removals.push(command.argv);
    return systemRunner.run(command, signal);
  };
  const driver = openOn(base, { runner: { ...systemRunner, run } });
  await driver.create(volumeOf("a"), call);
  await writeFile(`${base}/v/a/file`, "content");
  expect(await codeOf(driver.check?.(call) ?? Promise.resolve())).toBe("failed-precondition");
  expect(await codeOf(driver.delete("a", call))).toBe("failed-precondition");
  expect(removals).toEqual([]);
  await openOn(base).delete("a", call);
  expect(await leftOn(base)).toEqual([]);
});
