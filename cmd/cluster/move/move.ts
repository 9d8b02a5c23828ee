import { CsiError } from "../../../lib/core/errors.ts";
import { CommandError } from "../../../lib/io/runner.ts";
import type { Host } from "../../host.ts";
import { UsageError, visible } from "../../terminal/terminal.ts";
import { CopyRefusal } from "./controller.ts";
import { copy } from "./copy.ts";
import { finish } from "./finish.ts";
import { Kubectl } from "./kubectl.ts";
import { type MoveCommand, type MoveFlags, type MoveOptions, moveOptions } from "./options.ts";
import { plan } from "./plan.ts";
import { MoveRefusal } from "./refusal.ts";
import { switchClaims } from "./switch.ts";
import { undo } from "./undo.ts";
import { beginWork, type MoveWork } from "./work.ts";

const commands: Readonly<Record<MoveCommand, (work: MoveWork, out: Host["out"]) => Promise<number>>> = {
  plan,
  copy,
  switch: switchClaims,
  undo,
  finish,
};

/** Runs one command of a move. Returns the exit code of the help. */
export async function move(
  command: MoveCommand,
  claims: readonly string[],
  flags: MoveFlags,
  host: Host,
): Promise<number> {
  const options = optionsOf(command, claims, flags, host);
  if (options === undefined) return 2;
  try {
    const kubectl = new Kubectl(options, host);
    const work = await beginWork(await withNamespace(options, flags, kubectl), kubectl);
    return await commands[command](work, host.out);
  } catch (error) {
    const reasons = reasonsOf(error);
    if (reasons === undefined) throw error;
    for (const reason of reasons) host.err(`csimux: ${reason.split("\n").map(visible).join("\n  ")}\n`);
    return 1;
  }
}

function optionsOf(
  command: MoveCommand,
  claims: readonly string[],
  flags: MoveFlags,
  host: Host,
): MoveOptions | undefined {
  try {
    return moveOptions(command, claims, flags);
  } catch (error) {
    if (!(error instanceof UsageError)) throw error;
    host.err(`csimux: ${error.message}\n`);
    return undefined;
  }
}

/** Named claims without a namespace are those of the namespace of kubectl's context, as with kubectl. */
async function withNamespace(
  options: MoveOptions,
  { namespace }: MoveFlags,
  { cluster }: Kubectl,
): Promise<MoveOptions> {
  if (namespace !== undefined || !("claims" in options.what)) return options;
  return { ...options, what: { ...options.what, namespace: await cluster.contextNamespace() } };
}

/** What a person is to read; undefined for a fault of csimux. UsageError is what kubectl says when csimux's pods are looked up. */
function reasonsOf(error: unknown): readonly string[] | undefined {
  if (error instanceof MoveRefusal) return error.reasons;
  if (error instanceof CommandError)
    return [
      `${error.message}; ${error.failure === "missing" ? "install it, or name it with --kubectl" : "repeat the command"}`,
    ];
  const isForPeople = error instanceof CopyRefusal || error instanceof UsageError || error instanceof CsiError;
  return isForPeople ? [error.message] : undefined;
}
