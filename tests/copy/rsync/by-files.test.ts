import { afterEach, beforeEach, describe, expect, test } from "bun:test";
import { execFileSync, spawn } from "node:child_process";
import { existsSync, readFileSync } from "node:fs";
import {
  chmod,
  chown,
  link,
  lstat,
  mkdir,
  mkdtemp,
  readdir,
  rm,
  symlink,
  truncate,
  utimes,
  writeFile,
} from "node:fs/promises";
import { tmpdir } from "node:os";
import { copyFiles, type FilesWork } from "../../../lib/copies/rsync/rsync.ts";
import type { Call } from "../../../lib/core/call.ts";
import { localRunner } from "../../../lib/io/local.ts";
import { type Command, CommandError, type CommandRunner, type Output } from "../../../lib/io/runner.ts";
import { callWith } from "../../contract/rig.ts";
import { isHostRoot } from "../../root.ts";
import { pause } from "../../waiting.ts";
import { aclFor, attribute, setAttribute } from "./attributes.ts";

const local: CommandRunner = localRunner({ env: { PATH: process.env["PATH"] ?? "/usr/bin:/bin" } });
const call = callWith();

let base = "";
let from = "";
let to = "";
beforeEach(async () => {
  base = await mkdtemp(`${tmpdir()}/csimux-by-files-`);
  [from, to] = [`${base}/from`, `${base}/to`];
  await mkdir(from);
  await mkdir(to);
});
afterEach(() => rm(base, { recursive: true, force: true }));

const work = (changes: Partial<FilesWork> = {}, runner: CommandRunner = local): FilesWork => ({
  tree: { path: from, runner },
  folder: to,
  stable: true,
  progress: () => {},
  ...changes,
});

const facts = `{ find . ! -type b ! -type c -printf '%P %y %m %U %G %n %T@ %l\\0' | sort -z; find . -type f -print0 | sort -z | xargs -0r sha256sum -z; } | sha256sum`;

/** A checksum of the contents of all files below a folder, of their names, and of everything about them but devices and attributes. */
const checksum = (folder: string): string => execFileSync("sh", ["-c", facts], { cwd: folder, encoding: "latin1" });

/** Runs a program for each rsync before it; the answer of a stand-in is rsync's. */
const before = (answer: (command: Command, runs: number) => Promise<Output | undefined>): CommandRunner => {
  let runs = 0;
  return {
    where: "test",
    run: async (command, signal) =>
      (command.argv.includes("rsync") ? await answer(command, ++runs) : undefined) ??
      (await local.run(command, signal)),
  };
};

const codeAndText = (done: Promise<unknown>) =>
  done.then(
    () => "done",
    ({ code, message }) => `${code}: ${message}`,
  );

describe.skipIf(!isHostRoot || !Bun.which("rsync"))("a copy by files", () => {
  test("has the content, times, owners, modes with set-id bits, links, holes, attributes and ACLs of its source", async () => {
    await mkdir(`${from}/a/b`, { recursive: true });
    await writeFile(`${from}/a/b/file`, "content".repeat(100_000));
    await writeFile(`${from}/owned`, "x");
    await chown(`${from}/owned`, 1234, 4321);
    await chmod(`${from}/owned`, 0o6751);
    await chmod(`${from}/a`, 0o1777);
    await link(`${from}/a/b/file`, `${from}/hard`);
    await symlink("/etc/passwd", `${from}/link`);
    await symlink("../../outside", `${from}/dangling`);
    await writeFile(`${from}/holes`, "");
    await truncate(`${from}/holes`, 64 << 20);
    execFileSync("mkfifo", [`${from}/fifo`]);
    execFileSync("sh", ["-c", "printf x > \"$(printf 'a\\nb \\377 \\\\')\"; mkdir \"$(printf ' -rf\\n')\""], {
      cwd: from,
    });
    setAttribute(`${from}/owned`, "user.color", Buffer.from("blue"));
    setAttribute(`${from}/owned`, "trusted.mark", Buffer.from("t"));
    setAttribute(`${from}/a/b/file`, "system.posix_acl_access", aclFor(1500));
    setAttribute(`${from}/a/b`, "system.posix_acl_default", aclFor(1600));
    for (const name of ["owned", "a/b/file", "a/b", "a", "."]) await utimes(`${from}/${name}`, 1e9, 1e9 + 0.123456);
    const seen: bigint[] = [];
    await copyFiles(work({ progress: bytes => seen.push(bytes) }), call);
    expect(checksum(to)).toBe(checksum(from));
    expect((await lstat(`${to}/hard`)).ino).toBe((await lstat(`${to}/a/b/file`)).ino);
    expect((await lstat(`${to}/holes`)).blocks).toBeLessThan(100);
    expect(attribute(`${to}/owned`, "user.color")).toBe(Buffer.from("blue").toString("hex"));
    for (const [name, key] of [
      ["owned", "trusted.mark"],
      ["a/b/file", "system.posix_acl_access"],
      ["a/b", "system.posix_acl_default"],
    ] as const)
      expect([key, attribute(`${to}/${name}`, key)]).toEqual([key, attribute(`${from}/${name}`, key) ?? "set"]);
    expect(seen.at(-1)).toBeGreaterThanOrEqual(700_000n + (64n << 20n));
    expect(seen).toEqual([...seen].sort((a, b) => Number(a - b)));
  });

  test("continues where an earlier one was interrupted, and removes what is not in the source", async () => {
    await writeFile(`${from}/done`, "done");
    await copyFiles(work(), call);
    const { ino } = await lstat(`${to}/done`);
    await writeFile(`${from}/new`, "new");
    await mkdir(`${to}/old/deep`, { recursive: true });
    await writeFile(`${to}/.new.aB3dEf`, "part of a killed rsync");
    await copyFiles(work(), call);
    expect((await readdir(to)).sort()).toEqual(["done", "new"]);
    expect((await lstat(`${to}/done`)).ino).toBe(ino);
  });

  test("compares contents after a loss of power, which size and time do not show", async () => {
    await writeFile(`${from}/file`, "content");
    await utimes(`${from}/file`, 1e9, 1e9);
    const lost = async () => {
      await writeFile(`${to}/file`, "\0".repeat(7));
      await utimes(`${to}/file`, 1e9, 1e9);
    };
    await lost();
    await copyFiles(work({ compare: "all" }), call);
    expect(checksum(to)).toBe(checksum(from));
    await lost();
    await copyFiles(work({ compare: "all", stable: false }), call);
    expect(checksum(to)).toBe(checksum(from));
  });

  test("of a volume in use notices a second change within one second", async () => {
    await writeFile(`${from}/file`, "first!!");
    await utimes(`${from}/file`, 1e9, 1e9 + 0.1);
    await copyFiles(work({ stable: false }), call);
    await writeFile(`${from}/file`, "second!");
    await utimes(`${from}/file`, 1e9, 1e9 + 0.2);
    await copyFiles(work({ stable: false }), call);
    expect(checksum(to)).toBe(checksum(from));
  });

  test("carries no device nodes, and tells their number", async () => {
    execFileSync("mknod", [`${from}/null`, "c", "1", "3"]);
    execFileSync("mknod", [`${from}/disk\nname`, "b", "7", "0"]);
    await writeFile(`${from}/file`, "x");
    const told: unknown[] = [];
    const log: Call["log"] = { ...call.log, warn: (...words) => void told.push(words) };
    await copyFiles(work(), { ...call, log });
    expect(await readdir(to)).toEqual(["file"]);
    expect(told).toEqual([["device nodes are not copied", { devices: 2 }]]);
  });

  test("reports a file that a target without capitals has replaced by another one, once nothing writes to the source", async () => {
    await writeFile(`${from}/Name`, "one");
    await writeFile(`${from}/name`, "another");
    await utimes(from, 1e9, 1e9);
    const folding: CommandRunner = {
      where: "test",
      async run(command, signal) {
        const output = await local.run(command, signal);
        // What a server of SMB shares has then, by either name.
        if (!command.argv.includes("rsync") || command.argv.includes("--dry-run")) return output;
        await rm(`${to}/Name`, { force: true });
        await link(`${to}/name`, `${to}/Name`);
        await utimes(to, 1e9, 1e9);
        return output;
      },
    };
    expect(await codeAndText(copyFiles(work({ stable: false }, folding), call))).toBe("done");
    expect(await codeAndText(copyFiles(work({ stable: false, stopped: true }, folding), call))).toMatch(
      /^unavailable: the copy differs from its source, first at ".*Name"/,
    );
  });

  test("reports a stable source that differs after the copy, and copies what was lost meanwhile", async () => {
    await writeFile(`${from}/file`, "x");
    const spoil = async ({ argv }: Command) => {
      if (argv.includes("--dry-run")) await writeFile(`${to}/zz other`, "");
      return undefined;
    };
    expect(await codeAndText(copyFiles(work({}, before(spoil)), call))).toMatch(
      /^unavailable: the copy differs from its source, first at "\*deleting +zz other"/,
    );
    const once = before(async (_, run) => {
      if (run === 2) await chmod(to, 0o700);
      return undefined;
    });
    await copyFiles(work({}, once), call);
    expect(checksum(to)).toBe(checksum(from));
  });
});

const answer = (exitCode: number, stderr = ""): CommandRunner => before(async () => ({ stdout: "", stderr, exitCode }));

const unreadable = `rsync: [sender] send_files failed to open "/x/secret": Permission denied (13)
rsync error: some files/attrs were not transferred (see previous errors) (code 23) at main.c(1356) [sender=3.5.0]`;

test.each([
  [23, true, unreadable, /^unavailable: rsync ended with 23: .*"\/x\/secret": Permission denied.*no_root_squash/],
  [23, false, unreadable, /^unavailable: rsync ended with 23: .*"\/x\/secret"/],
  [24, true, "", /^unavailable: rsync ended with 24: files of the source vanished/],
  [24, false, "", /^done$/],
  [11, true, 'rsync: [receiver] write failed on "/y": No space left on device (28)', /^unavailable: .*make room/],
  [
    ...([23, true, 'rsync: [receiver] mkstemp "/to/.a.xyz" failed: File name too long (36)'] as const),
    /^invalid-argument: .*"\/to\/\.a\.xyz": the target keeps no name so long/,
  ],
  [14, true, "", /^unavailable: rsync ended with 14: no reason given; retrying$/],
] as const)("exit code %p of rsync, stable %p", async (code, stable, stderr, expected) => {
  expect(await codeAndText(copyFiles(work({ stable }, answer(code, stderr)), call))).toMatch(expected);
});

test("without rsync nothing is copied, and the message says what to install", async () => {
  const missing = before(async () => {
    throw new CommandError("test", "rsync", "missing", "there is no such program");
  });
  expect(await codeAndText(copyFiles(work({}, missing), call))).toMatch(/^failed-precondition: .*install both/);
});

test("without setpriv or rsync, which setpriv reports, the message is the same", async () => {
  expect(await codeAndText(copyFiles(work({}, answer(127, "setpriv: failed to execute rsync")), call))).toMatch(
    /^failed-precondition: .*install both/,
  );
});

test("rsync ends with the process that started it, however that ends", async () => {
  const [pidFile, bin] = [`${base}/pid`, `${base}/bin`];
  await mkdir(bin);
  await writeFile(
    `${bin}/rsync`,
    `#!/bin/sh\necho $$ > ${pidFile}.new; mv ${pidFile}.new ${pidFile}; exec sleep 600\n`,
    { mode: 0o755 },
  );
  const file = (path: string) => JSON.stringify(new URL(path, import.meta.url).pathname);
  const program = `
    import { copyFiles } from ${file("../../../lib/copies/rsync/rsync.ts")};
    import { localRunner } from ${file("../../../lib/io/local.ts")};
    const runner = localRunner({ env: { PATH: ${JSON.stringify(`${bin}:${process.env["PATH"]}`)} } });
    const tree = { path: ${JSON.stringify(from)}, runner };
    const call = { signal: new AbortController().signal };
    await copyFiles({ tree, folder: ${JSON.stringify(to)}, stable: true, progress: () => {} }, call);`;
  await writeFile(`${base}/program.ts`, program);
  const owner = spawn(process.execPath, [`${base}/program.ts`], { stdio: "ignore" });
  const until = async (done: () => boolean) => {
    const end = Date.now() + 30_000;
    while (!done()) {
      if (Date.now() > end) throw new Error("it does not happen");
      await pause(10);
    }
  };
  try {
    await until(() => existsSync(pidFile));
    const pid = readFileSync(pidFile, "utf8").trim();
    owner.kill("SIGKILL");
    await until(() => !existsSync(`/proc/${pid}`) || /^\d+ \(.*\) Z/.test(readFileSync(`/proc/${pid}/stat`, "utf8")));
  } finally {
    owner.kill("SIGKILL");
  }
});

test("to a share of SMB, owners, modes, ACLs and attributes are left to its mount options", async () => {
  const argvs: (readonly string[])[] = [];
  const runner = (type: string): CommandRunner => ({
    where: "test",
    async run({ argv }) {
      if (argv[0] === "stat") return { stdout: `ef53\n${type}\n`, stderr: "", exitCode: 0 };
      if (argv.includes("rsync")) argvs.push(argv);
      // A complete list of the names that differ only in capitals: there are none.
      return { stdout: argv[0] === "sh" ? "-ALL\0-all\0" : "", stderr: "", exitCode: 0 };
    },
  });
  await copyFiles(work({}, runner("fe534d42")), call);
  expect(argvs.map(argv => [argv.includes("-rltH"), argv.includes("-aHAX")])).toEqual(Array(2).fill([true, false]));
  argvs.length = 0;
  await copyFiles(work({}, runner("6969")), call);
  expect(argvs.map(argv => argv.includes("-aHAX"))).toEqual([true, true]);
});
