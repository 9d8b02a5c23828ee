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

/** No mount of this machine has it in its path, where csimux would have to resolve the folder. */
const name = "volume-whose-calls-count";

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
    await driver.create(volumeOf(name), call);
    expect(taken()).toEqual([
      `entry v/${name}`,
      `entry .csimux/copies/${name}.json`,
      `writeText .csimux/v.${name}.json`,
      `makeFolder .csimux/work/v~${name}~*`,
      `chmod .csimux/work/v~${name}~*`,
      // The record is held while the tree gets its name.
      `makeFolder .csimux/v.${name}.json~`,
      `readText .csimux/v.${name}.json`,
      `entry v/${name}`,
      `rename .csimux/work/v~${name}~*`,
      `removeFolder .csimux/v.${name}.json~`,
      "sync v",
    ]);
    // What the router asks before a deletion.
    expect(await driver.copyTarget?.mayHave?.(name, call)).toBe(false);
    await driver.delete(name, call);
    expect(taken()).toEqual([
      `entry .csimux/copies/${name}.json`,
      "names .csimux/moments",
      `facts v/${name}`,
      `entry .csimux/copies/${name}.json`,
      "readText /proc/self/mountinfo",
      `rename v/${name}`,
      `facts .csimux/work/t~v~${name}~*~*`,
      `removeFolder .csimux/work/t~v~${name}~*~*`,
      `rename .csimux/v.${name}.json`,
      `entry v/${name}`,
      `removeFile .csimux/v.${name}.json~`,
      "sync v",
    ]);
  } finally {
    await rm(base, { recursive: true, force: true });
  }
});
