import { expect } from "bun:test";
import { isDeepStrictEqual } from "node:util";
import type { Command, CommandRunner, Output } from "../../lib/io/runner.ts";

/** One way in which the output of a step arrives otherwise than it was written; `before` is the output of the step before it. */
export interface Spoil {
  readonly name: string;
  spoilt(output: Output, before: Output | undefined): Output;
}

/** Numbers that are the same in each run, so that a failure repeats (a linear congruential generator, Numerical Recipes §7.1). */
export function numbers(seed: number): (below: number) => number {
  let state = seed >>> 0;
  return below => {
    state = (Math.imul(state, 1_664_525) + 1_013_904_223) >>> 0;
    return Math.floor((state / 2 ** 32) * below);
  };
}

/** Where a text is cut: after each of its lines but the last, and at so many more bytes. Its length is never among them. */
export function cutsOf(text: string, random = 50, seed = 1): readonly number[] {
  if (text.length === 0) return [];
  const lines = [...text.matchAll(/\n/g)].map(({ index }) => index + 1);
  const next = numbers(seed);
  const more = Array.from({ length: Math.min(random, text.length) }, () => next(text.length));
  return [...new Set([0, ...lines, ...more])].filter(at => at < text.length).sort((a, b) => a - b);
}

/**
 * Every way to spoil this output: cut with the exit code 0 and with 1, doubled, empty, and that of the step before in its place; and
 * where it failed, the words that say why cut or lost.
 */
function spoilsOf({ stdout, stderr, exitCode: ended }: Output, random = 50): readonly Spoil[] {
  const cut = (at: number, exitCode: number): Spoil => ({
    name: `cut at ${at} of ${stdout.length} with exit code ${exitCode}`,
    spoilt: output => ({ ...output, stdout: output.stdout.slice(0, at), exitCode }),
  });
  const cuts = cutsOf(stdout, random);
  const doubled = (output: Output): Output => ({ ...output, stdout: output.stdout.repeat(2) });
  const words = (at: number): Spoil => ({
    name: `its words cut at ${at} of ${stderr.length}`,
    spoilt: output => ({ ...output, stderr: output.stderr.slice(0, at) }),
  });
  return [
    ...(ended === 0 ? [] : cutsOf(stderr, random).map(words)),
    ...cuts.map(at => cut(at, 0)),
    ...cuts.map(at => cut(at, 1)),
    ...(stdout === "" ? [] : [{ name: "doubled", spoilt: doubled }]),
    { name: "that of the step before", spoilt: (output, before) => ({ ...output, stdout: before?.stdout ?? "" }) },
  ];
}

/** Commands with what changes from run to run taken out. */
const gist = ({ argv }: Command): string => argv.join(" ").replaceAll(/\/proc\/\d+\/|[0-9a-f]{12}\b/g, "*");

interface Step {
  readonly command: string;
  readonly output: Output;
}

/** What a fuzz of truncation is about. */
export interface Truncated<T> {
  /** The machine as it is: what its programs print is spoilt. */
  readonly runner: CommandRunner;
  /** The program whose output counts; all others run as they are. */
  readonly isTool: (command: Command) => boolean;
  /** Whether a command of the tool makes, changes or destroys something. */
  readonly changes: (command: Command) => boolean;
  /** One operation of a new driver on this runner. It leaves the machine so that it can be repeated. */
  readonly work: (runner: CommandRunner) => Promise<T>;
  readonly random?: number;
}

/** What an operation came to. */
type Outcome<T> = { readonly answer: T } | { readonly error: unknown };

const outcomeOf = <T>(work: Promise<T>): Promise<Outcome<T>> =>
  work.then(
    answer => ({ answer }),
    (error: unknown) => ({ error }),
  );

/** Whether an operation on spoilt output may end so, where it ended as `whole` on the whole output. */
const isRight = <T>(outcome: Outcome<T>, whole: Outcome<T>): boolean =>
  "error" in outcome || ("answer" in whole && isDeepStrictEqual(outcome.answer, whole.answer));

/** Runs the operation as it is; answers what it came to and what the tool printed. */
async function recorded<T>({ runner, isTool, work }: Truncated<T>) {
  const steps: Step[] = [];
  const run: CommandRunner["run"] = async (command, signal) => {
    const output = await runner.run(command, signal);
    if (isTool(command)) steps.push({ command: gist(command), output });
    return output;
  };
  return { whole: await outcomeOf(work({ ...runner, run })), steps };
}

/** A runner on which the tool prints what it printed before, except in one step. */
function replaying<T>({ runner, isTool, changes }: Truncated<T>, steps: readonly Step[], at: number, spoil: Spoil) {
  const changed: string[] = [];
  const used = new Set<number>();
  let reached = false;
  const answer = (command: string): Output => {
    const same = [...steps.keys()].filter(index => steps[index]?.command === command);
    const index = same.find(each => !used.has(each)) ?? same.at(-1);
    const step = index === undefined ? undefined : steps[index];
    if (index === undefined || !step) return { exitCode: 1, stdout: "", stderr: "it did not run before" };
    const first = !used.has(index);
    used.add(index);
    if (index !== at || !first) return step.output;
    reached = true;
    return spoil.spoilt(step.output, steps[index - 1]?.output);
  };
  const run: CommandRunner["run"] = async (command, signal) => {
    if (!isTool(command)) return await runner.run(command, signal);
    const output = answer(gist(command));
    if (changes(command)) changed.push(gist(command));
    return output;
  };
  return { runner: { ...runner, run }, changed, reached: () => reached };
}

/**
 * Runs one operation with every output of every step spoilt in every way. It may fail; when it succeeds, its answer is that of the whole
 * outputs, and it never changes what it would not have changed with them. Answers how many runs there were.
 */
export async function truncation<T>(fuzz: Truncated<T>): Promise<number> {
  const { whole, steps } = await recorded(fuzz);
  const tool = (command: string): boolean => steps.some(step => step.command === command);
  let runs = 0;
  const wrong: string[] = [];
  for (const [at, { command, output }] of steps.entries()) {
    for (const spoil of spoilsOf(output, fuzz.random)) {
      const replay = replaying(fuzz, steps, at, spoil);
      const outcome = await outcomeOf(fuzz.work(replay.runner));
      runs++;
      const what = `${command}: ${spoil.name}`;
      if (!replay.reached()) wrong.push(`${what}: the step was not reached`);
      if (!isRight(outcome, whole)) wrong.push(`${what}: another answer`);
      for (const each of replay.changed.filter(change => !tool(change))) wrong.push(`${what}: ran ${each}`);
    }
  }
  expect(wrong.slice(0, 20)).toEqual([]);
  expect(runs).toBeGreaterThan(0);
  return runs;
}

/** What becomes of the text of an answer over HTTP. */
export interface Mangling {
  readonly name: string;
  mangled(text: string): string;
}

/** An answer cut, empty or doubled, or in its place one of `others`: answers to other requests. */
export function manglings(text: string, others: readonly string[], random = 50): readonly Mangling[] {
  return [
    ...cutsOf(text, random).map(at => ({ name: `cut at ${at} of ${text.length}`, mangled: () => text.slice(0, at) })),
    { name: "doubled", mangled: () => text.repeat(2) },
    ...others.map(other => ({ name: `instead: ${other.slice(0, 60)}`, mangled: () => other })),
  ];
}
