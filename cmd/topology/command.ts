import type { Command } from "commander";
import type { Host } from "../host.ts";
import { collect, exit, unlessMisused } from "../terminal/terminal.ts";
import { type TopologyFlags, topologyOptions } from "./options.ts";

/**
 * `csimux topology`. Exit codes: 0; 1 if a node cannot register, a class cannot be bound, or a file is wrong; 2 for bad
 * usage, unreadable input, and anything that could not be checked.
 */
export function addTopology(program: Command, host: Host): void {
  program
    .command("topology")
    .description("show what nodes report as their topology, and which connections and classes they can use")
    .option("--config <file>", "the main file, usually proxy.yaml")
    .option("--node-name <name>", "the node's name in the cluster (default: CSI_NODE_ID)")
    .option("--hostname <name>", "the host name (default: that of this machine)")
    .option("--env <name=value>", "a variable of the node's container; may be repeated", collect)
    .option("--file <path=content>", "a file of the node's container; may be repeated", collect)
    .option("--label <name=value>", "a label of the node; without any, the cluster is asked", collect)
    .option(
      "--nodes <file>",
      "evaluate the nodes and classes of a cluster: output of kubectl get nodes,storageclasses -o json; - for standard input",
    )
    .option("--connections <folder>", "the connection files (default: the folder named in the main file)")
    .option("--connection <name>", "show only this connection or group")
    .option("--storage-class <file>", "show which nodes can use the classes of this file; - for standard input")
    .option("--details", "also show every node, and a map of topologies and connections")
    .option("-o, --output <format>", "text, json or yaml", "text")
    .addHelpText(
      "after",
      `
Exit code 0: everything works; 1: a node cannot register, a class cannot be
used, or a file is wrong; 2: invalid usage, or something could not be checked.`,
    )
    .action(async (flags: TopologyFlags) => exit(await run(flags, host)));
}

const run = (flags: TopologyFlags, host: Host): Promise<number> =>
  unlessMisused(host, async () => {
    const options = topologyOptions(flags);
    const { topology } = await import("./topology.ts");
    return await topology(options, host);
  });
