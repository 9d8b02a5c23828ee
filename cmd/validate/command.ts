import type { Command } from "commander";
import type { Host } from "../host.ts";
import { exit } from "../terminal/terminal.ts";
import { type Format, formats, type ValidateOptions } from "./options.ts";

interface Flags extends Omit<ValidateOptions, "inputs" | "format"> {
  readonly output: string;
  readonly format?: string;
  readonly listRules?: true;
}

/** `csimux validate`. Exit codes: 0: no problems; 1: problems; 2: bad usage, or something that could not be checked. */
export function addValidate(program: Command, host: Host): void {
  program
    .command("validate")
    .description("check configuration files, Secrets, classes and Helm values before they reach a cluster")
    .argument("[inputs...]", "files, folders, globs; - for standard input (default: the folder named in the main file)")
    .option("--config <file>", "the main file, usually proxy.yaml; its connection folder is checked with it")
    .option("--name <connection>", "the name of the connection on standard input", "stdin")
    .option("-o, --output <format>", `${formats.join(", ")}`, "text")
    .option("--format <format>", "same as --output")
    .option("--quiet", "print errors only")
    .option("--strict", "fail for warnings, too")
    .option("--online", "also connect to each storage system, and check references to the environment")
    .option("--list-rules", "print every rule with its reason")
    .addHelpText(
      "after",
      `
Exit code 0: no errors; 1: errors, with --strict also warnings; 2: invalid
usage, or something could not be checked.`,
    )
    .action(async (inputs: readonly string[], flags: Flags) => exit(await run(inputs, flags, host)));
}

const isFormat = (text: string): text is Format => formats.some(format => format === text);

async function run(inputs: readonly string[], flags: Flags, host: Host): Promise<number> {
  const format = flags.format ?? flags.output;
  if (!isFormat(format)) {
    host.err(`csimux: --output is one of ${formats.join(", ")}, not "${format}"\n`);
    return 2;
  }
  const { listRules, validate } = await import("./validate.ts");
  return flags.listRules ? listRules(format, host) : validate({ ...flags, inputs, format }, host);
}
