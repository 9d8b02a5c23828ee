import type { Command } from "commander";
import type { Host } from "../host.ts";
import { exit, unlessMisused } from "../terminal/terminal.ts";
import { type StatusFlags, statusOptions } from "./options.ts";

/** `csimux status`: the status of a running csimux. */
export function addStatus(program: Command, host: Host): void {
  program
    .command("status")
    .description(
      "show the status of a running csimux: connections, groups, calls in progress; sends no request to storage systems, except with --html",
    )
    .option("--endpoint <url>", "the CSI socket of the process, with the status socket next to it (also CSI_ENDPOINT)")
    .option("--status-socket <path>", "the value of --status-socket of csimux serve")
    .option("-o, --output <format>", "text, json or yaml", "text")
    .option("--watch [seconds]", "repeat at this interval (default: 2) until interrupted")
    .option("--bundle <file>", "write a bug report, without secrets, to a new file or to standard output (-)")
    .option(
      "--html <file>",
      "write the status, with all volumes, as one page for browsers to a file or to standard output (-)",
    )
    .option(
      "--cluster <file>",
      "for --html, output of kubectl get nodes,pv -o json: shows nodes, and the claims of volumes; - for standard input",
    )
    .option("--timeout <seconds>", "time limit for the answer (default: 10; with --html: 60)")
    .addHelpText(
      "after",
      `
Exit code 0: all files are valid, all storage systems were checked and can be
used, and no call has failed because of a storage system since the last success;
1: otherwise, or a volume has a problem; 2: the process could not be reached.`,
    )
    .action(async (flags: StatusFlags) => exit(await run(flags, host)));
}

const run = (flags: StatusFlags, host: Host): Promise<number> =>
  unlessMisused(host, async () => {
    const options = statusOptions(flags, host.env);
    const { showStatus } = await import("./status.ts");
    return await showStatus(options, host);
  });
