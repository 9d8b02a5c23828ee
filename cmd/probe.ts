import type { Command } from "commander";
import { messageOf } from "../lib/core/errors.ts";
import type { Host } from "./host.ts";
import { exit } from "./terminal/terminal.ts";

interface ProbeFlags {
  readonly csiAddress?: string;
  readonly endpoint?: string;
  readonly timeout: string;
}

const old = "DEMOCRATIC_CSI_LIVENESS_PROBE_CSI_ADDRESS";

/** `csimux probe`: checks that a running csimux answers, for liveness probes. Accepts the flags of democratic-csi's probe. */
export function addProbe(program: Command, host: Host): void {
  program
    .command("probe")
    .description("check that a running csimux answers; exit code 0 if it does")
    .option("--endpoint <url>", "unix:///path or tcp://host:port (also CSI_ENDPOINT)")
    .option("--csi-address <address>", "same as --endpoint")
    .option("--csi-version <version>", "accepted and ignored")
    .option("--timeout <seconds>", "time limit for the answer", "10")
    .allowUnknownOption()
    .allowExcessArguments()
    .action(async (flags: ProbeFlags, command: Command) => exit(await run(flags, command.args, host)));
}

async function run(flags: ProbeFlags, [unknown]: readonly string[], host: Host): Promise<number> {
  if (unknown !== undefined && !unknown.startsWith("-")) {
    host.err(`csimux: probe takes no argument, but got "${unknown}"; set the address with --endpoint\n`);
    return 2;
  }
  const seconds = Number(flags.timeout);
  const endpoint = flags.endpoint ?? flags.csiAddress ?? (host.env[old] || host.env["CSI_ENDPOINT"]);
  if (!endpoint || !(seconds > 0)) {
    host.err("csimux: probe needs --endpoint or --csi-address, and a positive --timeout\n");
    return 2;
  }
  const { probe } = await import("../lib/csi/probe.ts");
  try {
    if (await probe(endpoint, seconds * 1000)) return 0;
    host.err("csimux: not ready\n");
  } catch (error) {
    host.err(`csimux: ${messageOf(error)}\n`);
  }
  return 1;
}
