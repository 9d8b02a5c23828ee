import { mkdtemp, readdir, readFile, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { directoryDriver } from "../../../lib/drivers/directory/driver.ts";
import type { Files } from "../../../lib/drivers/directory/files.ts";
import { localFiles } from "../../../lib/drivers/directory/own-files.ts";
import type { DirectoryKind, DirectorySettings } from "../../../lib/drivers/directory/settings.ts";
import type { Driver, Volume } from "../../../lib/drivers/driver.ts";
import { localRunner } from "../../../lib/io/local.ts";
import type { Command, CommandRunner } from "../../../lib/io/runner.ts";
import type { DriverRig, Dying } from "../../contract/rig.ts";
import { localPorts } from "../../fakes/ports.ts";

export const systemRunner: CommandRunner = localRunner({ env: { PATH: process.env["PATH"] ?? "/usr/bin:/bin" } });

/** The command of a tool, without the program that puts it into other mounts. */
export const toolOf = (command: Command): Command => {
  const [program, ...words] = command.argv.slice(command.argv.indexOf("--") + 1);
  return command.argv[0] === "nsenter" && program !== undefined ? { ...command, argv: [program, ...words] } : command;
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

/** Steps of a process that ends at one of them: nothing after it has any effect. */
function mortal(step: number, when: "before" | "after") {
  let count = 0;
  const died = () => new Error("the process was killed");
  const live = async <T>(work: () => Promise<T>): Promise<T> => {
    count++;
    if (count > step || (count === step && when === "before")) throw died();
    const result = await work();
    if (count === step) throw died();
    return result;
  };
  return { live, dead: () => count >= step };
}

type Verb = (...args: readonly unknown[]) => Promise<unknown>;

function mortalFiles(files: Files, live: <T>(work: () => Promise<T>) => Promise<T>): Files {
  const verbs = Object.entries(files as unknown as Record<string, Verb>);
  const wrapped = verbs.map(([name, verb]) => [name, (...args: readonly unknown[]) => live(() => verb(...args))]);
  return Object.fromEntries(wrapped) as unknown as Files;
}

/** Everything below a folder, folders included. */
export const below = async (folder: string): Promise<readonly string[]> =>
  (await readdir(folder, { recursive: true })).sort();

/** The folders that a driver keeps below its base folder once they are there. */
const standing: ReadonlySet<string> = new Set(["v", "s", ".csimux", ".csimux/work"]);

/** What volumes and snapshots, or calls that were interrupted, have left below a base folder. */
export const leftOn = async (base: string): Promise<readonly string[]> =>
  (await below(base)).filter(name => !standing.has(name));

/** The contract's rig on a temporary folder. Reading and writing go to the file `content` of a volume. */
export async function directoryRig(options: OpenOptions = {}): Promise<DriverRig> {
  const base = await temporaryFolder();
  const file = ({ context }: Volume) => `${context["path"] ?? context["share"]}/content`;
  return {
    open: () => openOn(base, options),
    dying(step, when): Dying {
      const { live, dead } = mortal(step, when);
      const whole = options.runner ?? systemRunner;
      const runner: CommandRunner = { ...whole, run: (command, signal) => live(() => whole.run(command, signal)) };
      return {
        driver: openOn(base, { ...options, runner, files: mortalFiles(options.files ?? localFiles, live) }),
        dead,
      };
    },
    write: (volume, text) => writeFile(file(volume), text),
    read: volume => readFile(file(volume), "utf8").catch(() => undefined),
    hostileSnapshots: ["f/", "f/..", "f/../../v/pvc-1", "f/a/b", "f/-rf"],
    remains: () => leftOn(base),
    close: () => rm(base, { recursive: true, force: true }),
  };
}
