import { dirname } from "node:path";
import { readSmallFile } from "../../io/small-file.ts";
import type { MountTable } from "../mount/mount-table.ts";

// The paths at which container orchestrators have volumes mounted, and the file that the kubelet keeps with them.

/** The file in which the kubelet records the volume of a CSI mount (pkg/volume/csi, volDataFileName). */
const file = "vol_data.json";

const maxBytes = 64 << 10;

/** The kubelet's CSI mount points and the folder of the file for each: pods, staged volumes, block devices. */
const mountPoints: readonly (readonly [RegExp, string])[] = [
  [/^(.*\/pods\/[^/]+\/volumes\/kubernetes\.io~csi\/[^/]+)\/mount$/, "$1"],
  [/^(.*\/plugins\/kubernetes\.io\/csi\/volumeDevices)\/staging\/([^/]+)(?:\/.*)?$/, "$1/$2/data"],
  [/^(.*\/plugins\/kubernetes\.io\/csi\/volumeDevices)\/publish\/([^/]+)\/[^/]+$/, "$1/$2/data"],
  [/^(.*\/plugins\/kubernetes\.io\/csi\/[^/]+\/[^/]+)\/globalmount(?:\/.*)?$/, "$1"],
];

/** Whether a path has the form of a kubelet's CSI mount point; other programs do not mount there. */
export const isKubeletMountPoint = (path: string): boolean => mountPoints.some(([form]) => form.test(path));

/**
 * Nomad's CSI mount points below the folder of a plugin: staged volumes by namespace and id, published ones by allocation
 * and id, then how the volume is used (client/pluginmanager/csimanager of Nomad 1.11; before 1.9 without the namespace).
 */
const nomadMountPoint =
  /^(.*)\/(?:staging(?:\/[^/]+){1,2}|per-alloc\/[^/]+\/[^/]+)\/r[ow]-(?:file-system|block-device)-[a-z-]*(?:\/block_device)?$/;

/** The folder that a Nomad client gives to a plugin, on the host (csi_plugin, stage_publish_base_dir). */
const nomadPluginFolder = /\/csi\/(?:node|monolith)\/[^/]+$/;

/**
 * The folder of this plugin if a path has the form of a Nomad mount point in it; undefined for any other path. In a container,
 * the folder is a mount of the host's folder. Nothing but the plugin mounts in it.
 */
export function nomadFolderOf(path: string, table: MountTable): string | undefined {
  const base = nomadMountPoint.exec(path)?.[1];
  if (base === undefined) return undefined;
  return nomadPluginFolder.test(table.top(base)?.root ?? base) ? base : undefined;
}

/** The kubelet's folder for plugins, which it creates at each start (pkg/kubelet/kubelet.go, setupDataDirs). */
const kubeletPlugins = /^(.*\/plugins)\/kubernetes\.io\/csi\//;

/**
 * The folder that the orchestrator has for the staging folders of all volumes, and that does not disappear with the last of them:
 * if it is not there, this process does not see the orchestrator's folders, and a missing staging folder means nothing.
 */
export const stagingRootOf = (stagingPath: string): string =>
  kubeletPlugins.exec(stagingPath)?.[1] ?? nomadMountPoint.exec(stagingPath)?.[1] ?? dirname(stagingPath);

/** A volume in the kubelet's records. */
export interface KubeletVolume {
  readonly driverName: string;
  readonly volumeHandle: string;
  /** Whether it lives with its pod (Ephemeral of the kubelet's volumeLifecycleMode). */
  readonly isInline: boolean;
}

/** The volume mounted at a path according to the kubelet's file; undefined if there is none. */
export async function kubeletVolumeAt(path: string): Promise<KubeletVolume | undefined> {
  for (const [form, folder] of mountPoints) {
    if (!form.test(path)) continue;
    const text = await readSmallFile(`${path.replace(form, folder)}/${file}`, maxBytes).catch(() => undefined);
    return text === undefined ? undefined : volumeIn(text);
  }
  return undefined;
}

function volumeIn(text: string): KubeletVolume | undefined {
  try {
    const { driverName, volumeHandle, volumeLifecycleMode } = JSON.parse(text);
    if (typeof driverName !== "string" || typeof volumeHandle !== "string") return undefined;
    return { driverName, volumeHandle, isInline: volumeLifecycleMode === "Ephemeral" };
  } catch {
    return undefined;
  }
}
