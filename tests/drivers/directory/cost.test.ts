import { expect, test } from "bun:test";
import { rm } from "node:fs/promises";
import { type Files, localFiles } from "../../../lib/io/files.ts";
import { callWith, volumeOf } from "../../contract/rig.ts";
import { openOn, temporaryFolder } from "./directory-rig.ts";

/** Files that write down each call: its name and its path, the random part of a name as "*". */
function counted(base: string) {
  const calls: string[] = [];
  const shown = (path: string) => path.replace(`${base}/`, "").replace(/~[0-9a-f]{10,}/g, "~*");
  const verbs = Object.entries(localFiles as unknown as Record<string, (...given: string[]) => Promise<unknown>>);
  const counting = verbs.map(([name, verb]) => {
    const noted = (path: string, ...more: string[]) => {
      calls.push(`${name} ${shown(path)}`);
      return verb(path, ...more);
    };
    return [name, noted] as const;
  });
  return { files: Object.fromEntries(counting) as unknown as Files, taken: () => calls.splice(0) };
}

test("a volume and its deletion take these calls of files, each of which waits for a thread, and no other", async () => {
  const base = await temporaryFolder();
  try {
    const { files, taken } = counted(base);
    const driver = openOn(base, { files, settings: { mode: 0o777 } });
    const call = callWith();
    // The first ones make the folders of csimux.
    await driver.create(volumeOf("first"), call);
    await driver.delete("first", call);
    taken();
    await driver.create(volumeOf("a"), call);
    expect(taken()).toEqual([
      "entry v/a",
      "entry .csimux/copies/a.json",
      "writeText .csimux/v.a.json",
      "makeFolder .csimux/work/v~a~*",
      "chmod .csimux/work/v~a~*",
      // The record is held while the tree gets its name.
      "makeFolder .csimux/v.a.json~",
      "readText .csimux/v.a.json",
      "entry v/a",
      "rename .csimux/work/v~a~*",
      "removeFolder .csimux/v.a.json~",
      "sync v",
    ]);
    // What the router asks before a deletion.
    expect(await driver.copyTarget?.mayHave?.("a", call)).toBe(false);
    await driver.delete("a", call);
    expect(taken()).toEqual([
      "entry .csimux/copies/a.json",
      "names .csimux/moments",
      "facts v/a",
      "entry .csimux/copies/a.json",
      "readText /proc/self/mountinfo",
      "rename v/a",
      "facts .csimux/work/t~v~a~*~*",
      "removeFolder .csimux/work/t~v~a~*~*",
      "rename .csimux/v.a.json",
      "entry v/a",
      "removeFile .csimux/v.a.json~",
      "sync v",
    ]);
  } finally {
    await rm(base, { recursive: true, force: true });
  }
});
