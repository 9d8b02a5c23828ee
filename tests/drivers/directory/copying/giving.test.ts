import { afterEach, beforeEach, describe, expect, test } from "bun:test";
import { execFileSync } from "node:child_process";
import { mkdir, readdir, readFile, rename, rm, stat, symlink, writeFile } from "node:fs/promises";
import { codeOf } from "../../../contract/driver-volumes.ts";
import { callWith, gib, snapshotsOf } from "../../../contract/rig.ts";
import { isHostRoot } from "../../../root.ts";
import { leftOn, openOn, temporaryFolder } from "../directory-rig.ts";
import {
  abilities,
  anyMoment,
  checksum,
  connections,
  copyOf,
  copyWhole,
  handleOf,
  needed,
  protectionOf,
} from "./rig.ts";

const call = callWith();
const can = isHostRoot && Bun.which("rsync") !== null;

let base = "";
beforeEach(async () => {
  base = await temporaryFolder();
});
afterEach(() => rm(base, { recursive: true, force: true }));

describe.skipIf(!can)("a copy to another connection", () => {
  test("of a snapshot or a volume has its content, and then everything of the copy itself is gone", async () => {
    const { b, from, to, origin } = await connections(base);
    await mkdir(`${origin}/deep`);
    await writeFile(`${origin}/deep/file`, "content".repeat(10_000));
    await symlink("/etc/passwd", `${origin}/link`);
    execFileSync("sh", ["-c", "printf x > \"$(printf 'a\\nb \\377')\""], { cwd: origin });
    const { id: snapshot } = await snapshotsOf(from).create("s", "origin", {}, call);
    const expected = checksum(origin);
    const id = await copyWhole(from, to, { kind: "volume", id: "origin" }, copyOf("one", "v:a/origin"));
    await rm(`${origin}/deep`, { recursive: true });
    await copyWhole(from, to, { kind: "snapshot", id: snapshot }, copyOf("two", `s:a/${snapshot}`));
    for (const name of ["one", "two"]) expect([name, checksum(`${b}/v/${name}`)]).toEqual([name, expected]);
    expect(await abilities(to).copyTarget.copies(call)).toEqual([]);
    expect(await abilities(from).copySource.protectedSnapshots(call)).toEqual([]);
    for (const folder of [".csimux/copies", ".csimux/work"]) expect(await readdir(`${b}/${folder}`)).toEqual([]);
    for (const name of [id, "two"]) await to.delete(name, call);
    expect((await leftOn(b)).filter(name => name !== ".csimux/copies")).toEqual([]);
  });

  test("gets the owner and mode of the target's new volumes, and the size that was asked for", async () => {
    const { b, from, to } = await connections(base, { settings: { mode: 0o2770, user: 1234, group: 4321 } });
    const id = await copyWhole(from, to, { kind: "volume", id: "origin" }, copyOf("copy", "v:a/origin", 3n * gib));
    const { mode, uid, gid } = await stat(`${b}/v/${id}`);
    expect([mode & 0o7777, uid, gid]).toEqual([0o2770, 1234, 4321]);
    expect((await to.reading?.get(id, call))?.bytes).toBe(3n * gib);
    const small = copyOf("small", "v:a/origin", gib / 2n);
    expect(await codeOf(copyWhole(from, to, { kind: "volume", id: "origin" }, small))).toBe("out-of-range");
  });

  test("is refused, with nothing left, where the source holds a mount that it would omit", async () => {
    const { b, from, to, origin } = await connections(base);
    await mkdir(`${origin}/mounted`);
    execFileSync("mount", ["-t", "tmpfs", "tmpfs", `${origin}/mounted`]);
    try {
      const spec = copyOf("copy", "v:a/origin");
      expect(await codeOf(copyWhole(from, to, { kind: "volume", id: "origin" }, spec))).toBe("failed-precondition");
    } finally {
      execFileSync("umount", [`${origin}/mounted`]);
    }
    await abilities(to).copyTarget.drop("copy", call);
    expect((await leftOn(b)).filter(name => name !== ".csimux/copies")).toEqual([]);
  });
});

describe("what is given", () => {
  test("is not deleted until the copy has ended, and the answer names the copy", async () => {
    const { a, from } = await connections(base);
    const { copySource } = abilities(from);
    await writeFile(`${a}/v/origin/file`, "x");
    const { id: snapshot } = await snapshotsOf(from).create("s", "origin", {}, call);
    await copySource.protect({ kind: "volume", id: "origin" }, handleOf("one"), 0, call);
    await copySource.protect({ kind: "snapshot", id: snapshot }, handleOf("two"), 0, call);
    for (const driver of [from, openOn(a)])
      for (const [refused, target] of [
        [() => driver.delete("origin", call), "v:c1/one"],
        [() => snapshotsOf(driver).delete(snapshot, call), "v:c1/two"],
      ] as const)
        expect(
          await refused().then(
            () => "deleted",
            ({ code, message }) => `${code} ${message}`,
          ),
        ).toMatch(new RegExp(`^aborted .*is being copied to "${target}"`));
    const kept = await copySource.protectedSnapshots(call);
    expect(kept.map(({ target }) => target).sort()).toEqual(["v:c1/one", "v:c1/two"]);
    for (const { since } of kept) expect(Math.abs(since - Date.now() / 1000)).toBeLessThan(60);
    await copySource.release(handleOf("other"), undefined, call);
    await copySource.release(handleOf("one"), { name: "v/origin" }, call);
    expect(await codeOf(from.delete("origin", call))).toBe("aborted");
    await copySource.release(handleOf("one"), undefined, call);
    await copySource.release(handleOf("one"), undefined, call);
    await from.delete("origin", call);
    expect(await codeOf(snapshotsOf(from).delete(snapshot, call))).toBe("aborted");
    await copySource.release(handleOf("two"), { name: "s/other" }, call);
    await snapshotsOf(from).delete(snapshot, call);
    expect((await leftOn(a)).filter(name => name !== ".csimux/moments")).toEqual([]);
  });

  test("is found again with the time of its beginning, and not protected if it does not exist", async () => {
    const { a, from } = await connections(base);
    const { copySource } = abilities(from);
    const source = { kind: "volume", id: "origin" } as const;
    const snapshot = await copySource.protect(source, handleOf("one"), 0, call);
    expect(snapshot).toMatchObject({ name: "v/origin", stable: false, bytes: gib, methods: ["rsync"] });
    const file = await readFile(`${a}/${protectionOf("one")}`, "utf8");
    expect(await copySource.protect(source, handleOf("one"), 1, call)).toEqual(snapshot);
    expect(await readFile(`${a}/${protectionOf("one")}`, "utf8")).toBe(file);
    for (const absent of [
      { kind: "volume", id: "no" },
      { kind: "snapshot", id: "f/no" },
      { kind: "volume", id: "../v" },
    ] as const)
      expect(await codeOf(copySource.protect(absent, handleOf("two"), 0, call))).toBe("not-found");
    expect((await copySource.protectedSnapshots(call)).length).toBe(1);
  });

  test.each([
    ["text", "theirs"],
    ["a later version", JSON.stringify({ version: 2 })],
    [
      "another target",
      JSON.stringify({
        version: 1,
        target: "v:c1/x",
        since: 1,
        name: "v/origin",
        connection: "c1",
        source: { kind: "volume", id: "y" },
      }),
    ],
  ])("stays as it is where a file of csimux's name holds %s", async (_, text) => {
    const { a, from } = await connections(base);
    await mkdir(`${a}/.csimux/moments`, { recursive: true });
    await writeFile(`${a}/${protectionOf("one")}`, text);
    const { copySource } = abilities(from);
    const source = { kind: "volume", id: "origin" } as const;
    expect(await codeOf(copySource.protect(source, handleOf("one"), 0, call))).toBe("failed-precondition");
    expect(await codeOf(copySource.release(handleOf("one"), undefined, call))).toBe("failed-precondition");
    expect(await readFile(`${a}/${protectionOf("one")}`, "utf8")).toBe(text);
    await from.delete("origin", call);
  });

  test("is read from a mount that no link or device leads out of, and is not read after it was replaced", async () => {
    const { from, a } = await connections(base);
    const tree = needed(abilities(from).copySource.tree);
    await symlink("/etc/hostname", `${a}/v/origin/link`);
    const read = (name: string, work: (path: string) => Promise<unknown> = async () => undefined) =>
      codeOf(
        tree({ ...anyMoment, name }, call, async ({ path, runner }) => {
          const argv = ["cat", "--", `${path}/link`] as const;
          const { stderr } = await runner.run({ argv }, call.signal);
          expect(stderr).toContain("Too many levels of symbolic links");
          await work(path);
        }),
      );
    expect(await read("v/origin")).toBe("ok");
    for (const name of ["v/../../x", "../x", "s/_no", "v/no", "x", "v/", ".csimux/work"])
      expect(await read(name)).toBe("not-found");
    const replace = async (path: string) => {
      await rename(path, `${path}-away`);
      await mkdir(path);
    };
    expect(await read("v/origin", replace)).toBe("aborted");
  });
});
