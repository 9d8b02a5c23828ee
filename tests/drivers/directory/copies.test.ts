import { afterEach, beforeEach, expect, test } from "bun:test";
import {
  chmod,
  link,
  lstat,
  mkdir,
  readdir,
  readFile,
  readlink,
  rm,
  stat,
  symlink,
  truncate,
  writeFile,
} from "node:fs/promises";
import { type Files, localFiles } from "../../../lib/io/files.ts";
import { type Command, CommandError, type CommandRunner, type Output } from "../../../lib/io/runner.ts";
import { below } from "../../../scripts/check/below.ts";
import { codeOf } from "../../contract/driver-volumes.ts";
import { callWith, getVolume, gib, snapshotsOf, volumeIds, volumeOf } from "../../contract/rig.ts";
import { leftOn, openOn, systemRunner, temporaryFolder, toolOf } from "./directory-rig.ts";

const call = callWith();
const clone = (id = "origin") => volumeOf("clone", gib, { kind: "volume", id });

let base = "";
beforeEach(async () => {
  base = await temporaryFolder();
  await openOn(base).create(volumeOf("origin"), call);
  await mkdir(`${base}/v/origin/sub`);
  await writeFile(`${base}/v/origin/sub/file`, "content");
});
afterEach(() => rm(base, { recursive: true, force: true }));

type Answer = (command: Command, signal: AbortSignal) => Promise<Output> | undefined;

/** The real runner, except for the programs that have an answer here. */
const runnerWith = (answers: Readonly<Record<string, Answer>>): CommandRunner => ({
  ...systemRunner,
  run: async (command, signal) => {
    const tool = toolOf(command);
    return (await answers[tool.argv[0]]?.(tool, signal)) ?? (await systemRunner.run(command, signal));
  },
});

const missing: Answer = async ({ argv }) => {
  throw new CommandError("test", argv[0], "missing", "there is no such program");
};
const ends =
  (exitCode: number, stderr: string): Answer =>
  async () => ({ stdout: "", stderr, exitCode });

test("a clone keeps modes, times, links, hard links and holes", async () => {
  const from = `${base}/v/origin`;
  await chmod(`${from}/sub/file`, 0o640);
  await link(`${from}/sub/file`, `${from}/hard`);
  await symlink("/etc/passwd", `${from}/link`);
  await writeFile(`${from}/holes`, "");
  await truncate(`${from}/holes`, 64 * 1024 * 1024);
  await openOn(base).create(clone(), call);
  const to = `${base}/v/clone`;
  const [a, b] = [await stat(`${from}/sub/file`), await stat(`${to}/sub/file`)];
  expect([b.mode, b.mtimeMs]).toEqual([a.mode, a.mtimeMs]);
  expect((await stat(`${to}/hard`)).ino).toBe(b.ino);
  expect(await readlink(`${to}/link`)).toBe("/etc/passwd");
  expect((await stat(`${to}/holes`)).size).toBe(64 * 1024 * 1024);
  expect((await stat(`${to}/holes`)).blocks).toBeLessThan(1000);
});

test.each([
  ["local-hostpath", true],
  ["nfs-client", false],
] as const)("a copy of %s that cannot keep an extended attribute fails: %p", async (kind, strict) => {
  let options: readonly string[] = [];
  const cp: Answer = async ({ argv }) => {
    options = argv;
    return { stdout: "", stderr: "cp: setting attribute 'user.k' for 'user.k': No space left on device", exitCode: 1 };
  };
  const driver = openOn(base, { kind, runner: runnerWith({ cp }), settings: { requireMount: false } });
  expect(await codeOf(driver.create(clone(), call))).toBe("resource-exhausted");
  expect(options.includes("--preserve=xattr")).toBe(strict);
});

test("without GNU cp, rsync copies", async () => {
  const argvs: (readonly string[])[] = [];
  const rsync: Answer = ({ argv }, signal) => {
    argvs.push(argv);
    const [source = "", target = ""] = argv.slice(-2);
    return systemRunner.run({ argv: ["cp", "-a", "--", `${source}.`, target] }, signal);
  };
  for (const cp of [missing, ends(1, "cp: unrecognized option '--reflink=auto'")]) {
    const driver = openOn(base, { runner: runnerWith({ cp, rsync }) });
    await driver.create(clone(), call);
    expect(await readFile(`${base}/v/clone/sub/file`, "utf8")).toBe("content");
    await driver.delete("clone", call);
  }
  expect(argvs[0]?.slice(0, -2)).toEqual(["rsync", "-aHAX", "--sparse", "--numeric-ids", "--"]);
});

test("files that vanish while rsync copies are not an error, other partial copies are", async () => {
  const driver = (code: number) =>
    openOn(base, { runner: runnerWith({ cp: missing, rsync: ends(code, "rsync warning") }) });
  expect(await codeOf(driver(24).create(clone(), call))).toBe("ok");
  await driver(24).delete("clone", call);
  expect(await codeOf(driver(23).create(clone(), call))).toBe("internal");
  expect(await volumeIds(openOn(base))).toEqual(["origin"]);
});

test("without a copying tool nothing is created and the message names both", async () => {
  const driver = openOn(base, { runner: runnerWith({ cp: missing, rsync: missing }) });
  const before = below(base);
  const error = await driver.create(clone(), call).catch(reason => reason);
  expect(error).toMatchObject({ code: "failed-precondition" });
  expect(error.message).toContain("rsync");
  expect(below(base).filter(name => !before.includes(name) && name !== ".csimux/work")).toEqual([]);
  expect(await codeOf(driver.check?.(call) ?? Promise.resolve())).toBe("failed-precondition");
});

test("a check passes with the tools of this system and changes nothing", async () => {
  const before = below(base);
  await openOn(base).check?.(call);
  expect(below(base)).toEqual(before);
});

test("a volume with content is not reported deleted while rm is missing", async () => {
  const driver = openOn(base, { runner: runnerWith({ rm: missing }) });
  expect(await codeOf(driver.delete("origin", call))).toBe("failed-precondition");
  expect(await codeOf(driver.delete("origin", call))).toBe("failed-precondition");
  await openOn(base).delete("origin", call);
  expect(await leftOn(base)).toEqual([]);
});

test("a copy cancelled halfway is deadline-exceeded, invisible, and redone by the retry", async () => {
  const controller = new AbortController();
  const cp: Answer = async ({ argv }, signal) => {
    await writeFile(`${argv.at(-1)}/half`, "");
    controller.abort();
    expect(signal.aborted).toBe(true);
    throw new CommandError("test", "cp", "cancelled", "ended, because the call has ended");
  };
  const driver = openOn(base, { runner: runnerWith({ cp }) });
  expect(await codeOf(driver.create(clone(), callWith(controller.signal)))).toBe("deadline-exceeded");
  expect(await codeOf(snapshotsOf(driver).create("snap", "origin", {}, callWith(controller.signal)))).toBe(
    "deadline-exceeded",
  );
  expect(await volumeIds(openOn(base))).toEqual(["origin"]);
  await openOn(base).create(clone(), call);
  expect(await readdir(`${base}/v/clone`)).toEqual(["sub"]);
  expect(await readdir(`${base}/.csimux/work`)).toEqual([]);
});

test("a copy left running by a killed process cannot spoil the retry", async () => {
  const stop = new AbortController();
  let orphan: Promise<unknown> = Promise.resolve();
  const started = Promise.withResolvers<void>();
  const cp: Answer = ({ argv }) => {
    const target = String(argv.at(-1));
    const script = 'i=0; while mkdir -p "$1/dir" 2>/dev/null && : > "$1/dir/$i"; do i=$((i+1)); done 2>/dev/null';
    orphan = systemRunner.run({ argv: ["sh", "-c", script, "sh", target] }, stop.signal).catch(() => undefined);
    started.resolve();
    return new Promise(() => undefined);
  };
  void openOn(base, { runner: runnerWith({ cp }) }).create(clone(), call);
  await started.promise;
  try {
    let code = "aborted";
    const until = Date.now() + 10_000;
    while (code === "aborted" && Date.now() < until) code = await codeOf(openOn(base).create(clone(), call));
    expect(code).toBe("ok");
    expect(await readdir(`${base}/v/clone`)).toEqual(["sub"]);
  } finally {
    stop.abort();
    await orphan;
  }
});

test("a folder that appears under the clone's name during the copy stays, and the call is aborted", async () => {
  const cp: Answer = async (command, signal) => {
    await mkdir(`${base}/v/clone`);
    return await systemRunner.run(command, signal);
  };
  expect(await codeOf(openOn(base, { runner: runnerWith({ cp }) }).create(clone(), call))).toBe("aborted");
  expect(await readdir(`${base}/v/clone`)).toEqual([]);
});

test("a work tree is renamed before it is removed, so that its builder cannot finish it", async () => {
  const copied = Promise.withResolvers<void>();
  const goOn = Promise.withResolvers<void>();
  const sync: Answer = async () => {
    copied.resolve();
    await goOn.promise;
    return { stdout: "", stderr: "", exitCode: 0 };
  };
  const first = codeOf(openOn(base, { runner: runnerWith({ sync }) }).create(clone(), call));
  await copied.promise;
  const rm: Answer = async ({ argv }, signal) => {
    goOn.resolve();
    expect(await first).toBe("aborted");
    return systemRunner.run({ argv }, signal);
  };
  expect(await codeOf(openOn(base, { runner: runnerWith({ rm }) }).create(clone(), call))).toBe("ok");
  expect(await readFile(`${base}/v/clone/sub/file`, "utf8")).toBe("content");
});

test("a copy taken over by another csimux is aborted, and keeps the other's tree and record", async () => {
  const started = Promise.withResolvers<void>();
  const takenOver = Promise.withResolvers<void>();
  const loser: Answer = async ({ argv }) => {
    started.resolve();
    await takenOver.promise;
    const stderr = `cp: preserving times for '${argv.at(-1)}': No such file or directory`;
    return { stdout: "", stderr, exitCode: 1 };
  };
  const first = codeOf(openOn(base, { runner: runnerWith({ cp: loser }) }).create(clone(), call));
  await started.promise;
  const winner: Answer = async ({ argv }, signal) => {
    takenOver.resolve();
    expect(await first).toBe("aborted");
    return systemRunner.run({ argv }, signal);
  };
  expect(await codeOf(openOn(base, { runner: runnerWith({ cp: winner }) }).create(clone(), call))).toBe("ok");
  expect((await getVolume(openOn(base), "clone")).bytes).toBe(gib);
  expect(await readFile(`${base}/v/clone/sub/file`, "utf8")).toBe("content");
});

test("a delete also removes what another csimux has started to build under the name", async () => {
  await mkdir(`${base}/.csimux/work/v~origin~000000000000`, { recursive: true });
  await mkdir(`${base}/.csimux/work/v~origin2~000000000000`);
  await openOn(base).delete("origin", call);
  expect(await readdir(`${base}/.csimux/work`)).toEqual(["v~origin2~000000000000"]);
});

test("a copy whose source is deleted meanwhile is not complete", async () => {
  const other = openOn(base);
  const cp: Answer = async () => {
    await other.delete("origin", call);
    return { stdout: "", stderr: "", exitCode: 0 };
  };
  const driver = openOn(base, { runner: runnerWith({ cp }) });
  expect(await codeOf(driver.create(clone(), call))).toBe("aborted");
  expect(await codeOf(driver.create(clone(), call))).toBe("not-found");
  expect(await leftOn(base)).toEqual([]);
});

test("a copy whose source is replaced meanwhile is not complete", async () => {
  const other = openOn(base);
  const cp: Answer = async () => {
    await other.delete("origin", call);
    await other.create(volumeOf("origin"), call);
    return { stdout: "", stderr: "", exitCode: 0 };
  };
  expect(await codeOf(openOn(base, { runner: runnerWith({ cp }) }).create(clone(), call))).toBe("aborted");
});

test("a delete cancelled halfway is finished by its retry, and the volume is invisible meanwhile", async () => {
  const controller = new AbortController();
  const rm: Answer = async () => {
    controller.abort();
    throw new CommandError("test", "rm", "cancelled", "ended, because the call has ended");
  };
  const driver = openOn(base, { runner: runnerWith({ rm }) });
  expect(await codeOf(driver.delete("origin", callWith(controller.signal)))).toBe("deadline-exceeded");
  expect(await volumeIds(openOn(base))).toEqual([]);
  await openOn(base).delete("origin", call);
  expect(await leftOn(base)).toEqual([]);
});

test("a delete makes the removal of the content durable before it removes the record, and that of the name before it returns", async () => {
  const steps: string[] = [];
  const told = (verb: string, path: string) => steps.push(`${verb} ${path.slice(base.length + 1)}`);
  const files: Files = {
    ...localFiles,
    sync: folder => localFiles.sync(folder).then(() => void told("sync", folder)),
    removeFile: file => localFiles.removeFile(file).then(() => void told("remove", file)),
  };
  const rm: Answer = (command, signal) => {
    if (!command.argv.includes("--version")) steps.push("rm");
    return systemRunner.run(command, signal);
  };
  const driver = openOn(base, { files, runner: runnerWith({ rm }) });
  await openOn(base).create(volumeOf("other"), call);
  await driver.delete("origin", call);
  expect(steps.splice(0)).toEqual(["rm", "sync .csimux/work", "remove .csimux/v.origin.json~", "sync v"]);
  await driver.delete("other", call);
  expect(steps).toEqual(["remove .csimux/v.other.json~", "sync v"]);
});

test("a delete never follows a link", async () => {
  const outside = `${base}/outside`;
  await mkdir(outside);
  await writeFile(`${outside}/keep`, "kept");
  await symlink(outside, `${base}/v/origin/out`);
  await symlink(outside, `${base}/v/linked`);
  const driver = openOn(base);
  await driver.delete("origin", call);
  expect(await codeOf(driver.delete("linked", call))).toBe("failed-precondition");
  expect(await codeOf(getVolume(driver, "linked"))).toBe("failed-precondition");
  expect(await codeOf(driver.create(volumeOf("linked"), call))).toBe("failed-precondition");
  expect(await volumeIds(driver)).toEqual([]);
  expect((await lstat(`${base}/v/linked`)).isSymbolicLink()).toBe(true);
  expect(await readFile(`${outside}/keep`, "utf8")).toBe("kept");
});

test("at most four tools run at once", async () => {
  let now = 0;
  let most = 0;
  const sync: Answer = async () => {
    most = Math.max(most, ++now);
    await Promise.resolve();
    now--;
    return { stdout: "", stderr: "", exitCode: 0 };
  };
  const gate = Promise.withResolvers<void>();
  const cp: Answer = async () => {
    most = Math.max(most, ++now);
    if (now === 4) gate.resolve();
    await gate.promise;
    now--;
    return { stdout: "", stderr: "", exitCode: 0 };
  };
  const driver = openOn(base, { runner: runnerWith({ cp, sync }) });
  const snap = (n: number) => snapshotsOf(driver).create(`snap-${n}`, "origin", {}, call);
  await Promise.all(Array.from({ length: 12 }, (_, n) => snap(n)));
  expect(most).toBe(4);
});
