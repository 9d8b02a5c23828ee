import { basename } from "node:path";
import { Command } from "commander";
import { answersSsh } from "./askpass.ts";
import { addCompletion } from "./completion.ts";
import { addCopies } from "./copies/command.ts";
import { realHost } from "./host.ts";
import { addId } from "./id/id.ts";
import { addKubectl, pluginName } from "./kubectl/command.ts";
import { addMove } from "./move/command.ts";
import { addProbe } from "./probe.ts";
import { addServe } from "./serve/command.ts";
import { addStatus } from "./status/command.ts";
import { addTakeover } from "./takeover/command.ts";
import { addTopology } from "./topology/command.ts";
import { addValidate } from "./validate/command.ts";
import { version } from "./version.ts";
import { addVolumes } from "./volumes/command.ts";

/** Defines the subcommands. Each loads its code only when chosen, so that the small ones start at once. */
async function main(): Promise<void> {
  const host = realHost();
  if (await answersSsh(host)) return;
  const program = new Command("csimux")
    .description("one CSI driver name in front of many storage connections")
    .version(`csimux ${version}`)
    .configureOutput({ writeOut: host.out, writeErr: host.err })
    .showHelpAfterError("run csimux --help or csimux <command> --help")
    .exitOverride();
  addServe(program, host);
  addValidate(program, host);
  addTopology(program, host);
  addId(program, host);
  addProbe(program, host);
  addStatus(program, host);
  addVolumes(program, host);
  addTakeover(program, host);
  addCopies(program, host);
  addMove(program, host);
  addKubectl(program, host);
  addCompletion(program, host);
  // kubectl starts a plugin by its name, which may be a link to csimux.
  const [first = "", second = "", ...words] = process.argv;
  const isPlugin = basename(process.argv0) === pluginName;
  await program.parseAsync([first, second, ...(isPlugin ? ["kubectl"] : []), ...words]);
}

main().catch((error: unknown) => {
  // commander has printed its message; its exit code 1 means invalid usage, which is 2 here.
  if (error instanceof Error && "code" in error && String(error.code).startsWith("commander.")) {
    process.exitCode = "exitCode" in error && error.exitCode === 0 ? 0 : 2;
    return;
  }
  process.stderr.write(`csimux: ${error instanceof Error ? error.message : String(error)}\n`);
  process.exitCode = 1;
});
