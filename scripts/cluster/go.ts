import { spawned } from "../spawned.ts";

/** How a program of tests is built with `go build` and `go install`. */
export const goFlags = ["-p", process.env["JOBS"] || "2", "-trimpath", "-ldflags=-s -w"] as const;

/** Runs go, or git for its sources, for half an hour at most; returns the output. Throws with the last line of the errors. */
export async function runGo(
  argv: readonly [string, ...string[]],
  cwd: string,
  more: Readonly<Record<string, string>> = {},
): Promise<string> {
  const env = { CGO_ENABLED: "0", GOFLAGS: "-buildvcs=false", GOTOOLCHAIN: "local", ...more };
  const { code, stdout, stderr } = await spawned(argv, { cwd, env, timeoutMs: 1_800_000 });
  if (code !== 0) throw new Error(stderr.trim().split("\n").at(-1));
  return stdout;
}
