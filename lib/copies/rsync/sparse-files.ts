import type { Call } from "../../core/call.ts";
import type { ReadableTree } from "../../drivers/copying.ts";
import type { Argv } from "../../io/runner.ts";
import type { ComparedFiles } from "./unchanged-files.ts";

/** A tree, and the folder into which it is copied. */
interface TreeCopy {
  readonly tree: ReadableTree;
  readonly folder: string;
}

/** Files of more bytes than this are checked for holes before rsync copies them, which reads holes like data. */
export const largeBytes = 64n << 20n;

/** The most files that are copied apart from rsync, which compares each name of the tree with all of theirs. */
const mostFiles = 1_000;

/** The most bytes of names in one command line: less than Linux's limit of 2 MiB (execve(2)). */
const mostNameBytes = 128 << 10;

/** What rsync prints about a file that is larger than --max-size, with `--info=skip1` (rsync 3.5.0, generator.c). */
const over = /^(.+) is over max-size$/;

/**
 * The path of a file that rsync has skipped for its size, from a line that it printed with LC_ALL=C. Undefined for other lines, and for names
 * that are not UTF-8, which cannot be passed to a program.
 */
export function skippedFile(line: string): string | undefined {
  const name = over.exec(line)?.[1];
  if (name === undefined) return undefined;
  // In the C locale it prints every other byte as \#ooo (rsync(1), --8-bit-output).
  const bytes = name.replace(/\\#([0-7]{3})/g, (_, octal: string) => String.fromCharCode(Number.parseInt(octal, 8)));
  try {
    return new TextDecoder("utf-8", { fatal: true, ignoreBOM: true }).decode(Buffer.from(bytes, "latin1"));
  } catch {
    return undefined;
  }
}

/** The rule that excludes exactly this path of the tree (rsync(1), "PATTERN MATCHING RULES": a backslash escapes only if there is a wildcard). */
export const exclusion = (path: string): string =>
  `- /${/[*?[]/.test(path) ? path.replace(/[\\*?[]/g, each => `\\${each}`) : path}`;

interface FileFacts {
  readonly isFile: boolean;
  readonly allocated: bigint;
  readonly bytes: bigint;
  readonly modified: string;
}

/** `paths` in parts whose names fit into a command line. */
function* parts(paths: readonly string[]): Generator<readonly string[]> {
  let part: string[] = [];
  let bytes = 0;
  for (const path of paths) {
    const more = Buffer.byteLength(path) + 1;
    if (part.length > 0 && bytes + more > mostNameBytes) {
      yield part;
      [part, bytes] = [[], 0];
    }
    part.push(path);
    bytes += more;
  }
  if (part.length > 0) yield part;
}

/** What stat(1) says about these paths below a folder; missing ones are omitted. */
async function factsOf({ tree }: TreeCopy, folder: string, paths: readonly string[], call: Call) {
  const found = new Map<string, FileFacts>();
  for (const part of parts(paths)) {
    const argv: Argv = ["env", "-C", folder, "stat", "--printf=%f %b %B %s %.9Y %n\\0", "--", ...part];
    const { stdout } = await tree.runner.run({ argv, maxBytes: 4 << 20 }, call.signal);
    for (const line of stdout.split("\0")) {
      const fields = /^([0-9a-f]+) (\d+) (\d+) (\d+) (\S+) (.+)$/s.exec(line);
      if (!fields) continue;
      const [, mode = "", blocks = "0", unit = "0", bytes = "0", modified = "", path = ""] = fields;
      const isFile = (Number.parseInt(mode, 16) & 0o170000) === 0o100000;
      found.set(path, { isFile, allocated: BigInt(blocks) * BigInt(unit), bytes: BigInt(bytes), modified });
    }
  }
  return found;
}

/**
 * Copies the files among `paths` that are mostly holes, with cp(1), which asks for holes instead of reading them (lseek(2), SEEK_DATA; NFS
 * from version 4.2). Returns them; their content needs no rsync then, but owners, modes, attributes and hard links do. A file that cp cannot
 * copy is one that rsync copies, or reports. `run` runs cp without a time limit. `again`: files that are copied although they have their final
 * size and time.
 */
export async function copySparse(
  work: TreeCopy,
  paths: readonly string[],
  again: ComparedFiles,
  run: (argv: Argv) => Promise<unknown>,
  call: Call,
): Promise<readonly string[]> {
  const { tree, folder } = work;
  const found = await factsOf(work, tree.path, paths, call);
  const holes = ([, { bytes, allocated }]: readonly [string, FileFacts]) => bytes - allocated;
  const sparse = [...found]
    .filter(([, { isFile, bytes, allocated }]) => isFile && allocated < bytes / 2n)
    .sort((a, b) => (holes(b) > holes(a) ? 1 : -1))
    .slice(0, mostFiles)
    .map(([path]) => path);
  const isSame = (a: FileFacts | undefined, b: FileFacts | undefined) =>
    a?.bytes === b?.bytes && a?.modified === b?.modified;
  const present = await factsOf(work, folder, sparse, call);
  const named = new Set(again === "all" ? sparse : again);
  const wanted = sparse.filter(path => named.has(path) || !isSame(found.get(path), present.get(path)));
  // A link or file that an earlier copy has left is replaced and never written through. The time is that from before the first byte.
  for (const part of parts(wanted))
    await run([
      ...(["env", "-C", tree.path, "cp", "--parents", "--no-dereference", "--preserve=timestamps"] as const),
      ...["--sparse=always", "--reflink=never", "--remove-destination", `--target-directory=${folder}`, "--", ...part],
    ]);
  const copied = await factsOf(work, folder, sparse, call);
  return sparse.filter(path => isSame(found.get(path), copied.get(path)));
}
