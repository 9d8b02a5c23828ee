import { Capture } from "./capture.ts";
import { startProcess } from "./long-running-process.ts";
import { type Argv, type BackgroundProcess, CommandError, type CommandFailure } from "./runner.ts";

/** The time limit for the program to return the first line, in milliseconds. */
const answerMs = 30_000;

/** Like CommandRunner.hold, with `env` as the program's complete environment. */
export async function hold(
  argv: Argv,
  env: Readonly<Record<string, string>>,
  signal: AbortSignal,
): Promise<BackgroundProcess> {
  const failed = (failure: CommandFailure, reason: string) => new CommandError("local", argv[0], failure, reason);
  if (signal.aborted) throw failed("cancelled", "not started, because the call has ended");
  const first = Promise.withResolvers<CommandError | undefined>();
  const words = new Capture();
  const stderr = (chunk: Uint8Array) => words.add(chunk);
  const { pid, write, kill, ended } = startProcess(argv, env, { stdout: () => first.resolve(undefined), stderr });
  const release = async (): Promise<void> => {
    kill();
    await ended;
  };
  const early = (end: string) => failed(pid ? "denied" : "missing", `${end}: ${words.text().trim()}`);
  void ended.then(end => first.resolve(early(end)));
  const cancel = () => first.resolve(failed("cancelled", "ended, because the call has ended"));
  const limit = setTimeout(() => first.resolve(failed("timeout", `no answer within ${answerMs} ms`)), answerMs);
  signal.addEventListener("abort", cancel, { once: true });
  write("\n");
  const error = await first.promise;
  clearTimeout(limit);
  signal.removeEventListener("abort", cancel);
  if (error === undefined && pid !== undefined) return { pid, release };
  await release();
  throw error;
}
