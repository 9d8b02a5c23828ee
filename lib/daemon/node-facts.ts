import { CsiError } from "../core/errors.ts";
import { readSmallFile } from "../io/small-file.ts";
import { type NodeFacts, nodeNameOf } from "../topology/facts.ts";
import { hostNqn, initiatorName, type NodeIdentity } from "../topology/node-id.ts";

/** What this machine tells every process. */
export interface Machine {
  readonly env: Readonly<Record<string, string | undefined>>;
  readonly hostname: string;
}

/** The largest file that a topology rule may read, in bytes: such files name a zone. */
const maxFileBytes = 64 * 1024;

/** The facts of this machine. Labels are requested from the cluster by the first rule that needs one. */
export function realFacts(nodeName: string | undefined, host: Machine): NodeFacts {
  let labels: Promise<Readonly<Record<string, string>>> | undefined;
  return {
    nodeName,
    hostname: host.hostname,
    // Names come from rules; inherited members of an object are neither variables nor labels.
    env: name => (Object.hasOwn(host.env, name) ? host.env[name] : undefined),
    file: path => readSmallFile(path, maxFileBytes),
    label: async name => {
      labels ??= ownLabels(nodeNameOf({ nodeName }), host);
      const own = await labels;
      return Object.hasOwn(own, name) ? own[name] : undefined;
    },
  };
}

/** Time limit of the cluster's API in milliseconds: shorter than kubelet's for NodeGetInfo, which it repeats. */
const apiTimeoutMs = 5_000;

/** The cluster's API as a pod finds it; undefined outside of a pod. */
export function clusterAddress({ env }: Pick<Machine, "env">) {
  const host = env["KUBERNETES_SERVICE_HOST"];
  const port = Number(env["KUBERNETES_SERVICE_PORT"] ?? "443");
  return host && port > 0 && port < 65_536 ? { host, port, timeoutMs: apiTimeoutMs } : undefined;
}

async function ownLabels(nodeName: string, machine: Pick<Machine, "env">): Promise<Readonly<Record<string, string>>> {
  const address = clusterAddress(machine);
  if (!address) {
    const text =
      'node labels come from the cluster\'s API, but csimux is not running in a pod: KUBERNETES_SERVICE_HOST is not set; elsewhere use "source: env"';
    throw new CsiError("failed-precondition", text);
  }
  // TLS is loaded only where a rule asks for a label.
  const { nodeLabels, serviceAccountFolder } = await import("../io/kube.ts");
  return nodeLabels(nodeName, { ...address, folder: serviceAccountFolder });
}

/** The host's root as democratic-csi's chart mounts it, then the container's own. */
const roots = ["/host", ""] as const;

/** The requested storage names of this node. Throws "failed-precondition" if a file exists and is invalid. */
export async function storageNames(
  wanted: { readonly iqn: boolean; readonly nqn: boolean },
  { file }: Pick<NodeFacts, "file">,
): Promise<NodeIdentity> {
  const iqn = wanted.iqn ? await first("/etc/iscsi/initiatorname.iscsi", file, initiatorName) : undefined;
  const nqn = wanted.nqn ? await first("/etc/nvme/hostnqn", file, hostNqn) : undefined;
  return { ...(iqn !== undefined && { iqn }), ...(nqn !== undefined && { nqn }) };
}

async function first(path: string, file: NodeFacts["file"], read: (text: string) => string | undefined) {
  for (const root of roots) {
    const text = await file(root + path);
    const found = text === undefined ? undefined : read(text);
    if (found !== undefined) return found;
  }
  return undefined;
}
