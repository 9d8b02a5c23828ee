import { readSmallFile } from "../../io/small-file.ts";

/** The file in which the kubelet keeps what a mount of a CSI volume is (pkg/volume/csi, volDataFileName). */
const file = "vol_data.json";

const maxBytes = 64 << 10;

/** Where a kubelet has CSI volumes mounted, and the folder of its file about each: pods, staged volumes, block devices. */
const mountPoints: readonly (readonly [RegExp, string])[] = [
  [/^(.*\/pods\/[^/]+\/volumes\/kubernetes\.io~csi\/[^/]+)\/mount$/, "$1"],
  [/^(.*\/plugins\/kubernetes\.io\/csi\/volumeDevices)\/staging\/([^/]+)(?:\/.*)?$/, "$1/$2/data"],
  [/^(.*\/plugins\/kubernetes\.io\/csi\/volumeDevices)\/publish\/([^/]+)\/[^/]+$/, "$1/$2/data"],
  [/^(.*\/plugins\/kubernetes\.io\/csi\/[^/]+\/[^/]+)\/globalmount(?:\/.*)?$/, "$1"],
];

/** Whether a kubelet has CSI volumes mounted at places of this form; nobody else mounts there. */
export const isKubeletMountPoint = (place: string): boolean => mountPoints.some(([form]) => form.test(place));

/** A volume as the kubelet knows it. */
export interface KubeletVolume {
  readonly driverName: string;
  readonly volumeHandle: string;
}

/** The volume that the kubelet has mounted at a place, by its own notes; undefined where it knows of none. */
export async function kubeletVolumeAt(place: string): Promise<KubeletVolume | undefined> {
  for (const [form, folder] of mountPoints) {
    if (!form.test(place)) continue;
    const text = await readSmallFile(`${place.replace(form, folder)}/${file}`, maxBytes).catch(() => undefined);
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
