import type { Output } from "../../io/runner.ts";
import type { Outputs } from "../../io/script.ts";
import { byName, entriesOf } from "./cli-rows.ts";
import { onlyAbsent, refusal } from "./cli-words.ts";
import { type Entries, type Entry, type Look, ZfsError } from "./zfs.ts";

/** The output of a step of a script. Throws ZfsError when it was left out. */
export function outputOf(outputs: Outputs, name: string): Output {
  const output = outputs.get(name);
  if (output === undefined) throw new ZfsError("other", `the step "${name}" was left out`);
  return output;
}

/** Whether "files" listed nothing, and is sure of it. */
export const isNothing = (outputs: Outputs): boolean => {
  const files = outputs.get("files");
  return files?.exitCode === 0 && files.stdout === "";
};

/** What "list" found; nothing when its dataset is not there. */
export function listed(outputs: Outputs): readonly Entry[] {
  const output = outputOf(outputs, "list");
  if (output.exitCode !== 0 && !onlyAbsent(output)) throw refusal(output);
  return entriesOf(output.stdout);
}

/** The states of pools by their names, from lines of two words each. */
export const states = ({ stdout }: Output): ReadonlyMap<string, string> =>
  new Map(
    stdout.split("\n").flatMap(line => {
      const [name = "", state = ""] = line.split("\t");
      return state === "" ? [] : [[name, state] as const];
    }),
  );

/** What "look" found. A pool that is not there was not imported: nothing is known of what is in it. */
export function entries(outputs: Outputs, look: Look): Entries {
  const output = outputOf(outputs, "look");
  if (output.exitCode !== 0 && !onlyAbsent(output)) throw refusal(output);
  const found = byName(entriesOf(output.stdout));
  const pool = look.names.find(name => !/[/@]/.test(name) && !found.has(name));
  if (pool !== undefined) throw new ZfsError("pool-absent", `the pool "${pool}" is not there or not imported`);
  return found;
}
