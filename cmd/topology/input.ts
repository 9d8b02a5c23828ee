import { readFile } from "node:fs/promises";
import { readNodeList } from "../../lib/config/node-list.ts";
import type { ProxyConfig } from "../../lib/config/proxy.ts";
import { readStorageClasses, type StorageClass } from "../../lib/config/storage-class.ts";
import { CsiError, errnoOf } from "../../lib/core/errors.ts";
import { reasons } from "../../lib/schema/finding.ts";
import type { NodeFacts } from "../../lib/topology/facts.ts";
import { compileTopology, type Topology } from "../../lib/topology/rules.ts";
import type { Host } from "../host.ts";
import { readMain } from "../main-file.ts";
import { UsageError } from "../terminal/usage-error.ts";
import { valueResolver } from "../value-resolver.ts";
import { givenFacts, listedFacts } from "./facts.ts";
import type { TopologyOptions } from "./options.ts";

/** A main file that csimux would not start with. */
export class ConfigError extends Error {
  override readonly name = "ConfigError";
}

/** A main file, ready to be asked. */
export interface ReadMainFile {
  readonly config: ProxyConfig;
  readonly topology: Topology | undefined;
}

/** A node to be evaluated. */
export interface EvaluatedNode {
  /** Empty when the node's name is not known. */
  readonly name: string;
  readonly facts: NodeFacts;
  /** All its labels, where they are known. */
  readonly labels: Readonly<Record<string, string>> | undefined;
  /** Whether a list is all that is known of it. */
  readonly listed: boolean;
}

/** Reads and compiles a main file. Throws ConfigError, and UsageError when it cannot be read. */
export async function readRules(path: string, host: Host): Promise<ReadMainFile> {
  const { config, diagnostics } = await readMain(path, await textOf(path, host), valueResolver(host.env));
  if (!config) throw new ConfigError(reasons(diagnostics));
  const { nodeTopology } = config;
  try {
    return { config, topology: nodeTopology && (await compileTopology(nodeTopology)) };
  } catch (error) {
    throw error instanceof CsiError ? new ConfigError(error.message) : error;
  }
}

/** What is asked about. */
export interface TopologyQuestion {
  readonly subjects: readonly EvaluatedNode[];
  readonly classes: readonly StorageClass[];
}

/** The nodes and classes that are asked about: of this node or a given one, of files, or of a cluster. Throws UsageError. */
export async function readAsked(options: TopologyOptions, host: Host): Promise<TopologyQuestion> {
  const { nodes, kubeconfig, storageClass, given } = options;
  const classes = storageClass === undefined ? [] : await readClasses(storageClass, host);
  if (kubeconfig !== undefined) {
    const { askCluster } = await import("./cluster.ts");
    const texts = await askCluster(kubeconfig, await textOf(kubeconfig, host));
    const own = options.connection === undefined && storageClass === undefined;
    return {
      subjects: listed(kubeconfig, texts.nodes, given),
      classes: own ? ofCluster(texts.storageClasses) : classes,
    };
  }
  if (nodes !== undefined) return { subjects: listed(nodes, await textOf(nodes, host), given), classes };
  const facts = givenFacts(given, host);
  const labels = given.labels.size > 0 ? Object.fromEntries(given.labels) : undefined;
  return { subjects: [{ name: facts.nodeName ?? "", facts, labels, listed: false }], classes };
}

const listed = (file: string, text: string, given: TopologyOptions["given"]): readonly EvaluatedNode[] =>
  usable(() => readNodeList(file, text)).map(node => ({
    name: node.name,
    facts: listedFacts(node, given),
    labels: node.labels,
    listed: true,
  }));

async function readClasses(path: string, host: Host): Promise<readonly StorageClass[]> {
  const text = await textOf(path, host);
  return usable(() => readStorageClasses(path, text));
}

/** A cluster may have no class of csimux yet. */
function ofCluster(text: string): readonly StorageClass[] {
  try {
    return readStorageClasses("the cluster", text);
  } catch (error) {
    if (error instanceof CsiError) return [];
    throw error;
  }
}

/** Input that is not what it should be is a matter of usage. */
function usable<T>(read: () => T): T {
  try {
    return read();
  } catch (error) {
    throw error instanceof CsiError ? new UsageError(error.message) : error;
  }
}

async function textOf(path: string, host: Host): Promise<string> {
  if (path === "-") return host.stdin();
  try {
    return await readFile(path, "utf8");
  } catch (error) {
    throw new UsageError(`${path} cannot be read (${errnoOf(error) ?? "unknown reason"})`);
  }
}
