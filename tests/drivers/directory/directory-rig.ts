import { lstat, mkdir, mkdtemp, readdir, readFile, readlink, rm, symlink, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { dirname } from "node:path";
import { directoryDriver } from "../../../lib/drivers/directory/driver.ts";
import type { DirectoryKind, DirectorySettings } from "../../../lib/drivers/directory/kinds.ts";
import type { Driver, Volume } from "../../../lib/drivers/driver.ts";
import { modules } from "../../../lib/drivers/index.ts";
import { type Files, localFiles } from "../../../lib/io/files.ts";
import { localRunner } from "../../../lib/io/local.ts";
import type { Command, CommandRunner } from "../../../lib/io/runner.ts";
import type { DriverRig, Dying, Failing, Foreign } from "../../contract/rig.ts";
import { fullDisk, inSteps, mortal, type Step } from "../../contract/steps.ts";
import { localPorts } from "../../fakes/ports.ts";
import { Power } from "../../fakes/power.ts";

export const systemRunner: CommandRunner = localRunner({ env: { PATH: process.env["PATH"] ?? "/usr/bin:/bin" } });

/** The command of a tool, without the program that puts it into other mounts and the shell that ends its words. */
export const toolOf = (command: Command): Command => {
  const { argv } = command;
  const entered = argv[0] === "nsenter" ? argv.slice(argv.indexOf("--") + 1) : argv;
  const [program = "", ...words] = entered[0] === "sh" && entered[2]?.startsWith('"$@";') ? entered.slice(4) : entered;
  return { ...command, argv: [program, ...words] };
};

export const maxIdBytes = 100;

export interface OpenOptions {
  readonly kind?: DirectoryKind;
  readonly settings?: Partial<DirectorySettings>;
  readonly runner?: CommandRunner;
  readonly files?: Files;
  readonly instanceId?: string;
}

/** A directory driver on `base`, with what a test wants different. */
export function openOn(base: string, options: OpenOptions = {}): Driver {
  const { kind = "local-hostpath", settings, runner = systemRunner, files } = options;
  const plain: DirectorySettings = {
    shareHost: undefined,
    shareBasePath: base,
    controllerBasePath: base,
    mode: undefined,
    user: undefined,
    group: undefined,
    requireMount: true,
    snapshotDriver: "filecopy",
    restic: undefined,
    kopia: undefined,
  };
  const identity = { connection: "c1", driver: kind, instanceId: options.instanceId, maxIdBytes };
  return directoryDriver(kind, identity, { ...plain, ...settings }, localPorts(runner), files);
}

export const temporaryFolder = (): Promise<string> => mkdtemp(`${tmpdir()}/csimux-directory-`);

/** Everything below a folder, folders included. */
export const below = async (folder: string): Promise<readonly string[]> =>
  (await readdir(folder, { recursive: true })).sort();

/** The folders that a driver keeps below its base folder once they are there. */
const standing: ReadonlySet<string> = new Set(["v", "s", ".csimux", ".csimux/work"]);

/** What volumes and snapshots, or calls that were interrupted, have left below a base folder. */
export const leftOn = async (base: string): Promise<readonly string[]> =>
  (await below(base)).filter(name => !standing.has(name));

/** What stands at a path, whatever it is. */
async function shown(path: string): Promise<string> {
  const stats = await lstat(path);
  if (stats.isSymbolicLink()) return `a link to ${await readlink(path)}`;
  return stats.isFile() ? `a file: ${await readFile(path, "utf8")}` : `a folder: ${await readdir(path)}`;
}

/**
 * Below `v` every folder is a volume, for democratic-csi has marked none, so that only what is no folder is somebody else's; and a folder
 * of the volume's name outside of it.
 */
function handmade(base: string): readonly Foreign[] {
  const outside = `${base}/outside`;
  const inPlace = (what: string, put: (path: string) => Promise<unknown>): Foreign => ({
    what,
    place: "volume",
    async make({ id }) {
      const path = `${base}/v/${id}`;
      await put(path);
      return async () => [await shown(path), await below(outside).catch(() => [])];
    },
  });
  return [
    inPlace("a file", path => writeFile(path, "theirs")),
    inPlace("a link to a folder", async path => {
      await mkdir(`${outside}/deep`, { recursive: true });
      await writeFile(`${outside}/deep/file`, "theirs");
      await symlink(outside, path);
    }),
    {
      what: "a folder beside those of csimux",
      place: "way",
      async make({ id }) {
        await mkdir(`${base}/${id}/deep`, { recursive: true });
        return () => below(`${base}/${id}`);
      },
    },
    {
      what: "a file",
      place: "snapshot",
      async make(_, id) {
        const path = `${base}/s/_${id.split("/").at(-1)}`;
        await mkdir(dirname(path), { recursive: true });
        await writeFile(path, "theirs");
        return () => shown(path);
      },
    },
  ];
}

/** The contract's rig on a temporary folder, on a disk that can lose power. Reading and writing go to the file `content` of a volume. */
export async function directoryRig(options: OpenOptions = {}): Promise<DriverRig> {
  const base = await temporaryFolder();
  const power = await Power.on();
  const runner = power.runner(options.runner ?? systemRunner, base);
  const files = power.files(options.files ?? localFiles);
  const kind = options.kind ?? "local-hostpath";
  const module = modules.find(({ names }) => names.includes(kind));
  if (!module) throw new Error(`there is no ${kind}`);
  const through = (step: Step): OpenOptions => ({
    ...options,
    runner: { ...runner, run: (command, signal) => step(() => runner.run(command, signal)) },
    files: inSteps(files, step),
  });
  const file = ({ context }: Volume) => `${context["path"] ?? context["share"]}/content`;
  return {
    facts: module.facts,
    open: () => openOn(base, { ...options, runner, files }),
    dying(last, when): Dying {
      const { step, dead } = mortal(last, when);
      return { driver: openOn(base, through(step)), dead };
    },
    failing(at): Failing {
      const { step, failed } = fullDisk(at);
      return { driver: openOn(base, through(step)), failed };
    },
    foreign: handmade(base),
    losePower: () => power.lose(),
    write: (volume, text) => writeFile(file(volume), text),
    read: volume => readFile(file(volume), "utf8").catch(() => undefined),
    hostileSnapshots: ["f/", "f/..", "f/../../v/pvc-1", "f/a/b", "f/-rf"],
    remains: () => leftOn(base),
    async close() {
      await rm(base, { recursive: true, force: true });
      await power.close();
    },
  };
}
