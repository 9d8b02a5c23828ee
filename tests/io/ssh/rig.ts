import { readlinkSync } from "node:fs";
import { join } from "node:path";
import type { Log } from "../../../lib/core/call.ts";
import { CommandError } from "../../../lib/io/runner.ts";
import type { Outputs, Step, StorageHost } from "../../../lib/io/script.ts";
import { SshHosts } from "../../../lib/io/ssh/hosts.ts";
import { pause } from "../../waiting.ts";

/** A signal that is never aborted. */
export const calm = new AbortController().signal;

const root = join(import.meta.dir, "../../..");

/** Hosts as the daemon opens them, and what they warn of. `known`: where the first host keys are kept. */
export function hosts(known?: string): { readonly hosts: SshHosts; readonly warnings: string[] } {
  const warnings: string[] = [];
  const warn = (message: string) => void warnings.push(message);
  const log: Log = { debug: () => {}, info: () => {}, warn, error: warn, with: () => log };
  const env = { PATH: process.env["PATH"] ?? "", HOME: "/root" };
  const askpass = [process.execPath, join(root, "cmd/csimux.ts")];
  return { hosts: new SshHosts({ env, askpass, log, ...(known !== undefined && { known }) }), warnings };
}

/** Runs one command and gives its output. */
export async function ask(host: StorageHost, argv: Step["argv"], signal = calm): Promise<string> {
  return (await host.script({ steps: [{ name: "only", argv }] }, signal)).get("only")?.stdout ?? "";
}

/** The error that a script must end with. */
export async function failed(work: Promise<Outputs | string>): Promise<CommandError> {
  const error = await work.then(
    () => undefined,
    (cause: unknown) => cause,
  );
  if (!(error instanceof CommandError)) throw new Error(`expected a CommandError, got ${String(error)}`);
  return error;
}

/** Waits until something is so. */
export async function until(what: string, holds: () => boolean | Promise<boolean>, limitMs = 30_000): Promise<void> {
  const end = Date.now() + limitMs;
  while (!(await holds())) {
    if (Date.now() > end) throw new Error(`not within ${limitMs} ms: ${what}`);
    await pause(10);
  }
}

/** What a descriptor of this process leads to; empty for one that was closed meanwhile. */
export function leadsTo(descriptor: string): string {
  try {
    return readlinkSync(`/proc/self/fd/${descriptor}`);
  } catch {
    return "";
  }
}
