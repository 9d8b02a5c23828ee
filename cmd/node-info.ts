import type { ProxyConfig } from "../lib/config/proxy.ts";
import type { Segments } from "../lib/core/topology.ts";
import type { NodeInfo } from "../lib/csi/node.ts";
import { nodeSegments } from "../lib/topology/evaluate.ts";
import { nodeNameOf } from "../lib/topology/facts.ts";
import { encodeNodeId } from "../lib/topology/node-id.ts";
import { compileTopology } from "../lib/topology/rules.ts";
import type { Host } from "./host.ts";
import { realFacts, storageNames } from "./node-facts.ts";

/** What this node tells the cluster about itself. */
export interface OwnNode {
  /** NodeGetInfo, from the facts of now. Throws while one of them is missing, so that registration is repeated. */
  readonly info: () => Promise<NodeInfo>;
  /**
   * Under topology type "node": the node's own place, to which volumes of drivers that live on one node are pinned.
   * Throws "failed-precondition" where the node's name is not known: such a volume must not count as reachable everywhere.
   */
  readonly place: (() => Segments) | undefined;
}

/**
 * Prepares NodeGetInfo. What the file says at the start counts until the end: kubelet asks only once.
 * Throws "failed-precondition" when a topology rule cannot be used.
 */
export async function ownNode(config: ProxyConfig, name: string | undefined, host: Host): Promise<OwnNode> {
  const { nodeTopology, nodeId } = config;
  const topology = nodeTopology && (await compileTopology(nodeTopology));
  const nodeName = name ?? (nodeId.allowHostnameFallback ? host.hostname : undefined);
  const info = async (): Promise<NodeInfo> => {
    const facts = realFacts(nodeName, host);
    const segments = topology && (await nodeSegments(topology, facts));
    const identity = {
      ...(nodeName !== undefined && { nodeName }),
      hostname: host.hostname,
      ...(await storageNames(nodeId.parts, facts)),
    };
    return { nodeId: encodeNodeId(identity, nodeId), segments };
  };
  const place = () => ({ [`${topology?.prefix}/node`]: nodeNameOf({ nodeName }) });
  return { info, place: topology?.kind === "node" ? place : undefined };
}
