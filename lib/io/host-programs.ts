import { readdir, readFile, readlink } from "node:fs/promises";
import { join } from "node:path";
import { hostPath } from "../core/host-path.ts";
import type { Argv, CommandRunner } from "./runner.ts";

/** The programs of the host, and where their files are. */
export interface HostPrograms extends CommandRunner {
  /** The folder that is the root of the file system for a program of the host, as csimux sees it. */
  rootOf(program: string): Promise<string>;
}

/** The daemons on whose files and sockets these programs depend. */
const daemonOf: Readonly<Record<string, string>> = { iscsiadm: "iscsid" };

/** A process of the host, by its number there. */
interface HostProcess {
  readonly pid: string;
  /** Its mount namespace, as readlink(2) shows it. */
  readonly namespace: string;
}

const unlessMissing = <T>(work: Promise<T>): Promise<T | undefined> => work.catch(() => undefined);

/**
 * Runs the host's programs in the host's root, which is mounted at `root` with its /proc; paths in the arguments are the host's, and the
 * command keeps its environment except PATH. A program whose daemon has a mount namespace of its own, as the system extensions of Talos have, runs
 * in the namespaces of that daemon: only there are the program and the files that both use. Needs no shell and no other program of the host.
 * Exit code 127: the program does not exist.
 */
export function hostPrograms(runner: CommandRunner, root: string): HostPrograms {
  const proc = join(root, "proc");
  const seen = new Map<string, HostProcess>();

  const isStill = async (name: string, { pid, namespace }: HostProcess): Promise<boolean> =>
    (await commandOf(pid)) === name && (await namespaceOf(pid)) === namespace;

  async function commandOf(pid: string): Promise<string | undefined> {
    return (await unlessMissing(readFile(join(proc, pid, "comm"), "utf8")))?.trimEnd();
  }

  const namespaceOf = (pid: string): Promise<string | undefined> => unlessMissing(readlink(join(proc, pid, "ns/mnt")));

  /** The daemon if it runs, and only outside the mount namespace of the host's first process. */
  async function apart(name: string): Promise<HostProcess | undefined> {
    const before = seen.get(name);
    if (before && (await isStill(name, before))) return before;
    seen.delete(name);
    const host = await namespaceOf("1");
    if (host === undefined) return undefined;
    const pids = ((await unlessMissing(readdir(proc))) ?? [])
      .filter(each => /^\d+$/.test(each))
      .sort((a, b) => Number(a) - Number(b));
    const named = await Promise.all(pids.map(async pid => ((await commandOf(pid)) === name ? pid : undefined)));
    const running = await Promise.all(
      named.map(async pid => {
        const namespace = pid === undefined ? undefined : await namespaceOf(pid);
        return pid === undefined || namespace === undefined ? [] : [{ pid, namespace }];
      }),
    );
    const daemons = running.flat();
    const [found] = daemons;
    if (!found || daemons.some(({ namespace }) => namespace === host)) return undefined;
    seen.set(name, found);
    return found;
  }

  const daemonOfProgram = async (program: string): Promise<HostProcess | undefined> => {
    const daemon = daemonOf[program];
    return daemon === undefined ? undefined : await apart(daemon);
  };

  async function argvOf([program, ...rest]: Argv): Promise<Argv> {
    const daemon = await daemonOfProgram(program);
    // Both starters look for the program in PATH after they have entered (execvp(3)).
    if (!daemon) return ["chroot", root, program, ...rest];
    const namespaces = ["mnt", "net"].map(kind => join(proc, daemon.pid, "ns", kind));
    return ["nsenter", `--mount=${namespaces[0]}`, `--net=${namespaces[1]}`, "--", program, ...rest];
  }

  return {
    where: `${runner.where} on the host`,
    async run({ argv, env, ...rest }, signal) {
      return await runner.run({ ...rest, argv: await argvOf(argv), env: { ...env, PATH: hostPath } }, signal);
    },
    async rootOf(program) {
      const daemon = await daemonOfProgram(program);
      return daemon ? join(proc, daemon.pid, "root") : root;
    },
  };
}
