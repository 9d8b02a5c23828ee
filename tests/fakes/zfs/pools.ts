import { chmodSync, existsSync, mkdirSync, readdirSync, writeFileSync } from "node:fs";
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { basename, join } from "node:path";
import { type Argv, type Command, CommandError, type CommandRunner, type Output } from "../../../lib/io/runner.ts";
import { answeredPrograms, type ProgramCall } from "../answered.ts";
import { putPython, pythonIn } from "../configfs.ts";
import { listOf } from "../vanishing.ts";
import type { RunningStreams } from "./child.ts";
import { flushed, madeByHand, mounted, usersStep } from "./nfsd.ts";
import { type Faults, Pools, type Thing } from "./pool.ts";
import { locked, type Result, run } from "./run.ts";
import { isLarger, isSize, isStill, isSure, named, piped, pipeIn, shell, still, sure } from "./shell.ts";
import { isWhole, whole } from "./whole.ts";

/** A host with pools: a folder of programs to put first on a PATH, and the content of the pools. */
export interface FakeZfs {
  readonly folder: string;
  /** Holds zfs and zpool. */
  readonly bin: string;
  /** The programs of streams that run in this process. */
  readonly streams: RunningStreams;
  /** Whether a program in Python is a process of its own, which ends with the call that started it. */
  ownProcesses: boolean;
  /** Runs zfs as an administrator would. Throws what it says when it fails. */
  zfs(...argv: readonly string[]): string;
  /** Reads or changes the model directly. */
  with<T>(work: (pools: Pools) => T): T;
  /** Changes the faults of the model. */
  faults(changes: { readonly [K in keyof Faults]?: Faults[K] | undefined }): void;
  /** The dataset or snapshot of a name. */
  find(name: string): Thing | undefined;
  /** Where the content of a dataset lies now. */
  place(name: string): string;
  /** The targets and subsystems in the models, without ports. */
  targets(): readonly string[];
  /** The commands that ran, one line each, and forgets them. */
  commands(): readonly string[];
  close(): Promise<void>;
}

/** The program of streams as one file with its bytecode, which starts a third faster than its sources. */
const bundled = (() => {
  let built: Promise<readonly { readonly name: string; readonly content: ArrayBuffer }[]> | undefined;
  return () => {
    built ??= bundle();
    return built;
  };
})();

async function bundle() {
  const entrypoints = [join(import.meta.dir, "main.ts")];
  const { outputs } = await Bun.build({ entrypoints, target: "bun", format: "cjs", bytecode: true });
  return Promise.all(outputs.map(async file => ({ name: basename(file.path), content: await file.arrayBuffer() })));
}

/**
 * A host with the pool `tank` of `bytes` bytes. Without programs only what runs in this process sees it (`inProcess`): programs are made from
 * the sources of the model, which are not everywhere.
 */
export async function fakeZfs(bytes = 2 ** 40, hasPrograms = true): Promise<FakeZfs> {
  const folder = await mkdtemp(join(tmpdir(), "csimux-zfs-"));
  const bin = join(folder, "bin");
  mkdirSync(bin);
  for (const { name, content } of hasPrograms ? await bundled() : [])
    writeFileSync(join(folder, name), new Uint8Array(content));
  // Streams are not text, and a receive saves its state when a signal ends it: both are processes of their own.
  const stream = `exec '${process.execPath}' '${join(folder, "main.js")}' "\${0##*/}" "$@"`;
  const begin = `case "$1" in send | receive) FAKE_ZFS='${folder}' ${stream} ;; esac`;
  const answer = ({ name, argv }: ProgramCall) => run(folder, name, argv, "");
  const stop = hasPrograms ? await answeredPrograms({ bin, names: ["zfs", "zpool"], begin, answer }) : () => {};
  // The programs that receive, as ps(1) shows them.
  for (const each of ["running", "usershares"]) mkdirSync(join(folder, each));
  writeFileSync(
    join(bin, "ps"),
    `#!/bin/sh
for each in '${folder}'/running/*; do
  [ -f "$each" ] && kill -0 "\${each##*/}" 2>/dev/null && echo "\${each##*/} $(cat "$each")"
done; :
`,
  );
  chmodSync(join(bin, "ps"), 0o755);
  putPython(bin, folder);
  // The module of LIO makes its folder in configfs.
  writeFileSync(
    join(bin, "modprobe"),
    `#!/bin/sh\nmkdir -p '${folder}/lio/core' && echo /var/target >'${folder}/lio/dbroot'\n`,
  );
  chmodSync(join(bin, "modprobe"), 0o755);
  for (const each of ["subsystems", "ports/1/subsystems", "ports/2/subsystems"])
    mkdirSync(join(folder, "nvmet", each), { recursive: true });
  for (const port of [1, 2]) {
    writeFileSync(join(folder, `nvmet/ports/${port}/addr_trtype`), "tcp\n");
    writeFileSync(join(folder, `nvmet/ports/${port}/addr_trsvcid`), "4420\n");
  }
  writeFileSync(join(folder, "tcp"), "");
  // A command that a refused call left running may save the pools at any time: each change of them is exclusive.
  const within = <T>(work: (pools: Pools) => T): T => {
    const unlock = locked(folder);
    try {
      const pools = new Pools(folder);
      const result = work(pools);
      pools.save();
      return result;
    } finally {
      unlock();
    }
  };
  within(pools => pools.addPool("tank", bytes));
  return {
    folder,
    bin,
    streams: { middle: async () => {}, receiving: new Map() },
    ownProcesses: false,
    zfs(...argv) {
      const { out, err, code } = run(folder, "zfs", argv, "");
      if (code !== 0) throw new Error(err);
      return out;
    },
    with: within,
    faults: changes => within(pools => void Object.assign(pools.state.faults, changes)),
    find: name => within(pools => pools.find(name)),
    place: name =>
      within(pools => {
        const thing = pools.find(name);
        if (!thing) throw new Error(`there is no ${name}`);
        return pools.place(thing);
      }),
    targets: () =>
      ["lio/iscsi", "lio/core", "nvmet/subsystems", "nvmet/ports/1/subsystems"].flatMap(each => {
        const names = listOf(join(folder, each)).filter(name => name !== "discovery_auth");
        return names.map(name => `${each}/${name}`);
      }),
    commands: () => within(pools => pools.state.log.splice(0)),
    async close() {
      stop();
      // A running command would create the folder again.
      if (existsSync(folder)) locked(folder);
      await rm(folder, { recursive: true, force: true });
    },
  };
}

/**
 * The same model without a process for each command: zfs runs here, everything else in `others`. What
 * csimux starts a tool with, such as a shell that takes a lock, is skipped. /proc is the folder of that name of the model.
 */
export const inProcess = (fake: FakeZfs, others: CommandRunner): CommandRunner => ({
  where: "fake",
  async run(command, signal) {
    const { folder } = fake;
    const [, , text = ""] = command.argv;
    const isLocked = text.startsWith("lock=");
    const words = isLocked ? command.argv.slice(5) : command.argv;
    const [program, ...argv] = words;
    const zfs = ([name = "", ...rest]: readonly string[]): Result => run(folder, name, rest, command.stdin ?? "");
    if (program === "zfs" || program === "zpool") return outputOf(zfs(words));
    if (argv[1]?.startsWith("target=")) return outputOf(receivers(fake, argv[3] ?? "", argv[4] ?? ""));
    const later = laterReceive(argv[1] ?? "", zfs);
    if (later) return outputOf(later);
    if (isLocked && isWhole(text)) return outputOf(await whole(words, zfs, argv => this.run({ argv }, signal)));
    if (isLocked && isSure(text)) return outputOf(sure(words, zfs));
    if (isLocked && text.includes('eval "found=')) {
      const [guid = "", name = "", property = "", , ...rest] = words;
      const found = zfs(["zfs", "get", "-Hp", "-o", "value,source", `guid,${property}`, name]);
      const [first = "", ...more] = isStill(text) ? rest.slice(5) : isSize(text) ? rest.slice(4) : rest;
      if (found.code !== 0) return outputOf(found);
      const isUnproved = (isStill(text) && !still(rest, zfs)) || (isSize(text) && isLarger(rest, zfs));
      const isOther = !found.out.startsWith(`${guid}\t-\n`) || isUnproved;
      if (!isOther && !/\ntrue\t(?:local|received)$/.test(found.out.trimEnd()))
        return isUnused(text)
          ? unused([first, ...more], zfs, argv => this.run({ argv }, signal))
          : this.run({ ...command, argv: [first, ...more] }, signal);
      return changed(name);
    }
    if (isLocked && isSize(text)) {
      const [first = "", ...more] = words.slice(4);
      return isLarger(words, zfs) ? changed(words[3] ?? "") : this.run({ ...command, argv: [first, ...more] }, signal);
    }
    if (isLocked && isUnused(text)) return unused(words, zfs, each => this.run({ argv: each }, signal));
    if (argv[1]?.startsWith("snapshot=")) return outputOf(freed(argv.slice(3), zfs));
    if (argv[1]?.startsWith("part=")) return outputOf(named(argv.slice(3), zfs));
    const copy = pipeIn(argv[1] ?? "");
    if (copy && !isSlow(folder))
      return outputOf(piped(copy, zfs, (each, stream) => run(folder, "zfs", each.slice(1), stream)));
    if (argv[0] === "/var/lib/nfs/etab") return outputOf(exportsOf(fake));
    if (program === "net" || argv[0] === "/var/lib/samba/usershares") return outputOf(usersharesOf(fake, program));
    if (program === "exportfs") {
      flushed(folder);
      return outputOf({ out: "", err: "", code: 0 });
    }
    if (program === "python3" && !fake.ownProcesses)
      return outputOf(await pythonIn(folder, pathOf(fake), argv, command.stdin ?? ""));
    if (words.some(word => /\/proc\/(?:net\/rpc|fs\/nfsd)\//.test(word)))
      return inProc(folder, command, others, signal);
    return others.run(command, signal);
  },
});

const changed = (name: string) => outputOf({ out: "", err: `${name} was changed by another call\n`, code: 1 });

/** Where the programs of a host are. */
const pathOf = ({ bin }: FakeZfs): string => `${bin}:/usr/sbin:/usr/bin:/sbin:/bin`;

/** Whether a shell changes what must not be in use (lib/drivers/zfs/cli/destroy.ts, whileUnusedText). */
const isUnused = (text: string): boolean => text.includes("place=$1 first=$2 last=$3");

/** A command line, and another one where it fails, unless NFS clients use the folder. */
async function unused(
  [place = "", first = "", last = "", ...privileged]: readonly string[],
  zfs: (argv: readonly string[]) => Result,
  run: (argv: Argv) => Promise<Output>,
): Promise<Output> {
  const users = place === "" ? undefined : await run(usersStep(place, privileged).argv as Argv);
  if (users && users.stdout !== "") return { ...users, exitCode: 1 };
  const done = shell(first, zfs);
  if (done.code !== 0) shell(last, zfs);
  return outputOf(done);
}

/** Frees the name of a snapshot (lib/drivers/zfs/cli/destroy.ts, freeNameText). */
function freed(
  [snapshot = "", other = "", ...zfs]: readonly string[],
  run: (argv: readonly string[]) => Result,
): Result {
  const destroyed = run([...zfs, "destroy", snapshot]);
  if (destroyed.code === 0 || /could not find any snapshots/.test(destroyed.err)) return { out: "", err: "", code: 0 };
  const deferred = run([...zfs, "destroy", "-d", snapshot]);
  if (deferred.code !== 0) return deferred;
  const guid = run([...zfs, "get", "-Hp", "-o", "value", "guid", snapshot]);
  if (guid.code !== 0) return { out: "", err: "", code: 0 };
  return run([...zfs, "rename", snapshot, other + guid.out.trim()]);
}

/** Whether a test wants to see a copy while it is made, or to end it. */
function isSlow(folder: string): boolean {
  const { sendMs, cutReceive } = new Pools(folder).state.faults;
  return (sendMs ?? cutReceive) !== undefined;
}

/** Runs a program on the model's /proc, whose table of mounts shows the folder that it is asked about. */
async function inProc(folder: string, command: Command, others: CommandRunner, signal: AbortSignal): Promise<Output> {
  const place = join(folder, "proc/");
  const [program = "", ...argv] = command.argv.map(word => word.replaceAll("/proc/", place));
  const [, , , mountpoint = ""] = argv;
  if (program === "sh") mounted(folder, mountpoint);
  const output = await others.run({ ...command, argv: [program, ...argv] }, signal);
  return { ...output, stdout: output.stdout.replaceAll(place, "/proc/") };
}

/** The usershares of Samba, for ls or net. A file "no-ls" or "no-net" makes them unreadable for it; with "no-samba" there is no net. */
function usersharesOf({ folder }: FakeZfs, program: string): Result {
  if (program === "net" && existsSync(join(folder, "no-samba"))) throw new CommandError("fake", "net", "missing", "");
  if (existsSync(join(folder, `no-${program}`))) return { out: "", err: `${program}: Permission denied\n`, code: 2 };
  const names = readdirSync(join(folder, "usershares"));
  return { out: names.map(name => `${name}\n`).join(""), err: "", code: 0 };
}

/** The exports of the host's NFS server, as exportfs(8) keeps them. A file "no-etab" makes them unreadable. */
function exportsOf(fake: FakeZfs): Result {
  if (existsSync(join(fake.folder, "no-etab")))
    return { out: "", err: "cat: /var/lib/nfs/etab: Permission denied\n", code: 1 };
  const lines = fake.with(pools =>
    pools
      .all()
      .filter(each => each.shared && pools.protocols(each).includes("sharenfs"))
      .map(each => `${pools.place(each)}\t*(rw,sync,no_subtree_check)\n`),
  );
  return { out: lines.join("") + madeByHand(fake.folder), err: "", code: 0 };
}

const outputOf = ({ out, err, code, later }: Result) => ({
  stdout: out + (later?.text ?? ""),
  stderr: err,
  exitCode: code,
});

/** The programs that receive into a dataset, or their end (lib/drivers/zfs/cli/streams.ts, receiversText). */
function receivers(fake: FakeZfs, dataset: string, mode: string): Result {
  const running = fake.with(({ state }) => state.faults.receiving ?? []);
  const end = fake.streams.receiving.get(dataset);
  if (mode === "stop") fake.faults({ receiving: running.filter(each => each !== dataset) });
  if (mode === "stop") end?.();
  return { out: running.includes(dataset) || end ? "4711\n" : "", err: "", code: 0 };
}

/** A receive that runs only into a target (lib/drivers/zfs/cli/streams.ts, guarded); undefined for any other line. */
function laterReceive(text: string, zfs: (argv: readonly string[]) => Result): Result | undefined {
  const [, show = "", value = "", words = ""] =
    /^copy=\$\((.*)\) \|\| exit\n.* = (\S+) \].*\nexec (.*)$/s.exec(text) ?? [];
  if (show === "") return undefined;
  const shown = zfs(show.split(" "));
  if (shown.code !== 0) return shown;
  if (shown.out.trim() !== value) return { out: "", err: "it is not the target\n", code: 1 };
  return zfs(words.split(" "));
}
