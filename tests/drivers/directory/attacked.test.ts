import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import { link, mkdir, readdir, readFile, rename, rm, symlink, writeFile } from "node:fs/promises";
import { copyFiles } from "../../../lib/copies/rsync/rsync.ts";
import { CommandError, type CommandRunner } from "../../../lib/io/runner.ts";
import { below } from "../../../scripts/check/below.ts";
import { codeOf } from "../../contract/driver-volumes.ts";
import { callWith, gib, snapshotsOf, volumeOf } from "../../contract/rig.ts";
import { everything } from "../../sample.ts";
import { pause } from "../../waiting.ts";
import { ended, exchanges, type Orders, opened, target } from "./attacker.ts";
import { anyMoment } from "./copying/rig.ts";
import { openOn, systemRunner, temporaryFolder, toolOf } from "./directory-rig.ts";

const call = callWith();
const isRoot = process.getuid?.() === 0;
const deletions = everything ? 500 : 150;

/** The names of a volume that the attacker exchanges: folder with link, file with link, a folder far down with one at the top. */
const pairs = [
  ["d0", "out0"],
  ["d1", "out1"],
  ["d2", "up"],
  ["d3", "file-out"],
  ["f0", "file-out"],
  ["deep/a/b", "flat"],
  ["d0/hard", "d1/hard"],
] as const;

let base = "";
const volumes = () => ["origin", ...Array.from({ length: deletions }, (_, index) => `doomed-${index}`)];
const state = new Int32Array(new SharedArrayBuffer(16));
let worker: Worker;

/** A volume that a pod has prepared: folders, and next to each a link that leads out of it. */
async function prepare(volume: string): Promise<void> {
  const at = `${base}/v/${volume}`;
  for (const name of ["d0", "d1", "d2", "d3", "deep/a/b/c", "flat"]) {
    await mkdir(`${at}/${name}`, { recursive: true });
    await writeFile(`${at}/${name}/own`, "own");
  }
  await writeFile(`${at}/f0`, "own");
  for (const name of ["d0", "d1"]) await link(`${at}/f0`, `${at}/${name}/hard`);
  await symlink(`${base}/outside`, `${at}/out0`);
  await symlink("../victim", `${at}/out1`);
  await symlink("../../outside/sub", `${at}/up`);
  await symlink(`${base}/outside/secret`, `${at}/file-out`);
}

/** The contents of all files below a folder. */
async function contents(folder: string): Promise<ReadonlySet<string>> {
  return new Set(await Promise.all(below(folder, "files only").map(name => readFile(`${folder}/${name}`, "utf8"))));
}

async function turnTo(volume: number): Promise<void> {
  Atomics.store(state, target, volume);
  Atomics.notify(state, target);
  const until = Date.now() + 20_000;
  while (Atomics.load(state, opened) !== volume) {
    if (Date.now() > until) throw new Error("the attacker does not come");
    await pause(1);
  }
}

const secrets = ["outside/secret", "outside/sub/secret", "v/victim/secret"];
const outside = async () => {
  const there = await Promise.all(secrets.map(file => readFile(`${base}/${file}`, "utf8").catch(() => "lost")));
  return secrets.filter((_, index) => there[index] === "secret");
};
/** Nothing else has this much to do, and the machine may be busy. */
const patienceMs = 300_000;

beforeAll(async () => {
  base = await temporaryFolder();
  await mkdir(`${base}/outside/sub`, { recursive: true });
  await mkdir(`${base}/v/victim`, { recursive: true });
  for (const file of secrets) await writeFile(`${base}/${file}`, "secret", { mode: 0o600 });
  for (const volume of volumes()) await prepare(volume);
  Atomics.store(state, target, -1);
  worker = new Worker(new URL("attacker.ts", import.meta.url).href);
  const orders: Orders = { state, pairs, volumes: volumes().map(volume => `${base}/v/${volume}`) };
  worker.postMessage(orders);
});

afterAll(async () => {
  Atomics.store(state, ended, 1);
  Atomics.notify(state, target);
  while (Atomics.load(state, ended) !== 2) await pause(1);
  worker.terminate();
  await rm(base, { recursive: true, force: true });
});

describe.skipIf(!isRoot)("while a pod swaps folders of its volume with links that lead out of it", () => {
  /** The real tools; `without` is not installed. What a copy has brought is inspected before it can be removed. */
  const watching = (without: string | undefined, found: Set<string>): CommandRunner => ({
    ...systemRunner,
    run: async (command, signal) => {
      const { argv } = toolOf(command);
      if (argv[0] === without) throw new CommandError("test", without, "missing", "there is no such program");
      const output = await systemRunner.run(command, signal);
      if (argv[0] === "cp" || argv[0] === "rsync")
        for (const text of await contents(argv.at(-1) ?? "")) found.add(text);
      return output;
    },
  });

  test.each(
    (
      [
        ["cp", undefined, everything ? 500 : 150],
        ["rsync", "cp", everything ? 100 : 40],
      ] as const
    ).filter(([tool]) => tool === "cp" || Bun.which(tool)),
  )(
    "copies with %s contain nothing from outside",
    async (_, without, copies) => {
      const found = new Set<string>();
      const driver = openOn(base, { runner: watching(without, found) });
      const snapshots = snapshotsOf(driver);
      const codes = new Set<string>();
      const before = Atomics.load(state, exchanges);
      await turnTo(0);
      // With rsync about one copy in twenty escapes the exchanges: a fixed number of copies could see none succeed.
      for (let index = 0; index < copies || (codes.size < 2 && index < 20 * copies); index++) {
        const isClone = index % 2 === 0;
        const clone = volumeOf("clone", gib, { kind: "volume", id: "origin" });
        const code = await codeOf(isClone ? driver.create(clone, call) : snapshots.create("snap", "origin", {}, call));
        codes.add(code);
        if (code === "ok") await (isClone ? driver.delete("clone", call) : snapshots.delete("f/snap", call));
      }
      await turnTo(-1);
      expect([...found]).toEqual(["own"]);
      expect([...codes].sort()).toEqual(["aborted", "ok"]);
      expect(Atomics.load(state, exchanges) - before).toBeGreaterThan(20 * copies);
      expect(await outside()).toEqual(secrets);
    },
    patienceMs,
  );

  test.skipIf(!Bun.which("rsync"))(
    "what is given to another connection contains nothing from outside",
    async () => {
      const folder = `${base}/landing`;
      const tree = openOn(base).copySource?.tree;
      const moment = { ...anyMoment, name: "v/origin", stable: false };
      const found = new Set<string>();
      const codes = new Set<string>();
      await mkdir(folder);
      await turnTo(0);
      for (let index = 0; index < 60 || (codes.size < 2 && index < 600); index++) {
        const copied = tree?.(moment, call, reached =>
          copyFiles({ tree: reached, folder, stable: false, progress: () => {} }, call),
        );
        codes.add(await codeOf(copied ?? Promise.resolve()));
        for (const text of await contents(folder)) found.add(text);
      }
      await turnTo(-1);
      await rm(folder, { recursive: true });
      expect([...found]).toEqual(["own"]);
      expect([...codes].sort()).toEqual(["ok", "unavailable"]);
      expect(await outside()).toEqual(secrets);
    },
    patienceMs,
  );

  test(
    "deletions remove nothing outside",
    async () => {
      const driver = openOn(base);
      const codes = new Set<string>();
      const before = Atomics.load(state, exchanges);
      for (let index = 1; index <= deletions; index++) {
        await turnTo(index);
        codes.add(await codeOf(driver.delete(`doomed-${index - 1}`, call)));
      }
      await turnTo(-1);
      expect([...codes].filter(code => code !== "ok" && code !== "aborted")).toEqual([]);
      expect(Atomics.load(state, exchanges) - before).toBeGreaterThan(10 * deletions);
      expect(await outside()).toEqual(secrets);
    },
    patienceMs,
  );
});

describe.skipIf(!isRoot)("a volume in which something is mounted", () => {
  const run = async (...argv: [string, ...string[]]) => {
    const { exitCode, stderr } = await systemRunner.run({ argv }, call.signal);
    expect([exitCode, stderr]).toEqual([0, ""]);
  };
  const copy = (runner?: CommandRunner) =>
    openOn(base, runner && { runner }).create(volumeOf("mounted-copy", gib, { kind: "volume", id: "mounted" }), call);
  const point = () => `${base}/v/mounted/point`;
  const bind = () => run("mount", "--bind", `${base}/outside`, point());

  beforeAll(() => mkdir(point(), { recursive: true }));

  test("is not copied, because the mounted content would be missing", async () => {
    await bind();
    try {
      const error = await copy().catch(reason => reason);
      expect(error).toMatchObject({ code: "failed-precondition" });
      expect(error.message).toContain(point().replace(base, "<base folder>"));
    } finally {
      await run("umount", point());
    }
  });

  test("after its copy started is copied without the mount", async () => {
    const late: CommandRunner = {
      ...systemRunner,
      run: async (command, signal) => {
        if (toolOf(command).argv[0] === "cp") await bind();
        return systemRunner.run(command, signal);
      },
    };
    try {
      await copy(late);
    } finally {
      await run("umount", point());
    }
    expect(await readdir(`${base}/v/mounted-copy/point`)).toEqual([]);
  });
});

describe.skipIf(!isRoot)("a tree with paths longer than the limit", () => {
  const half = Array.from({ length: 12 }, () => "n".repeat(250)).join("/");

  test("is not copied, the message names none of its folders, and it can be deleted", async () => {
    for (const name of ["depths", "lower"]) await mkdir(`${base}/v/${name}/${half}`, { recursive: true });
    await rename(`${base}/v/lower`, `${base}/v/depths/${half}/lower`);
    const driver = openOn(base);
    const error = await driver
      .create(volumeOf("x", gib, { kind: "volume", id: "depths" }), call)
      .catch(reason => reason);
    expect(error).toMatchObject({ code: "failed-precondition" });
    expect(error.message).toContain("too long");
    expect(error.message).not.toContain("nnnn");
    await driver.delete("depths", call);
    expect(await readdir(`${base}/v`)).not.toContain("depths");
  });
});
