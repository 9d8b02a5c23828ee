import { isMapping, type Mapping } from "../../../lib/core/mapping.ts";
import type { ProgramCall, ProgramReply } from "../answered.ts";
import { Controllers } from "./controllers.ts";
import { CopiesDouble } from "./copies.ts";
import { ApiError, ApiObjects, made, text, valueAt } from "./objects.ts";

const kinds: Readonly<Record<string, string>> = {
  pv: "PersistentVolume",
  pvc: "PersistentVolumeClaim",
  persistentvolumeclaims: "PersistentVolumeClaim",
  pods: "Pod",
  node: "Node",
  nodes: "Node",
  statefulset: "StatefulSet",
  statefulsets: "StatefulSet",
  deployment: "Deployment",
  deployments: "Deployment",
  replicaset: "ReplicaSet",
  replicasets: "ReplicaSet",
  daemonsets: "DaemonSet",
  horizontalpodautoscalers: "HorizontalPodAutoscaler",
  storageclasses: "StorageClass",
  volumeattachments: "VolumeAttachment",
  "volumesnapshots.snapshot.storage.k8s.io": "VolumeSnapshot",
  volumeattributesclass: "VolumeAttributesClass",
};

/** The driver, and the node of all pods. */
export const driver = "csimux.storage";
const node = "w1";

/** The value of a flag in its forms `--flag=value` and `-f value`. */
function flag(argv: readonly string[], ...names: readonly string[]): string | undefined {
  const at = argv.findIndex(word => names.includes(word.replace(/=.*$/s, "")));
  const word = argv[at];
  if (word === undefined) return undefined;
  return word.startsWith("--") && word.includes("=") ? word.slice(word.indexOf("=") + 1) : argv[at + 1];
}

/** kubectl 1.36 for a small cluster with csimux: the arguments that csimux uses, any other ones are an error. */
export class ClusterDouble {
  readonly api = new ApiObjects();
  readonly csimux = new CopiesDouble();
  /** Verbs and resources that kubectl auth can-i denies. */
  readonly denied = new Set<string>();
  /** The aliases of csimux, which serve one connection each with ids without a prefix. */
  readonly aliases = new Map<string, string>();
  /** Every call that changes something, in words. */
  readonly changes: string[] = [];
  /** The number of changes after which kubectl and everything after it is cut off; the last change is made. */
  cutAfter = Number.POSITIVE_INFINITY;
  #lines = 0;
  readonly #controllers: Controllers;

  constructor() {
    const { volumes } = this.csimux;
    const storages = {
      idOf: (volume: unknown) => this.#idOf(volume),
      remove: (handle: string) => void volumes.delete(handle),
      stage: (handle: string, where: string) => void volumes.get(handle)?.staged.add(where),
      unstage: (where: string, keep: ReadonlySet<string>) => {
        for (const [handle, { staged }] of volumes) if (!keep.has(handle)) staged.delete(where);
      },
    };
    this.#controllers = new Controllers(this.api, storages, node);
    const container = { name: "csimux", args: ["serve"] };
    const status = { conditions: [{ type: "Ready", status: "True" }], phase: "Running" };
    for (const component of ["controller", "node"]) {
      const labels = { "app.kubernetes.io/name": "csimux", "app.kubernetes.io/component": component };
      const args = [...container.args, `--mode=${component}`, "--endpoint", "unix:///csi/csi.sock"];
      const spec = { nodeName: node, containers: [{ ...container, args }] };
      this.api.create({
        kind: "Pod",
        metadata: { namespace: "storage", name: `csimux-${component}`, labels },
        spec,
        status,
      });
    }
    this.api.create({ kind: "Node", metadata: { name: node }, status });
  }

  /** Adds objects, and lets the controllers work. */
  add(...objects: readonly Mapping[]): void {
    for (const object of objects) this.api.create(object, true);
    this.#controllers.settle();
  }

  /** The running pods write a line each into the volumes of their claims. */
  write(): void {
    for (const pod of this.api.all("Pod")) {
      if (text(pod, "status", "phase") !== "Running") continue;
      const volumes = valueAt(pod, "spec", "volumes");
      for (const each of Array.isArray(volumes) ? volumes : []) {
        const name = text(each, "persistentVolumeClaim", "claimName");
        const claim = this.api.find("PersistentVolumeClaim", name, text(pod, "metadata", "namespace"));
        const volume = this.api.find("PersistentVolume", text(claim, "spec", "volumeName"));
        const handle = this.#idOf(volume);
        if (handle !== "") this.csimux.write(handle, `${text(pod, "metadata", "name")} ${++this.#lines}`);
      }
    }
  }

  #idOf(volume: unknown): string {
    const handle = text(volume, "spec", "csi", "volumeHandle");
    const connection = this.aliases.get(text(volume, "spec", "csi", "driver"));
    return connection === undefined || handle === "" ? handle : `v:${connection}/${handle}`;
  }

  /** Answers one call of kubectl. */
  answer = (request: Omit<ProgramCall, "name">): ProgramReply => {
    if (this.changes.length >= this.cutAfter) return "killed";
    // The pods write at every time.
    this.write();
    const before = this.changes.length;
    const reply = this.#reply(request);
    this.#controllers.settle();
    return this.changes.length > before && this.changes.length >= this.cutAfter ? "killed" : reply;
  };

  #reply({ argv, stdin }: Omit<ProgramCall, "name">): ProgramReply {
    try {
      const out = this.#run(argv, stdin);
      return typeof out === "string" ? { out, code: 0 } : out;
    } catch (error) {
      if (!(error instanceof ApiError)) throw error;
      return { out: "", err: `${error.message}\n`, code: 1 };
    }
  }

  #run(argv: readonly string[], stdin: string): string | ProgramReply {
    const [verb, ...rest] = argv;
    const namespace = flag(rest, "-n") ?? "";
    if (verb === "get") return this.#get(rest, namespace);
    if (verb === "auth") {
      const [, , resource = ""] = rest;
      const word = `${rest[1]} ${resource}${flag(rest, "--subresource") ? `/${flag(rest, "--subresource")}` : ""}`;
      return this.denied.has(word) ? { out: "no\n", code: 1 } : "yes\n";
    }
    if (verb === "exec") return this.#exec(rest, stdin);
    this.#note(argv.join(" ").slice(0, 60));
    if (verb === "patch") {
      const [kind = "", name = ""] = rest;
      this.api.patch(kinds[kind] ?? "", name, namespace, JSON.parse(flag(rest, "-p") ?? ""));
    } else if (verb === "create") this.#create(JSON.parse(stdin));
    else if (verb === "delete") this.#delete(flag(rest, "--raw") ?? "", JSON.parse(stdin));
    else if (verb === "scale") this.#scale(rest, namespace);
    else throw new Error(`the double does not know kubectl ${argv.join(" ")}`);
    return "";
  }

  #note(what: string): void {
    this.changes.push(what);
  }

  #get(rest: readonly string[], namespace: string): string {
    const [what = "", name] = rest;
    if (name !== undefined && !name.startsWith("-")) {
      const found = this.api.find(kinds[what] ?? `unknown kind ${what}`, name, namespace);
      return found ? JSON.stringify(found) : "";
    }
    const selector = flag(rest, "-l");
    const items = what.split(",").flatMap(kind => {
      const known = kinds[kind];
      if (known === undefined) throw new Error(`the double does not know the kind ${kind}`);
      return this.api.all(known, rest.includes("-A") ? undefined : namespace);
    });
    const label = selector?.split("=") ?? [];
    const chosen = items.filter(
      each => selector === undefined || text(each, "metadata", "labels", label[0] ?? "") === label[1],
    );
    return JSON.stringify({ apiVersion: "v1", kind: "List", items: chosen });
  }

  #create(given: unknown): void {
    const items = isMapping(given) && given["kind"] === "List" ? given["items"] : [given];
    for (const each of Array.isArray(items) ? items : []) this.api.create(each);
  }

  /** kubectl 1.36, pkg/rawhttp/raw.go: the body of the request is the file. */
  #delete(path: string, options: unknown): void {
    const [, namespace = "", resource = "", name = ""] =
      /^\/api\/v1\/namespaces\/([^/]+)\/([^/]+)\/([^/]+)$/.exec(path) ?? [];
    this.api.delete(kinds[resource] ?? "", name, namespace, text(options, "preconditions", "uid") || undefined);
  }

  /** kubectl 1.36, pkg/scale/scale.go: --current-replicas is a precondition. */
  #scale(rest: readonly string[], namespace: string): void {
    const [kind = "", name = ""] = (rest[0] ?? "").split("/");
    const object = this.api.find(kinds[kind] ?? "", name, namespace);
    if (!object) throw new ApiError("NotFound", `${kind}s.apps "${name}" not found`);
    const spec = made(object, "spec");
    const expected = flag(rest, "--current-replicas");
    if (expected !== undefined && String(spec["replicas"]) !== expected)
      throw new ApiError("Expected", `replicas to be ${expected}, was ${spec["replicas"]}`);
    spec["replicas"] = Number(flag(rest, "--replicas"));
    // apps/statefulset/strategy.go, PrepareForUpdate: each change of the specification counts.
    const metadata = made(object, "metadata");
    metadata["generation"] = Number(metadata["generation"] ?? 1) + 1;
    this.api.touch(object);
  }

  #exec(rest: readonly string[], stdin: string): string | ProgramReply {
    const words = rest.slice(rest.indexOf("--") + 2);
    const [command, verb, id] = words;
    if (command === "status") {
      const staged = [...this.csimux.volumes].flatMap(([handle, volume]) => (volume.staged.has(node) ? [handle] : []));
      const aliases = [...this.aliases].map(([name, connection]) => ({ name, connection }));
      return JSON.stringify({
        name: driver,
        ...(aliases.length > 0 && { aliases }),
        ...(rest.includes("csimux-node") && { staged }),
      });
    }
    const subject = verb === "freeze" || verb === "thaw" ? { volume: id } : { target: id };
    const request = verb === "list" ? {} : verb === "plan" || verb === "begin" ? JSON.parse(stdin) : subject;
    if (verb !== "list" && verb !== "plan") this.#note(`copies ${verb}`);
    const { out, code } = this.csimux.answer(JSON.stringify({ ...request, command: verb }), words.includes("--wait"));
    return { out, code, err: code === 0 ? "" : `command terminated with exit code ${code}\n` };
  }
}
