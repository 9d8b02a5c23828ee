import { mkdir, mkdtemp, readFile, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { CsiError } from "../../../../lib/core/errors.ts";
import type { CopySource, CopyTarget } from "../../../../lib/drivers/copying.ts";
import type { Driver } from "../../../../lib/drivers/driver.ts";
import { below } from "../../../../scripts/check/below.ts";
import { type CopyEndRig, copiesContract } from "../../../contract/copies/copies.ts";
import { openOn } from "../directory-rig.ts";

/** The folders that stay. */
const staying: ReadonlySet<string> = new Set(["v", "s", "work", "copies", "snapshots"]);

/** Methods of an ability that change something; each of their calls is a step that can be cut. */
const changing = ["protect", "release", "begin", "note", "finish", "drop", "forget"] as const;

/** The same ability, whose changing methods fail before or after they have run, as `step` decides. */
function interruptible<A extends CopySource | CopyTarget>(ability: A, step: () => void): A {
  const methods = Object.entries(ability).map(([name, member]: [string, unknown]) => {
    if (!(changing as readonly string[]).includes(name) || typeof member !== "function") return [name, member];
    const work = async (...args: unknown[]): Promise<unknown> => {
      step();
      const answer: unknown = await Reflect.apply(member, ability, args);
      step();
      return answer;
    };
    return [name, work];
  });
  return Object.fromEntries(methods) as A;
}

/** A folder for the contract. */
function folderEnd(base: string): CopyEndRig {
  let left = 0;
  let failed = false;
  const step = (): void => {
    if (left === 0 || --left > 0) return;
    failed = true;
    throw new CsiError("unavailable", "the storage was cut");
  };
  return {
    open: (): Driver => {
      const driver = openOn(base);
      const { access, protocol, names, reading, inventory, clones, copySource, copyTarget } = driver;
      return {
        ...{ access, protocol, names, reading, inventory, clones },
        create: (spec, call) => driver.create(spec, call),
        delete: (id, call) => driver.delete(id, call),
        copySource: copySource && interruptible(copySource, step),
        copyTarget: copyTarget && interruptible(copyTarget, step),
      };
    },
    write: (id, content) => writeFile(join(base, "v", id, "file"), content),
    read: id => readFile(join(base, "v", id, "file"), "utf8"),
    remains: async () =>
      below(base)
        .filter(path => path.startsWith(".csimux/"))
        .map(path => path.slice(".csimux/".length))
        .filter(path => !staying.has(path) && /^(work|copies|snapshots)\//.test(path)),
    cut: at => {
      const before = failed;
      left = at;
      failed = false;
      return before;
    },
  };
}

copiesContract("directory to directory", async () => {
  const base = await mkdtemp(join(tmpdir(), "csimux-copies-"));
  const [a, b] = [join(base, "a"), join(base, "b")];
  for (const folder of [a, b]) await mkdir(folder);
  return { source: folderEnd(a), target: folderEnd(b), end: () => rm(base, { recursive: true, force: true }) };
});
