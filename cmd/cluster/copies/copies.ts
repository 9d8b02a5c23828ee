import {
  type CopyAnswer,
  type CopyCommandInput,
  type CopyState,
  commandSocketOf,
  writeLine,
} from "../../../lib/copies/protocol.ts";
import { CsiError } from "../../../lib/core/errors.ts";
import { type Mapping, mappingIn } from "../../../lib/core/mapping.ts";
import { csiSocketOf } from "../../csi-socket.ts";
import type { Host } from "../../host.ts";
import { defaults } from "../../serve/options.ts";
import { milliseconds, UsageError, visible } from "../../terminal/terminal.ts";
import { type CopiesFlags, type CopiesVerb, stillRunning } from "./options.ts";
import { askCopies, type CommandOutcome } from "./socket.ts";
import { copiesText, doneText } from "./text.ts";

type ListDone = Extract<CopyAnswer, { readonly kind: "done" }>;

/** Sends one request to the controller next to this process. Returns the exit code of the help. Throws UsageError. */
export async function copies(
  verb: CopiesVerb,
  volume: string | undefined,
  flags: CopiesFlags,
  host: Host,
): Promise<number> {
  const { output } = flags;
  if (output !== "text" && output !== "json") throw new UsageError(`--output must be text or json, not "${output}"`);
  const request = await requestOf(verb, volume, host);
  const path = socketOf(flags, host);
  const states: CopyState[] = [];
  const tell = (answer: CopyAnswer): void => {
    if (answer.kind === "copy") states.push(answer);
    else if (output === "json") host.out(`${writeLine(answer)}\n`);
    else if (answer.kind === "progress") host.out(`${visible(answer.text)}\n`);
  };
  try {
    const waitMs = flags.wait === undefined ? undefined : milliseconds("--wait", flags.wait);
    const outcome = await askCopies(path, request, waitMs, tell);
    if (verb === "list" && outcome.kind === "done")
      host.out(output === "json" ? listJson(states, outcome) : listText(states, outcome));
    else show(verb, outcome, output, host);
    return { done: 0, failed: 1, running: stillRunning }[outcome.kind];
  } catch (error) {
    if (!(error instanceof CsiError)) throw error;
    host.err(`csimux: ${visible(error.message)}\n`);
    return error.code === "unavailable" ? 2 : 1;
  }
}

const listJson = (states: readonly CopyState[], { listed = [], unlisted = [], kept }: ListDone): string =>
  `{"copies":[${states.map(writeLine).join(",")}],${JSON.stringify({ listed, unlisted, kept }).slice(1)}\n`;

const listText = (states: readonly CopyState[], { unlisted = [], kept = [] }: ListDone): string =>
  [
    copiesText(states, Date.now()),
    ...kept.map(each => `${visible(each)}\n`),
    ...(unlisted.length === 0
      ? []
      : [
          `not listed, because csimux cannot use these connections now (csimux status says why): ${visible(unlisted.join(", "))}\n`,
        ]),
  ].join("");

function show(verb: CopiesVerb, outcome: CommandOutcome, output: "text" | "json", host: Host): void {
  if (outcome.kind === "running") return;
  const isStop = verb === "freeze" || verb === "thaw";
  if (isStop && outcome.kind === "done") for (const why of outcome.instead ?? []) host.err(`csimux: ${visible(why)}\n`);
  if (output === "json") host.out(`${writeLine(outcome)}\n`);
  else if (outcome.kind === "done") host.out(doneText(isStop ? { ...outcome, instead: [] } : outcome));
  else host.err(`csimux: ${visible(outcome.message)}\n`);
}

async function requestOf(verb: CopiesVerb, volume: string | undefined, host: Host): Promise<CopyCommandInput> {
  if (verb === "list") return { command: "list" };
  if (verb === "plan" || verb === "begin") {
    // The controller validates the rest.
    return { ...parsed(await host.stdin()), command: verb } as CopyCommandInput;
  }
  const id = volume ?? "";
  return verb === "freeze" || verb === "thaw" ? { command: verb, volume: id } : { command: verb, target: id };
}

function parsed(text: string): Mapping {
  const value = mappingIn(text);
  if (value) return value;
  throw new UsageError("standard input is not a JSON object; it must have source, name, bytes and parameters");
}

function socketOf({ endpoint }: CopiesFlags, { env }: Pick<Host, "env">): string {
  const given = endpoint ?? (env["CSI_ENDPOINT"] || defaults.endpoint);
  return commandSocketOf(csiSocketOf(given, ", so it has no command socket; give --endpoint unix:///…/csi.sock"));
}
