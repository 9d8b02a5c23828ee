import { move } from "../../../cmd/cluster/move/move.ts";
import type { MoveCommand, MoveFlags } from "../../../cmd/cluster/move/options.ts";
import { ClusterDouble, driver } from "../../fakes/cluster/cluster.ts";
import { kubectlProgram } from "../../fakes/cluster/kubectl.ts";
import { text } from "../../fakes/cluster/objects.ts";
import { passing } from "../../waiting.ts";

/** A claim with its volume on connection a. */
export const claimAndVolume = (
  name: string,
  { namespace = "shop", policy = "Delete", by = driver, handle = `v:a/pvc-${name}` } = {},
) => [
  {
    apiVersion: "v1",
    kind: "PersistentVolume",
    metadata: { name: `pvc-${name}`, annotations: { "pv.kubernetes.io/provisioned-by": by } },
    spec: {
      storageClassName: "slow",
      persistentVolumeReclaimPolicy: policy,
      capacity: { storage: "20Gi" },
      accessModes: ["ReadWriteOnce"],
      claimRef: { kind: "PersistentVolumeClaim", namespace, name },
      csi: { driver: by, volumeHandle: handle, fsType: "ext4", volumeAttributes: {} },
    },
  },
  {
    apiVersion: "v1",
    kind: "PersistentVolumeClaim",
    metadata: { namespace, name, labels: { app: "db" }, annotations: { note: "of a person" } },
    spec: {
      storageClassName: "slow",
      volumeName: `pvc-${name}`,
      accessModes: ["ReadWriteOnce"],
      resources: { requests: { storage: "20Gi" } },
    },
  },
];

/** A StatefulSet whose pods write to their claims. */
export const statefulSet = (replicas: number, more: object = {}) => ({
  apiVersion: "apps/v1",
  kind: "StatefulSet",
  metadata: { namespace: "shop", name: "db" },
  spec: {
    replicas,
    volumeClaimTemplates: [
      { metadata: { name: "data" }, spec: { storageClassName: "slow", accessModes: ["ReadWriteOnce"] } },
    ],
    ...more,
  },
});

export const storageClass = (name: string, connection: string, more: object = {}) => ({
  apiVersion: "storage.k8s.io/v1",
  kind: "StorageClass",
  metadata: { name },
  provisioner: driver,
  reclaimPolicy: "Delete",
  parameters: { connection },
  ...more,
});

/** A cluster with a StatefulSet on connection a, the class "fast" of connection b, and csimux move. `alias`: the driver name of the old volumes. */
export async function moveWorld({ replicas = 1, policy = "Delete", set = {}, alias = "" } = {}) {
  const cluster = new ClusterDouble();
  if (alias !== "") cluster.aliases.set(alias, "a");
  cluster.add(storageClass("slow", "a", alias === "" ? {} : { provisioner: alias }), storageClass("fast", "b"));
  for (let ordinal = 0; ordinal < replicas; ordinal++) {
    cluster.csimux.add(`v:a/pvc-data-db-${ordinal}`);
    const old = alias === "" ? {} : { by: alias, handle: `pvc-data-db-${ordinal}` };
    cluster.add(...claimAndVolume(`data-db-${ordinal}`, { policy, ...old }));
  }
  cluster.add(statefulSet(replicas, set));
  const { folder, close } = await kubectlProgram(cluster.answer);
  const claims = Array.from({ length: replicas }, (_, ordinal) => `data-db-${ordinal}`);
  /** Runs one command; the exit code, and what it printed. */
  const run = async (command: MoveCommand, flags: MoveFlags = {}, names: readonly string[] = claims) => {
    const out: string[] = [];
    const err: string[] = [];
    // What a poll waits for happens within milliseconds here.
    const pause = () => passing(10);
    const host = {
      ...{ out: (each: string) => void out.push(each), err: (each: string) => void err.push(each) },
      ...{
        stdin: async () => "",
        hostname: "desk",
        colour: false,
        pause,
        env: { PATH: `${folder}:${process.env["PATH"]}` },
      },
    };
    const code = await move(command, names, { namespace: "shop", ...flags }, host);
    return { code, out: out.join(""), err: err.join("") };
  };
  const claim = (name = "data-db-0") => cluster.api.find("PersistentVolumeClaim", name, "shop");
  const volumeOf = (name = "data-db-0") =>
    cluster.api.find("PersistentVolume", text(claim(name), "spec", "volumeName"));
  const lines = (name = "data-db-0") =>
    cluster.csimux.volumes.get(text(volumeOf(name), "spec", "csi", "volumeHandle"))?.lines ?? [];
  return { cluster, run, close, claim, volumeOf, lines };
}

/** The command line of a move to the class "fast". */
export const toFast: MoveFlags = { toClass: "fast", yes: true };
