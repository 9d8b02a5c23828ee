import {
  type ListedNode,
  readNodesAndClasses,
  readStorageClasses,
  type StorageClass,
} from "../../lib/config/cluster.ts";
import type { ProxyConfig } from "../../lib/config/proxy.ts";
import { CsiError } from "../../lib/core/errors.ts";
import { readMain } from "../../lib/daemon/main-file.ts";
import { realFacts } from "../../lib/daemon/node-facts.ts";
import { reasons } from "../../lib/schema/finding.ts";
import type { NodeFacts } from "../../lib/topology/facts.ts";
import { type CompiledTopology, compileTopology } from "../../lib/topology/rules.ts";
import type { Host } from "../host.ts";
import { valueResolver } from "../host.ts";
import { textOf, UsageError } from "../terminal/terminal.ts";
import type { GivenFacts, TopologyOptions } from "./options.ts";

/** A main file that csimux would not start with. */
export class ConfigError extends Error {
  override readonly name = "ConfigError";
}

/** A main file with its topology rules compiled. */
export interface CompiledMainFile {
  readonly config: ProxyConfig;
  readonly topology: CompiledTopology | undefined;
}

/** A node to be evaluated. */
export interface NodeInput {
  /** Empty if the node's name is unknown. */
  readonly name: string;
  readonly facts: NodeFacts;
  /** All its labels; undefined if unknown. */
  readonly labels: Readonly<Record<string, string>> | undefined;
  /** Whether it comes from a list, so that this machine's files and variables do not apply to it. */
  readonly listed: boolean;
}

/** Reads and compiles a main file. Throws ConfigError, and UsageError if it cannot be read. */
export async function readRules(path: string, host: Host): Promise<CompiledMainFile> {
  const { config, diagnostics } = await readMain(path, await textOf(path, host), valueResolver(host.env));
  if (!config) throw new ConfigError(reasons(diagnostics));
  const { nodeTopology } = config;
  try {
    return { config, topology: nodeTopology && compileTopology(nodeTopology) };
  } catch (error) {
    throw error instanceof CsiError ? new ConfigError(error.message) : error;
  }
}

/** Reads the nodes and classes to evaluate, from files, or this node. Throws UsageError. */
export async function readNodes(
  { nodes: path, connection, storageClass, given }: TopologyOptions,
  host: Host,
): Promise<{ readonly nodes: readonly NodeInput[]; readonly classes: readonly StorageClass[] }> {
  const named = storageClass === undefined ? undefined : await read(storageClass, host, readStorageClasses);
  if (path !== undefined) {
    const { nodes, classes } = await read(path, host, readNodesAndClasses);
    return { nodes: nodes.map(node => listedNode(node, given)), classes: named ?? (connection ? [] : classes) };
  }
  const facts = givenFacts(given, host);
  const labels = given.labels.size > 0 ? Object.fromEntries(given.labels) : undefined;
  return { nodes: [{ name: facts.nodeName ?? "", facts, labels, listed: false }], classes: named ?? [] };
}

async function read<T>(path: string, host: Host, parse: (file: string, text: string) => T): Promise<T> {
  const text = await textOf(path, host);
  try {
    return parse(path, text);
  } catch (error) {
    throw error instanceof CsiError ? new UsageError(error.message) : error;
  }
}

/** Facts given by flags, completed by this machine's. If any label is given, there are no others. */
function givenFacts(given: GivenFacts, host: Host): NodeFacts {
  const nodeName = given.nodeName ?? (host.env["CSI_NODE_ID"] || undefined);
  const real = realFacts(nodeName, host);
  return {
    nodeName,
    hostname: given.hostname ?? real.hostname,
    env: name => given.env.get(name) ?? real.env(name),
    file: async path => given.files.get(path) ?? real.file(path),
    label: async name => {
      if (given.labels.size > 0) return given.labels.get(name);
      if (host.env["KUBERNETES_SERVICE_HOST"]) return real.label(name);
      const text = `a rule needs the label "${name}" of the node, which only the cluster knows: give it with --label ${name}=<value>, or a list of nodes with --nodes`;
      throw new CsiError("unavailable", text);
    },
  };
}

/** A node of a list, with the facts that the list and the flags give, and no others. */
function listedNode(node: ListedNode, given: GivenFacts): NodeInput {
  const env = new Map([...given.env, ...Object.entries(node.env)]);
  const files = new Map([...given.files, ...Object.entries(node.files)]);
  const labels = new Map([...Object.entries(node.labels ?? {}), ...given.labels]);
  const facts = {
    nodeName: node.name,
    hostname: node.hostname,
    env: (name: string) => env.get(name),
    file: async (path: string) => files.get(path),
    label: async (name: string) => {
      if (node.labels || labels.size > 0) return labels.get(name);
      throw new CsiError("unavailable", `the list of nodes does not contain the labels of ${node.name}`);
    },
  };
  return { name: node.name, facts, labels: node.labels, listed: true };
}
