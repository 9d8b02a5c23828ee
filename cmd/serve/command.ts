import type { Command } from "commander";
import type { Host } from "../host.ts";
import { exit } from "../terminal/exit.ts";
import { UsageError } from "../terminal/usage-error.ts";
import { tuneEngine } from "./engine.ts";
import { type ServeFlags, serveOptions } from "./options.ts";

const collect = (value: string, before: readonly string[] | undefined): readonly string[] => [...(before ?? []), value];

/** `csimux serve`, and what a command line of flags alone means: the existing chart calls the image that way. */
export function addServe(program: Command, host: Host): void {
  program
    .command("serve", { isDefault: true })
    .description("serve CSI on a Unix socket or a TCP address; flags without a command mean this one")
    .option("--endpoint <url>", "unix:///path or tcp://host:port; may be repeated (also CSI_ENDPOINT)", collect)
    .option("--config <file>", "main file, usually proxy.yaml")
    .option("--name <name>", "driver name that the cluster sees")
    .option("--mode <modes>", "controller, node or both, comma separated or repeated", collect)
    .option("--csi-version <version>", "advertise nothing newer than this version of CSI")
    .option("--log-level <level>", "error, warn, info, debug (also verbose, silly: debug)")
    .option("--log-format <format>", "json or text; text on a terminal, else json")
    .option("--state-dir <folder>", "where the node keeps what it staged; a folder of the host, not of the container")
    .option("--node-id <name>", "name of this node in the cluster (also CSI_NODE_ID)")
    .option("--driver-config-file <file>", "same as --config")
    .option("--csi-name <name>", "same as --name")
    .option("--csi-mode <modes...>", "same as --mode", collect)
    .option("--server-socket <path>", "same as --endpoint unix://<path>")
    .option("--server-address <host>", "with --server-port: same as --endpoint tcp://<host>:<port>")
    .option("--server-port <port>", "see --server-address")
    .option("--server-socket-permissions-mode <octal>", "permissions of the socket, 0600 when absent")
    .allowUnknownOption()
    .allowExcessArguments()
    .action(async (flags: ServeFlags, command: Command) => exit(await run(flags, command.args, host)));
}

async function run(flags: ServeFlags, rest: readonly string[], host: Host): Promise<number> {
  const words = rest.filter(word => !word.startsWith("-"));
  const [first] = rest;
  if (first !== undefined && words[0] === first) {
    host.err(`csimux: "${first}" is no command, or does not stand first; try csimux --help\n`);
    return 2;
  }
  try {
    const options = serveOptions(flags, host.env);
    tuneEngine();
    const { serve } = await import("./serve.ts");
    return await serve(options, rest, host);
  } catch (error) {
    if (!(error instanceof UsageError)) throw error;
    host.err(`csimux: ${error.message}\n`);
    return 2;
  }
}
