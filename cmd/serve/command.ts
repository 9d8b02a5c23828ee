import type { Command } from "commander";
import { nearest } from "../../lib/schema/nearest.ts";
import type { Host } from "../host.ts";
import { collect, exit, UsageError } from "../terminal/terminal.ts";
import { defaults, type ServeFlags, serveOptions } from "./options.ts";
import { ensureThreadPool } from "./thread-pool.ts";

/** In commander's own words; commander's own default would hide whether the flag was given. */
const byDefault = (value: string): string => ` (default: "${value}")`;

/**
 * `csimux serve`, also the default for a command line with flags only: democratic-csi's chart calls the image that way.
 */
export function addServe(program: Command, host: Host): void {
  program
    .command("serve", { isDefault: true })
    .description("serve CSI on a Unix socket or a TCP address; the default command")
    .option(
      "--endpoint <url>",
      `unix:///path or tcp://host:port; may be repeated (also CSI_ENDPOINT)${byDefault(defaults.endpoint)}`,
      collect,
    )
    .option("--config <file>", "main file, usually proxy.yaml (required)")
    .option("--name <name>", `driver name that the cluster sees${byDefault(defaults.name)}`)
    .option(
      "--mode <modes>",
      `controller, node or both, comma separated or repeated${byDefault(defaults.modes)}`,
      collect,
    )
    .option(
      "--csi-version <version>",
      `advertise nothing newer than this version of CSI (also CSI_VERSION)${byDefault(defaults.version)}`,
    )
    .option(
      "--log-level <level>",
      `error, warn, info, debug (also verbose, silly: debug)${byDefault(defaults.logLevel)}`,
    )
    .option("--log-format <format>", "json or text; text on a terminal, else json")
    .option(
      "--state-dir <folder>",
      `folder of the node's records, on the host, not in the container${byDefault("/var/lib/csimux/<name>, below /host if that is mounted")}`,
    )
    .option("--node-id <name>", "name of this node in the cluster (also CSI_NODE_ID)")
    .option(
      "--status-socket <path>",
      `socket for csimux status; accessible only to the user that runs csimux${byDefault("the first socket of --endpoint, with .status appended")}`,
    )
    .option(
      "--metrics-address <host:port>",
      "serve metrics at /metrics over HTTP; :port for all addresses; off by default",
    )
    .option("--health-address <host:port>", "serve /healthz and /readyz over HTTP; off by default")
    .option("--page-address <host:port>", "serve the status as a page for browsers over HTTP; off by default")
    .option(
      "--page-token-file <file>",
      "file with the token that browsers need for the page, as the password; required unless the address is a loopback one",
    )
    .option(
      "--health-interval <seconds>",
      `how often storage systems and the volumes of this node are checked; 0: only on request${byDefault(defaults.healthInterval)}`,
    )
    .option(
      "--plugin-registration-socket <path>",
      "register the node plugin with kubelet on this socket, a file in its folder plugins_registry; off by default",
    )
    .option(
      "--kubelet-registration-path <path>",
      `path of the CSI socket on the host, for kubelet${byDefault("the path of --endpoint")}`,
    )
    .option(
      "--alias <name=connection>",
      "also serve an old driver name, on the socket <name>.sock next to the CSI socket; ids without a prefix belong to that connection; may be repeated",
      collect,
    )
    .option("--driver-config-file <file>", "same as --config")
    .option("--csi-name <name>", "same as --name")
    .option("--csi-mode <modes...>", "same as --mode", collect)
    .option("--server-socket <path>", "same as --endpoint unix://<path>")
    .option("--server-address <host>", "with --server-port: same as --endpoint tcp://<host>:<port>")
    .option("--server-port <port>", "see --server-address")
    .option("--server-socket-permissions-mode <octal>", `permissions of the socket${byDefault(defaults.mode)}`)
    .allowUnknownOption()
    .allowExcessArguments()
    .action(async (flags: ServeFlags, command: Command) => {
      const known = command.options.flatMap(({ long }) => long ?? []);
      exit(await run(flags, command.args, known, host));
    });
}

async function run(flags: ServeFlags, rest: readonly string[], known: readonly string[], host: Host): Promise<number> {
  const words = rest.filter(word => !word.startsWith("-"));
  const [first] = rest;
  if (first !== undefined && words[0] === first) {
    host.err(`csimux: "${first}" is not a command, or does not come first; try csimux --help\n`);
    return 2;
  }
  try {
    const options = serveOptions(flags, host.env);
    ensureThreadPool();
    const { serve } = await import("./serve.ts");
    return await serve(options, rest, host);
  } catch (error) {
    if (!(error instanceof UsageError)) throw error;
    for (const word of rest.filter(each => each.startsWith("-"))) host.err(`csimux: ${unknownFlag(word, known)}\n`);
    host.err(`csimux: ${error.message}\n`);
    return 2;
  }
}

function unknownFlag(word: string, known: readonly string[]): string {
  const flag = word.replace(/=.*$/s, "");
  const near = nearest(flag, known);
  return `unknown flag ${flag}${near === undefined ? "" : `; did you mean ${near}?`}`;
}
