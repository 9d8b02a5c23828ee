import type { Call } from "../../core/call.ts";
import { CsiError } from "../../core/errors.ts";
import type { ReadableTree } from "../../drivers/copying.ts";
import { type Argv, complaint, ignoreMissing, notFoundExit, type Output, unlimitedMs } from "../../io/runner.ts";
import { refuseMerged } from "./capitals.ts";
import { isWhole, type TreeTypes, typesOf } from "./file-system-type.ts";
import { copySparse, exclusion, largeBytes, skippedFile } from "./sparse-files.ts";
import type { ComparedFiles } from "./unchanged-files.ts";

/** The parameters of `copyFiles`: a tree, and the target into which it is copied. */
export interface FilesWork {
  readonly tree: ReadableTree;
  /** The absolute path of the target's folder. It may contain what an earlier run has copied; nothing else writes to it. */
  readonly folder: string;
  /** Whether the tree does not change while it is copied. */
  readonly stable: boolean;
  /** Whether nothing should write to the tree any more, so that the copy must equal it like that of a stable one. */
  readonly stopped?: boolean | undefined;
  /**
   * The files whose existing content is compared by checksum instead of by size and time. All, if another process has written it: after a loss
   * of power, files that have their final size and time may lack content.
   */
  readonly compare?: ComparedFiles | undefined;
  /** Gets the bytes that the present run of rsync has copied. */
  progress(bytes: bigint): void;
  /** Called when files are complete. */
  copied?: (() => void) | undefined;
}

/**
 * The kernel kills rsync when this process ends for any reason, so that nothing writes into a target without a holder (setpriv(1)).
 * Its other processes end a moment later, when the pipe to that one does.
 */
const withThisProcess = ["setpriv", "--pdeathsig", "KILL"] as const;

/** Magic numbers of the file systems of SMB shares (statfs(2)), in which owners, modes, ACLs and attributes come from mount options. */
const smbTypes: ReadonlySet<string> = new Set(["517b", "ff534d42", "fe534d42"]);

/** File systems that keep times less precisely than Linux: those of SMB shares in 100 ns, Lustre's in seconds. */
const coarseTypes: ReadonlySet<string> = new Set([...smbTypes, "bd00bd0"]);

/** How often a stable tree is copied until the copy equals it. The second time restores what folders lost in a loss of power. */
const times = 2;

/** Compares times by nanoseconds (rsync(1), --modify-window). */
const exactTimes = "--modify-window=-1";

/** Compares content instead of size and time (rsync(1), --checksum). */
const byContent = "--checksum";

/** The beginning of rsync's message about a device node, which is not copied (rsync(1), --no-devices). */
const omitted = 'skipping non-regular file "';

/** Some files of the source vanished before they were transferred (rsync(1), "EXIT VALUES"). */
const vanished = 24;

/**
 * Copies a tree into a folder with rsync: content, holes, hard links, times, and, except to SMB, owners, modes, ACLs and extended
 * attributes. Removes what is not in the tree. A repetition skips the files that are complete. A stable or stopped tree is then compared with
 * its copy, which must be equal. Omits device nodes, and logs their number. Throws "failed-precondition" without rsync, "invalid-argument" for a path
 * that no repetition copies, and "unavailable" for every other failure, after which the folder keeps its progress; the message names the first path that rsync reports.
 */
export async function copyFiles(work: FilesWork, call: Call): Promise<void> {
  const types = await typesOf(work.tree, work.folder, call);
  const flags = flagsFor(work, types);
  let compare = work.compare ?? [];
  for (let time = 1; ; time++) {
    await copyOnce(work, flags, compare, call);
    if (smbTypes.has(types.target)) await refuseMerged(work.tree.runner, work.tree.path, work.folder, call);
    if (!work.stable && !work.stopped) return;
    const difference = await firstDifference(work, flags, call);
    if (difference === undefined) return;
    if (time < times) {
      compare = [];
      continue;
    }
    const text = `the copy differs from its source, first at ${JSON.stringify(difference.slice(0, 200))}; see the log; retrying`;
    throw new CsiError("unavailable", text);
  }
}

/** Copies everything but large files first; of those, the ones that are mostly holes apart from rsync, which would read the holes. */
async function copyOnce(work: FilesWork, flags: readonly string[], compare: ComparedFiles, call: Call): Promise<void> {
  const large: string[] = [];
  let isComplete = true;
  const skipped = (line: string): void => {
    if (!line.endsWith(" is over max-size")) return;
    isComplete = false;
    const path = skippedFile(line);
    if (path !== undefined) large.push(path);
  };
  // With --checksum, rsync would read the large files, too.
  const first = [...flags, `--max-size=${largeBytes}`, "--info=skip1"];
  const total = await transfer(work, 0n, first, call, { skipped });
  if (isComplete && compare.length === 0) return;
  const run = (argv: Argv) =>
    work.tree.runner.run({ argv: [...withThisProcess, ...argv], timeoutMs: unlimitedMs }, call.signal);
  const sparse = await copySparse(work, large, compare, run, call);
  // Their content is there; their owners, modes, attributes and links are not. The last run sets the times of the folders.
  const missing = work.stable ? [] : ["--ignore-missing-args"];
  const named = [...flags.filter(flag => flag !== "--delete"), ...missing, "--force", "--from0", "--files-from=-"];
  if (sparse.length > 0)
    await transfer(work, total, [...named, "--size-only", "--no-times"], call, { stdin: asNames(sparse) });
  const apart = new Set(sparse);
  const compared = compare === "all" ? [] : compare.filter(path => !apart.has(path));
  if (compared.length > 0) await transfer(work, total, [...named, byContent], call, { stdin: asNames(compared) });
  const others = [...flags, ...(compare === "all" ? [byContent] : []), "--from0", "--exclude-from=-"];
  await transfer(work, total, others, call, { stdin: nulls(sparse.map(exclusion)) });
}

/** Paths for --files-from, which takes lines that begin with "#" or ";" for comments. */
const asNames = (paths: readonly string[]): string => nulls(paths.map(path => `./${path}`));

const nulls = (texts: readonly string[]): string => texts.map(text => `${text}\0`).join("");

/** Runs rsync, which reports its progress from `before` bytes on. Returns the bytes then. */
async function transfer(
  work: FilesWork,
  before: bigint,
  flags: readonly string[],
  call: Call,
  { skipped, stdin = "" }: { readonly skipped?: (line: string) => void; readonly stdin?: string },
): Promise<bigint> {
  let devices = 0;
  let done = before;
  const lines = new LineSplitter(line => {
    if (line.startsWith(omitted)) devices++;
    skipped?.(line);
    const [, bytes] = /^ *(\d+) +\d+% /.exec(line) ?? [];
    if (bytes === undefined) return;
    // At the end of each file it adds how many it has transferred.
    if (/\(xfr#[1-9]/.test(line)) work.copied?.();
    done = before + BigInt(bytes);
    work.progress(done);
  });
  const words = ["--no-human-readable", "--info=progress2,nonreg1", "--outbuf=L"];
  const output = await rsync(work, [...flags, ...words], lines, call, stdin);
  if (output.exitCode !== 0 && (output.exitCode !== vanished || work.stable)) throw copyFailure(output);
  if (devices > 0 && skipped) call.log.warn("device nodes are not copied", { devices });
  return done;
}

/** The first line that rsync prints about what it would change; undefined if nothing. */
async function firstDifference(work: FilesWork, flags: readonly string[], call: Call): Promise<string | undefined> {
  let first: string | undefined;
  const lines = new LineSplitter(line => {
    if (line !== "" && !line.startsWith(omitted)) first ??= line;
  });
  // Only some of the file systems that round times are known (coarseTypes).
  const words = [...flags.filter(flag => flag !== exactTimes), "--dry-run", "--itemize-changes"];
  const output = await rsync(work, words, lines, call);
  if (output.exitCode !== 0) throw copyFailure(output);
  return first;
}

async function rsync(
  { tree, folder }: FilesWork,
  words: readonly string[],
  lines: LineSplitter,
  call: Call,
  stdin = "",
): Promise<Output> {
  const argv: Argv = [...withThisProcess, "rsync", ...words, "--", `${tree.path}/`, `${folder}/`];
  try {
    const onOutput = (chunk: Uint8Array) => lines.add(chunk);
    // In the C locale it prints names in a way that can be read back.
    const command = { argv, stdin, env: { LC_ALL: "C" }, timeoutMs: unlimitedMs, onOutput };
    const output = await tree.runner.run(command, call.signal);
    lines.end();
    if (output.exitCode !== notFoundExit) return output;
  } catch (error) {
    ignoreMissing(error);
  }
  const text = "rsync or setpriv (util-linux), which copy files, is not installed; install both where csimux runs";
  throw new CsiError("failed-precondition", text);
}

function flagsFor({ stable }: FilesWork, { tree: from, target: type }: TreeTypes): readonly string[] {
  const kept = smbTypes.has(type) ? ["-rltH", "--specials"] : ["-aHAX", "--numeric-ids"];
  // By default rsync compares times by whole seconds, and a file may change twice in one.
  const times = stable && coarseTypes.has(type) ? [] : [exactTimes];
  const within = isWhole(from) ? [] : ["--one-file-system"];
  return [...kept, "--sparse", "--delete", "--no-devices", ...within, ...times];
}

/** What rsync reports for causes that a person can correct, and the correction. */
const advice: readonly (readonly [RegExp, string])[] = [
  [/No space left on device|Disk quota exceeded/, "make room on the target"],
  [
    /Permission denied|Operation not permitted/,
    "let root of the machine of csimux read and write it (NFS: no_root_squash)",
  ],
  [/Operation not supported/, "the target does not support this attribute or type of file; remove it from the source"],
  [/Read-only file system/, "mount the target writable"],
];

/** What rsync reports about paths that no repetition copies, and why: longer than PATH_MAX (rsync 3.5.0, flist.c), or than the target keeps. */
const uncopyable: readonly (readonly [RegExp, string])[] = [
  [/^filename overflows max-path len by \d+: (.+)/, "it has more than 4096 bytes, and rsync copies none so long"],
  [/^rsync: .*"(.+)" failed: File name too long/, "the target keeps no name so long"],
];

/** The longest part of a path that a message shows, in characters. */
const shown = 200;

/** Prefers the first message that names a path: rsync's last line is only a summary. */
function copyFailure(output: Output): CsiError {
  const lines = output.stderr.split("\n").filter(line => line !== "");
  for (const [shape, why] of uncopyable) {
    const path = lines.flatMap(line => shape.exec(line)?.[1] ?? []).at(0);
    if (path === undefined) continue;
    const name = JSON.stringify(path.length > shown ? `${path.slice(0, shown)}...` : path);
    const text = `the source has a path that cannot be copied, ${name}: ${why}; shorten it in the source or remove it`;
    return new CsiError("invalid-argument", text, { cause: new Error(output.stderr.slice(-2000)) });
  }
  const first = lines.find(line => line.includes('"')) ?? complaint(output);
  const what = output.exitCode === vanished ? "files of the source vanished" : first.slice(0, 300) || "no reason given";
  const fix = advice.find(([shape]) => shape.test(first))?.[1] ?? "retrying";
  return new CsiError("unavailable", `rsync ended with ${output.exitCode}: ${what}; ${fix}`, {
    cause: new Error(output.stderr.slice(-2000)),
  });
}

/**
 * The longest line that is kept, in characters; the rest of a longer one is dropped. Larger than what rsync prints about the longest path (PATH_MAX,
 * 4096 bytes), of which it shows each byte beyond ASCII as five characters.
 */
const longest = 24_000;

/**
 * Splits the output of a program into lines. Of lines that replace each other by carriage returns (rsync writes its progress so, for each
 * file), only the last one of each chunk is passed on.
 */
export class LineSplitter {
  readonly #decoder = new TextDecoder();
  readonly #line: (line: string) => void;
  #rest = "";

  /** `line` gets each line without its end. */
  constructor(line: (line: string) => void) {
    this.#line = line;
  }

  add(chunk: Uint8Array): void {
    const lines = (this.#rest + this.#decoder.decode(chunk, { stream: true })).split("\n");
    const rest = lines.pop() ?? "";
    for (const line of lines) this.#line(line.slice(line.lastIndexOf("\r") + 1));
    const end = rest.lastIndexOf("\r");
    if (end >= 0) this.#line(rest.slice(rest.lastIndexOf("\r", end - 1) + 1, end));
    this.#rest = rest.slice(end + 1, end + 1 + longest);
  }

  /** Ends the output: passes on a last line without a line break. */
  end(): void {
    if (this.#rest !== "") this.#line(this.#rest);
    this.#rest = "";
  }
}
