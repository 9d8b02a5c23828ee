import { createHash } from "node:crypto";
import { type Access, type AccessMode, unmet } from "../../../lib/core/access.ts";
import type { RoutedVolume } from "../../../lib/mux/handles.ts";
import { yamlText } from "../../../lib/yaml/print.ts";
import { visible } from "../../terminal/terminal.ts";
import { affinity, claimManifest } from "../move/objects/manifests.ts";
import { type ClaimName, noClaim } from "../move/objects/objects.ts";

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

/** What the class of volumes allows, the most first, which is what kubelet asks for: several writing nodes, or one. */
function modesOf(access: Access | undefined): readonly string[] {
  const common = { fsType: undefined, mountFlags: [], mountGroup: undefined, kind: "mount" } as const;
  const allows = (mode: AccessMode) => access !== undefined && unmet(access, { ...common, mode }) === undefined;
  if (!allows("multi-node-multi-writer")) return ["ReadWriteOnce"];
  return allows("single-node-writer") ? ["ReadWriteMany", "ReadWriteOnce"] : ["ReadWriteMany"];
}

/** What a volume is for a pod, as it records that (Tenant.shape). */
function formOf({ tenure }: RoutedVolume) {
  const [kind, fsType] = (tenure?.shape ?? "").split(":");
  return { mode: kind === "block" ? { volumeMode: "Block" } : {}, type: fsType ? { fsType } : {} };
}

const placeOf = (claim: string): ClaimName => {
  const [namespace = "", name = ""] = claim.split("/");
  return { namespace, name };
};

/** A PersistentVolume needs a size; that of some volumes is not recorded. */
const sizeOf = ({ bytes }: RoutedVolume): string => (bytes > 0n ? String(bytes) : "1Gi");

function pvOf({ driver, volume, access, name, claim }: PvRequest, policy: string, more: object = {}, uid?: string) {
  const { mode, type } = formOf(volume);
  return {
    apiVersion: "v1",
    kind: "PersistentVolume",
    metadata: { name, ...more },
    spec: {
      capacity: { storage: sizeOf(volume) },
      accessModes: modesOf(access),
      ...mode,
      persistentVolumeReclaimPolicy: policy,
      storageClassName: "",
      claimRef: { apiVersion: "v1", kind: "PersistentVolumeClaim", ...placeOf(claim), ...(uid && { uid }) },
      csi: { driver, volumeHandle: volume.id, ...type, volumeAttributes: volume.context },
      ...affinity(volume.accessibleTopology),
    },
  };
}

const comments = (lines: readonly string[]): string => lines.map(line => `# ${visible(line)}\n`).join("");

/** A PersistentVolume and the claim that it is reserved for. */
function pairText(request: PvRequest): string {
  const { volume, access, claim, name } = request;
  const accessModes = modesOf(access).slice(0, 1);
  const spec = { accessModes, ...formOf(volume).mode, resources: { requests: { storage: sizeOf(volume) } } };
  const pvc = claimManifest({ metadata: placeOf(claim), spec }, "", name);
  return `${yamlText(pvOf(request, "Retain"))}---\n${yamlText(pvc)}`;
}

const sizeUnknown = "Its size is not recorded: correct 1Gi in both.";
const secrets = "If its class names secrets for nodes, add spec.csi.nodeStageSecretRef to the PersistentVolume.";

/** A PersistentVolume and the claim that it is reserved for. The data stays if they are deleted. */
export function adoptionText(request: PvRequest, isMarked: boolean, own: string): string {
  const { volume } = request;
  const head = [
    `Volume ${own}: create both with kubectl create -f. With the policy Retain, deleting them keeps the data.`,
    ...(isMarked
      ? []
      : [
          "It is not marked yet: run the command again with --mark, or csimux can neither list, expand nor snapshot it.",
        ]),
    ...(volume.bytes > 0n ? [] : [sizeUnknown]),
    secrets,
  ];
  return `${comments(head)}${pairText(request)}`;
}

/** The same for many volumes, after what a person should know first, and `left`: a line for each volume that is not among them. */
export function adoptionsText(driver: string, requests: readonly PvRequest[], left: readonly string[]): string {
  const namespaces = [...new Set(requests.map(({ claim }) => claim.slice(0, claim.indexOf("/"))))].sort();
  const head = [
    `${requests.length} volumes of ${driver} for the claims that they were made for. Nothing has been changed.`,
    ...(requests.length === 0
      ? []
      : [
          "WARNING: remove every volume that another cluster may use. Deleting what is created keeps the data (policy Retain).",
          `First create the namespaces (${namespaces.join(", ")}), then this file with kubectl create -f, then the workloads.`,
          "If your manifests have a claim themselves, remove that here: its PersistentVolume is reserved for it.",
          secrets,
        ]),
    ...(left.length === 0 ? [] : ["Not among them:"]),
    ...left.map(line => `- ${line}`),
  ];
  const each = requests.map(request => {
    const { volume, claim } = request;
    const about = [`${volume.id}: ${claim}.`, ...(volume.bytes > 0n ? [] : [sizeUnknown])];
    return `${comments([about.join(" ")])}${pairText(request)}`;
  });
  return `${comments(head)}${each.join("---\n")}`;
}

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
