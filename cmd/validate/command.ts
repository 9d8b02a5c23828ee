import type { Command } from "commander";
import type { Host } from "../host.ts";
import { exit } from "../terminal/exit.ts";
import { type Format, formats, type ValidateOptions } from "./options.ts";

interface Flags {
  readonly config?: string;
  readonly name: string;
  readonly output: string;
  readonly format?: string;
  readonly quiet?: true;
  readonly strict?: true;
  readonly online?: true;
  readonly listRules?: true;
}

/** `csimux validate`: exit code 0 clean, 1 problems, 2 bad usage or unreadable input. */
export function addValidate(program: Command, host: Host): void {
  program
    .command("validate")
    .description("check configuration files, Secrets, classes and Helm values before they reach a cluster")
    .argument(
      "[inputs...]",
      "files, folders, globs; - for standard input; without any, the folder that the main file names",
    )
    .option("--config <file>", "the main file, usually proxy.yaml; its connection folder is checked with it")
    .option("--name <connection>", "the connection that a file on standard input would be", "stdin")
    .option("-o, --output <format>", `${formats.join(", ")}`, "text")
    .option("--format <format>", "same as --output")
    .option("--quiet", "errors only, and nothing when there are none")
    .option("--strict", "warnings fail too")
    .option("--online", "also connect to each storage system; references to the environment must then be right")
    .option("--list-rules", "print every rule and what it is for")
    .action(async (inputs: readonly string[], flags: Flags) => exit(await run(inputs, flags, host)));
}

const isFormat = (text: string): text is Format => formats.some(format => format === text);

async function run(inputs: readonly string[], flags: Flags, host: Host): Promise<number> {
  const format = flags.format ?? flags.output;
  if (!isFormat(format)) {
    host.err(`csimux: --output is one of ${formats.join(", ")}, not "${format}"\n`);
    return 2;
  }
  const options: ValidateOptions = {
    inputs,
    config: flags.config,
    name: flags.name,
    format,
    quiet: flags.quiet === true,
    strict: flags.strict === true,
    online: flags.online === true,
  };
  const { listRules, validate } = await import("./validate.ts");
  return flags.listRules ? listRules(format, host) : validate(options, host);
}
