import type { Command } from "commander";
import type { Host } from "../host.ts";
import { exit } from "../terminal/exit.ts";
import { UsageError } from "../terminal/usage-error.ts";
import { type StatusFlags, statusOptions } from "./options.ts";

/** `csimux status`: what a running csimux knows of its connections. */
export function addStatus(program: Command, host: Host): void {
  program
    .command("status")
    .description("show what a running csimux knows: connections, groups, calls in progress; asks no storage")
    .option("--endpoint <url>", "the CSI socket of the process, beside which it tells its status (also CSI_ENDPOINT)")
    .option("--status-socket <path>", "as csimux serve was told")
    .option("-o, --output <format>", "text, json or yaml", "text")
    .option("--watch [seconds]", "show it again every so many seconds (default: 2), until interrupted")
    .option(
      "--bundle <file>",
      "write what a report of a fault needs, without secrets, into a new file, or to standard output (-)",
    )
    .option("--timeout <seconds>", "how long to wait for the answer", "10")
    .addHelpText(
      "after",
      "\nExit code 0: every file is good, every storage was checked and can be used, and no call has failed for a reason of the storage since the last success; 1: something is not so, or something is wrong with a volume; 2: nobody could be asked.",
    )
    .action(async (flags: StatusFlags) => exit(await run(flags, host)));
}

async function run(flags: StatusFlags, host: Host): Promise<number> {
  try {
    const options = statusOptions(flags, host.env);
    const { showStatus } = await import("./status.ts");
    return await showStatus(options, host);
  } catch (error) {
    if (!(error instanceof UsageError)) throw error;
    host.err(`csimux: ${error.message}\n`);
    return 2;
  }
}
