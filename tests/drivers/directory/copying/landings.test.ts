import { afterEach, beforeEach, describe, expect, test } from "bun:test";
import { execFileSync } from "node:child_process";
import { existsSync } from "node:fs";
import { mkdir, readdir, readFile, rename, rm, stat, symlink, writeFile } from "node:fs/promises";
import type { Driver } from "../../../../lib/drivers/driver.ts";
import { localFiles } from "../../../../lib/io/files.ts";
import { codeOf } from "../../../contract/driver-volumes.ts";
import { callWith, gib, snapshotIds, volumeIds, volumeOf } from "../../../contract/rig.ts";
import { leftOn, openOn, temporaryFolder } from "../directory-rig.ts";
import { abilities, anyMoment, connections, copyOf, handleOf, needed } from "./rig.ts";

const call = callWith();

let base = "";
beforeEach(async () => {
  base = await temporaryFolder();
});
afterEach(() => rm(base, { recursive: true, force: true }));

const begin = (to: Driver, name = "copy", handle?: string) =>
  abilities(to).taking.begin(copyOf(name, handle), anyMoment, "begun", call);

describe("a landing", () => {
  test("keeps its record, is in no listing, and goes with its record", async () => {
    const { b, to } = await connections(base);
    const { taking } = abilities(to);
    expect(await begin(to)).toEqual({ id: "copy", record: "begun" });
    expect(await abilities(openOn(b)).taking.begin(copyOf("copy"), anyMoment, "again", call)).toEqual({
      id: "copy",
      record: "begun",
    });
    await taking.note("copy", "noted \n ü", call);
    const folder = await needed(taking.folder)("copy", call);
    await writeFile(`${folder}/file`, "x");
    expect((await stat(`${b}/.csimux`)).mode & 0o077).toBe(0);
    const other = abilities(openOn(b)).taking;
    expect(await other.landings(call)).toEqual([{ id: "copy", record: "noted \n ü" }]);
    expect(await other.find("copy", call)).toEqual({ id: "copy", record: "noted \n ü" });
    expect(await volumeIds(to)).toEqual([]);
    expect(await to.names?.find("copy", call)).toBeUndefined();
    expect(await codeOf(to.reading?.get("copy", call) ?? Promise.resolve())).toBe("not-found");
    expect((await to.health?.look(call))?.volumes.size).toBe(0);
    expect(await snapshotIds(to)).toEqual([]);
    expect(await codeOf(taking.forget("copy", call))).toBe("failed-precondition");
    expect(await codeOf(to.delete("copy", call))).toBe("aborted");
    expect(await readdir(folder)).toEqual(["file"]);
    await other.drop("copy", call);
    await other.drop("copy", call);
    expect(await taking.find("copy", call)).toBeUndefined();
    expect((await leftOn(b)).filter(name => name !== ".csimux/copies")).toEqual([]);
    for (const lost of [() => taking.note("copy", "x", call), () => needed(taking.folder)("copy", call)])
      expect(await codeOf(lost())).toBe("not-found");
    expect(await codeOf(taking.land("copy", copyOf("copy"), anyMoment, call))).toBe("not-found");
  });

  test("and its volume are content, and a record alone is none", async () => {
    const { to } = await connections(base);
    const { taking } = abilities(to);
    const hasContent = () => taking.hasContent("copy", call);
    const seen = [await hasContent()];
    await begin(to);
    seen.push(await hasContent());
    await taking.empty("copy", call);
    seen.push(await hasContent());
    await begin(to);
    await taking.land("copy", copyOf("copy"), anyMoment, call);
    seen.push(await hasContent());
    expect(seen).toEqual([false, true, false, true]);
  });

  test("takes the name: another source, none, or a volume of that name is refused", async () => {
    const { to } = await connections(base);
    const { taking } = abilities(to);
    await begin(to);
    expect(await codeOf(begin(to, "copy", "v:other/another"))).toBe("already-exists");
    expect(await codeOf(begin(to, "copy", "s:other/source"))).toBe("already-exists");
    expect(await codeOf(taking.land("copy", copyOf("copy", "v:other/another"), anyMoment, call))).toBe(
      "already-exists",
    );
    expect(await codeOf(to.create(volumeOf("copy"), call))).toBe("already-exists");
    const made = await taking.land("copy", copyOf("copy"), anyMoment, call);
    expect(made).toMatchObject({ id: "copy", bytes: gib });
    expect(await taking.land("copy", copyOf("copy"), anyMoment, call)).toEqual(made);
    expect(await taking.existing(copyOf("copy"), call)).toEqual(made);
    expect(await codeOf(taking.existing(copyOf("copy", "v:other/another"), call))).toBe("already-exists");
    expect(await codeOf(taking.existing(copyOf("copy", undefined, 2n * gib), call))).toBe("already-exists");
    expect(await codeOf(to.create(volumeOf("copy"), call))).toBe("already-exists");
    expect(await codeOf(taking.drop("copy", call))).toBe("failed-precondition");
    expect(await taking.landings(call)).toEqual([{ id: "copy", record: "begun" }]);
    await to.create(volumeOf("plain"), call);
    expect(await codeOf(taking.existing(copyOf("plain"), call))).toBe("already-exists");
    expect(await codeOf(begin(to, "plain"))).toBe("aborted");
    await to.delete("copy", call);
    expect(await taking.landings(call)).toEqual([]);
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
    const { taking } = abilities(to);
    expect(await codeOf(taking.drop("copy", call))).toBe(
      name.startsWith(".csimux/work") ? "ok" : "failed-precondition",
    );
    expect(state()).toBe(before);
  });

  test.each(["a file", "a link"])("that was replaced by %s is neither followed nor removed", async what => {
    const { b, to } = await connections(base);
    const { taking } = abilities(to);
    await begin(to);
    const path = `${b}/.csimux/work/c~copy`;
    await rm(path, { recursive: true });
    await mkdir(`${base}/outside`);
    await (what === "a file" ? writeFile(path, "theirs") : symlink(`${base}/outside`, path));
    for (const work of [
      () => begin(to),
      () => needed(taking.folder)("copy", call),
      () => taking.land("copy", copyOf("copy"), anyMoment, call),
      () => taking.drop("copy", call),
    ])
      expect(await codeOf(work())).toBe("failed-precondition");
    expect(existsSync(`${base}/outside`)).toBe(true);
    expect(existsSync(`${b}/v`)).toBe(false);
  });

  test("is refused for streams, and where too little space is left", async () => {
    const { to } = await connections(base);
    const { taking } = abilities(to);
    const refused = async (way: "stream" | "files", toSend = 0n) =>
      (await taking.refusal(way, copyOf("copy"), { ...anyMoment, toSend }, call)) as
        | { readonly code?: string }
        | undefined;
    expect((await refused("stream"))?.code).toBe("invalid-argument");
    expect((await refused("files", 1n << 62n))?.code).toBe("resource-exhausted");
    expect(await refused("files", 1n)).toBeUndefined();
    expect(await taking.landings(call)).toEqual([]);
  });

  test("can be emptied, and its record stays until it is dropped", async () => {
    const { b, to } = await connections(base);
    await begin(to);
    const { taking } = abilities(to);
    await writeFile(`${b}/.csimux/work/c~copy/file`, "x");
    for (const _ of [1, 2]) {
      await taking.empty("copy", call);
      expect(await readdir(`${b}/.csimux/work`)).toEqual([]);
    }
    expect(await taking.find("copy", call)).toEqual({ id: "copy", record: "begun" });
    await taking.drop("copy", call);
    expect(await taking.find("copy", call)).toBeUndefined();
    await taking.empty("copy", call);
    await begin(to);
    await taking.land("copy", copyOf("copy"), anyMoment, call);
    expect(await codeOf(taking.empty("copy", call))).toBe("failed-precondition");
    expect(existsSync(`${b}/v/copy`)).toBe(true);
  });

  test("with an unreadable record is listed without text, and others with theirs", async () => {
    const { b, to } = await connections(base);
    await begin(to, "one");
    await begin(to, "two");
    await writeFile(`${b}/.csimux/copies/one.json`, "half");
    const { taking } = abilities(to);
    const all = await taking.landings(call);
    expect(all.map(({ id, record }) => [id, record]).sort()).toEqual([
      ["one", ""],
      ["two", "begun"],
    ]);
    for (const work of [
      () => taking.find("one", call),
      () => taking.note("one", "x", call),
      () => taking.drop("one", call),
      () => begin(to, "one"),
    ])
      expect(await codeOf(work())).toBe("failed-precondition");
    expect(await readFile(`${b}/.csimux/copies/one.json`, "utf8")).toBe("half");
  });

  test("whose record another process creates while it is looked for is found, and not called damaged", async () => {
    const { a, b } = await connections(base);
    const other = openOn(b);
    const late: typeof localFiles = {
      ...localFiles,
      async readText(path, mostBytes) {
        const text = await localFiles.readText(path, mostBytes);
        if (path.endsWith("copies/copy.json") && text === undefined) await begin(other);
        return text;
      },
    };
    expect(await abilities(openOn(b, { files: late })).taking.find("copy", call)).toEqual({
      id: "copy",
      record: "begun",
    });
    await symlink(`${a}/nothing`, `${b}/.csimux/copies/link.json`);
    expect(await codeOf(abilities(openOn(b)).taking.find("link", call))).toBe("failed-precondition");
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
    const { taking } = abilities(to);
    for (const work of [() => taking.find("copy", call), () => taking.drop("copy", call), () => begin(to)])
      expect(await codeOf(work())).toBe("failed-precondition");
    expect(await taking.landings(call)).toEqual([{ id: "copy", record: "" }]);
    expect((await stat(`${b}/.csimux/copies/copy.json`)).ino).toBe(before.ino);
  });

  test("of two processes on one base folder becomes one volume, whichever is first", async () => {
    const { b, to } = await connections(base);
    const all = [to, openOn(b)].map(driver => abilities(driver).taking);
    for (let round = 0; round < 20; round++) {
      await Promise.all(all.map(taking => taking.begin(copyOf("copy"), anyMoment, "begun", call)));
      await writeFile(`${b}/.csimux/work/c~copy/file`, "x");
      const ends = await Promise.allSettled(all.map(taking => taking.land("copy", copyOf("copy"), anyMoment, call)));
      const codes = ends.map(end => (end.status === "fulfilled" ? "ok" : end.reason.code));
      expect(codes.filter(code => !["ok", "aborted", "unavailable"].includes(code))).toEqual([]);
      const [one, other] = await Promise.all(all.map(taking => taking.existing(copyOf("copy"), call)));
      expect(one).toMatchObject({ id: "copy", bytes: gib });
      expect(other).toEqual(one);
      expect(await readdir(`${b}/v/copy`)).toEqual(["file"]);
      await Promise.all(all.map(taking => taking.forget("copy", call)));
      await to.delete("copy", call);
      expect((await leftOn(b)).filter(name => name !== ".csimux/copies")).toEqual([]);
    }
  });

  test("is not reported as absent while the base folder is", async () => {
    const { b, to } = await connections(base);
    await begin(to);
    await rename(b, `${b}-away`);
    const { taking, giving } = abilities(to);
    for (const work of [
      () => taking.find("copy", call),
      () => taking.landings(call),
      () => taking.drop("copy", call),
      () => taking.forget("copy", call),
      () => taking.note("copy", "x", call),
      () => taking.existing(copyOf("copy"), call),
      () => begin(to),
      () => giving.protectedMoments(call),
      () => giving.release(handleOf("copy"), undefined, call),
    ])
      expect(await codeOf(work())).toBe("unavailable");
  });

  test("that became a volume is answered only when its name is on stable storage", async () => {
    const { b, to } = await connections(base);
    await begin(to);
    await abilities(to).taking.land("copy", copyOf("copy"), anyMoment, call);
    const synced: string[] = [];
    const sync = async (folder: string) => void synced.push(folder);
    const { taking } = abilities(openOn(b, { files: { ...localFiles, sync } }));
    await taking.existing(copyOf("copy"), call);
    await taking.land("copy", copyOf("copy"), anyMoment, call);
    expect(synced).toEqual([`${b}/v`, `${b}/v`]);
    synced.length = 0;
    await taking.forget("copy", call);
    await taking.existing(copyOf("copy"), call);
    expect(synced).toEqual([`${b}/.csimux/copies`]);
  });
});
