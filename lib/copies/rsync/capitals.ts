import type { Call } from "../../core/call.ts";
import { CsiError } from "../../core/errors.ts";
import type { CommandRunner } from "../../io/runner.ts";
import { unlimitedMs } from "../../io/runner.ts";

/** The most paths that are compared. */
const most = 1_000;

/** Prints the paths in the folder $1, at most $2, of which another one differs only in capitals of ASCII. */
const text = 'cd "$1" && find . -print0 | sort -zf | uniq -ziD | head -zn "$2"';

async function likeNames(runner: CommandRunner, folder: string, call: Call): Promise<readonly string[]> {
  const argv = ["sh", "-c", text, "sh", folder, String(most)] as const;
  const command = { argv, env: { LC_ALL: "C" }, timeoutMs: unlimitedMs, maxBytes: 8 << 20 };
  return (await runner.run(command, call.signal)).stdout.split("\0").filter(path => path !== "");
}

/**
 * Throws "unavailable" if a copy lacks a name of its tree that differs from another one only in capitals: most servers of SMB take both for one
 * file, which then has the content of either, and no program reports that. A file of the tree that is new since the copy counts, too; the next attempt
 * copies it.
 */
export async function refuseMerged(runner: CommandRunner, tree: string, copy: string, call: Call): Promise<void> {
  const wanted = await likeNames(runner, tree, call);
  if (wanted.length === 0) return;
  const found = new Set(await likeNames(runner, copy, call));
  const merged = wanted.find(path => !found.has(path));
  if (merged === undefined) return;
  const others = wanted.filter(path => path.toLowerCase() === merged.toLowerCase());
  const names = others.map(path => JSON.stringify(path.slice(2, 202))).join(" and ");
  const fix = "rename all but one of them in the source; retrying";
  throw new CsiError(
    "unavailable",
    `the target does not tell capitals from small letters, and has one of ${names}; ${fix}`,
  );
}
