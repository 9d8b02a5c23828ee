import { afterEach, beforeEach, describe, expect, test } from "bun:test";
import { mkdir, readdir, readFile, rename, rm, writeFile } from "node:fs/promises";
import { type Files, localFiles } from "../../../../lib/io/files.ts";
import { codeOf } from "../../../contract/driver-volumes.ts";
import { callWith, findVolume, getVolume, gib, volumeOf } from "../../../contract/rig.ts";
import { repeated } from "../../../contract/second-writer/meeting.ts";
import { atEachStep, inSteps, mortal } from "../../../contract/steps.ts";
import { leftOn, openOn, temporaryFolder } from "../directory-rig.ts";

/** A deletion moves the folder aside before it knows whether another controller has made it again meanwhile. */
describe("a folder that a csimux has moved aside before it was killed", () => {
  const call = callWith();
  let base = "";
  beforeEach(async () => {
    base = await temporaryFolder();
  });
  afterEach(() => rm(base, { recursive: true, force: true }));

  const full = async () => {
    throw Object.assign(new Error("ENOSPC"), { code: "ENOSPC" });
  };

  /** The work folder, and next to the volumes where that is full. */
  const places: readonly (readonly [string, Files])[] = [
    ["in the work folder", localFiles],
    [
      "next to the volumes",
      { ...localFiles, rename: (from, to) => (to.includes("/work/") ? full() : localFiles.rename(from, to)) },
    ],
  ];

  async function remade(): Promise<void> {
    const other = openOn(base);
    await other.delete("a", call);
    await other.create(volumeOf("a", 2n * gib), call);
    await writeFile(`${base}/v/a/content`, "new");
  }

  /** Kills a deletion at each of its steps; another controller has made the volume again before the folder is moved. */
  async function killed(files: Files, check: (step: string) => Promise<void>): Promise<void> {
    await atEachStep(
      (at, when) => {
        const { step, dead } = mortal(at, when);
        const late: Files = {
          ...files,
          async rename(from, to) {
            if (from === `${base}/v/a`) await remade();
            return files.rename(from, to);
          },
        };
        return {
          async work() {
            const driver = openOn(base);
            await driver.create(volumeOf("a"), call);
            await writeFile(`${base}/v/a/content`, "old");
            const code = await codeOf(openOn(base, { files: inSteps(late, step) }).delete("a", call));
            if (code !== "ok") throw new Error(code);
          },
          dead,
        };
      },
      async step => {
        await check(step);
        await repeated(() => openOn(base).delete("a", call));
        expect([step, await leftOn(base)]).toEqual([step, []]);
      },
    );
  }

  test.each(places)("%s is that of the other controller again after the next creation", (_, files) =>
    killed(files, async step => {
      const driver = openOn(base);
      const isOld = (await findVolume(driver, "a"))?.bytes === gib;
      if (isOld) return expect([step, await readFile(`${base}/v/a/content`, "utf8")]).toEqual([step, "old"]);
      await repeated(() => driver.create(volumeOf("a", 2n * gib), call));
      expect([step, await readFile(`${base}/v/a/content`, "utf8")]).toEqual([step, "new"]);
      expect([step, (await getVolume(driver, "a")).bytes]).toEqual([step, 2n * gib]);
    }),
  );

  test("is moved back by a deletion, which only its repeat does", async () => {
    await remade();
    const aside = await movedAside();
    expect(await codeOf(openOn(base).delete("a", call))).toBe("aborted");
    expect(await readFile(`${base}/v/a/content`, "utf8")).toBe("new");
    expect(await readdir(`${base}/.csimux/work`)).not.toContain(aside);
  });

  test("stays there while something else is in its place", async () => {
    await remade();
    const aside = await movedAside();
    await mkdir(`${base}/v/a`);
    await writeFile(`${base}/v/a/content`, "later");
    await openOn(base).delete("a", call);
    expect(await leftOn(base)).toEqual([`.csimux/work/${aside}`, `.csimux/work/${aside}/content`]);
  });

  test("is in the health of its volume, unless it was moved just now", async () => {
    await remade();
    const aside = await movedAside();
    const look = async (files: Files) => (await openOn(base, { files }).health?.look(call))?.volumes.get("a") ?? [];
    expect(await look(localFiles)).toEqual([]);
    const changedAt = new Date(Date.now() - 120_000);
    const later = await look({
      ...localFiles,
      facts: async path => ({ ...(await localFiles.facts(path)), changedAt }),
    });
    expect(later.map(({ reason }) => reason)).toEqual(["VolumeMissing"]);
    expect(later[0]?.message).toContain(aside);
  });

  /** Moves the volume as a killed deletion leaves it. */
  async function movedAside(): Promise<string> {
    const aside = "t~v~a~0123456789ab";
    await mkdir(`${base}/.csimux/work`, { recursive: true });
    await rename(`${base}/v/a`, `${base}/.csimux/work/${aside}`);
    return aside;
  }
});
