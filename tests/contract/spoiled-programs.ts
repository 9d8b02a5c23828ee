import type { CommandRunner } from "../../lib/io/runner.ts";
import { everything, seed } from "../sample.ts";
import { type Answer, type Harm, harmsOf, type Spoiler } from "./spoiled-answers.ts";
import { cutsOf } from "./truncation.ts";

/** What a program printed, with its exit code. */
export interface Printed extends Answer {
  readonly stderr: string;
}

/** An error of which words are lost says less than there is to say: what it leaves open is not to be taken for done. */
function harmsOfWords({ stderr }: Printed, random: number): readonly Harm<Printed>[] {
  const cut = (at: number): Harm<Printed> => ({
    title: `its words cut after ${at} of ${stderr.length} bytes`,
    spoil: answer => ({ ...answer, stderr: answer.stderr.slice(0, at), code: answer.code || 1 }),
  });
  if (stderr === "") return [];
  const mute: Harm<Printed> = {
    title: "empty, without a word, exit code 1",
    spoil: answer => ({ ...answer, text: "", stderr: "", code: answer.code || 1 }),
  };
  return [mute, ...cutsOf(stderr, random, 4).map(cut)];
}

/** All ways in which the output of a program is spoiled; `random`: as in cutsOf(). */
export const harmsOfPrinted = (answer: Printed, random: number): readonly Harm<Printed>[] => [
  ...harmsOf(answer, random),
  ...harmsOfWords(answer, random),
];

/** A machine between whose programs and csimux something loses output: sudo, a wrapper, the login shell. */
export const spoiledRunner = (runner: CommandRunner, spoiler: Spoiler<Printed>): CommandRunner => ({
  ...runner,
  where: runner.where,
  async run(command, signal) {
    const { stdout, exitCode, stderr } = await runner.run(command, signal);
    const spoiled = spoiler.answer({ text: stdout, code: exitCode, stderr });
    return { stdout: spoiled.text, exitCode: spoiled.code, stderr: spoiled.stderr };
  },
});

/** How thoroughly each operation is tested (see expectTruthful()). `most`: the number of ways, if a sample is drawn. */
export const effortOf = (most: number) => (everything ? { random: 50 } : { random: 8, most, seed });
