import type { ProxyConfig } from "../../lib/config/proxy.ts";
import type { Log } from "../../lib/core/call.ts";
import type { Segments } from "../../lib/core/topology.ts";
import type { NodeInfo } from "../../lib/csi/node.ts";
import { evaluate, ownValue, type RuleOutcome } from "../../lib/topology/evaluate.ts";
import { nodeNameOf } from "../../lib/topology/facts.ts";
import { encodeNodeId } from "../../lib/topology/node-id.ts";
import { compileTopology } from "../../lib/topology/rules.ts";
import type { Host } from "../host.ts";
import { realFacts, storageNames } from "../node-facts.ts";
import type { ServeOptions } from "./options.ts";

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
export async function ownNode(config: ProxyConfig, name: string | undefined, host: Host, log: Log): Promise<OwnNode> {
  const { nodeTopology, nodeId } = config;
  const topology = nodeTopology && (await compileTopology(nodeTopology));
  const nodeName = name ?? (nodeId.allowHostnameFallback ? host.hostname : undefined);
  const tell = teller(log);
  const info = async (): Promise<NodeInfo> => {
    const facts = realFacts(nodeName, host);
    const evaluation = topology && (await evaluate(topology, facts));
    if (evaluation?.failure) throw evaluation.failure;
    const identity = {
      ...(nodeName !== undefined && { nodeName }),
      hostname: host.hostname,
      ...(await storageNames(nodeId.parts, facts)),
    };
    const answer = { nodeId: encodeNodeId(identity, nodeId), segments: evaluation?.segments };
    tell(answer, evaluation?.outcomes ?? []);
    return answer;
  };
  const place = () => ({ [`${topology?.prefix}/node`]: ownValue(nodeNameOf({ nodeName })) });
  return { info, place: topology?.kind === "node" ? place : undefined };
}

/**
 * Says at the start that the node's name is missing, long before somebody wonders why pods stay pending: a node cannot register
 * without it, and under topology type "node" a controller cannot make volumes that live on its own node.
 */
export function sayMissingName(config: ProxyConfig, options: Pick<ServeOptions, "modes" | "nodeName">, log: Log): void {
  const { nodeId, nodeTopology } = config;
  if (options.nodeName !== undefined || nodeId.allowHostnameFallback) return;
  const registers = options.modes.has("node") && (nodeId.parts.nodeName || nodeTopology?.kind === "node");
  const pins = options.modes.has("controller") && nodeTopology?.kind === "node";
  if (!registers && !pins) return;
  const until = [
    ...(registers ? ["this node cannot register"] : []),
    ...(pins ? ["no volume can be made on disks of this machine"] : []),
  ];
  log.warn(
    `the name of this node is not known, and until it is ${until.join(" and ")}: set CSI_NODE_ID or --node-id, in Kubernetes from the field spec.nodeName`,
  );
}

/** CSI NodeGetInfo: longer node ids may not be taken by every orchestrator, up to 256 bytes they are allowed. */
const comfortableBytes = 128;

/** Logs the first answer and every other one after it: kubelet keeps what it is told for as long as the node is registered. */
function teller(log: Log) {
  let told = "";
  return (answer: NodeInfo, outcomes: readonly RuleOutcome[]): void => {
    const now = JSON.stringify(answer);
    if (now === told) return;
    told = now;
    const ignored = outcomes.filter(({ applied }) => !applied).map(({ rule, reason }) => `${rule.key}: ${reason}`);
    log.info("what this node tells the cluster", { ...answer, ...(ignored.length > 0 && { ignored }) });
    const bytes = Buffer.byteLength(answer.nodeId);
    if (bytes > comfortableBytes)
      log.warn(
        `the node id has ${bytes} bytes, and not everything takes more than ${comfortableBytes}; shorten nodeId`,
      );
  };
}
