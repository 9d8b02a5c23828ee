import type { ProxyConfig } from "../lib/config/proxy.ts";
import { CsiError } from "../lib/core/errors.ts";
import type { Segments } from "../lib/core/topology.ts";
import type { NodeInfo } from "../lib/csi/node.ts";

/** TEMPORARY until rules are wired. */
export async function nodeInfo(config: ProxyConfig, nodeName: string | undefined): Promise<NodeInfo> {
  if (!nodeName) throw new CsiError("failed-precondition", "CSI_NODE_ID is not set");
  const { nodeTopology } = config;
  const segments: Segments | undefined =
    nodeTopology?.kind === "cluster"
      ? { [`${nodeTopology.prefix}/cluster`]: "local" }
      : nodeTopology?.kind === "node"
        ? { [`${nodeTopology.prefix}/node`]: nodeName }
        : undefined;
  return { nodeId: `n=${nodeName}`, segments };
}
