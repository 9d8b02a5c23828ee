import type { Output } from "../../../io/runner.ts";
import type { Outputs } from "../../../io/script.ts";
import { type Entries, type Entry, type PropertyQuery, ZfsError } from "../zfs.ts";
import { missingNames } from "./error-texts.ts";
import { byName, entriesOf, incomplete, linesOf } from "./rows.ts";
import { asked } from "./steps.ts";

/** The output of a step of a script. Throws ZfsError when it was left out. */
export function outputOf(outputs: Outputs, name: string): Output {
  const output = outputs.get(name);
  if (output === undefined) throw new ZfsError("other", `the step "${name}" was left out`);
  return output;
}

/**
 * What zfs get said of these names and of what lies below `roots`. Throws ZfsError: what zfs refused, or "incomplete" where it neither
 * showed a name nor said that this does not exist.
 */
function answered(output: Output, { names, properties }: PropertyQuery, roots: readonly string[]): readonly Entry[] {
  const absent = missingNames(output);
  const found = entriesOf(output.stdout, asked(properties));
  const seen = new Set(found.map(({ name }) => name));
  const untold = names.find(name => !seen.has(name) && !absent.has(name));
  if (untold !== undefined) throw incomplete(`it says nothing of ${untold}`);
  const wanted = new Set(names);
  const isWanted = (name: string) => wanted.has(name) || roots.some(root => isBelow(name, root));
  const strange = found.find(({ name }) => !isWanted(name));
  if (strange) throw incomplete(`it tells of ${strange.name}, which was not asked for`);
  return found;
}

const isBelow = (name: string, parent: string): boolean =>
  name.startsWith(parent) && /^[/@]/.test(name.slice(parent.length));

/** What "list" found below `roots`, and of the names of `look`. Throws as `entries`. */
export const listed = (outputs: Outputs, look: PropertyQuery, roots: readonly string[]): readonly Entry[] =>
  answered(outputOf(outputs, "list"), look, roots);

/**
 * The names of a dataset and of what lies below it, from the last in their order to the dataset itself, which so proves that nothing is
 * cut off. Undefined when the dataset does not exist. Throws ZfsError.
 */
export function namesDownTo(parent: string, output: Output): readonly string[] | undefined {
  if (missingNames(output).has(parent)) return undefined;
  const names: string[] = [];
  for (const name of linesOf(output.stdout)) {
    const last = names.at(-1);
    if (last !== undefined && name >= last) throw incomplete(`${name} is where it should not be`);
    names.push(name);
  }
  if (names.at(-1) !== parent) throw incomplete(`the names below ${parent} are cut`);
  return names;
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
export function entries(outputs: Outputs, look: PropertyQuery): Entries {
  const found = byName(answered(outputOf(outputs, "look"), look, []));
  const pool = look.names.find(name => !/[/@]/.test(name) && !found.has(name));
  if (pool !== undefined) throw new ZfsError("pool-absent", `the pool "${pool}" is not there or not imported`);
  return found;
}
