import { afterEach, beforeEach, describe, expect, test } from "bun:test";
import { execFileSync } from "node:child_process";
import { existsSync } from "node:fs";
import { mkdir, readdir, readFile, rename, rm, stat, symlink, writeFile } from "node:fs/promises";
import type { Driver } from "../../../../lib/drivers/driver.ts";
import { localFiles } from "../../../../lib/io/files.ts";
import { codeOf } from "../../../contract/driver-volumes.ts";
import { callWith, gib, snapshotIds, volumeIds, volumeOf } from "../../../contract/rig.ts";
import { leftOn, openOn, temporaryFolder } from "../directory-rig.ts";
import { abilities, anyMoment, connections, copyOf, handleOf, held, needed } from "./rig.ts";

const call = callWith();

let base = "";
beforeEach(async () => {
  base = await temporaryFolder();
});
afterEach(() => rm(base, { recursive: true, force: true }));

const begin = (to: Driver, name = "copy", handle?: string) =>
  abilities(to).copyTarget.begin(copyOf(name, handle), anyMoment, "begun", call);

describe("a landing", () => {
  test("keeps its record, is in no listing, and goes with its record", async () => {
    const { b, to } = await connections(base);
    const { copyTarget } = abilities(to);
    expect(await begin(to)).toEqual({ id: "copy", record: "begun" });
    expect(await abilities(openOn(b)).copyTarget.begin(copyOf("copy"), anyMoment, "again", call)).toEqual({
      id: "copy",
      record: "begun",
    });
    await copyTarget.note("copy", "noted \n ü", call);
    const folder = await needed(copyTarget.folder)("copy", call);
    await writeFile(`${folder}/file`, "x");
    expect((await stat(`${b}/.csimux`)).mode & 0o077).toBe(0);
    const other = abilities(openOn(b)).copyTarget;
    expect(await other.copies(call)).toEqual([{ id: "copy", record: "noted \n ü" }]);
    expect(await other.find("copy", call)).toEqual({ id: "copy", record: "noted \n ü" });
    expect(await volumeIds(to)).toEqual([]);
    expect(await to.names?.find("copy", call)).toBeUndefined();
    expect(await codeOf(to.reading?.get("copy", call) ?? Promise.resolve())).toBe("not-found");
    expect((await to.health?.look(call))?.volumes.size).toBe(0);
    expect(await snapshotIds(to)).toEqual([]);
    expect(await codeOf(copyTarget.forget("copy", call))).toBe("failed-precondition");
    expect(await codeOf(to.delete("copy", call))).toBe("aborted");
    expect(await readdir(folder)).toEqual(["file"]);
    await other.drop("copy", call);
    await other.drop("copy", call);
    expect(await copyTarget.find("copy", call)).toBeUndefined();
    expect((await leftOn(b)).filter(name => name !== ".csimux/copies")).toEqual([]);
    for (const lost of [() => copyTarget.note("copy", "x", call), () => needed(copyTarget.folder)("copy", call)])
      expect(await codeOf(lost())).toBe("not-found");
    expect(await codeOf(copyTarget.finish("copy", copyOf("copy"), anyMoment, held, call))).toBe("not-found");
  });

  test("and its volume are content, and a record alone is none", async () => {
    const { to } = await connections(base);
    const { copyTarget } = abilities(to);
    const hasContent = () => copyTarget.hasContent("copy", call);
    const seen = [await hasContent()];
    await begin(to);
    seen.push(await hasContent());
    await copyTarget.empty("copy", call);
    seen.push(await hasContent());
    await begin(to);
    await copyTarget.finish("copy", copyOf("copy"), anyMoment, held, call);
    seen.push(await hasContent());
    expect(seen).toEqual([false, true, false, true]);
  });

  test("takes the name: another source, none, or a volume of that name is refused", async () => {
    const { to } = await connections(base);
    const { copyTarget } = abilities(to);
    await begin(to);
    expect(await codeOf(begin(to, "copy", "v:other/another"))).toBe("already-exists");
    expect(await codeOf(begin(to, "copy", "s:other/source"))).toBe("already-exists");
    expect(await codeOf(copyTarget.finish("copy", copyOf("copy", "v:other/another"), anyMoment, held, call))).toBe(
      "already-exists",
    );
    expect(await codeOf(to.create(volumeOf("copy"), call))).toBe("already-exists");
    const made = await copyTarget.finish("copy", copyOf("copy"), anyMoment, held, call);
    expect(made).toMatchObject({ id: "copy", bytes: gib });
    expect(await copyTarget.finish("copy", copyOf("copy"), anyMoment, held, call)).toEqual(made);
    expect(await copyTarget.existing(copyOf("copy"), call)).toEqual(made);
    expect(await codeOf(copyTarget.existing(copyOf("copy", "v:other/another"), call))).toBe("already-exists");
    expect(await codeOf(copyTarget.existing(copyOf("copy", undefined, 2n * gib), call))).toBe("already-exists");
    expect(await codeOf(to.create(volumeOf("copy"), call))).toBe("already-exists");
    expect(await codeOf(copyTarget.drop("copy", call))).toBe("failed-precondition");
    expect(await copyTarget.copies(call)).toEqual([{ id: "copy", record: "begun" }]);
    await to.create(volumeOf("plain"), call);
    expect(await codeOf(copyTarget.existing(copyOf("plain"), call))).toBe("already-exists");
    expect(await codeOf(begin(to, "plain"))).toBe("aborted");
    await to.delete("copy", call);
    expect(await copyTarget.copies(call)).toEqual([]);
  });

  const put: readonly (readonly [string, string, (path: string) => Promise<unknown>])[] = [
    ["a folder without a record", ".csimux/work/c~copy", path => mkdir(`${path}/theirs`, { recursive: true })],
    ["a file", ".csimux/work/c~copy", path => writeFile(path, "theirs")],
    ["a link", ".csimux/work/c~copy", path => symlink("/etc", path)],
    ["a record that is not csimux's", ".csimux/copies/copy.json", path => writeFile(path, "theirs")],
    ["a record of a later csimux", ".csimux/copies/copy.json", path => writeFile(path, '{"version":2}')],
    ["a folder as a record", ".csimux/copies/copy.json", path => mkdir(path)],
    ["a link as the volume", "v/copy", path => symlink("/etc", path)],
    ["a file as the volume", "v/copy", path => writeFile(path, "theirs")],
  ];
  test.each(put)("is not made where there is %s, which stays", async (_, name, make) => {
    const { b, to } = await connections(base);
    for (const folder of [".csimux/work", ".csimux/copies", "v"]) await mkdir(`${b}/${folder}`, { recursive: true });
    await make(`${b}/${name}`);
    const state = () => execFileSync("find", [b, "-printf", "%P %y %s %l\n"], { encoding: "utf8" });
    const before = state();
    expect(await codeOf(begin(to))).toBe("failed-precondition");
    const { copyTarget } = abilities(to);
    expect(await codeOf(copyTarget.drop("copy", call))).toBe(
      name.startsWith(".csimux/work") ? "ok" : "failed-precondition",
    );
    expect(state()).toBe(before);
  });

  test.each(["a file", "a link"])("that was replaced by %s is neither followed nor removed", async what => {
    const { b, to } = await connections(base);
    const { copyTarget } = abilities(to);
    await begin(to);
    const path = `${b}/.csimux/work/c~copy`;
    await rm(path, { recursive: true });
    await mkdir(`${base}/outside`);
    await (what === "a file" ? writeFile(path, "theirs") : symlink(`${base}/outside`, path));
    for (const work of [
      () => begin(to),
      () => needed(copyTarget.folder)("copy", call),
      () => copyTarget.finish("copy", copyOf("copy"), anyMoment, held, call),
      () => copyTarget.drop("copy", call),
    ])
      expect(await codeOf(work())).toBe("failed-precondition");
    expect(existsSync(`${base}/outside`)).toBe(true);
    expect(existsSync(`${b}/v`)).toBe(false);
  });

  test("is refused for streams, and where too little space is left", async () => {
    const { to } = await connections(base);
    const { copyTarget } = abilities(to);
    const refused = async (method: "zfs-send" | "rsync", toSend = 0n) =>
      (await copyTarget.refusal(method, copyOf("copy"), { ...anyMoment, toSend }, call)) as
        | { readonly code?: string }
        | undefined;
    expect((await refused("zfs-send"))?.code).toBe("invalid-argument");
    expect((await refused("rsync", 1n << 62n))?.code).toBe("resource-exhausted");
    expect(await refused("rsync", 1n)).toBeUndefined();
    expect(await copyTarget.copies(call)).toEqual([]);
  });

  test("can be emptied, and its record stays until it is dropped", async () => {
    const { b, to } = await connections(base);
    await begin(to);
    const { copyTarget } = abilities(to);
    await writeFile(`${b}/.csimux/work/c~copy/file`, "x");
    for (const _ of [1, 2]) {
      await copyTarget.empty("copy", call);
      expect(await readdir(`${b}/.csimux/work`)).toEqual([]);
    }
    expect(await copyTarget.find("copy", call)).toEqual({ id: "copy", record: "begun" });
    await copyTarget.drop("copy", call);
    expect(await copyTarget.find("copy", call)).toBeUndefined();
    await copyTarget.empty("copy", call);
    await begin(to);
    await copyTarget.finish("copy", copyOf("copy"), anyMoment, held, call);
    expect(await codeOf(copyTarget.empty("copy", call))).toBe("failed-precondition");
    expect(await codeOf(begin(to))).toBe("aborted");
    expect(await needed(copyTarget.folder)("copy", call)).not.toStartWith(`${b}/v`);
    expect(existsSync(`${b}/v/copy`)).toBe(true);
  });

  test("with an unreadable record is listed without text, and others with theirs", async () => {
    const { b, to } = await connections(base);
    await begin(to, "one");
    await begin(to, "two");
    await writeFile(`${b}/.csimux/copies/one.json`, "half");
    const { copyTarget } = abilities(to);
    const all = await copyTarget.copies(call);
    expect(all.map(({ id, record }) => [id, record]).sort()).toEqual([
      ["one", ""],
      ["two", "begun"],
    ]);
    for (const work of [
      () => copyTarget.find("one", call),
      () => copyTarget.note("one", "x", call),
      () => copyTarget.drop("one", call),
      () => begin(to, "one"),
    ])
      expect(await codeOf(work())).toBe("failed-precondition");
    expect(await readFile(`${b}/.csimux/copies/one.json`, "utf8")).toBe("half");
  });

  test("whose record another process removes while it is looked for is not found, and not called damaged", async () => {
    const { a, b, to } = await connections(base);
    const late: typeof localFiles = {
      ...localFiles,
      async readText(path, mostBytes) {
        if (path.endsWith("copies/copy.json")) await rm(path);
        return localFiles.readText(path, mostBytes);
      },
    };
    await begin(to);
    expect(await abilities(openOn(b, { files: late })).copyTarget.find("copy", call)).toBeUndefined();
    await symlink(`${a}/nothing`, `${b}/.csimux/copies/link.json`);
    expect(await codeOf(abilities(openOn(b)).copyTarget.find("link", call))).toBe("failed-precondition");
  });

  test.each([
    ["a file of 4 TiB", (path: string) => execFileSync("truncate", ["-s", "4T", path])],
    ["a pipe", (path: string) => execFileSync("mkfifo", [path])],
    ["a folder", (path: string) => mkdir(path)],
  ])("whose record was replaced by %s is refused at once, and that stays", async (_, make) => {
    const { b, to } = await connections(base);
    await begin(to);
    await rm(`${b}/.csimux/copies/copy.json`);
    await make(`${b}/.csimux/copies/copy.json`);
    const before = await stat(`${b}/.csimux/copies/copy.json`);
    const { copyTarget } = abilities(to);
    for (const work of [() => copyTarget.find("copy", call), () => copyTarget.drop("copy", call), () => begin(to)])
      expect(await codeOf(work())).toBe("failed-precondition");
    expect(await copyTarget.copies(call)).toEqual([{ id: "copy", record: "" }]);
    expect((await stat(`${b}/.csimux/copies/copy.json`)).ino).toBe(before.ino);
  });

  test("that another process begins while this one does is joined", async () => {
    const { b, to } = await connections(base);
    const later: typeof localFiles = {
      ...localFiles,
      async entry(path) {
        if (path.endsWith("work/c~copy")) await begin(to);
        return localFiles.entry(path);
      },
    };
    expect(await begin(openOn(b, { files: later }))).toEqual({ id: "copy", record: "begun" });
  });

  test("of two processes on one base folder becomes one volume, whichever is first", async () => {
    const { b, to } = await connections(base);
    const all = [to, openOn(b)].map(driver => abilities(driver).copyTarget);
    for (let pass = 0; pass < 20; pass++) {
      await Promise.all(all.map(copyTarget => copyTarget.begin(copyOf("copy"), anyMoment, "begun", call)));
      await writeFile(`${b}/.csimux/work/c~copy/file`, "x");
      const ends = await Promise.allSettled(
        all.map(copyTarget => copyTarget.finish("copy", copyOf("copy"), anyMoment, held, call)),
      );
      const codes = ends.map(end => (end.status === "fulfilled" ? "ok" : end.reason.code));
      expect(codes.filter(code => !["ok", "aborted", "unavailable"].includes(code))).toEqual([]);
      // Each may have taken away what the other has begun: both then answer that they are to be asked again.
      if (!codes.includes("ok")) await all[pass % 2]?.finish("copy", copyOf("copy"), anyMoment, held, call);
      const [one, other] = await Promise.all(all.map(copyTarget => copyTarget.existing(copyOf("copy"), call)));
      expect(one).toMatchObject({ id: "copy", bytes: gib });
      expect(other).toEqual(one);
      expect(await readdir(`${b}/v/copy`)).toEqual(["file"]);
      await Promise.all(all.map(copyTarget => copyTarget.forget("copy", call)));
      await to.delete("copy", call);
      expect((await leftOn(b)).filter(name => name !== ".csimux/copies")).toEqual([]);
    }
  });

  test("is not reported as absent while the base folder is", async () => {
    const { b, to } = await connections(base);
    await begin(to);
    await rename(b, `${b}-away`);
    const { copyTarget, copySource } = abilities(to);
    for (const work of [
      () => copyTarget.find("copy", call),
      () => copyTarget.copies(call),
      () => copyTarget.drop("copy", call),
      () => copyTarget.forget("copy", call),
      () => copyTarget.note("copy", "x", call),
      () => copyTarget.existing(copyOf("copy"), call),
      () => begin(to),
      () => copySource.protectedSnapshots(call),
      () => copySource.release(handleOf("copy"), undefined, call),
    ])
      expect(await codeOf(work())).toBe("unavailable");
  });

  test("that became a volume is answered only when its name is on stable storage", async () => {
    const { b, to } = await connections(base);
    await begin(to);
    await abilities(to).copyTarget.finish("copy", copyOf("copy"), anyMoment, held, call);
    const synced: string[] = [];
    const sync = async (folder: string) => void synced.push(folder);
    const { copyTarget } = abilities(openOn(b, { files: { ...localFiles, sync } }));
    await copyTarget.existing(copyOf("copy"), call);
    await copyTarget.finish("copy", copyOf("copy"), anyMoment, held, call);
    expect(synced).toEqual([`${b}/v`, `${b}/v`]);
    synced.length = 0;
    await copyTarget.forget("copy", call);
    await copyTarget.existing(copyOf("copy"), call);
    expect(synced).toEqual([`${b}/.csimux/copies`]);
  });
});
