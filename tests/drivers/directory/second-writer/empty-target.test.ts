import { afterEach, beforeEach, describe, expect, test } from "bun:test";
import { lstat, mkdir, readdir, rm, writeFile } from "node:fs/promises";
import { type Files, localFiles } from "../../../../lib/io/files.ts";
import { codeOf } from "../../../contract/driver-volumes.ts";
import { callWith, findVolume, gib, volumeOf } from "../../../contract/rig.ts";
import { repeated } from "../../../contract/second-writer/meeting.ts";
import { leftOn, openOn, temporaryFolder } from "../directory-rig.ts";

/** rename(2) replaces an empty folder, and a new volume is one. */
describe("a clone whose name another controller gives to an empty volume at the same time", () => {
  const call = callWith();
  let base = "";
  beforeEach(async () => {
    base = await temporaryFolder();
    await openOn(base).create(volumeOf("origin"), call);
    await writeFile(`${base}/v/origin/content`, "of the source");
    await mkdir(`${base}/.csimux/work`);
  });
  afterEach(() => rm(base, { recursive: true, force: true }));

  /** Stops at a step until it may continue. */
  function pause() {
    const arrived = Promise.withResolvers<void>();
    const going = Promise.withResolvers<void>();
    const stop = async () => {
      arrived.resolve();
      await going.promise;
    };
    return { stop, arrived: arrived.promise, go: () => going.resolve() };
  }

  const clone = (files: Files) =>
    codeOf(openOn(base, { files }).create(volumeOf("a", gib, { kind: "volume", id: "origin" }), call));
  const isWork = (path: string) => path.startsWith(`${base}/.csimux/work/v~a~`);
  const isTree = (path: string) => path === `${base}/v/a`;
  const isRecord = (path: string) => path.endsWith("/v.a.json");

  /** The step of the other controller at which it stands while the clone is filled; it continues right before the clone gets its name. */
  const steps: readonly (readonly [string, (stop: () => Promise<void>) => Files])[] = [
    [
      "makes the folder",
      stop => ({
        ...localFiles,
        async makeFolder(path, mode) {
          if (isTree(path)) await stop();
          return localFiles.makeFolder(path, mode);
        },
      }),
    ],
    [
      "takes the record of the clone for that of a dead one",
      stop => ({
        ...localFiles,
        async rename(from, to) {
          if (isRecord(from)) await stop();
          return localFiles.rename(from, to);
        },
      }),
    ],
  ];

  test.each(steps)("never replaces that: the other one %s", async (_, filesOf) => {
    const { stop, arrived, go } = pause();
    let other: Promise<string> | undefined;
    let born = 0n;
    const finish = async () => {
      go();
      if ((await other) === "ok") born = (await lstat(`${base}/v/a`, { bigint: true })).birthtimeNs;
    };
    const code = await clone({
      ...localFiles,
      async makeFolder(path, mode) {
        if (isWork(path)) {
          other = codeOf(openOn(base, { files: filesOf(stop) }).create(volumeOf("a"), call));
          await Promise.race([arrived, other]);
        }
        return localFiles.makeFolder(path, mode);
      },
      async rename(from, to) {
        if (isWork(from) && isTree(to)) await finish();
        return localFiles.rename(from, to);
      },
    });
    await finish();
    expect([code, await other]).toEqual(["aborted", "ok"]);
    expect((await lstat(`${base}/v/a`, { bigint: true })).birthtimeNs).toBe(born);
    expect(await readdir(`${base}/v/a`)).toEqual([]);
    expect(await findVolume(openOn(base), "a")).toMatchObject({ source: undefined });
    for (const id of ["a", "origin"]) await openOn(base).delete(id, call);
    expect(await leftOn(base)).toEqual([]);
  });

  test("whose csimux was killed while it held the record is made by the next attempt, and leaves nothing", async () => {
    const dying: Files = {
      ...localFiles,
      rename: (from, to) => (isTree(to) ? Promise.reject(new Error("killed")) : localFiles.rename(from, to)),
      removeFolder: () => Promise.reject(new Error("killed")),
      removeFile: () => Promise.reject(new Error("killed")),
    };
    expect(await clone(dying)).not.toBe("ok");
    expect(await leftOn(base)).toContain(".csimux/v.a.json~");
    await repeated(() => openOn(base).create(volumeOf("a", gib, { kind: "volume", id: "origin" }), call));
    expect(await readdir(`${base}/v/a`)).toEqual(["content"]);
    for (const id of ["a", "origin"]) await openOn(base).delete(id, call);
    expect(await leftOn(base)).toEqual([]);
  });

  test("whose record was held, and is released while the other one tries to take it, is made by either", async () => {
    let wasHeld = false;
    const record = `${base}/.csimux/v.a.json`;
    await writeFile(record, "of a dead csimux");
    const code = await clone({
      ...localFiles,
      async rename(from, to) {
        if (from !== record || wasHeld) return localFiles.rename(from, to);
        wasHeld = true;
        await mkdir(to);
        const moved = localFiles.rename(from, to);
        await moved.catch(() => {});
        await rm(to, { recursive: true });
        return moved;
      },
    });
    expect([code, wasHeld]).toEqual(["ok", true]);
    expect(await readdir(`${base}/v/a`)).toEqual(["content"]);
  });
});
