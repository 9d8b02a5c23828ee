import { chmod, mkdir, readFile, rm, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { parseMountinfo } from "../../lib/core/mountinfo.ts";
import { localRunner } from "../../lib/io/local.ts";
import type { Command, CommandRunner } from "../../lib/io/runner.ts";

/**
 * A mount(8) that mounts a ramfs in place of the shares of servers, under their names: csimux does not know that type and takes
 * it for one that may not answer. It keeps its arguments, its input and what
 * its environment says of passwords. The file "answer" makes it fail with these words; the file "silent" lists words of
 * sources that do not answer.
 */
const script = (folder: string): string => `#!/bin/sh
PATH=/usr/sbin:/usr/bin:/sbin:/bin
case " $* " in
*" -t nfs "*|*" -t nfs4 "*|*" -t cifs "*|*" -t lustre "*|*" -t zfs "*) ;;
*) exec mount "$@" ;;
esac
echo "$*" >> ${folder}/calls
[ -n "$PASSWD_FD" ] && cat <&0 > ${folder}/input
env | grep -i passw > ${folder}/environment
if [ -e ${folder}/silent ]; then
  while read -r word; do case "$*" in *"$word"*) exec sleep 60 ;; esac; done < ${folder}/silent
fi
if [ -e ${folder}/answer ]; then cat ${folder}/answer >&2; exit 32; fi
options=rw
while [ $# -gt 2 ]; do
  case "$1,$2," in -o,ro,*|-o,*,ro,*) options=ro ;; esac
  shift
done
exec mount -n -t ramfs -o "$options" "$1" "$2"
`;

/** A stat(1) with a configurable result. A server that no longer knows what is mounted knows what is mounted afterwards (Linux, fs/nfs/getroot.c). */
const look = (folder: string): string => `#!/bin/sh
PATH=/usr/sbin:/usr/bin:/sbin:/bin
case "$1 $(cat ${folder}/health 2>/dev/null)" in
"-f stale")
  if grep -qx "$(mountpoint -d "$4")" ${folder}/known; then
    echo "stat: cannot read file system information: Stale file handle" >&2
    exit 1
  fi ;;
"-f silent") exec sleep 60 ;;
"-f busy") rm ${folder}/health; echo "stat: cannot read file system information: Resource temporarily unavailable" >&2; exit 1 ;;
esac
exec stat "$@"
`;

/** A folder with the programs, and a runner that finds it first. */
export class MountProgram {
  readonly folder: string;
  readonly runner: CommandRunner;
  #isSilent = false;

  private constructor(folder: string) {
    this.folder = folder;
    const runner = localRunner({ env: { PATH: `${folder}:/usr/sbin:/usr/bin:/sbin:/bin` } });
    // A stat(1) that hangs does so however long one waits: a tenth of csimux's limit shows the same.
    const limited = (command: Command): Command =>
      this.#isSilent && command.argv[0] === "stat" && command.timeoutMs !== undefined
        ? { ...command, timeoutMs: command.timeoutMs / 10 }
        : command;
    this.runner = { ...runner, run: (command, signal) => runner.run(limited(command), signal) };
  }

  static async at(folder: string): Promise<MountProgram> {
    await mkdir(folder);
    await writeFile(join(folder, "mount"), script(folder));
    await writeFile(join(folder, "stat"), look(folder));
    for (const name of ["mount", "stat"]) await chmod(join(folder, name), 0o755);
    return new MountProgram(folder);
  }

  /** From now on every mount of a share fails with these words; undefined ends that. */
  async answer(words: string | undefined): Promise<void> {
    if (words === undefined) await rm(join(this.folder, "answer"), { force: true });
    else await writeFile(join(this.folder, "answer"), `${words}\n`);
  }

  /** What asking a mounted share gives from now on; "busy" once. */
  async health(health: "fine" | "stale" | "silent" | "busy"): Promise<void> {
    const table = parseMountinfo(await readFile("/proc/self/mountinfo", "utf8"));
    const known = table.filter(({ fsType }) => fsType === "ramfs").map(({ device }) => `${device}\n`);
    await writeFile(join(this.folder, "known"), known.join(""));
    await writeFile(join(this.folder, "health"), health);
    this.#isSilent = health === "silent";
  }

  /** From now on a mount whose arguments hold one of these words hangs. */
  async silence(...words: readonly string[]): Promise<void> {
    await writeFile(join(this.folder, "silent"), words.map(word => `${word}\n`).join(""));
  }

  /** The arguments of every mount of a share so far. */
  async calls(): Promise<readonly string[]> {
    return (await this.#kept("calls")).split("\n").filter(line => line !== "");
  }

  /** What the last one got on its stdin. */
  input(): Promise<string> {
    return this.#kept("input");
  }

  /** The lines of its environment that speak of passwords. */
  environment(): Promise<string> {
    return this.#kept("environment");
  }

  #kept(file: string): Promise<string> {
    return readFile(join(this.folder, file), "utf8").catch(() => "");
  }
}
