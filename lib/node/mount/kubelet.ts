import { readSmallFile } from "../../io/small-file.ts";

/** The file in which the kubelet records the volume of a CSI mount (pkg/volume/csi, volDataFileName). */
const file = "vol_data.json";

const maxBytes = 64 << 10;

/**
 * The kubelet's mount points of CSI volumes, and the folder of the file for each: pods, staged volumes, block devices.
 */
const mountPoints: readonly (readonly [RegExp, string])[] = [
  [/^(.*\/pods\/[^/]+\/volumes\/kubernetes\.io~csi\/[^/]+)\/mount$/, "$1"],
  [/^(.*\/plugins\/kubernetes\.io\/csi\/volumeDevices)\/staging\/([^/]+)(?:\/.*)?$/, "$1/$2/data"],
  [/^(.*\/plugins\/kubernetes\.io\/csi\/volumeDevices)\/publish\/([^/]+)\/[^/]+$/, "$1/$2/data"],
  [/^(.*\/plugins\/kubernetes\.io\/csi\/[^/]+\/[^/]+)\/globalmount(?:\/.*)?$/, "$1"],
];

/** Whether a path has the form of a kubelet's CSI mount point; other programs do not mount there. */
export const isKubeletMountPoint = (path: string): boolean => mountPoints.some(([form]) => form.test(path));

/** A volume in the kubelet's records. */
export interface KubeletVolume {
  readonly driverName: string;
  readonly volumeHandle: string;
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
    const { driverName, volumeHandle } = JSON.parse(text);
    if (typeof driverName !== "string" || typeof volumeHandle !== "string") return undefined;
    return { driverName, volumeHandle };
  } catch {
    return undefined;
  }
}
