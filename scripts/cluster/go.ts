import { basename } from "node:path";
import { say } from "../say.ts";
import { type Spawned, type SpawnOptions, spawned } from "../spawned.ts";

/** How a program of tests is built with `go build` and `go install`. */
export const goFlags = ["-p", process.env["JOBS"] || "2", "-trimpath", "-ldflags=-s -w"] as const;

/** Between two lines about a program of Go that still runs, in milliseconds: the largest ones compile for a quarter of an hour. */
const stillMs = 60_000;

async function told(argv: readonly [string, ...string[]], options: SpawnOptions): Promise<Spawned> {
  const began = performance.now();
  const timer = setInterval(() => {
    const minutes = Math.round((performance.now() - began) / 60_000);
    say(`still at ${argv[0]} ${argv[1]} ${basename(argv.at(-1) ?? "")}: ${minutes} min`);
  }, stillMs);
  return spawned(argv, options).finally(() => clearInterval(timer));
}

const usual = { CGO_ENABLED: "0", GOTOOLCHAIN: "local" };

/** Runs go, or git for its sources, for half an hour at most; returns the output. Throws with the last line of the errors. */
export async function runGo(
  argv: readonly [string, ...string[]],
  cwd: string,
  more: Readonly<Record<string, string>> = {},
): Promise<string> {
  const env = { ...usual, GOFLAGS: "-buildvcs=false", ...more };
  const { code, stdout, stderr } = await told(argv, { cwd, env, timeoutMs: 1_800_000 });
  if (code !== 0) throw new Error(stderr.trim().split("\n").at(-1));
  return stdout;
}

/** Runs go in the folder of a module that it may change, for three hours at most; returns the output. Throws with the end of its error output. */
export async function goInModule(cwd: string, args: readonly string[], modfile?: string): Promise<string> {
  const flags = ["-mod=mod", "-buildvcs=false", ...(modfile ? [`-modfile=${modfile}`] : [])];
  const env = { ...usual, GOFLAGS: flags.join(" ") };
  const { code, stdout, stderr } = await told(["go", ...args], { cwd, env, timeoutMs: 3 * 3_600_000 });
  if (code !== 0) throw new Error(`go ${args[0]}: ${stderr.slice(-3000)}`);
  return stdout;
}
