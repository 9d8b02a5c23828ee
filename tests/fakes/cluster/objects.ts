import { isMapping, type Mapping } from "../../../lib/core/mapping.ts";

/** An object as the API server keeps it; fakes may change it. */
export type Stored = { [key: string]: unknown };

/** An error of the API server as kubectl prints it. */
export class ApiError extends Error {
  constructor(reason: string, message: string) {
    super(`Error from server (${reason}): ${message}`);
  }
}

const mapping = (value: unknown): Stored => (isMapping(value) ? (value as Stored) : {});

/** The mapping at a path, which is made if it is missing. */
export function made(object: Stored, ...path: readonly string[]): Stored {
  let here = object;
  for (const step of path) {
    if (!isMapping(here[step])) here[step] = {};
    here = mapping(here[step]);
  }
  return here;
}

/** The value at a path. */
export const valueAt = (object: unknown, ...path: readonly string[]): unknown =>
  path.reduce<unknown>((here, step) => (isMapping(here) ? here[step] : undefined), object);

/** The text at a path; empty if there is none. */
export const text = (object: unknown, ...path: readonly string[]): string => {
  const value = valueAt(object, ...path);
  return typeof value === "string" ? value : "";
};

/** A merge of JSON: null removes (RFC 7386). */
export function merged(target: unknown, patch: unknown): unknown {
  if (!isMapping(patch)) return patch;
  const result: Stored = { ...mapping(target) };
  for (const [key, value] of Object.entries(patch)) {
    if (value === null) delete result[key];
    else result[key] = merged(result[key], value);
  }
  return result;
}

const keyOf = (kind: string, namespace: string, name: string): string => `${kind}/${namespace}/${name}`;

/** The kinds without a namespace that the double has. */
const clusterWide = new Set(["PersistentVolume", "StorageClass", "Node", "VolumeAttachment"]);

/**
 * The objects of a Kubernetes API server 1.36.3: versions, UIDs, finalizers and the immutable fields that a move depends on. Sources are
 * below k8s.io/apiserver (registry/generic/registry/store.go) and k8s.io/kubernetes.
 */
export class ApiObjects {
  readonly #objects = new Map<string, Stored>();
  #version = 100;
  #uid = 0;

  find(kind: string, name: string, namespace = ""): Stored | undefined {
    return this.#objects.get(keyOf(kind, clusterWide.has(kind) ? "" : namespace, name));
  }

  all(kind: string, namespace?: string): readonly Stored[] {
    const ofKind = [...this.#objects.values()].filter(each => each["kind"] === kind);
    return ofKind.filter(
      each => namespace === undefined || clusterWide.has(kind) || text(each, "metadata", "namespace") === namespace,
    );
  }

  /** Adds an object with its status, as the API server and its admission plugins do. */
  create(given: Mapping, ofController = false): Stored {
    const object = structuredClone(given) as Stored;
    const kind = text(object, "kind");
    const metadata = made(object, "metadata");
    const [name, namespace] = [text(metadata, "name"), clusterWide.has(kind) ? "" : text(metadata, "namespace")];
    const key = keyOf(kind, namespace, name);
    const plural = `${kind.toLowerCase()}s`;
    if (this.#objects.has(key)) throw new ApiError("AlreadyExists", `${plural} "${name}" already exists`);
    if (namespace !== "") metadata["namespace"] = namespace;
    metadata["uid"] = `00000000-0000-4000-8000-${String(++this.#uid).padStart(12, "0")}`;
    metadata["resourceVersion"] = String(++this.#version);
    metadata["creationTimestamp"] = "2026-01-01T00:00:00Z";
    // plugin/pkg/admission/storage/storageobjectinuseprotection/admission.go
    if (kind === "PersistentVolume") metadata["finalizers"] = ["kubernetes.io/pv-protection"];
    if (kind === "PersistentVolumeClaim") metadata["finalizers"] = ["kubernetes.io/pvc-protection"];
    // pkg/registry/core/persistentvolumeclaim/strategy.go, PrepareForCreate: the status of a request is dropped.
    if (!ofController)
      object["status"] = kind.startsWith("PersistentVolume") ? { phase: "Pending" } : (object["status"] ?? {});
    this.#objects.set(key, object);
    return object;
  }

  /** Marks an object as changed. */
  touch(object: Stored): void {
    made(object, "metadata")["resourceVersion"] = String(++this.#version);
  }

  /** PATCH with application/merge-patch+json. */
  patch(kind: string, name: string, namespace: string, patch: unknown): void {
    const object = this.find(kind, name, namespace);
    if (!object) throw new ApiError("NotFound", `${kind.toLowerCase()}s "${name}" not found`);
    const wanted = text(patch, "metadata", "resourceVersion");
    // store.go, Update: a version in the new object that is not the present one is a conflict.
    if (wanted !== "" && wanted !== text(object, "metadata", "resourceVersion"))
      throw new ApiError(
        "Conflict",
        `Operation cannot be fulfilled on ${kind.toLowerCase()}s "${name}": the object has been modified; please apply your changes to the latest version and try again`,
      );
    const next = merged(object, patch) as Stored;
    // pkg/apis/core/validation/validation.go, ValidatePersistentVolumeUpdate and ValidatePersistentVolumeClaimUpdate
    const fixed =
      kind === "PersistentVolume"
        ? [["spec", "csi"]]
        : [
            ["spec", "storageClassName"],
            ["spec", "volumeName"],
          ];
    for (const path of fixed)
      if (JSON.stringify(valueAt(next, ...path)) !== JSON.stringify(valueAt(object, ...path)))
        throw new ApiError(
          "Invalid",
          `${kind} "${name}" is invalid: ${path.join(".")}: Forbidden: is immutable after creation`,
        );
    const notes = Object.entries(mapping(valueAt(next, "metadata", "annotations")));
    // apimachinery, pkg/api/validation/objectmeta.go, TotalAnnotationSizeLimitB
    if (notes.reduce((sum, [key, value]) => sum + key.length + String(value).length, 0) > 256 << 10)
      throw new ApiError(
        "Invalid",
        `${kind} "${name}" is invalid: metadata.annotations: Too long: may not be more than 262144 bytes`,
      );
    for (const key of Object.keys(object)) delete object[key];
    Object.assign(object, next);
    this.touch(object);
  }

  /** DELETE: an object with finalizers stays until they are gone (store.go, Delete and deleteWithoutFinalizers). */
  delete(kind: string, name: string, namespace: string, uid: string | undefined): void {
    const object = this.find(kind, name, namespace);
    if (!object) throw new ApiError("NotFound", `${kind.toLowerCase()}s "${name}" not found`);
    // apiserver, pkg/storage/interfaces.go, Preconditions.Check
    const has = text(object, "metadata", "uid");
    if (uid !== undefined && uid !== has)
      throw new ApiError("Conflict", `Precondition failed: UID in precondition: ${uid}, UID in object meta: ${has}`);
    made(object, "metadata")["deletionTimestamp"] ??= "2026-01-01T00:00:01Z";
    this.touch(object);
    this.collect(object);
  }

  /** Removes an object that is being deleted and has no finalizers. */
  collect(object: Stored): void {
    const metadata = made(object, "metadata");
    const finalizers = Array.isArray(metadata["finalizers"]) ? metadata["finalizers"] : [];
    if (metadata["deletionTimestamp"] === undefined || finalizers.length > 0) return;
    this.#objects.delete(keyOf(text(object, "kind"), text(metadata, "namespace"), text(metadata, "name")));
  }
}
