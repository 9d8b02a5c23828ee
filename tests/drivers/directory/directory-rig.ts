import { existsSync } from "node:fs";
import { mkdir, mkdtemp, symlink, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { dirname } from "node:path";
import { directoryDriver } from "../../../lib/drivers/directory/driver.ts";
import type { DirectoryKind, DirectorySettings } from "../../../lib/drivers/directory/kinds.ts";
import type { Driver } from "../../../lib/drivers/driver.ts";
import { modules } from "../../../lib/drivers/index.ts";
import { type Files, localFiles } from "../../../lib/io/files.ts";
import type { Command, CommandRunner } from "../../../lib/io/runner.ts";
import { below } from "../../../scripts/check/below.ts";
import { type LocalDriver, localRig, shown, systemRunner } from "../../contract/local-rig.ts";
import type { DriverRig, Foreign } from "../../contract/rig.ts";
import { localPorts } from "../../fakes/ports.ts";

export { systemRunner };

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

/** The settings of a file that says only where its folders are. */
export const plainSettings = (base: string): DirectorySettings => ({
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
});

/** A directory driver on `base`, with what a test wants different. */
export function openOn(base: string, options: OpenOptions = {}): Driver {
  const { kind = "local-hostpath", settings, runner = systemRunner, files } = options;
  const identity = { connection: "c1", driver: kind, instanceId: options.instanceId, maxIdBytes };
  return directoryDriver(kind, identity, { ...plainSettings(base), ...settings }, localPorts(runner), files);
}

export const temporaryFolder = (): Promise<string> => mkdtemp(`${tmpdir()}/csimux-directory-`);

/** The folders that a driver keeps below its base folder once they are there. */
const standing: ReadonlySet<string> = new Set(["v", "s", ".csimux", ".csimux/work"]);

/** What volumes and snapshots, or calls that were interrupted, have left below a base folder. */
export const leftOn = async (base: string): Promise<readonly string[]> =>
  below(base).filter(name => !standing.has(name));

/**
 * Foreign objects. Every folder below `v` is a volume, because democratic-csi marks none: only other kinds of files are foreign there, and a
 * folder of the volume's name outside of it.
 */
function handmade(base: string): readonly Foreign[] {
  const outside = `${base}/outside`;
  const inPlace = (what: string, put: (path: string) => Promise<unknown>): Foreign => ({
    what,
    place: "volume",
    async make({ id }) {
      const path = `${base}/v/${id}`;
      await put(path);
      return async () => [await shown(path), existsSync(outside) ? below(outside) : []];
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
      what: "a folder next to csimux's",
      place: "way",
      async make({ id }) {
        await mkdir(`${base}/${id}/deep`, { recursive: true });
        return async () => below(`${base}/${id}`);
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

/** The contract's rig on a temporary folder. */
export function directoryRig(options: OpenOptions = {}): Promise<DriverRig> {
  const kind = options.kind ?? "local-hostpath";
  const module = modules.find(({ names }) => names.includes(kind));
  if (!module) throw new Error(`there is no ${kind}`);
  const driver: LocalDriver = {
    facts: module.facts,
    open: (base, calls) => openOn(base, { ...options, ...calls }),
    folder: ({ context }) => context["path"] ?? context["share"] ?? "",
    foreign: handmade,
    remains: leftOn,
    // A removed record is not synced by itself: elsewhere it may be back after a loss of power, and its volume is then one to delete again.
    syncs: "journal",
    hostileSnapshots: ["f/", "f/..", "f/../../v/pvc-1", "f/a/b", "f/-rf"],
  };
  return localRig(driver, { files: options.files ?? localFiles, runner: options.runner ?? systemRunner });
}
