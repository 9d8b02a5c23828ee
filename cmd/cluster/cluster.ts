import { isMapping, type Mapping } from "../../lib/core/mapping.ts";
import { localRunner } from "../../lib/io/local.ts";
import type { Argv, CommandRunner, Output } from "../../lib/io/runner.ts";
import { listAt, mappingAt, textAt } from "../../lib/lint/lint-input.ts";
import type { Host } from "../host.ts";
import { UsageError } from "../terminal/terminal.ts";

/** The flags of all subcommands. */
export interface ClusterFlags {
  readonly context?: string;
  readonly kubeconfig?: string;
  readonly namespace?: string;
  readonly selector: string;
  /** The program with its first arguments; kubectl if absent. */
  readonly kubectl?: Argv;
}

/** A pod of csimux. */
export interface CsimuxPod {
  readonly name: string;
  readonly namespace: string;
  readonly node: string;
  /** "controller" or "node", as far as its labels and arguments say. */
  readonly isController: boolean;
  readonly isReady: boolean;
  readonly container: Mapping;
  /** Why containers of it do not run, in words. */
  readonly waiting: readonly string[];
}

/** The time limit of one call of kubectl, in milliseconds, and the longest output, in bytes. */
const timeoutMs = 600_000;
const maxBytes = 512 << 20;

/** What kubectl says about a failure, in its lines, without those that its libraries log (klog: "E1127 09:10:11.000000 …") and warnings. */
export function kubectlWords({ stderr, stdout }: Output): string {
  const lines = (stderr.trim() || stdout.trim()).split("\n");
  const own = lines.filter(line => !/^(?:[IWEF]\d{4} |Warning: )/.test(line));
  return (own.length > 0 ? own : lines).join("\n");
}

/** The names of csimux's container in its own manifests and in democratic-csi's chart. */
const containers = ["csimux", "csi-driver"];

/** Why the containers of a pod do not run (Kubernetes API, ContainerState). */
export const waitingIn = (pod: Mapping): readonly string[] =>
  listAt(pod, "status", "containerStatuses").flatMap(each => {
    const reason = textAt(each, "state", "waiting", "reason") ?? textAt(each, "state", "terminated", "reason");
    return reason === undefined
      ? []
      : [`${textAt(each, "name")}: ${reason} ${textAt(each, "state", "waiting", "message") ?? ""}`.trim()];
  });

function podOf(pod: Mapping): CsimuxPod {
  const all = listAt(pod, "spec", "containers").filter(isMapping);
  const container = all.find(each => containers.includes(String(each["name"]))) ?? all[0] ?? {};
  const labels = mappingAt(pod, "metadata", "labels");
  const mode = modeOf({ container });
  const ready = listAt(pod, "status", "conditions").find(each => textAt(each, "type") === "Ready");
  return {
    name: textAt(pod, "metadata", "name") ?? "",
    namespace: textAt(pod, "metadata", "namespace") ?? "",
    node: textAt(pod, "spec", "nodeName") ?? "no node",
    isController: labels["app.kubernetes.io/component"] === "controller" || mode.includes("controller"),
    isReady: textAt(ready, "status") === "True",
    container,
    waiting: waitingIn(pod),
  };
}

/** The halves of csimux that a pod has; without a flag both. */
const modeOf = (pod: Pick<CsimuxPod, "container">): string => flagOf(pod, "--mode", "--csi-mode") ?? "controller,node";

/** The value of a flag in a container's arguments, with the variables of its specification. */
function flagOf({ container }: Pick<CsimuxPod, "container">, ...names: readonly string[]): string | undefined {
  const words = listAt(container, "args").map(String);
  const at = words.findIndex(word => names.includes(word.replace(/=.*$/s, "")));
  const word = words[at];
  if (word === undefined) return undefined;
  const value = word.includes("=") ? word.slice(word.indexOf("=") + 1) : (words[at + 1] ?? "");
  const env = new Map(listAt(container, "env").map(each => [textAt(each, "name"), textAt(each, "value")]));
  return value.replace(/\$\(([\w.-]+)\)/g, (whole, name: string) => env.get(name) ?? whole);
}

/** The flags that csimux needs in a pod: its socket, if the environment does not name it, or its main file. */
function ownFlags(pod: CsimuxPod, [command = ""]: readonly string[]): readonly string[] {
  if (command === "topology")
    return ["--config", flagOf(pod, "--config", "--driver-config-file") ?? "/config/proxy.yaml"];
  const socket = flagOf(pod, "--server-socket");
  const endpoint = flagOf(pod, "--endpoint") ?? (socket?.startsWith("/") ? `unix://${socket}` : socket);
  return endpoint === undefined ? [] : ["--endpoint", endpoint];
}

/** The arguments of kubectl that run csimux in a pod. */
export function inPodOf(pod: CsimuxPod, words: readonly string[], reads: boolean): readonly string[] {
  // Flags end at "--".
  const end = words.includes("--") ? words.indexOf("--") : words.length;
  return [
    ...["exec", "-n", pod.namespace, pod.name, "-c", String(pod.container["name"]), ...(reads ? ["-i"] : [])],
    ...["--", "csimux", ...words.slice(0, end), ...ownFlags(pod, words), ...words.slice(end)],
  ];
}

/** A cluster through kubectl: its configuration, its user and that user's rights. */
export class Cluster {
  readonly #flags: ClusterFlags;
  readonly #host: Host;
  readonly #runner: CommandRunner;

  constructor(flags: ClusterFlags, host: Host) {
    this.#flags = flags;
    this.#host = host;
    // Programs that log in for kubectl need more of the environment than PATH.
    const env = Object.entries(host.env).flatMap(([name, value]) => (value === undefined ? [] : [[name, value]]));
    this.#runner = localRunner({ env: Object.fromEntries(env) });
  }

  /** What to say if no pod has the labels. */
  get nonePods(): string {
    const { namespace, selector } = this.#flags;
    return `no pod with the labels ${selector} in ${namespace === undefined ? "any namespace" : `the namespace ${namespace}`}; see --namespace and --selector`;
  }

  /** Runs kubectl; any exit code is an answer. */
  async run(words: readonly string[], stdin?: string): Promise<Output> {
    const { context, kubeconfig, kubectl = ["kubectl"] } = this.#flags;
    const common = [
      ...(context === undefined ? [] : ["--context", context]),
      ...(kubeconfig === undefined ? [] : ["--kubeconfig", kubeconfig]),
    ];
    const [program, ...first] = kubectl;
    const command = { argv: [program, ...first, ...common, ...words] as const, timeoutMs, maxBytes };
    return this.#runner.run({ ...command, ...(stdin !== undefined && { stdin }) }, AbortSignal.timeout(timeoutMs));
  }

  /** `kubectl get … -o json`. Throws what kubectl says. */
  async read(...words: readonly string[]): Promise<Mapping> {
    const output = await this.run(["get", ...words, "-o", "json"]);
    if (output.exitCode !== 0) throw new UsageError(`kubectl get ${words.join(" ")}: ${kubectlWords(output)}`);
    const value: unknown = JSON.parse(output.stdout);
    return isMapping(value) ? value : {};
  }

  /** The pods of csimux, ready ones first. Throws what kubectl says. */
  async pods(): Promise<readonly CsimuxPod[]> {
    const { namespace, selector } = this.#flags;
    const where = namespace === undefined ? ["-A"] : ["-n", namespace];
    const list = await this.read("pods", ...where, "-l", selector);
    const pods = listAt(list, "items").filter(isMapping).map(podOf);
    return [...pods].sort((a, b) => Number(b.isReady) - Number(a.isReady));
  }

  /** The namespace of kubectl's context. Throws what kubectl says. */
  async contextNamespace(): Promise<string> {
    const output = await this.run(["config", "view", "--minify", "-o", "jsonpath={..namespace}"]);
    if (output.exitCode !== 0)
      throw new UsageError(`the namespace of kubectl's context is unknown (${kubectlWords(output)}); give it with -n`);
    return output.stdout.trim() || "default";
  }

  /** The replicas of the controller; one pod, if the controllers are on nodes and have storage of their own. */
  async replicas(): Promise<readonly CsimuxPod[]> {
    const controllers = (await this.pods()).filter(each => each.isController);
    return controllers.length > 0 && controllers.every(isCentral) ? controllers : [await this.pod(undefined)];
  }

  /** A controller, or the pod on a node. Throws if there is none. */
  async pod(node: string | undefined): Promise<CsimuxPod> {
    const pods = await this.pods();
    const fits = (each: CsimuxPod) => (node === undefined ? each.isController : each.node === node && !isCentral(each));
    const found = pods.find(fits) ?? (node === undefined ? pods[0] : pods.find(each => each.node === node));
    if (found) return found;
    throw new UsageError(
      node === undefined || pods.length === 0 ? this.nonePods : `no pod of csimux runs on node ${node}`,
    );
  }

  /** Runs csimux in a pod. */
  exec(pod: CsimuxPod, words: readonly string[], stdin?: string): Promise<Output> {
    return this.run(inPodOf(pod, words, stdin !== undefined), stdin);
  }

  /** Runs csimux in a pod and shows what it says. Returns its exit code. */
  async show(pod: CsimuxPod, words: readonly string[], stdin?: string): Promise<number> {
    const { stdout, stderr, exitCode } = await this.exec(pod, words, stdin);
    this.#host.out(stdout);
    // What kubectl adds to the exit code that this command returns.
    this.#host.err(stderr.replace(/^command terminated with exit code \d+\n?/m, ""));
    return exitCode;
  }
}

/** A pod of the Deployment, which is on some node by chance. */
export const isCentral = (pod: CsimuxPod): boolean => pod.isController && !modeOf(pod).includes("node");
