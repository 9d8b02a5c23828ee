import type { Command } from "commander";
import type { Host } from "../../host.ts";
import { exit, unlessMisused } from "../../terminal/terminal.ts";
import type { CopiesFlags, CopiesVerb } from "./options.ts";

/** The requests about one volume, which its CSI id names, with their descriptions. */
const aboutOne = {
  pass: "copy what has changed since the last pass, or complete an interrupted pass",
  finish: "turn the last complete pass of a copy into the volume",
  cancel: "remove an unfinished copy and its protected snapshots on the source",
  freeze: "note for its copies that a volume was stopped, and set it to read-only if its storage can do that",
  thaw: "set a volume back to writable",
} as const;

/** The requests that read the parameters of the new volume from standard input. */
const aboutNew = {
  plan: "say how a copy would be made, without changing anything",
  begin: "create the unfinished, empty volume of a copy, or find it",
} as const;

/** `csimux copies`. */
export function addCopies(program: Command, host: Host): void {
  const copies = program
    .command("copies")
    .description("list, make and cancel copies between connections, through a running controller of csimux");
  const common = (command: Command, run: (volume: string | undefined, flags: CopiesFlags) => Promise<number>) =>
    command
      .option("--endpoint <url>", "the CSI socket of csimux (default: CSI_ENDPOINT, else unix:///csi/csi.sock)")
      .option("-o, --output <format>", "text or json", "text")
      .action(async (...given: readonly unknown[]) => {
        const [first, second] = given;
        const [volume, flags] = typeof first === "string" ? [first, second] : [undefined, first];
        exit(await unlessMisused(host, () => run(volume, flags as CopiesFlags)));
      });
  const ask = async (verb: CopiesVerb, volume: string | undefined, flags: CopiesFlags) =>
    (await import("./copies.ts")).copies(verb, volume, flags, host);
  common(copies.command("list").description("list the copies of all connections"), (_, flags) =>
    ask("list", undefined, flags),
  );
  for (const verb of ["pass", "finish", "cancel", "freeze", "thaw"] as const)
    common(
      copies
        .command(verb)
        .argument("<volume>", "the CSI id of the volume")
        .description(aboutOne[verb])
        .option(
          "--wait <seconds>",
          "exit after this time with exit code 3; the work continues, and the same command joins it",
        ),
      (volume, flags) => ask(verb, volume, flags),
    ).addHelpText("after", exits);
  for (const verb of ["plan", "begin"] as const)
    common(
      copies
        .command(verb)
        .description(`${aboutNew[verb]}; reads source, name, bytes and parameters as JSON from stdin`),
      (_, flags) => ask(verb, undefined, flags),
    ).addHelpText("after", exits);
}

const exits =
  "\nExit code 0: done; 1: refused or failed; 2: csimux could not be reached; 3: it continues after --wait.";
