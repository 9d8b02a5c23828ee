import { basename } from "node:path";
import { Command } from "commander";
import { messageOf } from "../lib/core/errors.ts";
import { answersSsh } from "./askpass.ts";
import { pluginName } from "./cluster/kubectl/plugin-name.ts";
import { type Host, realHost } from "./host.ts";
import { version } from "./version.ts";

type Add = (program: Command, host: Host) => void;

/** What loads the definition of each subcommand, in the order of the help. */
const subcommands: Readonly<Record<string, () => Promise<Add>>> = {
  serve: async () => (await import("./serve/command.ts")).addServe,
  validate: async () => (await import("./validate/command.ts")).addValidate,
  topology: async () => (await import("./topology/command.ts")).addTopology,
  id: async () => (await import("./id/id.ts")).addId,
  probe: async () => (await import("./probe.ts")).addProbe,
  status: async () => (await import("./status/command.ts")).addStatus,
  volumes: async () => (await import("./cluster/volumes/command.ts")).addVolumes,
  takeover: async () => (await import("./cluster/takeover/command.ts")).addTakeover,
  copies: async () => (await import("./cluster/copies/command.ts")).addCopies,
  move: async () => (await import("./cluster/move/command.ts")).addMove,
  kubectl: async () => (await import("./cluster/kubectl/command.ts")).addKubectl,
  completion: async () => (await import("./completion.ts")).addCompletion,
};

/** The definitions that the first word needs. Defining all of them takes 8 ms of processor time more. */
function needed(word: string): readonly (() => Promise<Add>)[] {
  const chosen = word !== "completion" && Object.hasOwn(subcommands, word) ? subcommands[word] : undefined;
  return chosen ? [chosen] : Object.values(subcommands);
}

async function main(): Promise<void> {
  const host = realHost();
  if (await answersSsh(host)) return;
  const program = new Command("csimux")
    .description("one CSI driver name in front of many storage connections")
    .version(`csimux ${version}`)
    .configureOutput({ writeOut: host.out, writeErr: host.err })
    // The flags of serve leave less than the 40 columns below which commander does not wrap.
    .configureHelp({ minWidthToWrap: 24 })
    .showHelpAfterError("run csimux --help or csimux <command> --help")
    .exitOverride();
  // kubectl starts a plugin by its name, which may be a link to csimux.
  const [first = "", second = "", ...given] = process.argv;
  const words = basename(process.argv0) === pluginName ? ["kubectl", ...given] : given;
  for (const load of needed(words[0] ?? "")) (await load())(program, host);
  await program.parseAsync([first, second, ...words]);
}

main().catch((error: unknown) => {
  // commander has printed its message; its exit code 1 means invalid usage, which is 2 here.
  if (error instanceof Error && "code" in error && String(error.code).startsWith("commander.")) {
    process.exitCode = "exitCode" in error && error.exitCode === 0 ? 0 : 2;
    return;
  }
  process.stderr.write(`csimux: ${messageOf(error)}\n`);
  process.exitCode = 1;
});
