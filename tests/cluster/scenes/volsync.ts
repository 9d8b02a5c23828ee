import { rm } from "node:fs/promises";
import { join } from "node:path";
import { volsyncImage } from "../../../scripts/cluster/images.ts";
import { state } from "../../../scripts/cluster/place.ts";
import { volsyncChartInMachine } from "../../../scripts/cluster/volsync.ts";
import { apply, eventually, find, home, kube, list, type Resource } from "../kube.ts";
import { helm } from "./helm.ts";

// The backup tool VolSync with restic. Its repositories are folders of the machine, in a volume that is not csimux's.

const crds = ["replicationsources", "replicationdestinations"].map(name => `${name}.volsync.backube`);

/** The claim with the repositories. */
export const repositories = "repositories";

const repositoryVolume: readonly Resource[] = [
  {
    apiVersion: "v1",
    kind: "PersistentVolume",
    metadata: { name: repositories },
    spec: {
      capacity: { storage: "1Gi" },
      accessModes: ["ReadWriteMany"],
      storageClassName: "",
      hostPath: { path: `/run/cluster/state/${repositories}`, type: "DirectoryOrCreate" },
    },
  },
  {
    apiVersion: "v1",
    kind: "PersistentVolumeClaim",
    metadata: { name: repositories },
    spec: {
      accessModes: ["ReadWriteMany"],
      storageClassName: "",
      volumeName: repositories,
      resources: { requests: { storage: "1Gi" } },
    },
  },
];

const privileged = "volsync.backube/privileged-movers";

/** Installs it by its own chart in the namespace of csimux, and makes the volume with the repositories. */
export async function installVolsync(): Promise<void> {
  const images = ["image", "restic"].flatMap(part =>
    Object.entries(volsyncImage).map(([key, value]) => `--set=${part}.${key}=${value}`),
  );
  await helm("install", "volsync", volsyncChartInMachine, "--wait", "--timeout=5m", ...images);
  // Its pods may read every file then, and give a restored one its owner.
  await kube("annotate", "namespace", home, `${privileged}=true`);
  await apply(...repositoryVolume);
}

/** Removes the volume with the repositories, and their content. */
export async function removeRepositories(): Promise<void> {
  await kube("delete", "-n", home, `pvc/${repositories}`, "--ignore-not-found", "--timeout=120s");
  await kube("delete", `pv/${repositories}`, "--ignore-not-found", "--timeout=120s");
  await rm(join(state, repositories), { recursive: true, force: true });
}

/** Removes it; Kubernetes deletes what belongs to its objects. */
export async function uninstallVolsync(): Promise<void> {
  await helm("uninstall", "volsync", "--ignore-not-found", "--wait", "--timeout=5m");
  await kube("delete", "crd", ...crds, "--ignore-not-found", "--timeout=120s");
  await kube("annotate", "namespace", home, `${privileged}-`);
}

/** How VolSync takes a moment of a claim. */
export type CopyMethod = "Snapshot" | "Clone";

const restic = (repository: string, storageClassName: string) => ({
  repository,
  volumeSnapshotClassName: "csimux",
  cacheCapacity: "64Mi",
  cacheStorageClassName: storageClassName,
  moverVolumes: [{ mountPath: repositories, volumeSource: { persistentVolumeClaim: { claimName: repositories } } }],
});

/** The Secret with a repository of this name. */
export const repository = (name: string): Resource => ({
  apiVersion: "v1",
  kind: "Secret",
  metadata: { name },
  stringData: { RESTIC_REPOSITORY: `/mnt/${repositories}/${name}`, RESTIC_PASSWORD: "correct horse" },
});

/** Backs up the claim of this name into the repository of this name, once for each value of `manual`. */
export const replicationSource = (
  name: string,
  storageClassName: string,
  copyMethod: CopyMethod,
  manual: string,
): Resource => ({
  apiVersion: "volsync.backube/v1alpha1",
  kind: "ReplicationSource",
  metadata: { name },
  spec: { sourcePVC: name, trigger: { manual }, restic: { ...restic(name, storageClassName), copyMethod } },
});

/** Restores the newest content of a repository, and keeps a snapshot of it. */
export const replicationDestination = (name: string, from: string, storageClassName: string): Resource => ({
  apiVersion: "volsync.backube/v1alpha1",
  kind: "ReplicationDestination",
  metadata: { name },
  spec: {
    trigger: { manual: "once" },
    restic: {
      ...restic(from, storageClassName),
      copyMethod: "Snapshot",
      capacity: "64Mi",
      accessModes: ["ReadWriteOnce"],
      storageClassName,
    },
  },
});

/** A claim that VolSync fills with what a ReplicationDestination has restored. */
export const restoredClaim = (name: string, destination: string, storageClassName: string): Resource => ({
  apiVersion: "v1",
  kind: "PersistentVolumeClaim",
  metadata: { name },
  spec: {
    accessModes: ["ReadWriteOnce"],
    storageClassName,
    resources: { requests: { storage: "64Mi" } },
    dataSourceRef: { apiGroup: "volsync.backube", kind: "ReplicationDestination", name: destination },
  },
});

/** Waits until these objects have done what `manual` asks for; returns the results of their pods, and how long each took. */
export async function synced(
  kind: "replicationsource" | "replicationdestination",
  names: readonly string[],
  manual: string,
): Promise<readonly { readonly result: string; readonly duration: string }[]> {
  const all: { result: string; duration: string }[] = [];
  for (const name of names) {
    const { status } = await eventually(
      `the ${kind} ${name} is synchronized`,
      420_000,
      async () => {
        const found = await find(kind, name);
        return found?.status?.lastManualSync === manual ? found : undefined;
      },
      name,
    );
    all.push({ result: status.latestMoverStatus?.result, duration: status.lastSyncDuration });
  }
  return all;
}

/** What the events of a ReplicationSource say. */
export const said = async (name: string): Promise<readonly string[]> =>
  (await list("events"))
    .filter(({ involvedObject: about }) => about.kind === "ReplicationSource" && about.name === name)
    .map(event => String(event["message"]));
