import type { Command } from "commander";
import type { Host } from "../host.ts";
import { exit } from "../terminal/exit.ts";
import { UsageError } from "../terminal/usage-error.ts";
import { type TopologyFlags, topologyOptions } from "./options.ts";

const collect = (value: string, before: readonly string[] | undefined): readonly string[] => [...(before ?? []), value];

/**
 * `csimux topology`: exit code 0; 1 when something that was looked at is wrong (a node that cannot register, a class that can never be
 * bound, a file); 2 for bad usage, for input that cannot be read, and where something could not be looked at.
 */
export function addTopology(program: Command, host: Host): void {
  program
    .command("topology")
    .description("show what nodes report as their topology, why, and which connections they reach")
    .option("--config <file>", "the main file, usually proxy.yaml")
    .option("--node-name <name>", "the node's name in the cluster (else CSI_NODE_ID)")
    .option("--hostname <name>", "the host name (else that of this machine)")
    .option("--env <name=value>", "a variable of the node's container; may be repeated", collect)
    .option("--file <path=content>", "a file of the node's container; may be repeated", collect)
    .option("--label <name=value>", "a label of the node; without any, the cluster is asked", collect)
    .option("--nodes <file>", "evaluate a list of nodes, say of kubectl get nodes -o json; - for standard input")
    .option("--kubeconfig <file>", "ask a cluster for its nodes and classes, as kubectl would with this file")
    .option("--connections <folder>", "the connection files, where they are not where the main file says")
    .option("--connection <name>", "which nodes reach this connection or group, and what becomes of its volumes")
    .option(
      "--storage-class <file>",
      "on which nodes the classes of this file can be used, and why not elsewhere; - for standard input",
    )
    .option("--details", "also the nodes one by one, a map of places and connections, and what becomes of each claim")
    .option("--changes-from <file>", "the main file as it was: print the label commands that the change needs")
    .option("-o, --output <format>", "text, json or yaml", "text")
    .action(async (flags: TopologyFlags) => exit(await run(flags, host)));
}

async function run(flags: TopologyFlags, host: Host): Promise<number> {
  try {
    const options = topologyOptions(flags);
    const { topology } = await import("./topology.ts");
    return await topology(options, host);
  } catch (error) {
    if (!(error instanceof UsageError)) throw error;
    host.err(`csimux: ${error.message}\n`);
    return 2;
  }
}
