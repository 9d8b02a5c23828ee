import { existsSync } from "node:fs";
import { chmod, copyFile, cp, mkdir, rename, rm } from "node:fs/promises";
import { join } from "node:path";
import { messageOf } from "../../lib/core/errors.ts";
import { onPath } from "../packages.ts";
import { say } from "../say.ts";
import { goFlags, runGo } from "./go.ts";
import { cache } from "./place.ts";

/** The backup tool, and the restic of its image (mover-restic/SOURCE_VERSIONS): module, version and package. */
const programs = {
  volsync: ["github.com/backube/volsync", "v0.16.0", "./cmd"],
  restic: ["github.com/restic/restic", "v0.18.1", "./cmd/restic"],
} as const;

type Program = keyof typeof programs;

export const volsyncVersion = programs.volsync[1];

const bin = join(cache, "tools");
const chart = `volsync-chart-${volsyncVersion}`;

/** The path of a program, which exists once it is built. */
export const volsyncProgram = (name: Program): string => join(bin, `${name}-${programs[name][1]}`);

/** What the pods of the tool run to back up and to restore, from its sources. */
export const moverScript = join(bin, `mover-restic-${volsyncVersion}.sh`);

/** Its own chart, on the machine of the cluster. */
export const volsyncChartInMachine = `/run/cluster/tools/${chart}`;

const names = Object.keys(programs) as readonly Program[];

/** Whether everything of the tool is there. Tests that need it are skipped otherwise. */
export const hasVolsync = (): boolean =>
  [...names.map(volsyncProgram), moverScript, join(bin, chart)].every(path => existsSync(path));

/** The folder of a program's module. */
async function sources(name: Program): Promise<string> {
  const [path, version] = programs[name];
  const { Dir } = JSON.parse(await runGo(["go", "mod", "download", "-json", `${path}@${version}`], bin)) as {
    Dir: string;
  };
  return Dir;
}

async function buildProgram(name: Program, folder: string): Promise<void> {
  const target = volsyncProgram(name);
  if (existsSync(target)) return;
  say(`building ${name} from its Go module`);
  await runGo(["go", "build", ...goFlags, "-o", `${target}.partial`, programs[name][2]], folder);
  await rename(`${target}.partial`, target);
}

/** Go's files are read-only, so that the copies could not be replaced. */
async function copySources(folder: string): Promise<void> {
  await copyFile(join(folder, "mover-restic/entry.sh"), moverScript);
  await chmod(moverScript, 0o755);
  const partial = join(bin, `${chart}.partial`);
  await rm(partial, { recursive: true, force: true });
  await cp(join(folder, "helm/volsync"), partial, { recursive: true });
  await rename(partial, join(bin, chart));
}

/** Builds the tool from its Go modules, if there is Go: ten minutes on two processors. Never throws. */
export async function buildVolsync(): Promise<void> {
  if (hasVolsync()) return;
  try {
    if (!onPath("go")) throw new Error("Go is not on PATH");
    await mkdir(bin, { recursive: true });
    for (const name of names) {
      const folder = await sources(name);
      await buildProgram(name, folder);
      if (name === "volsync" && !existsSync(join(bin, chart))) await copySources(folder);
    }
  } catch (error) {
    say(`tests of VolSync are skipped: ${messageOf(error)}`);
  }
}

if (import.meta.main) await buildVolsync();
