import { expect } from "bun:test";
import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { mkdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { Controller } from "../../lib/csi/gen/csi/v1/csi_pb.ts";
import { type CsiClient, csiClient, mountCapability } from "../../scripts/client.ts";
import { goProgram } from "../../scripts/cluster/tools.ts";
import { connects } from "../../scripts/daemon.ts";
import { spawned } from "../../scripts/spawned.ts";
import { answeredPrograms, type ProgramCall, type ProgramReply } from "../fakes/answered.ts";
import { readsStdin } from "../fakes/kubectl.ts";
import { type KubeObject, objectsOf } from "../helm.ts";
import { pause } from "../waiting.ts";

/** Where the cluster is, and the csimux that it runs. */
interface Place {
  readonly folder: string;
  /** For PATH. */
  readonly bin: string;
  readonly csimux: string;
}

const bytes = (storage: string): bigint => BigInt(Number.parseInt(storage, 10)) << 30n;

/**
 * A program kubectl whose cluster is a real csimux: what is applied is rendered by kustomize, the Secret with the connections and the
 * main file are served, and claims and snapshots become the calls that csi-provisioner, csi-snapshotter and csi-resizer make. There are no
 * nodes: pods only exist. Everything else that a page may ask of kubectl fails the page.
 */
export class TutorialCluster {
  readonly objects = new Map<string, KubeObject>();
  /** The handles of volumes and snapshots by object. */
  readonly handles = new Map<string, string>();
  /** The contexts of the volumes that were made, by claim. */
  readonly contexts = new Map<string, Readonly<Record<string, string>>>();
  /** Deleted claims and snapshots, whose storage is there until a page waits for the volumes. */
  readonly #released = new Set<string>();
  readonly #place: Place;
  readonly #client: CsiClient;
  #daemon: ChildProcess | undefined;
  #stop: () => void = () => {};

  constructor(place: Place) {
    this.#place = place;
    this.#client = csiClient(this.#socket);
  }

  get #socket(): string {
    return join(this.#place.folder, "csi.sock");
  }

  async start(): Promise<this> {
    const answer = (call: ProgramCall) =>
      this.#answer(call).catch((error): ProgramReply => ({ out: "", err: `${error}\n`, code: 1 }));
    this.#stop = await answeredPrograms({ bin: this.#place.bin, names: ["kubectl"], begin: readsStdin, answer });
    return this;
  }

  async end(): Promise<void> {
    this.#stop();
    this.#client.close();
    if (this.#daemon === undefined) return;
    const exited = once(this.#daemon, "exit");
    this.#daemon.kill("SIGKILL");
    await exited;
  }

  async #answer({ argv, stdin }: ProgramCall): Promise<ProgramReply> {
    const words = argv.filter((word, index) => word !== "-n" && argv[index - 1] !== "-n" && word !== "--server-side");
    const [verb = "", ...rest] = words;
    const said = (out: string): ProgramReply => ({ out, code: 0 });
    if (rest.join(" ").includes("https://github.com/kubernetes-csi/")) return said("");
    if (verb === "get" && rest[0] === "crd") return said(`${rest[1]}   2026-11-27T08:00:00Z\n`);
    if (verb === "get" && rest[0] === "pvc") return said(this.#volumeNames(rest.slice(1)));
    if (verb === "kustomize") return said(await this.#rendered(rest[0] ?? ""));
    if (verb === "apply") return said(await this.#apply(rest, stdin));
    if (verb === "delete") return said(await this.#delete(rest));
    if (verb === "wait" && rest[0] === "--for=delete") return said(await this.#freed(rest.slice(1)));
    if (verb === "wait") return said(this.#wait(rest));
    if (verb === "rollout") return said(await this.#settled());
    if (verb === "patch") return said(await this.#patch(rest));
    if (verb === "exec" && rest[0] === "deploy/csimux-controller") return await this.#status();
    if (verb === "exec") return said(this.#found(`pod/${rest[0]}`) && "hello\n");
    return { out: "", err: `kubectl ${argv.join(" ")}: not in this cluster\n`, code: 1 };
  }

  #found(name: string): KubeObject {
    const found = this.objects.get(name);
    if (!found) throw new Error(`${name} not found`);
    return found;
  }

  async #rendered(path: string): Promise<string> {
    const built = await spawned([goProgram("kustomize"), "build", path], { cwd: this.#place.folder });
    if (built.code !== 0) throw new Error(built.stderr);
    return built.stdout;
  }

  async #apply(rest: readonly string[], stdin: string): Promise<string> {
    const [how, path = ""] = rest;
    const text = how === "-k" ? await this.#rendered(path) : path === "-" ? stdin : this.#file(path);
    const objects = objectsOf(text);
    const short: Readonly<Record<string, string>> = { persistentvolumeclaim: "pvc" };
    for (const object of objects) {
      const kind = object.kind.toLowerCase();
      this.objects.set(`${short[kind] ?? kind}/${object.metadata.name}`, object);
    }
    if (how === "-k") await this.#serve(objects);
    for (const object of objects) {
      if (object.kind === "PersistentVolumeClaim") await this.#provision(object);
      if (object.kind === "VolumeSnapshot") await this.#snapshot(object);
    }
    return `${objects.length} objects applied\n`;
  }

  #file(path: string): string {
    return readFileSync(join(this.#place.folder, path), "utf8");
  }

  /** Writes what the pod mounts, and starts csimux with it; a running one reads changed connections by itself. */
  async #serve(objects: readonly KubeObject[]): Promise<void> {
    const connections = join(this.#place.folder, "served");
    rmSync(connections, { recursive: true, force: true });
    mkdirSync(connections);
    const secret = objects.find(({ kind, metadata }) => kind === "Secret" && metadata.name === "csimux-connections");
    for (const [name, text] of Object.entries<string>(secret?.["data"] ?? {}))
      writeFileSync(join(connections, name), Buffer.from(text, "base64"));
    const main = objects.find(({ kind }) => kind === "ConfigMap")?.["data"]["proxy.yaml"] as string;
    const config = join(this.#place.folder, "proxy.yaml");
    writeFileSync(config, main.replace("/connections", connections));
    if (this.#daemon) return;
    const state = join(this.#place.folder, "state");
    const args = ["serve", "--endpoint", `unix://${this.#socket}`, "--config", config, "--state-dir", state];
    const mode = ["--mode", "controller", "--name", "csimux.storage"];
    this.#daemon = spawn(this.#place.csimux, [...args, ...mode], { stdio: "ignore" });
    while (!(await connects(this.#socket))) await pause(20);
  }

  /** Waits until csimux has checked its storage systems, which takes less than a rollout. */
  async #settled(): Promise<string> {
    while (!/ (?:good|bad|unreachable|login-refused|unusable) /.test((await this.#status()).out)) await pause(100);
    return "successfully rolled out\n";
  }

  async #status(): Promise<{ readonly out: string; readonly err: string; readonly code: number }> {
    const asked = [this.#place.csimux, "status", "--endpoint", `unix://${this.#socket}`] as const;
    const { stdout, stderr, code } = await spawned([...asked]);
    return { out: stdout, err: stderr, code };
  }

  /** As csi-provisioner, which repeats a call that fails with a temporary code. */
  async #provision(claim: KubeObject): Promise<void> {
    const { name } = claim.metadata;
    const { storageClassName, resources, dataSource } = claim["spec"];
    const parameters = this.#found(`storageclass/${storageClassName}`)["parameters"] as Record<string, string>;
    const own = Object.entries(parameters).filter(([key]) => !key.startsWith("csi.storage.k8s.io/"));
    const snapshotId = dataSource && this.#handle(`volumesnapshot/${dataSource.name}`);
    const request = {
      name: `pvc-${name}`,
      parameters: Object.fromEntries(own),
      capacityRange: { requiredBytes: bytes(resources.requests.storage) },
      volumeCapabilities: [mountCapability],
      ...(snapshotId && {
        volumeContentSource: { type: { case: "snapshot" as const, value: { snapshotId } } },
      }),
    };
    const { volume } = await this.#repeated(() => this.#client.call(Controller.method.createVolume, request));
    this.handles.set(`pvc/${name}`, volume?.volumeId ?? "");
    this.contexts.set(name, volume?.volumeContext ?? {});
  }

  #handle(name: string): string {
    const handle = this.handles.get(name);
    if (handle === undefined) throw new Error(`${name} has no handle`);
    return handle;
  }

  async #snapshot({ metadata, ...snapshot }: KubeObject): Promise<void> {
    const { volumeSnapshotClassName, source } = snapshot["spec"];
    this.#found(`volumesnapshotclass/${volumeSnapshotClassName}`);
    const sourceVolumeId = this.#handle(`pvc/${source.persistentVolumeClaimName}`);
    const request = { name: `snapshot-${metadata.name}`, sourceVolumeId };
    const made = await this.#repeated(() => this.#client.call(Controller.method.createSnapshot, request));
    this.handles.set(`volumesnapshot/${metadata.name}`, made.snapshot?.snapshotId ?? "");
  }

  /** Repeats a call, as sidecars do, until it succeeds or a minute has passed. */
  async #repeated<T>(call: () => Promise<T>): Promise<T> {
    const until = Date.now() + 60_000;
    for (;;) {
      try {
        return await call();
      } catch (error) {
        if (Date.now() > until) throw error;
        await pause(50);
      }
    }
  }

  /** `kubectl wait`: everything but the end of a volume has happened when the command before returns. */
  #wait(rest: readonly string[]): string {
    for (const name of rest.filter(word => !word.startsWith("--"))) this.#found(name);
    return "condition met\n";
  }

  /** `kubectl get pvc CLAIMS -o jsonpath=…`: the names of their volumes. */
  #volumeNames(rest: readonly string[]): string {
    const claims = rest.slice(0, rest.indexOf("-o"));
    expect(rest.slice(claims.length)).toEqual(["-o", "jsonpath={.items[*].spec.volumeName}"]);
    for (const claim of claims) this.#found(`pvc/${claim}`);
    return claims.map(claim => `pvc-${claim}`).join(" ");
  }

  async #patch([kind, name, flag, patch = ""]: readonly string[]): Promise<string> {
    if (kind !== "pvc" || flag !== "--patch") throw new Error(`patch ${kind}: not in this cluster`);
    const { storage } = JSON.parse(patch).spec.resources.requests as { readonly storage: string };
    const request = { volumeId: this.#handle(`pvc/${name}`), capacityRange: { requiredBytes: bytes(storage) } };
    const { capacityBytes } = await this.#client.call(Controller.method.controllerExpandVolume, request);
    return `expanded to ${capacityBytes}\n`;
  }

  /** As in Kubernetes, objects are gone before the storage of claims is. */
  async #delete(rest: readonly string[]): Promise<string> {
    if (rest[0] === "-k") expect([...this.#released]).toEqual([]);
    else
      for (const name of rest) {
        this.#found(name);
        this.objects.delete(name);
        if (this.handles.has(name)) this.#released.add(name);
      }
    return "deleted\n";
  }

  /** `kubectl wait --for=delete pv VOLUMES`: deletes their storage, and repeats what is refused while something else succeeds. */
  async #freed([kind, ...rest]: readonly string[]): Promise<string> {
    const claims = [...this.#released].filter(name => name.startsWith("pvc/"));
    const volumes = rest.filter(word => !word.startsWith("--"));
    expect([kind, ...volumes]).toEqual(["pv", ...claims.map(name => name.replace("/", "-"))]);
    await this.#repeated(async () => {
      const refused: string[] = [];
      for (const name of this.#released) {
        try {
          await this.#remove(name);
          this.#released.delete(name);
        } catch (error) {
          refused.push(`${name}: ${error}`);
        }
      }
      if (refused.length > 0) throw new Error(refused.join("\n"));
    });
    return "condition met\n";
  }

  async #remove(name: string): Promise<void> {
    const handle = this.#handle(name);
    if (name.startsWith("pvc/")) await this.#client.call(Controller.method.deleteVolume, { volumeId: handle });
    else await this.#client.call(Controller.method.deleteSnapshot, { snapshotId: handle });
  }
}
