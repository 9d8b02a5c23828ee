import { readSmallFile } from "../io/small-file.ts";

/** The file in which the kubelet keeps what a mount of a CSI volume is (pkg/volume/csi, volDataFileName). */
const file = "vol_data.json";

const maxBytes = 64 << 10;

/** Where a kubelet has CSI volumes mounted, and the folder of its file about each: pods, staged volumes, block devices. */
const places: readonly (readonly [RegExp, string])[] = [
  [/^(.*\/pods\/[^/]+\/volumes\/kubernetes\.io~csi\/[^/]+)\/mount$/, "$1"],
  [/^(.*\/plugins\/kubernetes\.io\/csi\/volumeDevices)\/staging\/([^/]+)(?:\/.*)?$/, "$1/$2/data"],
  [/^(.*\/plugins\/kubernetes\.io\/csi\/volumeDevices)\/publish\/([^/]+)\/[^/]+$/, "$1/$2/data"],
  [/^(.*\/plugins\/kubernetes\.io\/csi\/[^/]+\/[^/]+)\/globalmount(?:\/.*)?$/, "$1"],
];

/** Whether a kubelet has CSI volumes mounted at places of this form; nobody else mounts there. */
export const isPlaceOfKubelet = (place: string): boolean => places.some(([form]) => form.test(place));

/** The id of the volume that the kubelet has mounted at a place, by its own notes; undefined where it knows of none. */
export async function volumeOfKubelet(place: string): Promise<string | undefined> {
  for (const [form, folder] of places) {
    if (!form.test(place)) continue;
    const text = await readSmallFile(`${place.replace(form, folder)}/${file}`, maxBytes).catch(() => undefined);
    return text === undefined ? undefined : handleIn(text);
  }
  return undefined;
}

function handleIn(text: string): string | undefined {
  try {
    const { volumeHandle } = JSON.parse(text);
    return typeof volumeHandle === "string" ? volumeHandle : undefined;
  } catch {
    return undefined;
  }
}
