import type { Call } from "../../core/call.ts";
import { CsiError } from "../../core/errors.ts";
import { type CommandRunner, unlimitedMs } from "../../io/runner.ts";

/** The most paths that are compared. */
const most = 1_000;

/** Printed before all paths, which begin with ".", if every program of the pipeline has done its work to the end. */
const complete = ["-ALL", "-all"] as const;

/**
 * Prints the paths in the folder $1, at most $2, of which another one differs only in capitals of ASCII. The exit code is that of head(1) alone.
 * The programs are those of GNU: what disappears meanwhile is not an error (find(1), -ignore_readdir_race).
 */
const text = `cd "$1" && { find . -ignore_readdir_race -print0 && printf '%s\\0' ${complete.join(" ")}; } | sort -zf | uniq -ziD | head -zn "$2"`;

async function likeNames(runner: CommandRunner, folder: string, call: Call): Promise<readonly string[]> {
  const argv = ["sh", "-c", text, "sh", folder, String(most + complete.length)] as const;
  const command = { argv, env: { LC_ALL: "C" }, timeoutMs: unlimitedMs, maxBytes: 8 << 20 };
  const { stdout, stderr } = await runner.run(command, call.signal);
  const [upper, lower, ...paths] = stdout.split("\0");
  if (upper === complete[0] && lower === complete[1]) return paths.filter(path => path !== "");
  call.log.warn("the names of the files of a copy cannot be compared", { folder, stderr });
  throw new CsiError("unavailable", "the names of the files cannot be listed to the end; retrying");
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
