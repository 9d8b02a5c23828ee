import { CsiError } from "../core/errors.ts";
import { Semaphore, semaphores } from "../core/semaphore.ts";
import { type Argv, CommandError, type CommandRunner, type Output } from "./runner.ts";
import { memoizeByKey, type Outputs, type Script, type Step, type StorageHost, scriptTimeoutMs } from "./script.ts";

/** The number of concurrent scripts: more would only wait for each other in the kernel. */
const scriptsAtOnce = 4;

/** This machine as a storage host. The steps of a script run one after another, without a shell. */
export function localHost(runner: CommandRunner): StorageHost {
  const slots = new Semaphore(scriptsAtOnce);
  const long = new Semaphore(scriptsAtOnce);
  const turns = semaphores(1);
  return {
    runner,
    script: (script, signal) =>
      (script.long ? long : slots)
        .run(() => runSteps(runner, script, signal), signal)
        .catch((cause: unknown) => {
          if (!(cause instanceof CsiError)) throw cause;
          const reason = "not started, because the call has ended";
          throw new CommandError(runner.where, script.steps[0].argv[0], "cancelled", reason, { cause });
        }),
    exclusive: (tool, signal, work) => turns(tool).run(work, signal),
    shared: memoizeByKey(),
    ...(runner.child && { child: runner.child }),
  };
}

async function runSteps(runner: CommandRunner, script: Script, signal: AbortSignal): Promise<Outputs> {
  const end = performance.now() + (script.timeoutMs ?? scriptTimeoutMs);
  const outputs = new Map<string, Output>();
  for (const step of script.steps) {
    const { name, argv: _, onFailure, onlyAfter, unless, ...rest } = step;
    if (onlyAfter !== undefined && outputs.get(onlyAfter)?.exitCode !== 0) continue;
    if (unless !== undefined && outputs.get(unless)?.exitCode === 0) continue;
    const argv = words(step, outputs);
    const timeoutMs = Math.max(0, Math.round(end - performance.now()));
    if (timeoutMs === 0)
      throw new CommandError(runner.where, argv[0], "timeout", "not started: the time limit has passed");
    const output = await runner.run({ ...rest, argv, timeoutMs }, signal);
    outputs.set(name, output);
    if (output.exitCode !== 0 && onFailure !== "go-on") break;
  }
  return outputs;
}

/** The words of a step, with references to earlier outputs resolved. */
function words({ argv: [program, ...rest] }: Step, outputs: Outputs): Argv {
  const resolved = rest.map(word =>
    typeof word === "string" ? word : (outputs.get(word.outputOf)?.stdout ?? "").replace(/\n+$/, ""),
  );
  return [program, ...resolved];
}
