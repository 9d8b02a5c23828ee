import { basename } from "node:path";
import type { CommandObserver } from "../core/observer.ts";
import { CommandError, type CommandRunner } from "./runner.ts";
import type { OutputOf, StorageHost } from "./script.ts";

/** Programs that only start another one; each may be followed by flags and settings. */
const starters: ReadonlySet<string> = new Set(["sudo", "doas", "env", "chroot", "nsenter", "nice", "ionice"]);

/** The actual program of an argv, without its folder: `sudo -n /sbin/zfs list` is "zfs". */
export function programOf(argv: readonly (string | OutputOf)[]): string {
  const words = argv.filter(word => typeof word === "string");
  const named = words.map(word => basename(word));
  let at = 0;
  while (starters.has(named[at] ?? "") && at + 1 < words.length) {
    const starter = named[at];
    at++;
    while (/^-|^\w+=/.test(words[at] ?? "") && at + 1 < words.length) at++;
    // The root folder precedes the program (chroot(8)).
    if (starter === "chroot" && at + 1 < words.length) at++;
  }
  return named[at] ?? "";
}

/** The same runner; reports the end of each command to `tell`. */
export const measured = (runner: CommandRunner, tell: CommandObserver): CommandRunner => ({
  ...runner,
  where: runner.where,
  run: (command, signal) =>
    timed(runner.where, programOf(command.argv), tell, async () => {
      const output = await runner.run(command, signal);
      return { result: output, outcome: output.exitCode === 0 ? "ok" : "exit" };
    }),
});

/** The same host; a script is sent as a whole and reported as one command, under the name of its first program. */
export const measuredHost = (host: StorageHost, tell: CommandObserver): StorageHost => ({
  ...host,
  runner: measured(host.runner, tell),
  script: (script, signal) =>
    timed(host.runner.where, programOf(script.steps[0].argv), tell, async () => {
      const outputs = await host.script(script, signal);
      const failed = [...outputs.values()].some(({ exitCode }) => exitCode !== 0);
      return { result: outputs, outcome: failed ? "exit" : "ok" };
    }),
});

async function timed<T>(
  where: string,
  program: string,
  tell: CommandObserver,
  work: () => Promise<{ readonly result: T; readonly outcome: string }>,
): Promise<T> {
  const from = performance.now();
  const end = (outcome: string) => tell({ where, program, outcome, seconds: (performance.now() - from) / 1000 });
  try {
    const { result, outcome } = await work();
    end(outcome);
    return result;
  } catch (error) {
    end(error instanceof CommandError ? error.failure : "error");
    throw error;
  }
}
