import { dirname } from "node:path";
import { CsiError } from "../../../core/errors.ts";
import { findingsOf } from "../../../health/finding.ts";
import type { Step, StorageHost } from "../../../io/script.ts";
import type { ShareProtocol } from "../../store.ts";
import { exportsIn, exportsStep, type NfsExport } from "../cli/nfs.ts";
import type { ZfsVolume } from "../volume.ts";

/** How long what was proved of a folder counts, in milliseconds. */
const provedMs = 60_000;

/** What decides whether volumes are reachable: the server's exports, and the folders that volumes are mounted in. */
interface Server {
  readonly exports: readonly NfsExport[];
  /** The owner and the mode of each folder. */
  readonly folders: ReadonlyMap<string, { readonly owner: number; readonly mode: number }>;
}

/** The exports of the folders above a mount point, and its own. */
const exportsAbove = (mountpoint: string, exports: readonly NfsExport[]): readonly NfsExport[] =>
  exports.filter(({ folder }) => folder === "/" || `${mountpoint}/`.startsWith(`${folder}/`));

/** Whether a client's root is root on the server. Where options differ by sec=, the list has both. */
const isRoot = ({ options }: NfsExport): boolean =>
  (options.includes("no_root_squash") && (!options.includes("all_squash") || options.includes("no_all_squash"))) ||
  options.includes("anonuid=0");

/**
 * Why the file system at a mount point is not to be used through the export of a folder above it; undefined where it may be. Where it is
 * not mounted, a client that mounts it gets the empty folder under it, which nodes must not be able to write into: what was written there would be
 * hidden by the next mount.
 */
function whyUnfit(mountpoint: string, { exports, folders }: Server): string | undefined {
  const found = exportsAbove(mountpoint, exports);
  const parent = dirname(mountpoint);
  const wanted = `export ${parent} with crossmnt and root_squash`;
  // A client gets the longest path that it may use (nfs-utils, support/export/cache.c, lookup_export).
  const longest = Math.max(...found.map(({ folder }) => folder.length));
  const nearest = found.filter(({ folder }) => folder.length === longest);
  if (nearest.length === 0) return `the NFS server exports neither ${parent} nor a folder above it; ${wanted}`;
  const crosses = ({ options }: NfsExport) => options.includes("crossmnt");
  const closed = nearest.find(each => each.folder !== mountpoint && !crosses(each));
  if (closed) return `the export of ${closed.folder} to ${closed.clients} lacks crossmnt; ${wanted}`;
  const open = found.find(each => each.folder !== mountpoint && crosses(each) && isRoot(each));
  if (open)
    return `the export of ${open.folder} to ${open.clients} lets root of a node write into the folder of a volume that is not mounted, where the next mount would hide it; ${wanted}`;
  const { owner, mode } = folders.get(parent) ?? { owner: undefined, mode: 0 };
  if (owner === undefined) return `the owner and mode of ${parent} cannot be read`;
  if (owner !== 0 || (mode & 0o022) !== 0)
    return `${parent} can be written by others than root, and so by nodes; make it root's, with mode 0755`;
  return undefined;
}

const exportsRead: Step = { ...exportsStep, onFailure: "go-on" };
const folderStep = (folders: readonly string[]): Step => ({
  name: "folders",
  argv: ["stat", "-c", "%u %a %n", "--", ...folders],
  reads: true,
  onFailure: "go-on",
});

/**
 * A share of file systems that have no export of their own: the server exports the folder that they are mounted in with crossmnt
 * (exports(5)), which reaches them. Each export of its own would make every change of another one slower (exportfs -ra reads them all).
 */
export function withCrossmnt(share: ShareProtocol<ZfsVolume>, host: StorageHost): ShareProtocol<ZfsVolume> {
  let proved = { folder: "", until: 0 };

  async function serverOf(folders: readonly string[], signal: AbortSignal): Promise<Server> {
    const outputs = await host.script({ steps: [exportsRead, folderStep(folders)] }, signal);
    const [list, shown] = [outputs.get("exports"), outputs.get("folders")];
    if (list?.exitCode !== 0)
      throw new CsiError(
        "unavailable",
        `the exports of the NFS server cannot be read: ${list?.stderr.trim().slice(0, 200)}`,
      );
    const lines = (shown?.stdout ?? "").split("\n").flatMap(line => {
      const [, owner = "", mode = "", folder = ""] = /^(\d+) ([0-7]+) (\/.*)$/.exec(line) ?? [];
      return folder === "" ? [] : [[folder, { owner: Number(owner), mode: Number.parseInt(mode, 8) }] as const];
    });
    return { exports: exportsIn(list.stdout), folders: new Map(lines) };
  }

  /** Throws `code`. What is not finished may stay, so a creation is to be repeated. */
  async function require(
    { mountpoint }: ZfsVolume,
    code: "unavailable" | "failed-precondition",
    signal: AbortSignal,
  ): Promise<void> {
    if (mountpoint === undefined) return;
    const folder = dirname(mountpoint);
    if (proved.folder === folder && performance.now() < proved.until) return;
    const why = whyUnfit(mountpoint, await serverOf([folder], signal));
    if (why !== undefined) throw new CsiError(code, why);
    proved = { folder, until: performance.now() + provedMs };
  }

  return {
    ...share,
    async publish(volume, spec, keep, call) {
      await require(volume, "unavailable", call.signal);
      return (await share.publish?.(volume, spec, keep, call)) ?? {};
    },
    async existing(volume, call) {
      await require(volume, "failed-precondition", call.signal);
      return (await share.existing?.(volume, call)) ?? {};
    },
    async look(volumes, { signal }) {
      const mounted = volumes.flatMap(({ id, mountpoint }) => (mountpoint === undefined ? [] : [{ id, mountpoint }]));
      if (mounted.length === 0) return new Map();
      const server = await serverOf([...new Set(mounted.map(({ mountpoint }) => dirname(mountpoint)))], signal);
      return findingsOf(
        mounted.map(({ id, mountpoint }) => {
          const message = whyUnfit(mountpoint, server);
          return [id, message === undefined ? [] : [{ reason: "ShareMissing" as const, message }]] as const;
        }),
      );
    },
  };
}
