import { afterEach, beforeEach, expect, test } from "bun:test";
import { execFileSync, spawn, spawnSync } from "node:child_process";
import { once } from "node:events";
import {
  chmodSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  readlinkSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from "node:fs";
import { tmpdir } from "node:os";
import { basename, join } from "node:path";
import { destroyStep, whileUnused } from "../../../../lib/drivers/zfs/cli/destroy.ts";
import { datasetLock, lockConcerns, locked } from "../../../../lib/drivers/zfs/cli/lock.ts";
import type { Argv } from "../../../../lib/io/runner.ts";
import type { Step } from "../../../../lib/io/script.ts";
import { pause } from "../../../waiting.ts";

let folder = "";
/** A lock of this test alone. */
let lock = "";

beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), "csimux-lock-"));
  lock = basename(folder);
});
afterEach(() => {
  rmSync(folder, { recursive: true });
  rmSync(`/run/lock/csimux-${lock}`, { force: true });
});

/**
 * zfs destroy of a shared file system as OpenZFS has it (lib/libzfs, zfs_unmount): it removes the export, unmounts, and restores
 * the export of what it could not unmount. It waits for the file `go` after it has found the file system.
 */
const destroying = `#!/bin/sh
cd '%s'
[ -e dataset ] || { echo "cannot open 'tank/a': dataset does not exist" >&2; exit 1; }
echo begun >>begun
until [ -e go ]; do sleep 0.01; done
rm -f export
if rmdir mounted 2>/dev/null; then rm -f dataset; else echo >export; echo "cannot unmount: unmount failed" >&2; exit 1; fi
`;

function program(): string {
  for (const file of ["dataset", "export"]) writeFileSync(join(folder, file), "");
  mkdirSync(join(folder, "mounted"));
  const path = join(folder, "zfs");
  writeFileSync(path, destroying.replace("%s", folder));
  chmodSync(path, 0o755);
  return path;
}

const begun = (): number =>
  existsSync(join(folder, "begun")) ? readFileSync(join(folder, "begun"), "utf8").split("\n").length - 1 : 0;

/**
 * Whether a flock(1) waits for the lock: its file descriptor 9 is the lock's file. /proc/locks would say so too, but not in a container:
 * there it leaves out locks whose taker has ended (proc_locks(5)), as the flock of a shell that holds one has.
 */
function waitedFor(): boolean {
  const path = `/run/lock/csimux-${lock}`;
  return readdirSync("/proc").some(pid => {
    try {
      return readFileSync(`/proc/${pid}/comm`, "utf8") === "flock\n" && readlinkSync(`/proc/${pid}/fd/9`) === path;
    } catch {
      return false;
    }
  });
}

async function until(what: () => boolean): Promise<void> {
  for (const end = Date.now() + 60_000; !what(); await pause(10)) if (Date.now() > end) throw new Error(`${what}`);
}

async function codeOf([first, ...rest]: Argv): Promise<number> {
  const child = spawn(first, rest, { stdio: "ignore" });
  await once(child, "close");
  return child.exitCode ?? -1;
}

/** Two that destroy the same at once, as far apart as the program allows; whether an export of it is left. */
async function afterTwo(argv: Argv): Promise<boolean> {
  const first = codeOf(argv);
  await until(() => begun() === 1);
  const second = codeOf(argv);
  await until(() => begun() === 2 || waitedFor());
  writeFileSync(join(folder, "go"), "");
  expect([await first, await second].sort()).toEqual([0, 1]);
  expect(existsSync(join(folder, "dataset"))).toBe(false);
  return existsSync(join(folder, "export"));
}

test("two commands that destroy the same file system at once leave no export of it, unlike two without a lock", async () => {
  expect(await afterTwo([program(), "destroy"])).toBe(true);
  for (const file of ["begun", "go", "export"]) rmSync(join(folder, file), { force: true });
  expect(await afterTwo(locked(lock, [program(), "destroy"]))).toBe(false);
});

test("the lock file of another account is used as it is, and without a folder for locks nothing waits", () => {
  const path = `/run/lock/csimux-${lock}`;
  writeFileSync(path, "", { mode: 0o444 });
  const [first, ...rest] = locked(lock, ["echo", "done"]);
  expect(execFileSync(first, rest, { uid: 65534, encoding: "utf8" })).toBe("done\n");
  const [program, ...words] = locked("no/such/folder", ["echo", "done"]);
  expect(execFileSync(program, words, { encoding: "utf8" })).toBe("done\n");
});

test.each(["pipe", "link", "unreadable file"])("a %s in place of a lock file is not opened", kind => {
  const path = `/run/lock/csimux-${lock}`;
  const target = join(folder, "target");
  if (kind === "pipe") execFileSync("mkfifo", [path]);
  else if (kind === "link") symlinkSync(target, path);
  else writeFileSync(path, "", { mode: 0o200 });
  const [first, ...rest] = locked(lock, ["echo", "done"]);
  const ran = spawnSync(first, rest, { uid: 65534, encoding: "utf8", timeout: 20_000 });
  expect([ran.status, ran.stdout]).toEqual([1, ""]);
  expect(ran.stderr).toContain(`the lock ${path} is not a file that can be read`);
  expect(existsSync(target)).toBe(false);
});

test("a flock that cannot wait, such as that of busybox, is tried repeatedly", async () => {
  const bin = join(folder, "bin");
  mkdirSync(bin);
  // busybox 1.35, util-linux/flock.c: -s, -x, -u, -n; anything else is answered with its usage.
  const text = `#!/bin/sh\ncase $1 in -w) echo "flock: invalid option -- 'w'" >&2; exit 1;; esac\nexec /usr/bin/flock "$@"\n`;
  writeFileSync(join(bin, "flock"), text);
  chmodSync(join(bin, "flock"), 0o755);
  const env = { PATH: `${bin}:/usr/bin:/bin` };
  const held = join(folder, "held");
  const [first, ...rest] = locked(lock, ["sh", "-c", `echo >${held}; until [ -e ${folder}/go ]; do sleep 0.01; done`]);
  const holder = spawn(first, rest, { stdio: "ignore", env });
  const ended = once(holder, "close");
  await until(() => existsSync(held));
  const [next, ...words] = locked(lock, ["sh", "-c", `[ -e ${folder}/go ] && echo after`]);
  const waiter = spawn(next, words, { stdio: ["ignore", "pipe", "ignore"], env });
  let output = "";
  waiter.stdout.on("data", chunk => {
    output += String(chunk);
  });
  const done = once(waiter, "close");
  writeFileSync(join(folder, "go"), "");
  await Promise.all([ended, done]);
  expect([holder.exitCode, waiter.exitCode, output]).toEqual([0, 0, "after\n"]);
});

test("a file system always has the same lock", () => {
  expect(datasetLock("tank/k/v/pvc-1")).toBe(datasetLock("tank/k/v/pvc-1"));
  expect(datasetLock("tank/k/v/pvc-1")).toMatch(/^zfs-(?:\d|1[0-5])$/);
});

test("a file system that could not be destroyed is mounted and shared again, also after its login was lost", async () => {
  const zfs = join(folder, "zfs");
  // Like a program that writes its complaint before it ends, when its output is no longer read.
  writeFileSync(
    zfs,
    `#!/bin/sh
cd '${folder}'
[ "$1" = destroy ] && until [ -e go ]; do sleep 0.01; done
echo "$*" >>calls
[ "$1" = destroy ] && { printf '%s\n' "cannot destroy '$2': dataset is busy" >&2; echo said >>calls; exit 1; }
exit 0
`,
  );
  chmodSync(zfs, 0o755);
  let argv: readonly string[] = [];
  const by = {
    programs: { zfs: [zfs] as Argv, zpool: "zpool", privileged: [] },
    signal: new AbortController().signal,
    read: undefined as never,
    run: async (steps: readonly Step[]) => {
      argv = steps[0]?.argv.map(String) ?? [];
      return new Map([["destroy", { stdout: "", stderr: "", exitCode: 0 }]]);
    },
  };
  const served = { protocol: "smb", mountpoint: "/tank/a" } as const;
  await whileUnused(by, undefined as never, served, destroyStep(by.programs, "tank/a", { snapshots: ["s"], served }));
  const [program = "", ...words] = argv;
  const child = spawn(program, words, { stdio: ["ignore", "pipe", "pipe"] });
  child.stdout.destroy();
  child.stderr.destroy();
  writeFileSync(join(folder, "go"), "");
  await once(child, "exit");
  const calls = readFileSync(join(folder, "calls"), "utf8").trimEnd().split("\n");
  expect(calls).toEqual([
    "unmount tank/a",
    "destroy tank/a@s",
    "said",
    "destroy tank/a",
    "said",
    "mount tank/a",
    "share tank/a",
  ]);
});

const accounts = "root:x:0:0::/root:/bin/bash\nwww-data:x:33:33::/var/www:/usr/sbin/nologin\n";

test.each([
  [
    "other accounts can log in",
    `${accounts}anna:x:1000:1000::/home/anna:/bin/bash\nben:x:1001:1001::/home/ben:\n`,
    ["anna ben"],
  ],
  ["only its own and root can log in", accounts, []],
  ["there is no folder for locks", undefined, ["no flock(1), or no /run/lock"]],
] as const)("an administrator can read what the locks of a host are worth where %s", (_, passwd, words) => {
  writeFileSync(join(folder, "passwd"), passwd ?? accounts);
  const [shell, ...rest] = lockConcerns.argv.map(word =>
    String(word)
      .replaceAll("/etc/passwd", join(folder, "passwd"))
      .replaceAll("cd /run/lock", `cd ${passwd ? folder : "/absent"}`),
  );
  const said = execFileSync(shell ?? "", rest, { encoding: "utf8" });
  expect(said.split("\n").slice(0, -1)).toEqual(words.map(each => expect.stringContaining(each)));
});
