import type { Command } from "commander";
import type { Host } from "../../host.ts";
import { exit } from "../../terminal/terminal.ts";
import { type MoveCommand, type MoveFlags, moveCommands } from "./options.ts";

const about: Readonly<Record<MoveCommand, string>> = {
  plan: "print what would be moved and how, or why it cannot be; changes nothing",
  copy: "copy in passes while the pods run; repeat it to shorten the stop",
  switch: "stop the pods, copy what is left, give each claim its new volume under the same name, start the pods",
  undo: "give each claim its old volume back",
  finish: "delete the volumes that are no longer used, and end the move",
};

/** `csimux move`. */
export function addMove(program: Command, host: Host): void {
  const move = program
    .command("move")
    .description("move claims to another StorageClass of csimux, with kubectl and your rights");
  for (const command of moveCommands) {
    const defined = move
      .command(command)
      .argument("[claims...]", "the names of the claims")
      .description(about[command])
      .option(
        "-n, --namespace <name>",
        "the namespace of the claims (default: that of the context; with --all: every one)",
      )
      .option("--from <connection>", "with --all: the connection whose claims are meant")
      .option("--all", "all claims of the connection")
      .option("--to-class <name>", "the StorageClass to which the claims move")
      .option("--context <name>", "the context of kubectl's configuration")
      .option("--kubeconfig <file>", "kubectl's configuration")
      .option("--kubectl <command>", 'kubectl with its flags, such as "kubectl --context prod"', "kubectl")
      .option("--yes", "do not ask before pods are stopped or data is deleted")
      .option("--owner-paused", "the operator that owns the claims or workloads is paused")
      .option("--gitops-paused", "what scales or restores the workloads (HPA, KEDA, Argo CD, Flux) is paused")
      .addHelpText("after", "\nExit code 0: done; 1: refused, or not completed: repeat the command; 2: invalid usage.")
      .action(async (claims: readonly string[], flags: MoveFlags) => {
        const { move: run } = await import("./move.ts");
        exit(await run(command, claims, flags, host));
      });
    if (command === "undo")
      defined.option("--lose-writes-since-switch", "accept that what was written since the switch is lost");
  }
}
