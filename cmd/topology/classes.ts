import type { ProxyConfig } from "../../lib/config/proxy.ts";
import type { StorageClass } from "../../lib/config/storage-class.ts";
import { CsiError } from "../../lib/core/errors.ts";
import { type ClassTopology, type FlagSetting, modes, type Usability, usability } from "../../lib/topology/reach.ts";
import type { ClusterNode } from "../../lib/topology/sidecar.ts";
import { answering, type ReachedConnection, type ReachedConnections, targetsNamed } from "./connections.ts";

/** What becomes of the claims of a class. */
export interface ClassView extends Usability {
  readonly name: string;
  readonly connection: string;
  /** Under each setting of external-provisioner; empty where no topology is configured. */
  readonly modes: readonly FlagSetting[];
}

/** The class on this cluster; one whose connection cannot be used is usable on no node. */
export function classView(
  config: ProxyConfig,
  cluster: readonly ClusterNode[],
  found: ReachedConnections,
  storageClass: StorageClass,
): ClassView {
  const { name, connection } = storageClass;
  try {
    const targets = targetsNamed(connection, found, config);
    const answer = answering(targets, cluster, policyOf(config));
    const usable = config.nodeTopology ? usability(cluster, storageClass, answer) : anywhere(cluster, answer);
    return { name, connection, ...usable, modes: courses(config, cluster, targets, [storageClass]) };
  } catch (error) {
    if (!(error instanceof CsiError)) throw error;
    return { name, connection, nodes: [], reasons: [error.message], modes: [] };
  }
}

/** Without topology nothing is sent, and a volume that is made can be used everywhere. */
function anywhere(cluster: readonly ClusterNode[], answer: ReturnType<typeof answering>): Usability {
  const answered = answer(undefined, undefined);
  return "candidates" in answered
    ? { nodes: cluster.map(({ name }) => name), reasons: [] }
    : { nodes: [], reasons: [answered.error.message] };
}

/** What becomes of claims under each setting of external-provisioner. */
export function courses(
  config: ProxyConfig,
  cluster: readonly ClusterNode[],
  targets: readonly ReachedConnection[],
  classes: readonly ClassTopology[],
): readonly FlagSetting[] {
  // Without the capability VOLUME_ACCESSIBILITY_CONSTRAINTS external-provisioner sends no topology at all.
  if (!config.nodeTopology) return [];
  const answer = answering(targets, cluster, policyOf(config));
  return classes.flatMap(each => modes(cluster, each, answer));
}

const policyOf = ({ topologyMatch, reportTopology, honourPreferred, defaults }: ProxyConfig) => ({
  match: topologyMatch,
  report: reportTopology,
  honourPreferred,
  prefix: defaults.prefix,
});
