import { existsSync, readFileSync } from "node:fs";
import { access, constants } from "node:fs/promises";
import { dirname, join } from "node:path";
import { addressesFor } from "../../lib/config/node.ts";
import type { Log } from "../../lib/core/call.ts";
import { errnoOf } from "../../lib/core/errors.ts";
import { type Mount, parseMountinfo } from "../../lib/core/mountinfo.ts";
import { connectionFiles } from "../../lib/daemon/connection-files.ts";
import { answersTcp } from "../../lib/io/dial.ts";
import { hostPrograms } from "../../lib/io/host-programs.ts";
import { localRunner } from "../../lib/io/local.ts";
import { measured } from "../../lib/io/measured.ts";
import { attachers } from "../../lib/node/attach/attachers.ts";
import { atNewAddresses } from "../../lib/node/attach/new-addresses.ts";
import { DiskFilesystems } from "../../lib/node/disks/disk-filesystems.ts";
import type { InlineProvisioner } from "../../lib/node/inline.ts";
import { MountTable, refuseUnseen } from "../../lib/node/mount/mount-table.ts";
import { NodeVolumes } from "../../lib/node/volumes.ts";
import type { ConnectionParts } from "../connections.ts";
import { type Host, toolEnvironment } from "../host.ts";
import { healthTimes } from "./health-rounds.ts";
import { initiatorsOf, type NodeReport } from "./node-info.ts";
import type { ServeOptions } from "./options.ts";

const mountinfo = "/proc/self/mountinfo";

/** The mount point of the host's root in the node pod of democratic-csi's chart. */
const hostRoot = "/host";

/** Rejects with an errno error unless the folder is writable or could be created. */
async function writable(folder: string): Promise<void> {
  try {
    await access(folder, constants.W_OK | constants.X_OK);
  } catch (error) {
    if (errnoOf(error) !== "ENOENT" || folder === dirname(folder)) throw error;
    await writable(dirname(folder));
  }
}

/** Where Nomad mounts the plugin's folder of the client in a container, unless stage_publish_base_dir says otherwise. */
const nomadFolder = "/local/csi";

/**
 * Where the host's root is mounted, if it is. Manifests for Kubernetes always mount it. A job of Nomad may not, and the image has an
 * empty folder there, so the mount table decides.
 */
function mountedHost(
  { env }: Pick<Host, "env">,
  mounts: () => readonly Mount[] = ownMounts,
  exists: (path: string) => boolean = existsSync,
): string | undefined {
  if (!exists(hostRoot)) return undefined;
  if (env["NOMAD_ALLOC_ID"] === undefined) return hostRoot;
  return mounts().some(({ at }) => at === hostRoot || at.startsWith(`${hostRoot}/`)) ? hostRoot : undefined;
}

/** The folder of the node's records, on the host where one of its folders is mounted. */
export function stateFolder(
  { stateDir, name }: Pick<ServeOptions, "stateDir" | "name">,
  host: Pick<Host, "env">,
  mounts: () => readonly Mount[] = ownMounts,
  exists: (path: string) => boolean = existsSync,
): string {
  if (stateDir !== undefined) return stateDir;
  const root = mountedHost(host, mounts, exists);
  const isInNomad = host.env["NOMAD_ALLOC_ID"] !== undefined && mounts().some(({ at }) => at === nomadFolder);
  if (isInNomad && root === undefined) return join(nomadFolder, ".csimux");
  return join(root ?? "/", "var/lib/csimux", name);
}

function ownMounts(): readonly Mount[] {
  try {
    return parseMountinfo(readFileSync(mountinfo, "utf8"));
  } catch {
    return [];
  }
}

/** Whether the folder goes with the container that Nomad made for this task. */
export function goesWithContainer(
  folder: string,
  { env }: Pick<Host, "env">,
  mounts: () => readonly Mount[] = ownMounts,
): boolean {
  if (env["NOMAD_ALLOC_ID"] === undefined) return false;
  const mount = new MountTable(mounts()).covering(folder);
  return mount?.at === "/" && mount.fsType === "overlay";
}

/** Throws as refuseUnseen for the kubelet's folders by their usual name, but not for those below the host's root. */
export function refuseUnseenPods(mounts: readonly Mount[]): void {
  const folders = mounts.map(({ at }) =>
    at.startsWith(`${hostRoot}/`) ? undefined : /^.*\/kubelet(?=$|\/pods$)/.exec(at)?.[0],
  );
  for (const folder of folders) if (folder !== undefined) refuseUnseen(`${folder}/pods`, new MountTable(mounts));
}

/** What the node half is built of. */
interface NodeParts extends Pick<ConnectionParts, "host" | "main" | "resolver" | "tell"> {
  readonly options: ServeOptions;
  readonly own: NodeReport;
  /** Provisions ephemeral inline volumes. */
  readonly inline: InlineProvisioner;
  /** Contexts of volumes that the node might get. */
  readonly elsewhere: () => Promise<readonly Readonly<Record<string, string>>[]>;
}

/** Builds the node half. */
export function openNode({ options, host, main, resolver, tell, own, inline, elsewhere }: NodeParts) {
  const { info, keys, evaluateKeys } = own;
  const runner = measured(localRunner({ env: toolEnvironment(host.env) }), tell);
  const state = stateFolder(options, host);
  const root = mountedHost(host);
  // A pod is always in another mount namespace than the kubelet; elsewhere nothing tells whether the orchestrator is.
  const isApart = host.env["KUBERNETES_SERVICE_HOST"] !== undefined;
  const onHost = root === undefined ? { ...runner, rootOf: async () => "/" } : hostPrograms(runner, root);
  const volumes = new NodeVolumes({
    drivers: [{ name: options.name }, ...options.aliases],
    runner,
    host: onHost,
    ...connectionFiles(main, resolver),
    maxVolumes: main.config.node.maxVolumes,
    attachers: atNewAddresses(
      attachers({
        runner,
        host: onHost,
        hostFolders: async () => {
          await main.refresh();
          return main.config.node.hostFolders;
        },
        hostDatasets: async () => {
          await main.refresh();
          return main.config.node.hostDatasets;
        },
        hostMounts: host.env["USE_HOST_MOUNT_TOOLS"] === "1",
        devices: "/dev",
        sys: "/sys",
        proc: "/proc",
        hostRoot: root ?? "/",
        rootOf: onHost.rootOf,
        answers: answersTcp,
        opened: join(state, "opened"),
      }),
      () => addressesFor(main.config.node.addresses, keys()),
    ),
    disks: new DiskFilesystems({ runner, sys: "/sys", folder: join(state, "formats"), settings: main.config.node }),
    inline: { maker: inline, folder: join(state, "inline") },
    records: join(state, "volumes"),
    mountinfo,
    isApart,
    answers: answersTcp,
    health: { everyMs: options.healthMs, holdMs: healthTimes(options.healthMs).hold, elsewhere },
  });
  return {
    initiators: () => initiatorsOf(volumes, () => onHost.rootOf("iscsiadm"), root ?? "/"),
    parts: {
      volumes,
      info: async () => {
        if (isApart) refuseUnseenPods(ownMounts());
        return await info();
      },
    },
    /**
     * Warns if no volume can be staged here, before one is; it does not end the process, because pods can still be
     * removed. Then checks what an earlier process left behind.
     */
    begin: async (log: Log) => {
      try {
        await writable(state);
      } catch (error) {
        const reason = errnoOf(error) ?? "unknown reason";
        log.warn(`the state folder ${state} cannot be used (${reason}), so no volume can be staged; see --state-dir`);
      }
      if (goesWithContainer(state, host))
        log.warn(
          `the state folder ${state} is lost with this container, and csimux cannot detach the disks of its volumes then; give a folder of the host as --state-dir`,
        );
      if (main.config.node.addresses.some(({ requirements }) => Object.keys(requirements).length > 0))
        await evaluateKeys();
      await volumes.begin(log);
    },
  };
}
