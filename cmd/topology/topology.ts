import type { ProxyConfig } from "../../lib/config/proxy.ts";
import { CsiError } from "../../lib/core/errors.ts";
import { alike, type ClassTopology, type Mode, modes, mostCourses } from "../../lib/topology/reach.ts";
import { yamlText } from "../../lib/yaml/print.ts";
import { connectionFolder, isFolder } from "../connection-folder.ts";
import type { Host } from "../host.ts";
import { UsageError } from "../terminal/usage-error.ts";
import { type Change, changesData, changesText } from "./changes.ts";
import { answering, readTargets, type Target, type Targets, targetsNamed } from "./connections.ts";
import { ConfigError, type Rules, readClass, readRules, readSubjects, type Subject } from "./input.ts";
import type { Output, TopologyOptions } from "./options.ts";
import { codeName, report } from "./report.ts";
import { viewText } from "./text.ts";
import { clusterWarnings, registered, type View, type ViewedNode, viewData } from "./view.ts";

/** Returns the exit code: 0, or 1 when a node could not register or the question has no answer. Throws UsageError. */
export async function topology(options: TopologyOptions, host: Host): Promise<number> {
  const { output, changesFrom } = options;
  try {
    const rules = await readRules(options.config, host);
    const subjects = await readSubjects(options, host);
    const nodes = await viewed(rules, subjects);
    return changesFrom === undefined
      ? show(await viewOf(rules, nodes, options, host), output, host)
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
  return nodes.some(({ report }) => report.failure) ? 1 : 0;
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
  if (output === "text") host.err(`csimux: ${code}: ${message}\n`);
  else host.out(encoded({ error: { code, message } }, output));
  return 1;
}

async function viewOf(
  { config }: Rules,
  nodes: readonly ViewedNode[],
  options: TopologyOptions,
  host: Host,
): Promise<View> {
  const many = options.nodes !== undefined;
  const { prefix } = config.defaults;
  const configured = config.nodeTopology !== undefined;
  const storageClass = options.storageClass === undefined ? undefined : await readClass(options.storageClass, host);
  const wanted = storageClass?.connection ?? options.connection;
  const found = await connections(config, wanted !== undefined, options);
  const targets = found && wanted !== undefined ? targetsNamed(wanted, found, config) : found?.all;
  return {
    prefix,
    configured,
    many,
    nodes,
    targets,
    broken: found && wanted === undefined ? found.broken : new Map(),
    modes: targets && wanted !== undefined ? courses(config, nodes, targets, storageClass) : [],
    warnings: many ? [...unseen(found, config), ...clusterWarnings(nodes), ...cutWarning(nodes, wanted)] : [],
  };
}

/** The connections, where they are asked about or where there are many nodes to compare them with. */
async function connections(
  config: ProxyConfig,
  needed: boolean,
  { config: main, connections: given, nodes }: TopologyOptions,
): Promise<Targets | undefined> {
  if (!needed && given === undefined && nodes === undefined) return undefined;
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

function cutWarning(nodes: readonly ViewedNode[], wanted: string | undefined): readonly string[] {
  const places = alike(nodes.filter(({ report }) => !report.failure).map(registered)).length;
  if (wanted === undefined || places <= mostCourses) return [];
  return [`the nodes are in ${places} different places; claims are followed for the first ${mostCourses} of them`];
}

const anyBinding: readonly ClassTopology[] = [
  { binding: "WaitForFirstConsumer", allowed: [] },
  { binding: "Immediate", allowed: [] },
];

/** What becomes of claims; without a class, under either binding. */
function courses(
  config: ProxyConfig,
  nodes: readonly ViewedNode[],
  targets: readonly Target[],
  storageClass: ClassTopology | undefined,
): readonly Mode[] {
  const { topologyMatch: match, reportTopology, honourPreferred, defaults } = config;
  const policy = { match, report: reportTopology, honourPreferred, prefix: defaults.prefix };
  const cluster = nodes.filter(({ report }) => !report.failure).map(registered);
  const answer = answering(targets, cluster, policy);
  // Without the capability VOLUME_ACCESSIBILITY_CONSTRAINTS external-provisioner sends no topology at all.
  if (!config.nodeTopology) return [];
  return (storageClass ? [storageClass] : anyBinding).flatMap(each => modes(cluster, each, answer));
}
