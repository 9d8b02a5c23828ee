import { shellImage } from "../../scripts/cluster/images.ts";
import type { Resource } from "./kube.ts";

/** Options of a claim. */
export interface ClaimOptions {
  readonly size?: string;
  readonly modes?: readonly string[];
  readonly block?: boolean;
  /** A snapshot or another claim as the source. */
  readonly from?: { readonly snapshot: string } | { readonly claim: string };
}

function source(from: ClaimOptions["from"]): object {
  if (from === undefined) return {};
  const dataSource =
    "snapshot" in from
      ? { apiGroup: "snapshot.storage.k8s.io", kind: "VolumeSnapshot", name: from.snapshot }
      : { kind: "PersistentVolumeClaim", name: from.claim };
  return { dataSource };
}

/** A ReadWriteOnce claim of 64 MiB. */
export const claim = (name: string, storageClassName: string, options: ClaimOptions = {}): Resource => ({
  apiVersion: "v1",
  kind: "PersistentVolumeClaim",
  metadata: { name },
  spec: {
    accessModes: options.modes ?? ["ReadWriteOnce"],
    volumeMode: options.block ? "Block" : "Filesystem",
    storageClassName,
    resources: { requests: { storage: options.size ?? "64Mi" } },
    ...source(options.from),
  },
});

/** Options of a pod. */
export interface PodOptions {
  /** A shell command; the pod keeps running after it. */
  readonly run?: string;
  /** Added to the pod's specification. */
  readonly spec?: object;
  /** Added to the mount of the volume. */
  readonly mount?: object;
  /** Added to the reference to the claim. */
  readonly claim?: object;
  /** Added to the container. */
  readonly container?: object;
}

/** A pod with the claim at /data that does nothing. */
export const pod = (name: string, claimName: string, options: PodOptions = {}): Resource => ({
  apiVersion: "v1",
  kind: "Pod",
  metadata: { name, labels: { test: "pod" } },
  spec: {
    terminationGracePeriodSeconds: 2,
    containers: [
      {
        name: "shell",
        image: shellImage,
        command: ["sh", "-c", `trap 'exit 0' TERM; ${options.run ?? "true"}; sleep 100000 & wait $!`],
        volumeMounts: [{ name: "volume", mountPath: "/data", ...options.mount }],
        ...options.container,
      },
    ],
    volumes: [{ name: "volume", persistentVolumeClaim: { claimName, ...options.claim } }],
    ...options.spec,
  },
});

/** A StatefulSet of three pods at once, each with a claim of this class at /data; `container` and `spec` have what else the pods have. */
export const statefulSet = (name: string, storageClassName: string, container: object, spec: object): Resource => ({
  apiVersion: "apps/v1",
  kind: "StatefulSet",
  metadata: { name },
  spec: {
    replicas: 3,
    serviceName: name,
    podManagementPolicy: "Parallel",
    selector: { matchLabels: { app: name } },
    template: {
      metadata: { labels: { app: name } },
      spec: {
        containers: [
          { name: "shell", image: shellImage, volumeMounts: [{ name: "data", mountPath: "/data" }], ...container },
        ],
        ...spec,
      },
    },
    volumeClaimTemplates: [
      {
        metadata: { name: "data" },
        spec: { storageClassName, accessModes: ["ReadWriteOnce"], resources: { requests: { storage: "64Mi" } } },
      },
    ],
  },
});

/** A snapshot of a claim. */
export const snapshot = (
  name: string,
  persistentVolumeClaimName: string,
  volumeSnapshotClassName: string,
): Resource => ({
  apiVersion: "snapshot.storage.k8s.io/v1",
  kind: "VolumeSnapshot",
  metadata: { name },
  spec: { volumeSnapshotClassName, source: { persistentVolumeClaimName } },
});

/** A class of a driver for a connection or a group. */
export const storageClass = (name: string, provisioner: string, connection: string, more: object = {}): Resource => ({
  apiVersion: "storage.k8s.io/v1",
  kind: "StorageClass",
  metadata: { name },
  provisioner,
  parameters: { connection },
  allowVolumeExpansion: true,
  volumeBindingMode: "WaitForFirstConsumer",
  ...more,
});
