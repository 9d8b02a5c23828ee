import type { ListedNode } from "../../lib/config/node-list.ts";
import { CsiError } from "../../lib/core/errors.ts";
import type { NodeFacts } from "../../lib/topology/facts.ts";
import type { Host } from "../host.ts";
import { realFacts } from "../node-facts.ts";
import type { GivenFacts } from "./options.ts";

/**
 * What the user gave, over the facts of the machine that the command runs on. Given labels are all the labels there are; without any,
 * asking for one throws "unavailable".
 */
export function givenFacts(given: GivenFacts, host: Host): NodeFacts {
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
      const message = `a rule asks for the label "${name}" of the node, which is known to the cluster only`;
      throw new CsiError(
        "unavailable",
        `${message}: say it with --label ${name}=<value>, or give nodes with --nodes or --kubeconfig`,
      );
    },
  };
}

/** A node of a list: only what the list says and what the user gave for all nodes. Throws as givenFacts. */
export function listedFacts(node: ListedNode, given: GivenFacts): NodeFacts {
  const env = new Map([...given.env, ...Object.entries(node.env)]);
  const files = new Map([...given.files, ...Object.entries(node.files)]);
  const labels = new Map([...Object.entries(node.labels ?? {}), ...given.labels]);
  return {
    nodeName: node.name,
    hostname: node.hostname,
    env: name => env.get(name),
    file: async path => files.get(path),
    label: async name => {
      if (node.labels || labels.size > 0) return labels.get(name);
      throw new CsiError("unavailable", `the list of nodes does not say which labels ${node.name} has`);
    },
  };
}
