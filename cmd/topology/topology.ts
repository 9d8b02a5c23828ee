import type { ProxyConfig } from "../../lib/config/proxy.ts";
import type { StorageClass } from "../../lib/config/storage-class.ts";
import { CsiError } from "../../lib/core/errors.ts";
import { alike, type ClassTopology, mostCourses } from "../../lib/topology/reach.ts";
import type { ClusterNode } from "../../lib/topology/sidecar.ts";
import { yamlText } from "../../lib/yaml/print.ts";
import { connectionFolder, isFolder } from "../connection-folder.ts";
import type { Host } from "../host.ts";
import { UsageError } from "../terminal/usage-error.ts";
import { type Change, changesData, changesText } from "./changes.ts";
import { classView, courses } from "./classes.ts";
import { readTargets, type Target, type Targets, targetsNamed } from "./connections.ts";
import { ConfigError, type Rules, readAsked, readRules, type Subject } from "./input.ts";
import type { Output, TopologyOptions } from "./options.ts";
import { codeName, report } from "./report.ts";
import { viewText } from "./text.ts";
import { clusterWarnings, registered, type View, type ViewedNode, viewData } from "./view.ts";

/** Returns the exit code: 0, or 1 when a node could not register or the question has no answer. Throws UsageError. */
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

const viewed = ({ config, topology }: Rules, subjects: readonly Subject[]): Promise<readonly ViewedNode[]> =>
  Promise.all(
    subjects.map(async ({ name, facts, labels, listed }) => ({
      name,
      labels,
      report: await report(config, topology, facts, listed),
    })),
  );

function show(view: View, output: Output, host: Host): number {
  const { many, nodes } = view;
  if (output === "text") host.out(viewText(view, host.colour));
  const failure = many ? undefined : nodes[0]?.report.failure;
  if (failure) return failed(codeName(failure), failure.message, output, host);
  if (output !== "text") host.out(encoded(viewData(view), output));
  return isWrong(view) ? 1 : 0;
}

/** Whether something of what was looked at cannot work. */
const isWrong = ({ nodes, classes, broken }: View): boolean =>
  nodes.some(({ report }) => report.failure) ||
  classes.some(each => nodes.length > 0 && each.nodes.length === 0) ||
  broken.size > 0;

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
  { config }: Rules,
  nodes: readonly ViewedNode[],
  classes: readonly StorageClass[],
  options: TopologyOptions,
): Promise<View> {
  const { connection, details } = options;
  const many = options.nodes !== undefined || options.kubeconfig !== undefined;
  const found = await connections(config, connection !== undefined || classes.length > 0, many, options);
  const cluster = nodes.filter(({ report }) => !report.failure).map(registered);
  const whole = connection === undefined && options.storageClass === undefined;
  const targets = found && (whole ? found.all : asked(found, connection, classes, config));
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
    warnings: many ? [...unseen(found, config), ...clusterWarnings(nodes), ...cutWarning(cluster, whole, details)] : [],
  };
}

/** The connections that were asked about, each once. What a class names and is not there is said of the class. */
function asked(
  found: Targets,
  connection: string | undefined,
  classes: readonly StorageClass[],
  config: ProxyConfig,
): readonly Target[] {
  if (connection !== undefined) return targetsNamed(connection, found, config);
  const all = classes.flatMap(each => {
    try {
      return targetsNamed(each.connection, found, config);
    } catch (error) {
      if (error instanceof CsiError) return [];
      throw error;
    }
  });
  return [...new Set(all)];
}

/** The connections, where they are asked about or where there are many nodes to compare them with. */
async function connections(
  config: ProxyConfig,
  needed: boolean,
  many: boolean,
  { config: main, connections: given }: TopologyOptions,
): Promise<Targets | undefined> {
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
const onlyTarget = (name: string, { nodeTopology }: ProxyConfig): Targets => ({
  all: [{ name, places: nodeTopology ? "own" : [], suspended: false, labels: {} }],
  broken: new Map(),
});

/** What is left out for want of the connection files. */
const unseen = (found: Targets | undefined, { configFolder }: ProxyConfig): readonly string[] =>
  found
    ? []
    : [
        `which connections nodes reach was not looked at: the folder ${configFolder} is not on this machine; see --connections`,
      ];

function cutWarning(cluster: readonly ClusterNode[], whole: boolean, details: boolean): readonly string[] {
  const places = alike(cluster).length;
  if (whole || !details || places <= mostCourses) return [];
  return [`the nodes are in ${places} different places; claims are followed for the first ${mostCourses} of them`];
}

/** Without a class, either binding. */
const anyBinding: readonly ClassTopology[] = [
  { binding: "WaitForFirstConsumer", allowed: [] },
  { binding: "Immediate", allowed: [] },
];
