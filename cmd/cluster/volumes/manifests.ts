import { createHash } from "node:crypto";
import { type Access, unmet } from "../../../lib/core/access.ts";
import type { RoutedVolume } from "../../../lib/mux/handles.ts";
import { yamlText } from "../../../lib/yaml/print.ts";
import { visible } from "../../terminal/terminal.ts";

/** A PersistentVolume: `claim` as <namespace>/<name>. */
export interface PvRequest {
  readonly driver: string;
  readonly volume: RoutedVolume;
  readonly access: Access | undefined;
  readonly name: string;
  readonly claim: string;
}

/** The name of a new PersistentVolume (RFC 1123): the volume's own id, if it can be one. */
export const pvName = (own: string, handle: string): string =>
  /^[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?$/.test(own) ? own : `csimux-${digestOf(handle)}`;

const digestOf = (handle: string): string => createHash("sha256").update(handle).digest("hex").slice(0, 16);

/** The most that the class of volumes allows: several writing nodes, or one. */
function modeOf(access: Access | undefined): string {
  const common = { fsType: undefined, mountFlags: [], mountGroup: undefined };
  const isShared = access && !unmet(access, { ...common, kind: "mount", mode: "multi-node-multi-writer" });
  return isShared ? "ReadWriteMany" : "ReadWriteOnce";
}

/** A PersistentVolume needs a size; that of some volumes is not recorded. */
const sizeOf = ({ bytes }: RoutedVolume): string => (bytes > 0n ? String(bytes) : "1Gi");

function pvOf({ driver, volume, access, name, claim }: PvRequest, policy: string, more: object = {}, uid?: string) {
  const [namespace, claimName] = claim.split("/");
  const places = volume.accessibleTopology.map(segments => ({
    matchExpressions: Object.entries(segments).map(([key, value]) => ({ key, operator: "In", values: [value] })),
  }));
  return {
    apiVersion: "v1",
    kind: "PersistentVolume",
    metadata: { name, ...more },
    spec: {
      capacity: { storage: sizeOf(volume) },
      accessModes: [modeOf(access)],
      persistentVolumeReclaimPolicy: policy,
      storageClassName: "",
      claimRef: { apiVersion: "v1", kind: "PersistentVolumeClaim", namespace, name: claimName, ...(uid && { uid }) },
      csi: { driver, volumeHandle: volume.id, volumeAttributes: volume.context },
      ...(places.length > 0 && { nodeAffinity: { required: { nodeSelectorTerms: places } } }),
    },
  };
}

const comments = (lines: readonly string[]): string => lines.map(line => `# ${visible(line)}\n`).join("");

/** A PersistentVolume and the claim that it is reserved for. The data stays if they are deleted. */
export function adoptionText(request: PvRequest, isMarked: boolean, own: string): string {
  const { volume, access, claim, name } = request;
  const [namespace, claimName] = claim.split("/");
  const pvc = {
    apiVersion: "v1",
    kind: "PersistentVolumeClaim",
    metadata: { namespace, name: claimName },
    spec: {
      accessModes: [modeOf(access)],
      resources: { requests: { storage: sizeOf(volume) } },
      storageClassName: "",
      volumeName: name,
    },
  };
  const head = [
    `Volume ${own}: create both with kubectl create -f. With the policy Retain, deleting them keeps the data.`,
    ...(isMarked
      ? []
      : [
          "It is not marked yet: run the command again with --mark, or csimux can neither list, expand nor snapshot it.",
        ]),
    ...(volume.bytes > 0n ? [] : ["Its size is not recorded: correct 1Gi in both."]),
    "If its class names secrets for nodes, add spec.csi.nodeStageSecretRef to the PersistentVolume.",
  ];
  return `${comments(head)}${yamlText(pvOf(request, "Retain"))}---\n${yamlText(pvc)}`;
}

/** A UID that no claim has, so that Kubernetes takes the claim for deleted (RFC 9562, "Nil UUID"). */
const noClaim = "00000000-0000-0000-0000-000000000000";

/**
 * A PersistentVolume whose claim is gone and whose policy is Delete: csi-provisioner has csimux delete it as soon as it is created, with all
 * of csimux's checks. Older versions of it need the annotation.
 */
export function deletionText(request: Pick<PvRequest, "driver" | "volume">, about: string): string {
  const annotations = { "pv.kubernetes.io/provisioned-by": request.driver };
  // Volumes of several connections can have the same id.
  const name = `delete-${digestOf(request.volume.id)}`;
  const all = { ...request, access: undefined, name, claim: `default/${name}` };
  const pv = pvOf(all, "Delete", { annotations }, noClaim);
  return `---\n${comments([about])}${yamlText(pv)}`;
}
