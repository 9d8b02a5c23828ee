import type { Command } from "commander";
import type { Host } from "../../host.ts";
import { defaults, driverName } from "../../serve/options.ts";
import { collect, exit, unlessMisused } from "../../terminal/terminal.ts";
import { type TakeoverFlags, takeoverOptions } from "./options.ts";

/** `csimux takeover`: converts Helm values of democratic-csi to the files of one csimux. */
export function addTakeover(program: Command, host: Host): void {
  program
    .command("takeover")
    .description("replace deployments of democratic-csi by one csimux that keeps serving their driver names")
    .option(
      "--values <file>",
      "values of a Helm release (helm get values -o yaml); may be repeated (required)",
      collect,
    )
    .option(
      "--release <namespace/name>",
      "the Helm release of the values, in the same order: it is part of the names of the classes' Secrets",
      collect,
    )
    .option("--secret <file>", "a manifest of the Secret in driver.existingConfigSecret; may be repeated", collect)
    .option("--out <folder>", "a new folder for the files (required)")
    .option("--name <name>", "driver name for new volumes", defaults.name)
    .option("--namespace <name>", "namespace for csimux", "storage")
    .option("--image <image>", "image of csimux with its tag, for the manifests")
    .option(
      "--print-pvs <file>",
      "also write PersistentVolumes under the new name, from the output of kubectl get pv -o json",
    )
    .addHelpText(
      "after",
      `
Exit code 0: everything was taken over and passes csimux validate --strict;
1: not everything; 2: nothing was written.`,
    )
    .action(async (flags: TakeoverFlags) => exit(await run(flags, host)));
}

const run = (flags: TakeoverFlags, host: Host): Promise<number> =>
  unlessMisused(host, async () => {
    const options = takeoverOptions(flags, name => driverName("--name", name));
    const { takeOver } = await import("./takeover.ts");
    return await takeOver(options, host);
  });
