import { setTimeout as pause } from "node:timers/promises";
import { spawned } from "../../scripts/spawned.ts";

/**
 * Runs a program in the guest and returns its output; throws with its error output if it fails. Two minutes at most: on a busy
 * host an emulated targetcli takes six seconds, and a mount of SMB ten.
 */
export async function run(argv: readonly [string, ...string[]], timeoutMs = 120_000): Promise<string> {
  const { code, stdout, stderr } = await spawned(argv, { cwd: "/", timeoutMs });
  if (code !== 0) throw new Error(`${argv.join(" ")}: code ${code}: ${stderr}${stdout}`);
  return stdout;
}

/** Waits until `look` returns something; throws after `ms`, by default two minutes. */
export async function waitFor<T>(what: string, look: () => Promise<T | undefined>, timeoutMs = 120_000): Promise<T> {
  const until = Date.now() + timeoutMs;
  for (;;) {
    const found = await look();
    if (found !== undefined) return found;
    if (Date.now() > until) throw new Error(`${what}: not seen within ${timeoutMs / 1000} s`);
    await pause(100);
  }
}
