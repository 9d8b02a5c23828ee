import type { StorageClass } from "../../lib/config/cluster.ts";
import type { ProxyConfig } from "../../lib/config/proxy.ts";
import { CsiError } from "../../lib/core/errors.ts";
import { yamlText } from "../../lib/yaml/print.ts";
import { connectionFolder, type Host, isFolder } from "../host.ts";
import { UsageError } from "../terminal/terminal.ts";
import { type CompiledMainFile, ConfigError, type NodeInput, readNodes, readRules } from "./input.ts";
import { codeName, report } from "./node-answer.ts";
import type { OutputFormat, TopologyOptions } from "./options.ts";
import { classReach, connectionsNamed, type EvaluatedNode, type FolderConnections, readConnections } from "./reach.ts";
import { viewText } from "./text.ts";
import { type TopologyView, viewData, warningsOf } from "./view.ts";

/** Runs the command and returns the exit code documented at `addTopology`. Throws UsageError. */
export async function topology(options: TopologyOptions, host: Host): Promise<number> {
  const { output } = options;
  try {
    const main = await readRules(options.config, host);
    const given = await readNodes(options, host);
    const nodes = await evaluated(main, given.nodes);
    return show(await viewOf(main.config, nodes, given.classes, options), options, host);
  } catch (error) {
    if (error instanceof ConfigError) return failed("CONFIG", error.message, output, host);
    if (error instanceof CsiError) return failed(codeName(error), error.message, output, host);
    throw error;
  }
}

const evaluated = (
  { config, topology }: CompiledMainFile,
  nodes: readonly NodeInput[],
): Promise<readonly EvaluatedNode[]> =>
  Promise.all(
    nodes.map(async ({ name, facts, labels, listed }) => ({
      name,
      labels,
      report: await report(config, topology, facts, listed),
    })),
  );

function show(view: TopologyView, { output }: TopologyOptions, host: Host): number {
  const { many, nodes, classes, connections, broken } = view;
  if (output === "text") host.out(viewText(view, host.colour));
  const failure = many ? undefined : nodes[0]?.report.failure;
  if (failure) {
    failed(codeName(failure), failure.message, output, host);
    return isUnknown(failure) ? 2 : 1;
  }
  if (output !== "text") host.out(encoded(viewData(view), output));
  const known = nodes.filter(each => !isUnknown(each.report.failure));
  const isWrong =
    broken.size > 0 ||
    known.some(each => each.report.failure) ||
    (known.length > 0 && classes.some(each => each.nodes.length === 0));
  const isPart = (many && connections === undefined) || known.length < nodes.length;
  return isWrong ? 1 : isPart ? 2 : 0;
}

/** Whether a fact of the node is unknown here, so that the node cannot be evaluated. */
const isUnknown = (failure: CsiError | undefined): boolean => failure?.code === "unavailable";

const encoded = (data: unknown, output: Exclude<OutputFormat, "text">): string =>
  output === "json" ? `${JSON.stringify(data, undefined, 2)}\n` : yamlText(data);

function failed(code: string, message: string, output: OutputFormat, host: Host): number {
  if (output === "text") host.err(`csimux: ${message}\n`);
  else host.out(encoded({ error: { code, message } }, output));
  return 1;
}

async function viewOf(
  config: ProxyConfig,
  nodes: readonly EvaluatedNode[],
  classes: readonly StorageClass[],
  options: TopologyOptions,
): Promise<TopologyView> {
  const { connection, details = false } = options;
  const many = options.nodes !== undefined;
  const found = await connectionsOf(config, classes.length > 0, options);
  return {
    prefix: config.defaults.prefix,
    configured: config.nodeTopology !== undefined,
    many,
    nodes,
    connections: found && (connection === undefined ? found.all : connectionsNamed(connection, found, config)),
    broken: found && connection === undefined ? found.broken : new Map(),
    classes: found ? classes.map(each => classReach(each, nodes, found, config)) : [],
    whole: connection === undefined,
    details,
    warnings: many
      ? [
          ...(found
            ? []
            : [
                `connections were not checked: the folder ${config.configFolder} is not on this machine; see --connections`,
              ]),
          ...warningsOf(nodes),
        ]
      : [],
  };
}

/** The connections: required for a class or a connection, and read for several nodes if their folder is on this machine. */
async function connectionsOf(
  config: ProxyConfig,
  classes: boolean,
  { config: main, nodes, connection, connections: given }: TopologyOptions,
): Promise<FolderConnections | undefined> {
  const required = classes || (connection ?? given) !== undefined;
  if (!required && nodes === undefined) return undefined;
  const { single, nodeTopology } = config;
  if (single !== undefined) {
    const accessibleTopology = nodeTopology ? "own" : [];
    return {
      all: [{ name: single, accessibleTopology, suspended: false, labels: {} }],
      broken: new Map(),
    };
  }
  const folder = given ?? connectionFolder(config.configFolder, main);
  if (folder !== undefined && isFolder(folder)) return readConnections(folder, config);
  if (!required) return undefined;
  const text = `the folder ${given ?? config.configFolder} is not on this machine; give the folder of the connection files with --connections`;
  throw new UsageError(text);
}
