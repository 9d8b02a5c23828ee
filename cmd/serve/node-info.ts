import type { ProxyConfig } from "../../lib/config/proxy.ts";
import type { Segments } from "../../lib/core/access.ts";
import type { Log } from "../../lib/core/call.ts";
import type { NodeInfo } from "../../lib/csi/node.ts";
import { realFacts, storageNames } from "../../lib/daemon/node-facts.ts";
import { readSmallFile } from "../../lib/io/small-file.ts";
import { hostIdentity } from "../../lib/node/nvme/connections.ts";
import type { NodeVolumes } from "../../lib/node/volumes.ts";
import { evaluate, ownValue, type RuleOutcome } from "../../lib/topology/evaluate.ts";
import { nodeNameOf } from "../../lib/topology/facts.ts";
import { encodeNodeId, initiatorName } from "../../lib/topology/node-id.ts";
import { compileTopology } from "../../lib/topology/rules.ts";
import type { Host } from "../host.ts";
import type { ServeOptions } from "./options.ts";

/** What this node reports to the cluster. */
export interface NodeReport {
  /** NodeGetInfo, from the present facts. Throws while one of them is missing, so that registration is retried. */
  readonly info: () => Promise<NodeInfo>;
  /** The topology keys of this node, without prefix, as they were last evaluated without a failure; empty before. */
  readonly keys: () => Segments;
  /** Evaluates them. */
  readonly evaluateKeys: () => Promise<void>;
  /**
   * With topology type "node": the node's own topology segment, to which volumes of drivers that live on one node are
   * pinned. Throws "failed-precondition" if the node's name is unknown: such a volume must not count as reachable
   * everywhere.
   */
  readonly ownSegments: (() => Segments) | undefined;
}

/**
 * Prepares NodeGetInfo. The configuration at the start remains in effect until the end, because kubelet asks only once.
 * Throws "failed-precondition" if a topology rule is invalid.
 */
export async function ownNode(
  config: ProxyConfig,
  name: string | undefined,
  host: Host,
  log: Log,
): Promise<NodeReport> {
  const { nodeTopology, nodeId } = config;
  const topology = nodeTopology && compileTopology(nodeTopology);
  const nodeName = name ?? (nodeId.allowHostnameFallback ? host.hostname : undefined);
  const tell = loggedOnce(log);
  let keys: Segments = {};
  const evaluated = async () => {
    const facts = realFacts(nodeName, host);
    const evaluation = topology && (await evaluate(topology, facts));
    if (!evaluation?.failure) keys = withoutPrefix(evaluation?.segments ?? {});
    return { facts, evaluation };
  };
  const info = async (): Promise<NodeInfo> => {
    const { facts, evaluation } = await evaluated();
    if (evaluation?.failure) throw evaluation.failure;
    const identity = {
      ...(nodeName !== undefined && { nodeName }),
      hostname: host.hostname,
      ...(await storageNames(nodeId.parts, facts)),
    };
    const { maxVolumes } = config.node;
    const answer = { nodeId: encodeNodeId(identity, nodeId), segments: evaluation?.segments, maxVolumes };
    tell(answer, evaluation?.outcomes ?? []);
    return answer;
  };
  const ownSegments = () => ({ [`${topology?.prefix}/node`]: ownValue(nodeNameOf({ nodeName })) });
  return {
    info,
    keys: () => keys,
    evaluateKeys: async () => void (await evaluated()),
    ownSegments: topology?.kind === "node" ? ownSegments : undefined,
  };
}

const withoutPrefix = (segments: Segments): Segments =>
  Object.fromEntries(Object.entries(segments).map(([key, value]) => [key.slice(key.indexOf("/") + 1), value]));

/**
 * Warns at the start if the node's name is unknown: a node cannot register without it, and with topology type "node" a
 * controller cannot create volumes that live on its own node. Otherwise the only sign would be pending pods.
 */
export function logMissingName(config: ProxyConfig, options: Pick<ServeOptions, "modes" | "nodeName">, log: Log): void {
  const { nodeId, nodeTopology } = config;
  if (options.nodeName !== undefined || nodeId.allowHostnameFallback) return;
  const registers = options.modes.has("node") && (nodeId.parts.nodeName || nodeTopology?.kind === "node");
  const pins = options.modes.has("controller") && nodeTopology?.kind === "node";
  if (!registers && !pins) return;
  const until = [
    ...(registers ? ["this node cannot register"] : []),
    ...(pins ? ["no volume can be created on disks of this machine"] : []),
  ];
  const text = `unknown node name: ${until.join(" and ")}. Set CSI_NODE_ID or --node-id, in Kubernetes from the field spec.nodeName, in Nomad to "\${node.unique.name}"`;
  log.warn(text);
}

/** CSI NodeGetInfo: orchestrators must accept node ids up to this length in bytes, and may accept up to 256. */
const portableNodeIdBytes = 128;

/** Logs the first answer and every different one after it: kubelet keeps the answer while the node is registered. */
function loggedOnce(log: Log) {
  let last = "";
  return (answer: NodeInfo, outcomes: readonly RuleOutcome[]): void => {
    const now = JSON.stringify(answer);
    if (now === last) return;
    last = now;
    const ignored = outcomes.filter(({ applied }) => !applied).map(({ rule, reason }) => `${rule.key}: ${reason}`);
    log.info("node info reported to the cluster", { ...answer, ...(ignored.length > 0 && { ignored }) });
    const bytes = Buffer.byteLength(answer.nodeId);
    if (bytes > portableNodeIdBytes)
      log.warn(
        `the node id has ${bytes} bytes, and some orchestrators accept no more than ${portableNodeIdBytes}; shorten nodeId`,
      );
  };
}

/** The longest initiatorname.iscsi, in bytes: one line, and comments. */
const maxInitiatorBytes = 64 << 10;

/**
 * As in StatusAnswer; `iscsiRoot` and `root` are the roots that iscsid and the host see. Not of a protocol without volumes here: cloned machines
 * whose names no storage gets do no harm.
 */
export async function initiatorsOf(
  volumes: Pick<NodeVolumes, "protocols">,
  iscsiRoot: () => Promise<string>,
  root: string,
): Promise<readonly string[]> {
  const used = await volumes.protocols();
  const text = async () => readSmallFile(`${await iscsiRoot()}/etc/iscsi/initiatorname.iscsi`, maxInitiatorBytes);
  const iqn = used.has("iscsi") ? initiatorName((await text().catch(() => undefined)) ?? "") : undefined;
  const host = used.has("nvmeof") ? await hostIdentity(root).catch(() => undefined) : undefined;
  return [iqn, host?.nqn].filter(name => name !== undefined);
}
