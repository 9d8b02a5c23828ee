import { execFileSync } from "node:child_process";
import { lstat, mkdir, mkdtemp, readdir, readFile, readlink, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import type { Driver, Volume } from "../../lib/drivers/driver.ts";
import type { DriverFacts } from "../../lib/drivers/facts.ts";
import { type Files, localFiles } from "../../lib/io/files.ts";
import { localRunner } from "../../lib/io/local.ts";
import type { CommandRunner } from "../../lib/io/runner.ts";
import { below } from "../../scripts/check/below.ts";
import { Power, type SyncScope } from "../fakes/power.ts";
import type { DriverRig, Foreign } from "./rig.ts";
import { inSteps, mortal, type Step, stepsAfter } from "./steps.ts";

export const systemRunner: CommandRunner = localRunner({ env: { PATH: process.env["PATH"] ?? "/usr/bin:/bin" } });

/** How a driver reaches this machine. */
export interface LocalCalls {
  readonly files: Files;
  readonly runner: CommandRunner;
}

/** A driver with volumes below a folder of this machine. */
export interface LocalDriver {
  readonly facts: DriverFacts;
  open(base: string, calls: LocalCalls): Driver;
  /** The folder of a volume, as a pod sees it. */
  folder(volume: Volume): string;
  foreign(base: string): readonly Foreign[];
  /** What a sync of the disk takes along; by default only the names in the folder that is synced. */
  readonly syncs?: SyncScope;
  /** Folders below the base that exist before the driver is opened. */
  readonly folders?: readonly string[];
  /** What volumes, snapshots and interrupted calls have left; by default, everything below the base except `folders`. */
  remains?(base: string): Promise<readonly string[]>;
  /** Like DriverRig.hostileSnapshots; none by default. */
  readonly hostileSnapshots?: readonly string[];
}

/** Describes what exists at a path; links are not followed. */
export async function shown(path: string): Promise<string> {
  const stats = await lstat(path);
  if (stats.isSymbolicLink()) return `a link to ${await readlink(path)}`;
  return stats.isFile() ? `a file: ${await readFile(path, "utf8")}` : `a folder: ${await readdir(path)}`;
}

/**
 * The rig of a driver on a new folder of this machine. Each file system call and each program is a step that can fail, at which the process
 * can die, and that a loss of power can undo. Content is written to the file `content` of a volume.
 */
export async function localRig(
  driver: LocalDriver,
  { files: plainFiles, runner: plainRunner }: LocalCalls = { files: localFiles, runner: systemRunner },
): Promise<DriverRig> {
  const base = await mkdtemp(`${tmpdir()}/csimux-local-`);
  const { folders = [] } = driver;
  for (const name of folders) await mkdir(`${base}/${name}`, { recursive: true });
  const power = await Power.on(driver.syncs);
  const runner = power.runner(plainRunner, base);
  const files = power.files(plainFiles);
  const open = (step: Step): Driver =>
    driver.open(base, {
      files: inSteps(files, step),
      runner: { ...runner, run: (command, signal) => step(() => runner.run(command, signal), command.argv.join(" ")) },
    });
  const file = (volume: Volume): string => `${driver.folder(volume)}/content`;
  return {
    facts: driver.facts,
    open: () => driver.open(base, { files, runner }),
    dying(last, when) {
      const { step, dead } = mortal(last, when);
      return { driver: open(step), dead };
    },
    after: before => open(stepsAfter(before)),
    foreign: driver.foreign(base),
    losePower: () => power.lose(),
    write: (volume, text) => writeFile(file(volume), text),
    read: volume => readFile(file(volume), "utf8").catch(() => undefined),
    hostileSnapshots: driver.hostileSnapshots ?? [],
    remains: async () => (await driver.remains?.(base)) ?? (await below(base)).filter(name => !folders.includes(name)),
    state: async () => execFileSync("find", [base, "-printf", "%p %y %m %U %G %s %T@ %C@ %l\n"], { encoding: "utf8" }),
    async close() {
      await rm(base, { recursive: true, force: true });
      await power.close();
    },
  };
}
