import type { ProxyConfig } from "../../lib/config/proxy.ts";
import type { StorageClass } from "../../lib/config/storage-class.ts";
import { CsiError } from "../../lib/core/errors.ts";
import { type ClassTopology, groupByTopology, mostCourses } from "../../lib/topology/reach.ts";
import type { ClusterNode } from "../../lib/topology/sidecar.ts";
import { yamlText } from "../../lib/yaml/print.ts";
import { connectionFolder, isFolder } from "../connection-folder.ts";
import type { Host } from "../host.ts";
import { UsageError } from "../terminal/usage-error.ts";
import { type Change, changesData, changesText } from "./changes.ts";
import { classView, courses } from "./classes.ts";
import { type ReachedConnections, readTargets, targetsNamed } from "./connections.ts";
import { ConfigError, type EvaluatedNode, type ReadMainFile, readAsked, readRules } from "./input.ts";
import type { Output, TopologyOptions } from "./options.ts";
import { codeName, report } from "./report.ts";
import { viewText } from "./text.ts";
import { clusterWarnings, registered, type TopologyView, type ViewedNode, viewData } from "./view.ts";

/**
 * Returns the exit code: 0; 1 when a node could not register or the question has no answer; 2 when only something could not be looked
 * at. Throws UsageError.
 */
export async function topology(options: TopologyOptions, host: Host): Promise<number> {
  const { output, changesFrom } = options;
  try {
    const rules = await readRules(options.config, host);
    const { subjects, classes } = await readAsked(options, host);
    const nodes = await viewed(rules, subjects);
    return changesFrom === undefined
      ? show(await viewOf(rules, nodes, classes, options), output, host)
      : showChanges(nodes, await viewed(await readRules(changesFrom, host), subjects), output, host);
  } catch (error) {
    if (error instanceof ConfigError) return failed("CONFIG", error.message, output, host);
    if (error instanceof CsiError) return failed(codeName(error), error.message, output, host);
    throw error;
  }
}

const viewed = (
  { config, topology }: ReadMainFile,
  subjects: readonly EvaluatedNode[],
): Promise<readonly ViewedNode[]> =>
  Promise.all(
    subjects.map(async ({ name, facts, labels, listed }) => ({
      name,
      labels,
      report: await report(config, topology, facts, listed),
    })),
  );

function show(view: TopologyView, output: Output, host: Host): number {
  const { many, nodes } = view;
  if (output === "text") host.out(viewText(view, host.colour));
  const failure = many ? undefined : nodes[0]?.report.failure;
  if (failure) {
    failed(codeName(failure), failure.message, output, host);
    return isUnseen(failure) ? 2 : 1;
  }
  if (output !== "text") host.out(encoded(viewData(view), output));
  const isPart = (many && view.targets === undefined) || nodes.some(({ report }) => isUnseen(report.failure));
  return isWrong(view) ? 1 : isPart ? 2 : 0;
}

/** Whether a fact of the node is not known here, so that nothing can be said of it. */
const isUnseen = (failure: CsiError | undefined): boolean => failure?.code === "unavailable";

/** Whether something of what was looked at cannot work. */
function isWrong({ nodes, classes, broken }: TopologyView): boolean {
  const seen = nodes.filter(({ report }) => !isUnseen(report.failure));
  return (
    seen.some(({ report }) => report.failure) ||
    classes.some(each => seen.length > 0 && each.nodes.length === 0) ||
    broken.size > 0
  );
}

/** The later rules' nodes come first; both lists are of the same nodes in the same order. */
function showChanges(after: readonly ViewedNode[], before: readonly ViewedNode[], output: Output, host: Host): number {
  const changes = after.map((node, index): Change => ({ node, before: before[index]?.report.segments }));
  host.out(output === "text" ? changesText(changes) : encoded(changesData(changes), output));
  return after.some(({ report }) => report.failure) ? 1 : 0;
}

const encoded = (data: unknown, output: Exclude<Output, "text">): string =>
  output === "json" ? `${JSON.stringify(data, undefined, 2)}\n` : yamlText(data);

function failed(code: string, message: string, output: Output, host: Host): number {
  if (output === "text") host.err(`csimux: ${message}\n`);
  else host.out(encoded({ error: { code, message } }, output));
  return 1;
}

async function viewOf(
  { config }: ReadMainFile,
  nodes: readonly ViewedNode[],
  classes: readonly StorageClass[],
  options: TopologyOptions,
): Promise<TopologyView> {
  const { connection, details } = options;
  const many = options.nodes !== undefined || options.kubeconfig !== undefined;
  const found = await connections(config, connection !== undefined || classes.length > 0, many, options);
  const cluster = nodes.filter(({ report }) => !report.failure).map(registered);
  const whole = connection === undefined;
  const targets = found && (whole ? found.all : targetsNamed(connection, found, config));
  return {
    prefix: config.defaults.prefix,
    configured: config.nodeTopology !== undefined,
    many,
    nodes,
    targets,
    broken: found && whole ? found.broken : new Map(),
    modes: targets && connection !== undefined ? courses(config, cluster, targets, anyBinding) : [],
    classes: found ? classes.map(each => classView(config, cluster, found, each)) : [],
    whole,
    details,
    warnings: many
      ? [
          ...unseen(found, config),
          ...clusterWarnings(nodes),
          ...cutWarning(cluster, whole && classes.length === 0, details),
        ]
      : [],
  };
}

/** The connections, where they are asked about or where there are many nodes to compare them with. */
async function connections(
  config: ProxyConfig,
  needed: boolean,
  many: boolean,
  { config: main, connections: given }: TopologyOptions,
): Promise<ReachedConnections | undefined> {
  if (!needed && given === undefined && !many) return undefined;
  if (config.single !== undefined) return onlyTarget(config.single, config);
  const folder = given ?? connectionFolder(config.configFolder, main);
  if (folder !== undefined && isFolder(folder)) return readTargets(folder, config);
  if (!needed && given === undefined) return undefined;
  throw new UsageError(
    `the folder ${given ?? config.configFolder} is not on this machine; name the connection files' folder with --connections`,
  );
}

/** The connection that the main file itself is. */
const onlyTarget = (name: string, { nodeTopology }: ProxyConfig): ReachedConnections => ({
  all: [{ name, accessibleTopology: nodeTopology ? "own" : [], suspended: false, labels: {} }],
  broken: new Map(),
});

/** What is left out for want of the connection files. */
const unseen = (found: ReachedConnections | undefined, { configFolder }: ProxyConfig): readonly string[] =>
  found
    ? []
    : [
        `which connections nodes reach was not looked at: the folder ${configFolder} is not on this machine; see --connections`,
      ];

function cutWarning(cluster: readonly ClusterNode[], noClaims: boolean, details: boolean): readonly string[] {
  const places = groupByTopology(cluster).length;
  if (noClaims || !details || places <= mostCourses) return [];
  return [`the nodes are in ${places} different places; claims are followed for the first ${mostCourses} of them`];
}

/** Without a class, either binding. */
const anyBinding: readonly ClassTopology[] = [
  { binding: "WaitForFirstConsumer", allowed: [] },
  { binding: "Immediate", allowed: [] },
];
