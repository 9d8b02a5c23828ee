import { cp, readFile, writeFile } from "node:fs/promises";
import { join } from "node:path";
import {
  changedBlocksManifests,
  changedBlocksProgram,
  hasChangedBlocks,
} from "../../../scripts/cluster/changed-blocks.ts";
import { built } from "../../../scripts/cluster/place.ts";
import { root, type Spawned, spawned } from "../../../scripts/spawned.ts";
import { freePort } from "../../io/ssh/sshd.ts";
import { hasPrograms, Kubernetes } from "./kubernetes.ts";
import { certificates, described, service } from "./service.ts";

const namespace = "shop";

/** An API server with the objects of examples/kubernetes/central and of its component, and the sidecars that serve csimux' socket. */
export interface BackupRig {
  readonly api: Kubernetes;
  /** A claim, bound to a volume of csimux. */
  claim(name: string, volumeHandle: string): Promise<void>;
  /** A VolumeSnapshot of a claim; the answer is its handle, once it is ready. */
  snapshot(claim: string, name: string): Promise<string>;
  /** A VolumeSnapshot without a class, of what has this handle. */
  known(handle: string, name: string): Promise<void>;
  /** Runs the sidecar on another socket until it ends. */
  sidecarOn(socket: string): Promise<Spawned>;
  /** Runs a client of the sidecar as the account of a backup tool, or with the kubeconfig of another one. */
  client(name: "lister" | "verifier", args: readonly string[], as?: string): Promise<Spawned>;
  end(): Promise<void>;
}

/** A copy of the manifests, with the component and this driver's name. */
async function overlay(folder: string, driver: string): Promise<string> {
  const copy = join(folder, "manifests");
  await cp(join(root, "examples/kubernetes"), copy, { recursive: true });
  const file = join(copy, "central/kustomization.yaml");
  await writeFile(file, (await readFile(file, "utf8")).replace("# - ../snapshot-metadata", "- ../snapshot-metadata"));
  const settings = join(copy, "central/settings.yaml");
  await writeFile(settings, (await readFile(settings, "utf8")).replace("csimux.storage", driver));
  return copy;
}

interface Deployed {
  readonly spec: {
    readonly template: { readonly spec: { readonly containers: { readonly name: string; readonly args: string[] }[] } };
  };
}

const programs = ["etcd", "kube-apiserver", "kubectl", "snapshot-controller", "csi-snapshotter"];

/** Whether a rig can be made: as root, with the programs of `make test-cluster`. */
export const hasBackupRig = (): boolean => process.getuid?.() === 0 && hasChangedBlocks() && hasPrograms(programs);

export async function backupRig(socket: string, driver: string): Promise<BackupRig> {
  const api = await Kubernetes.start();
  try {
    return await started(api, socket, driver);
  } catch (error) {
    await api.end();
    throw error;
  }
}

async function started(api: Kubernetes, socket: string, driver: string): Promise<BackupRig> {
  await api.ok("apply", "--server-side", "-f", built.crds, "-f", changedBlocksManifests.crds);
  await api.ok("wait", "--for=condition=Established", "crd", "--all");
  const manifests = await overlay(api.folder, driver);
  await api.ok("apply", "-f", join(manifests, "namespace.yaml"));
  await api.ok("apply", "--server-side", "-k", join(manifests, "central"));
  certificates(api.folder);
  const tls = ["tls.crt", "tls.key"].map(
    name => `--${name.replace("tls.crt", "cert").replace("tls.", "")}=${join(api.folder, name)}`,
  );
  await api.ok("-n", "storage", "create", "secret", "tls", "csimux-snapshot-metadata", ...tls);
  const [port, hosts] = [await freePort(), join(api.folder, "hosts")];
  await writeFile(hosts, `127.0.0.1 localhost ${service}\n`);
  const sample = await described(manifests, api.folder);
  const spec = { ...sample.spec, address: `${service}:${port}` };
  await api.apply({ ...sample, metadata: { name: driver }, spec });

  const kubeconfig = await api.account("storage", "csimux-controller");
  const text = await api.ok("-n", "storage", "get", "deployment", "csimux-controller", "-o=json");
  const { containers } = (JSON.parse(text) as Deployed).spec.template.spec;
  /** The arguments of a container, in this folder. */
  const argsOf = (name: string): readonly string[] =>
    (containers.find(each => each.name === name)?.args ?? []).map(arg =>
      arg.replace("/csi/csi.sock", socket).replace("/tls/", `${api.folder}/`).replace("$(NAMESPACE)", "storage"),
    );
  const own = `--kubeconfig=${kubeconfig}`;
  const bin = (name: string) => join(built.programs, name);
  api.run("snapshot-controller", [bin("snapshot-controller"), `--kubeconfig=${api.kubeconfig("admin")}`]);
  api.run("snapshotter", [bin("csi-snapshotter"), ...argsOf("snapshotter"), own]);
  const ports = [`--port=${port}`, "--http-endpoint=127.0.0.1:0"];
  api.run("sidecar", [changedBlocksProgram("csi-snapshot-metadata"), ...argsOf("snapshot-metadata"), ...ports, own]);
  await api.until("the sidecar", async () => (await api.log("sidecar")).includes("Setting status to SERVING"));

  // A backup tool, with the rights that the sidecar's repository gives it, and an account without any.
  await api.ok("apply", "-f", changedBlocksManifests.clientRole);
  await api.ok("create", "namespace", namespace);
  for (const name of ["backup", "stranger"]) await api.ok("-n", namespace, "create", "serviceaccount", name);
  const role = "--clusterrole=external-snapshot-metadata-client-runner";
  await api.ok("create", "clusterrolebinding", "backup", role, `--serviceaccount=${namespace}:backup`);
  const tool = await api.account(namespace, "backup");

  const kind = { apiVersion: "snapshot.storage.k8s.io/v1", kind: "VolumeSnapshot" };
  /** Waits for a VolumeSnapshot; the answer is the name of its content. */
  const ready = async (name: string): Promise<string> => {
    const path = "-o=jsonpath={.status.readyToUse} {.status.boundVolumeSnapshotContentName}";
    let content = "";
    await api.until(`snapshot ${name}`, async () => {
      const [isReady, bound = ""] = (await api.ok("-n", namespace, "get", "vs", name, path)).split(" ");
      content = bound;
      return isReady === "true";
    });
    return content;
  };

  return {
    api,
    async claim(name, volumeHandle) {
      const size = { storage: "8Mi" };
      const [accessModes, volumeMode] = [["ReadWriteOnce"], "Block"];
      const metadata = { name, namespace };
      const resources = { requests: size };
      await api.apply({
        ...{ apiVersion: "v1", kind: "PersistentVolumeClaim", metadata },
        spec: { accessModes, volumeMode, resources, volumeName: name, storageClassName: "nas" },
      });
      const uid = await api.ok("-n", namespace, "get", "pvc", name, "-o=jsonpath={.metadata.uid}");
      const claimRef = { kind: "PersistentVolumeClaim", namespace, name, uid };
      await api.apply({
        ...{ apiVersion: "v1", kind: "PersistentVolume", metadata: { name } },
        spec: {
          capacity: size,
          accessModes,
          volumeMode,
          csi: { driver, volumeHandle },
          claimRef,
          storageClassName: "nas",
        },
      });
      const bound = JSON.stringify({ status: { phase: "Bound", accessModes, capacity: size } });
      await api.ok("-n", namespace, "patch", "pvc", name, "--subresource=status", "--type=merge", "-p", bound);
    },
    async snapshot(claim, name) {
      const source = { persistentVolumeClaimName: claim };
      await api.apply({
        ...kind,
        metadata: { name, namespace },
        spec: { volumeSnapshotClassName: "csimux", source },
      });
      const content = await ready(name);
      return api.ok("get", "vsc", content, "-o=jsonpath={.status.snapshotHandle}");
    },
    async known(snapshotHandle, name) {
      const volumeSnapshotRef = { name, namespace };
      await api.apply({
        ...{ ...kind, kind: "VolumeSnapshotContent", metadata: { name } },
        spec: { deletionPolicy: "Retain", driver, source: { snapshotHandle }, volumeSnapshotRef },
      });
      const source = { volumeSnapshotContentName: name };
      await api.apply({ ...kind, metadata: volumeSnapshotRef, spec: { source } });
      await ready(name);
    },
    async sidecarOn(other) {
      const args = argsOf("snapshot-metadata").map(arg => arg.replace(socket, other));
      const free = [`--port=${await freePort()}`, "--http-endpoint=127.0.0.1:0"];
      return spawned([changedBlocksProgram("csi-snapshot-metadata"), ...args, ...free, own], { timeoutMs: 60_000 });
    },
    client: (name, args, as = tool) =>
      spawned(
        [
          ...["unshare", "--mount", "sh", "-c", 'mount --bind "$1" /etc/hosts && shift && exec "$@"', "sh", hosts],
          ...[changedBlocksProgram(`snapshot-metadata-${name}`), `-kubeconfig=${as}`, "-n", namespace, ...args],
        ] as [string, ...string[]],
        { env: { NO_PROXY: "*" }, timeoutMs: 300_000 },
      ),
    end: () => api.end(),
  };
}
