import { isMapping, type Mapping } from "../../../../lib/core/mapping.ts";
import { textAt } from "../../../../lib/lint/lint-input.ts";
import { annotation } from "./note.ts";
import { type ClaimName, isBlock, modesOf, quantityBytes, quantityText, textsAt } from "./objects.ts";
import { secretAnnotations, secretReferences } from "./secrets.ts";

/** A finished volume, as the controller describes it. */
export interface LandedVolume {
  readonly handle: string;
  readonly bytes: bigint;
  readonly context: Readonly<Record<string, string>>;
  readonly topology: readonly Readonly<Record<string, string>>[];
}

/**
 * Annotations that say something about the old binding or class (Kubernetes 1.36, pkg/controller/volume/persistentvolume and
 * component-helpers, storage/volume; external-provisioner 6.3, controller.go), or about an older manifest (kubectl apply).
 */
const dropped: readonly RegExp[] = [
  /^pv\.kubernetes\.io\//,
  /^volume(\.beta)?\.kubernetes\.io\/(storage-provisioner|storage-class|selected-node|storage-resizer|mount-options)$/,
  /^volume\.kubernetes\.io\/(provisioner-deletion|controller-modify)-secret-(name|namespace)$/,
  /^kubectl\.kubernetes\.io\/last-applied-configuration$/,
];

/** Labels of a volume that say where the old storage is; the scheduler would follow them. */
const placeLabel = /^(topology\.kubernetes\.io|failure-domain\.beta\.kubernetes\.io)\/(zone|region)$/;

const kept = (
  texts: Readonly<Record<string, string>>,
  drop: (key: string) => boolean,
): Readonly<Record<string, string>> =>
  Object.fromEntries(Object.entries(texts).filter(([key]) => key !== annotation && !drop(key)));

const isDropped = (key: string): boolean => dropped.some(each => each.test(key));

/** A claim as a manifest for another class and volume, with what users and other programs have set; without its data source. */
export function claimManifest(claim: Mapping, storageClassName: string, volumeName: string): Mapping {
  const metadata = isMapping(claim["metadata"]) ? claim["metadata"] : {};
  const spec = isMapping(claim["spec"]) ? claim["spec"] : {};
  const { ownerReferences } = metadata;
  const { resources, volumeMode, selector, volumeAttributesClassName } = spec;
  return {
    apiVersion: "v1",
    kind: "PersistentVolumeClaim",
    metadata: {
      namespace: metadata["namespace"],
      name: metadata["name"],
      ...texts("labels", textsAt(metadata, "labels")),
      ...texts("annotations", kept(textsAt(metadata, "annotations"), isDropped)),
      ...(ownerReferences !== undefined && { ownerReferences }),
    },
    spec: {
      storageClassName,
      volumeName,
      accessModes: modesOf(claim),
      ...(volumeMode !== undefined && { volumeMode }),
      ...(selector !== undefined && { selector }),
      ...(volumeAttributesClassName !== undefined && { volumeAttributesClassName }),
      resources,
    },
  };
}

const texts = (key: string, values: Readonly<Record<string, string>>): object =>
  Object.keys(values).length === 0 ? {} : { [key]: values };

/** The nodes that reach a volume; nothing if all of them do. */
export const affinity = (topology: LandedVolume["topology"]): object => {
  const nodeSelectorTerms = topology.map(segments => ({
    matchExpressions: Object.entries(segments).map(([key, value]) => ({ key, operator: "In", values: [value] })),
  }));
  return topology.length > 0 ? { nodeAffinity: { required: { nodeSelectorTerms } } } : {};
};

/** The sources of a volume's manifest. */
export interface VolumeSources {
  readonly name: string;
  /** The claim as it was before the move, and its PersistentVolume. */
  readonly claim: Mapping;
  readonly old: Mapping;
  readonly toClass: Mapping;
  readonly volume: LandedVolume;
}

/**
 * The PersistentVolume of a landed volume, as external-provisioner 6.3 would have made it (controller.go, Provision), except that it is kept
 * when its claim is deleted, and reserved for the claim of the same name. Throws MoveRefusal for a secret that the class does not resolve.
 */
export function volumeManifest({ name, claim, old, toClass, volume }: VolumeSources): Mapping {
  const driver = textAt(toClass, "provisioner") ?? "";
  const place = textsAt(claim, "metadata");
  const owner: ClaimName = { namespace: place["namespace"] ?? "", name: place["name"] ?? "" };
  const asked = quantityBytes(textAt(old, "spec", "capacity", "storage")) ?? 0n;
  const parameters = textsAt(toClass, "parameters");
  const mode = textAt(claim, "spec", "volumeMode");
  const fsType = isBlock(claim) ? undefined : textAt(old, "spec", "csi", "fsType");
  const mountOptions = toClass["mountOptions"];
  const attributesClass = textAt(claim, "spec", "volumeAttributesClassName");
  const made = { pv: name, claim: owner, annotations: textsAt(claim, "metadata", "annotations") };
  return {
    apiVersion: "v1",
    kind: "PersistentVolume",
    metadata: {
      name,
      ...texts(
        "labels",
        kept(textsAt(old, "metadata", "labels"), key => placeLabel.test(key)),
      ),
      annotations: {
        ...kept(textsAt(old, "metadata", "annotations"), isDropped),
        // Without it, the provisioner never deletes the volume.
        "pv.kubernetes.io/provisioned-by": driver,
        ...secretAnnotations(parameters, made),
      },
    },
    spec: {
      storageClassName: textAt(toClass, "metadata", "name"),
      persistentVolumeReclaimPolicy: "Retain",
      // A storage that does not know its size answers 0.
      capacity: { storage: quantityText(volume.bytes > 0n ? volume.bytes : asked) },
      accessModes: modesOf(claim),
      ...(mode !== undefined && { volumeMode: mode }),
      ...(Array.isArray(mountOptions) && mountOptions.length > 0 && { mountOptions }),
      ...(attributesClass !== undefined && { volumeAttributesClassName: attributesClass }),
      // Without a uid: reserved for the next claim of this name (Kubernetes documentation, "Reserving a PersistentVolume").
      claimRef: { apiVersion: "v1", kind: "PersistentVolumeClaim", ...owner },
      csi: {
        driver,
        volumeHandle: volume.handle,
        ...(fsType !== undefined && { fsType }),
        volumeAttributes: volume.context,
        ...secretReferences(parameters, made),
      },
      ...affinity(volume.topology),
    },
  };
}
