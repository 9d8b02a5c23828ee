import { CsiError } from "../lib/core/errors.ts";
import { readSmallFile } from "../lib/io/small-file.ts";
import type { NodeFacts } from "../lib/topology/facts.ts";
import { hostNqn, initiatorName } from "../lib/topology/initiator.ts";
import type { NodeIdentity } from "../lib/topology/node-id.ts";
import type { Host } from "./host.ts";

/** Files that name a zone hold a few bytes; what is larger was not meant. */
const maxFileBytes = 64 * 1024;

/** The facts of this machine. Labels come from the cluster, asked for at the first rule that wants one. */
export function realFacts(nodeName: string | undefined, host: Host): NodeFacts {
  return {
    nodeName,
    hostname: host.hostname,
    env: name => host.env[name],
    file: path => readSmallFile(path, maxFileBytes),
    label: async () => {
      throw new CsiError("unavailable", "labels are not read yet");
    },
  };
}

/** The host's root as the existing chart mounts it, then the container's own. */
const roots = ["/host", ""] as const;

/** The storage names of this machine that are asked for. Throws "failed-precondition" when a file is there and unusable. */
export async function storageNames(wanted: { readonly iqn: boolean; readonly nqn: boolean }): Promise<NodeIdentity> {
  const iqn = wanted.iqn ? await first("/etc/iscsi/initiatorname.iscsi", initiatorName) : undefined;
  const nqn = wanted.nqn ? await first("/etc/nvme/hostnqn", hostNqn) : undefined;
  return { ...(iqn !== undefined && { iqn }), ...(nqn !== undefined && { nqn }) };
}

async function first(path: string, read: (text: string) => string | undefined): Promise<string | undefined> {
  for (const root of roots) {
    const text = await readSmallFile(root + path, maxFileBytes);
    const found = text === undefined ? undefined : read(text);
    if (found !== undefined) return found;
  }
  return undefined;
}
