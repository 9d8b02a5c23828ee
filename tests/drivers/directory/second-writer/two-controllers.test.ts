import { afterEach, beforeEach, describe, expect, test } from "bun:test";
import { lstat, readFile, rm, writeFile } from "node:fs/promises";
import { dirname } from "node:path";
import { type Files, localFiles } from "../../../../lib/io/files.ts";
import { codeOf } from "../../../contract/driver-volumes.ts";
import { callWith, findVolume, getVolume, gib, volumeOf } from "../../../contract/rig.ts";
import { twoControllers } from "../../../contract/two-controllers.ts";
import { backupRig, hasRestic, kopiaRepository, resticRepository } from "../backup-rig.ts";
import { directoryRig, leftOn, type OpenOptions, openOn, temporaryFolder } from "../directory-rig.ts";

test("two controllers on one base folder agree on concurrent calls", async () => {
  const rig = await directoryRig();
  try {
    await twoControllers(rig, 10);
  } finally {
    await rig.close();
  }
}, 120_000);

const tools = [
  ["kopia", kopiaRepository, 3] as const,
  ...(hasRestic ? [["restic", resticRepository, 1] as const] : []),
];

test.each(tools)(
  "two controllers on one repository of %s agree on concurrent calls",
  async (_tool, repositoryOf, rounds) => {
    const rig = await backupRig(await repositoryOf());
    try {
      await twoControllers(
        { ...rig, remains: async () => (await rig.remains()).filter(each => !isOfRestic(each)) },
        rounds,
      );
    } finally {
      await rig.close();
    }
  },
  300_000,
);

/** What a repository of restic consists of, whether there are snapshots or not. */
const isOfRestic = (name: string): boolean =>
  ["config", "data", "index", "keys", "locks", "snapshots"].includes(name.split("/")[0] ?? "");

test("of two expansions by two controllers, the larger one stays, also if it is recorded first", async () => {
  const base = await temporaryFolder();
  try {
    const call = callWith();
    const grown = (gibs: bigint) => ({ required: gibs * gib, limit: undefined });
    await openOn(base).create(volumeOf("a"), call);
    const files: Files = {
      ...localFiles,
      writeText: async (path, text, how) => {
        if (how === "append") await openOn(base).expand?.expand("a", grown(3n), call);
        return localFiles.writeText(path, text, how);
      },
    };
    await openOn(base, { files }).expand?.expand("a", grown(2n), call);
    expect((await getVolume(openOn(base), "a")).bytes).toBe(3n * gib);
  } finally {
    await rm(base, { recursive: true, force: true });
  }
});

/** What the contract's second writer cannot show: empty volumes, and what file systems on networks answer. */
describe("between two steps of a deletion", () => {
  const call = callWith();

  let base = "";
  beforeEach(async () => {
    base = await temporaryFolder();
  });
  afterEach(() => rm(base, { recursive: true, force: true }));

  const share: OpenOptions = { kind: "nfs-client", settings: { requireMount: false, shareHost: "nas" } };

  const failing = (code: string) => async () => {
    throw Object.assign(new Error(code), { code });
  };

  /** The files of a controller that moves a tree away only after `work`. */
  const movingAfter = (work: () => Promise<unknown>, files: Files = localFiles): Files => ({
    ...files,
    rename: async (from, to) => {
      if (from === `${base}/v/a`) await work();
      return files.rename(from, to);
    },
  });

  /** Another controller deletes the volume and makes it again; returns which folder that is. */
  async function remade(content?: string): Promise<bigint> {
    const other = openOn(base);
    await other.delete("a", call);
    await other.create(volumeOf("a", 2n * gib), call);
    if (content !== undefined) await writeFile(`${base}/v/a/content`, content);
    return (await lstat(`${base}/v/a`, { bigint: true })).birthtimeNs;
  }

  test("an empty volume that another controller has made again stays the folder that pods have mounted", async () => {
    await openOn(base).create(volumeOf("a"), call);
    let born = 0n;
    const files = movingAfter(async () => {
      born = await remade();
    });
    expect(await codeOf(openOn(base, { files }).delete("a", call))).toBe("ok");
    expect((await lstat(`${base}/v/a`, { bigint: true })).birthtimeNs).toBe(born);
    expect((await getVolume(openOn(base), "a")).bytes).toBe(2n * gib);
    await openOn(base).delete("a", call);
    expect(await leftOn(base)).toEqual([]);
  });

  test("a share that tells no time of birth and uses a number again: the record tells one volume from the next", async () => {
    const blind: Files = {
      ...localFiles,
      facts: async path => ({ ...(await localFiles.facts(path)), mark: "1:2:0" }),
    };
    await openOn(base).create(volumeOf("a"), call);
    const files = movingAfter(() => remade("new"), blind);
    expect(await codeOf(openOn(base, { ...share, files }).delete("a", call))).toBe("ok");
    expect(await readFile(`${base}/v/a/content`, "utf8")).toBe("new");
    await openOn(base, { ...share, files: blind }).delete("a", call);
    expect(await leftOn(base)).toEqual([]);
  });

  test("a volume that another controller expands meanwhile is deleted, not taken for one that it has made", async () => {
    await openOn(base).create(volumeOf("a"), call);
    await writeFile(`${base}/v/a/content`, "old");
    const range = { required: 2n * gib, limit: undefined };
    const files = movingAfter(async () => openOn(base).expand?.expand("a", range, call));
    expect(await codeOf(openOn(base, { ...share, files }).delete("a", call))).toBe("ok");
    expect(await leftOn(base)).toEqual([]);
  });

  test("a client that answers for the folder from its cache is made to ask its server", async () => {
    await openOn(base).create(volumeOf("a"), call);
    const cached = await localFiles.facts(`${base}/v/a`);
    const asked = new Set<string>();
    const caching: Files = {
      ...localFiles,
      facts: async path => (path.includes("/work/") && !asked.has(path) ? cached : localFiles.facts(path)),
      names: async path => {
        asked.add(path);
        return localFiles.names(path);
      },
      // The record does not tell them apart either.
      readText: async (path, most) => (path.endsWith("/v.a.json") ? "cached" : localFiles.readText(path, most)),
    };
    const files = movingAfter(() => remade("new"), caching);
    expect(await codeOf(openOn(base, { ...share, files }).delete("a", call))).toBe("ok");
    expect(await readFile(`${base}/v/a/content`, "utf8")).toBe("new");
  });

  test("a client that answers from its cache that there is no folder is made to ask its server", async () => {
    await openOn(base).create(volumeOf("a"), call);
    const stale = new Set([`${base}/v`, `${base}/.csimux`]);
    const isHidden = (path: string) => /\/(?:a|v\.a\.json)$/.test(path) && stale.has(dirname(path));
    const caching: Files = {
      ...localFiles,
      entry: async path => (isHidden(path) ? undefined : localFiles.entry(path)),
      facts: path => (isHidden(path) ? failing("ENOENT")() : localFiles.facts(path)),
      readText: async (path, most) => (isHidden(path) ? undefined : localFiles.readText(path, most)),
      sync: async path => {
        stale.delete(path);
        return localFiles.sync(path);
      },
    };
    await openOn(base, { ...share, files: caching }).delete("a", call);
    expect(await leftOn(base)).toEqual([]);
  });

  test("a folder whose number changes by itself is neither removed nor said to be", async () => {
    await openOn(base).create(volumeOf("a"), call);
    let count = 0;
    const files: Files = {
      ...localFiles,
      facts: async path => ({ ...(await localFiles.facts(path)), mark: `${count++}` }),
    };
    expect(await codeOf(openOn(base, { files }).delete("a", call))).toBe("aborted");
    expect(await findVolume(openOn(base), "a")).toMatchObject({ bytes: gib });
  });

  test("on a file system without links, the record of a volume that has appeared meanwhile comes back, too", async () => {
    const other = openOn(base);
    await other.create(volumeOf("a"), call);
    await other.delete("a", call);
    const files: Files = {
      ...localFiles,
      link: failing("EPERM"),
      rename: async (from, to) => {
        if (from.endsWith("/v.a.json")) await other.create(volumeOf("a"), call);
        return localFiles.rename(from, to);
      },
    };
    expect(await codeOf(openOn(base, { files }).delete("a", call))).toBe("ok");
    expect(await findVolume(other, "a")).toMatchObject({ bytes: gib });
    await other.delete("a", call);
    expect(await leftOn(base)).toEqual([]);
  });

  test.each(["", "content"])("a folder that cannot move at all is removed where it is: %p", async name => {
    await openOn(base).create(volumeOf("a"), call);
    if (name !== "") await writeFile(`${base}/v/a/${name}`, "old");
    const isTree = (path: string) => path.startsWith(`${base}/v/`);
    const files: Files = {
      ...localFiles,
      rename: (from, to) => (isTree(from) ? failing("EXDEV")() : localFiles.rename(from, to)),
    };
    await openOn(base, { files }).delete("a", call);
    expect(await leftOn(base)).toEqual([]);
  });

  test("a removal that had to stay next to the volumes and was interrupted there is ended by its repeat", async () => {
    await openOn(base).create(volumeOf("a"), call);
    await writeFile(`${base}/v/a/content`, "old");
    const files: Files = {
      ...localFiles,
      rename: (from, to) => (to.includes("/work/") ? failing("ENOSPC")() : localFiles.rename(from, to)),
    };
    const runner = { where: "test", run: failing("killed") };
    expect(await codeOf(openOn(base, { files, runner }).delete("a", call))).toBe("unavailable");
    expect(await leftOn(base)).toEqual([".csimux/v.a.json", "v/v~a~", "v/v~a~/content"]);
    expect(await findVolume(openOn(base), "a")).toBeUndefined();
    expect((await openOn(base).inventory?.list({ token: undefined, max: 9 }, call))?.items).toEqual([]);
    await openOn(base).delete("a", call);
    expect(await leftOn(base)).toEqual([]);
  });
});
