import type { Call } from "../../../core/call.ts";
import { CsiError } from "../../../core/errors.ts";
import { parseMountinfo } from "../../../core/mountinfo.ts";
import { unless } from "../../../io/files.ts";
import type { Lease } from "../../../io/lease.ts";
import type { SharePoint } from "../../../io/share-point.ts";
import { Layout } from "../layout.ts";
import { errorOn, type OperationContext } from "../operation-context.ts";

/**
 * Options of the mount that copies read from. Other mounts of the same export keep attributes for up to a minute (nfs(5), "acregmax"): a
 * file that a pod has made longer would still have its old size, with which its content is compared. Without "nosharecache", the kernel
 * would use the cache of the other mount.
 */
export const freshFlags = ["nosharecache", "actimeo=0"] as const;

/** How long a copy waits for the mount, in milliseconds. */
const waitMs = 30_000;

/** The options of a file system in its line of mountinfo (proc(5), field 11). */
const optionsOf = (mountinfo: string, id: number): readonly string[] =>
  mountinfo
    .split("\n")
    .find(line => line.startsWith(`${id} `))
    ?.split(" ")
    .at(-1)
    ?.split(",") ?? [];

/** Whether a mount of NFS asks the server for the attributes of a file at each use; others may show what they were up to a minute ago. */
function isFresh(options: readonly string[]): boolean {
  return options.includes("noac") || ["acregmax=0", "acdirmax=0"].every(each => options.includes(each));
}

/** Whether the folder is below a mount of NFS that keeps attributes. */
async function isCached({ files }: OperationContext, folder: string): Promise<boolean> {
  const mountinfo = (await files.readText("/proc/self/mountinfo")) ?? "";
  const real = await files.realPath(folder);
  const covering = parseMountinfo(mountinfo)
    .filter(({ at }) => at === "/" || `${real}/`.startsWith(`${at}/`))
    .toSorted((a, b) => b.at.length - a.at.length || b.id - a.id);
  const [mount] = covering;
  return (mount?.fsType === "nfs" || mount?.fsType === "nfs4") && !isFresh(optionsOf(mountinfo, mount.id));
}

/** The mount of a share that copies of volumes are read from: one of its own, with `freshFlags`. */
export class FreshMount {
  readonly #lease: (() => Lease<SharePoint>) | undefined;

  /** Undefined where csimux mounts no NFS share for this connection. */
  constructor(lease: (() => Lease<SharePoint>) | undefined) {
    this.#lease = lease;
  }

  /**
   * Runs `work` with a context in which the base folder is on the mount; `name` is the folder to read, below the base folder. Without the
   * mount, uses the present one, unless `mustBeFresh`: then throws "failed-precondition" if that one keeps attributes.
   */
  async use<T>(
    context: OperationContext,
    name: string,
    mustBeFresh: boolean,
    call: Call,
    work: (context: OperationContext) => Promise<T>,
  ): Promise<T> {
    const lease = this.#lease?.();
    try {
      const base = lease && (await this.#folder(context, lease.value, name, mustBeFresh, call));
      if (base !== undefined) return await work({ ...context, layout: new Layout(base) });
      if (mustBeFresh && (await isCached(context, `${context.layout.base}/${name}`))) throw cached(context);
      return await work(context);
    } finally {
      await lease?.release();
    }
  }

  /** The base folder on the mount; undefined if it cannot be mounted, or leads to another folder than the present one. */
  async #folder(
    context: OperationContext,
    share: SharePoint,
    name: string,
    mustBeFresh: boolean,
    call: Call,
  ): Promise<string | undefined> {
    const { connection, files, layout } = context;
    try {
      const base = await share.folder(AbortSignal.any([call.signal, AbortSignal.timeout(waitMs)]));
      const [here, there] = await Promise.all(
        [layout.base, base].map(each => unless(files.facts(`${each}/${name}`), "ENOENT", "ENOTDIR", "ESTALE")),
      );
      if (here && there && inodeOf(here.mark) === inodeOf(there.mark)) return base;
      const text = "shareHost and shareBasePath lead to another folder than controllerBasePath";
      call.log.warn("the volume is read from the present mount of the share", { connection, reason: text });
    } catch (error) {
      if (!(error instanceof CsiError)) throw error;
      const isOver = error.code === "unavailable" || error.code === "deadline-exceeded" || call.signal.aborted;
      if (mustBeFresh && isOver) throw error;
      call.log.info("the volume is read from the present mount of the share", { connection, reason: error.message });
    }
    return undefined;
  }
}

/** Without its device, which is another one for each mount. */
const inodeOf = (mark: string): string => mark.split(":")[1] ?? "";

const cached = (context: OperationContext): CsiError =>
  errorOn(
    context,
    "failed-precondition",
    `the mount at ${context.layout.base} may show files as they were up to a minute ago, so a copy after the stop could lack the last writes; mount it with nosharecache,actimeo=0, or let csimux mount the share (shareHost, shareBasePath), then repeat the command`,
  );
