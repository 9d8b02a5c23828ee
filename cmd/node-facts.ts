import { CsiError } from "../lib/core/errors.ts";
import { readSmallFile } from "../lib/io/small-file.ts";
import { type NodeFacts, nodeNameOf } from "../lib/topology/facts.ts";
import { hostNqn, initiatorName } from "../lib/topology/initiator.ts";
import type { NodeIdentity } from "../lib/topology/node-id.ts";
import type { Host } from "./host.ts";

/** Files that name a zone hold a few bytes; what is larger was not meant. */
const maxFileBytes = 64 * 1024;

/** The facts of this machine. Labels come from the cluster, asked for at the first rule that wants one. */
export function realFacts(nodeName: string | undefined, host: Host): NodeFacts {
  let labels: Promise<Readonly<Record<string, string>>> | undefined;
  return {
    nodeName,
    hostname: host.hostname,
    // Names come from rules, and what an object inherits is neither a variable nor a label.
    env: name => (Object.hasOwn(host.env, name) ? host.env[name] : undefined),
    file: path => readSmallFile(path, maxFileBytes),
    label: async name => {
      labels ??= ownLabels(nodeNameOf({ nodeName }), host);
      const own = await labels;
      return Object.hasOwn(own, name) ? own[name] : undefined;
    },
  };
}

/** Kubelet waits longer than this for NodeGetInfo and then asks again; in milliseconds. */
const apiTimeoutMs = 5_000;

async function ownLabels(nodeName: string, { env }: Host): Promise<Readonly<Record<string, string>>> {
  const host = env["KUBERNETES_SERVICE_HOST"];
  const port = Number(env["KUBERNETES_SERVICE_PORT"] ?? "443");
  if (!host || !(port > 0 && port < 65_536)) {
    throw new CsiError(
      "failed-precondition",
      "node labels come from the cluster's API, but this is no pod: KUBERNETES_SERVICE_HOST is not set",
    );
  }
  // TLS is loaded only where a rule asks for a label.
  const { nodeLabels, serviceAccountFolder } = await import("../lib/io/kube.ts");
  return nodeLabels(nodeName, { host, port, folder: serviceAccountFolder, timeoutMs: apiTimeoutMs });
}

/** The host's root as the existing chart mounts it, then the container's own. */
const roots = ["/host", ""] as const;

/** The storage names of a node that are asked for. Throws "failed-precondition" when a file is there and unusable. */
export async function storageNames(
  wanted: { readonly iqn: boolean; readonly nqn: boolean },
  { file }: Pick<NodeFacts, "file">,
): Promise<NodeIdentity> {
  const iqn = wanted.iqn ? await first("/etc/iscsi/initiatorname.iscsi", file, initiatorName) : undefined;
  const nqn = wanted.nqn ? await first("/etc/nvme/hostnqn", file, hostNqn) : undefined;
  return { ...(iqn !== undefined && { iqn }), ...(nqn !== undefined && { nqn }) };
}

async function first(
  path: string,
  file: NodeFacts["file"],
  read: (text: string) => string | undefined,
): Promise<string | undefined> {
  for (const root of roots) {
    const text = await file(root + path);
    const found = text === undefined ? undefined : read(text);
    if (found !== undefined) return found;
  }
  return undefined;
}
