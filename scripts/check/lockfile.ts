import { readFile } from "node:fs/promises";
import { root } from "../spawned.ts";

interface Locked {
  readonly version?: string;
  readonly dependencies?: Readonly<Record<string, string>>;
  readonly optionalDependencies?: Readonly<Record<string, string>>;
}

/** Whether a package resolves a name: in its own folder first, then in each parent folder. */
function found(packages: Readonly<Record<string, Locked>>, from: string, name: string): boolean {
  for (let at = from; ; at = at.slice(0, Math.max(at.lastIndexOf("/node_modules/"), 0))) {
    if (packages[`${at === "" ? "" : `${at}/`}node_modules/${name}`]?.version !== undefined) return true;
    if (at === "") return false;
  }
}

/**
 * Packages that package-lock.json refers to but does not contain. `npm ci` refuses such a file, and `npm install` writes one
 * whenever the registry at hand lacks the binaries of other platforms.
 */
export async function checkLockFile(): Promise<readonly string[]> {
  const { packages } = JSON.parse(await readFile(`${root}/package-lock.json`, "utf8")) as {
    readonly packages: Readonly<Record<string, Locked>>;
  };
  return Object.entries(packages).flatMap(([from, locked]) =>
    Object.keys({ ...locked.dependencies, ...locked.optionalDependencies })
      .filter(name => !found(packages, from, name))
      .map(
        name => `package-lock.json has no entry for ${name}, which ${from || "csimux"} names; npm ci will refuse it`,
      ),
  );
}
