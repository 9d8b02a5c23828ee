import { isMapping } from "../../../lib/core/mapping.ts";
import { type ApiObjects, made, type Stored, text, valueAt } from "./objects.ts";

/** The volumes of the storage systems, which the provisioner and kubelet reach. */
export interface Storages {
  /** The full id of a PersistentVolume, also of one whose driver name is an alias of csimux. */
  readonly idOf: (volume: unknown) => string;
  readonly remove: (handle: string) => void;
  /** Stages a volume on a node; kubelet does so for a pod that starts there. */
  readonly stage: (handle: string, node: string) => void;
  readonly unstage: (node: string, keep: ReadonlySet<string>) => void;
}

const listAt = (object: unknown, ...path: readonly string[]): readonly unknown[] => {
  const value = valueAt(object, ...path);
  return Array.isArray(value) ? value : [];
};

const claimNames = (pod: unknown): readonly string[] =>
  listAt(pod, "spec", "volumes").flatMap(each => text(each, "persistentVolumeClaim", "claimName") || []);

/**
 * The controllers of Kubernetes 1.36.3 that a move meets, each as far as it matters: they run after every change until nothing changes.
 * Files are below pkg/controller unless said otherwise.
 */
export class Controllers {
  readonly #api: ApiObjects;
  readonly #storages: Storages;
  /** The node of all pods. */
  readonly #node: string;

  constructor(api: ApiObjects, storages: Storages, node: string) {
    this.#api = api;
    this.#storages = storages;
    this.#node = node;
  }

  /** Runs until nothing changes. */
  settle(): void {
    for (let before = ""; before !== this.#state(); ) {
      before = this.#state();
      for (const set of this.#api.all("StatefulSet")) this.#scale(set);
      for (const claim of this.#api.all("PersistentVolumeClaim")) this.#protect(claim);
      for (const claim of this.#api.all("PersistentVolumeClaim")) this.#bind(claim);
      for (const volume of this.#api.all("PersistentVolume")) this.#release(volume);
      for (const volume of this.#api.all("PersistentVolume")) this.#reclaim(volume);
      this.#kubelet();
    }
  }

  #state(): string {
    const kinds = ["StatefulSet", "Pod", "PersistentVolumeClaim", "PersistentVolume"];
    return JSON.stringify(kinds.map(kind => this.#api.all(kind)));
  }

  /** statefulset/stateful_set_control.go and stateful_pod_control.go: pods with ordinals, and a claim from each template if it is missing. */
  #scale(set: Stored): void {
    const [name, namespace] = [text(set, "metadata", "name"), text(set, "metadata", "namespace")];
    const wanted = Number(valueAt(set, "spec", "replicas") ?? 1);
    const own = this.#api
      .all("Pod", namespace)
      .filter(pod => text(pod, "metadata", "name").match(/^(.*)-\d+$/)?.[1] === name);
    for (const pod of own)
      if (Number(text(pod, "metadata", "name").split("-").at(-1)) >= wanted)
        this.#api.delete("Pod", text(pod, "metadata", "name"), namespace, undefined);
    for (let ordinal = 0; ordinal < wanted; ordinal++) {
      const pod = `${name}-${ordinal}`;
      if (this.#api.find("Pod", pod, namespace)) continue;
      const volumes = listAt(set, "spec", "volumeClaimTemplates").map(template => {
        const claimName = `${text(template, "metadata", "name")}-${pod}`;
        if (!this.#api.find("PersistentVolumeClaim", claimName, namespace))
          this.#api.create({
            kind: "PersistentVolumeClaim",
            metadata: { namespace, name: claimName },
            spec: valueAt(template, "spec"),
          });
        return { name: text(template, "metadata", "name"), persistentVolumeClaim: { claimName } };
      });
      const owner = { apiVersion: "apps/v1", kind: "StatefulSet", name, controller: true };
      this.#api.create({
        kind: "Pod",
        metadata: { namespace, name: pod, ownerReferences: [owner] },
        spec: { volumes },
      });
    }
    const ready = this.#api
      .all("Pod", namespace)
      .filter(
        pod => text(pod, "status", "phase") === "Running" && text(pod, "metadata", "name").startsWith(`${name}-`),
      );
    made(set, "status")["readyReplicas"] = ready.length;
  }

  /** volume/pvcprotection/pvc_protection_controller.go: a claim goes when no scheduled pod names it, whether that pod has ended or not. */
  #protect(claim: Stored): void {
    const metadata = made(claim, "metadata");
    if (metadata["deletionTimestamp"] === undefined) return;
    const users = this.#api
      .all("Pod", text(metadata, "namespace"))
      .filter(pod => text(pod, "spec", "nodeName") !== "" && claimNames(pod).includes(text(metadata, "name")));
    if (users.length > 0) return;
    metadata["finalizers"] = listAt(metadata, "finalizers").filter(each => each !== "kubernetes.io/pvc-protection");
    this.#api.collect(claim);
  }

  /** volume/persistentvolume/pv_controller.go: syncUnboundClaim for a claim that names its volume, and syncBoundClaim. */
  #bind(claim: Stored): void {
    const status = made(claim, "status");
    const name = text(claim, "spec", "volumeName");
    const volume = this.#api.find("PersistentVolume", name);
    if (text(claim, "metadata", "annotations", "pv.kubernetes.io/bind-completed") !== "") {
      // syncBoundClaim: Lost if the volume is gone or has another claim.
      if (!volume || text(volume, "spec", "claimRef", "uid") !== text(claim, "metadata", "uid"))
        status["phase"] = "Lost";
      return;
    }
    if (name === "" || !volume || valueAt(claim, "metadata", "deletionTimestamp") !== undefined) return;
    const reference = valueAt(volume, "spec", "claimRef");
    // component-helpers, storage/volume/pv_helpers.go, IsVolumeBoundToClaim: a uid, if there is one, must be the claim's.
    const isOwn =
      isMapping(reference) &&
      reference["name"] === text(claim, "metadata", "name") &&
      reference["namespace"] === text(claim, "metadata", "namespace") &&
      (text(reference, "uid") === "" || text(reference, "uid") === text(claim, "metadata", "uid"));
    if (
      isMapping(reference)
        ? !isOwn
        : text(volume, "spec", "storageClassName") !== text(claim, "spec", "storageClassName")
    )
      return;
    const owner = made(volume, "spec", "claimRef");
    owner["uid"] = text(claim, "metadata", "uid");
    made(volume, "status")["phase"] = "Bound";
    made(claim, "metadata", "annotations")["pv.kubernetes.io/bind-completed"] = "yes";
    status["phase"] = "Bound";
    status["capacity"] = valueAt(volume, "spec", "capacity");
    this.#api.touch(volume);
    this.#api.touch(claim);
  }

  /** pv_controller.go, syncVolume: Available without a uid, Released if the claim with this uid is gone. */
  #release(volume: Stored): void {
    const reference = valueAt(volume, "spec", "claimRef");
    const uid = text(reference, "uid");
    const claim = this.#api.find("PersistentVolumeClaim", text(reference, "name"), text(reference, "namespace"));
    const isClaimed = claim !== undefined && text(claim, "metadata", "uid") === uid;
    const phase = uid === "" ? "Available" : isClaimed ? "Bound" : "Released";
    const status = made(volume, "status");
    if (status["phase"] === phase) return;
    status["phase"] = phase;
    this.#api.touch(volume);
  }

  /** sig-storage-lib-external-provisioner 13, controller.go, shouldDelete; then DeleteVolume of the driver, and the object goes. */
  #reclaim(volume: Stored): void {
    const isOurs =
      text(volume, "metadata", "annotations", "pv.kubernetes.io/provisioned-by") ===
      text(volume, "spec", "csi", "driver");
    if (!isOurs || text(volume, "status", "phase") !== "Released") return;
    if (text(volume, "spec", "persistentVolumeReclaimPolicy") !== "Delete") return;
    this.#storages.remove(this.#storages.idOf(volume));
    made(volume, "metadata")["finalizers"] = [];
    this.#api.delete("PersistentVolume", text(volume, "metadata", "name"), "", undefined);
  }

  /** The scheduler and kubelet: a pod runs when its claims are bound and not being deleted (pkg/kubelet/volumemanager/populator). */
  #kubelet(): void {
    const used = new Set<string>();
    for (const pod of this.#api.all("Pod")) {
      const namespace = text(pod, "metadata", "namespace");
      const claims = claimNames(pod).map(name => this.#api.find("PersistentVolumeClaim", name, namespace));
      const isBound = claims.every(claim => text(claim, "status", "phase") === "Bound");
      if (!isBound) continue;
      made(pod, "spec")["nodeName"] = this.#node;
      if (claims.some(claim => valueAt(claim, "metadata", "deletionTimestamp") !== undefined)) continue;
      made(pod, "status")["phase"] = "Running";
      for (const claim of claims) {
        const volume = this.#api.find("PersistentVolume", text(claim, "spec", "volumeName"));
        const handle = this.#storages.idOf(volume);
        used.add(handle);
        this.#storages.stage(handle, this.#node);
      }
    }
    this.#storages.unstage(this.#node, used);
  }
}
