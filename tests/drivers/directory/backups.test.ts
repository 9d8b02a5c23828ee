import { describe, expect, test } from "bun:test";
import { spawn } from "node:child_process";
import { once } from "node:events";
import { chmod, lstat, mkdir, readdir, readFile, readlink, stat, symlink, writeFile } from "node:fs/promises";
import { join } from "node:path";
import type { Command } from "../../../lib/io/runner.ts";
import { driverContract } from "../../contract/driver.ts";
import { codeOf } from "../../contract/driver-volumes.ts";
import { callWith, gib, snapshotIds, snapshotsOf, volumeOf } from "../../contract/rig.ts";
import { pause } from "../../waiting.ts";
import {
  backupBy,
  backupRig,
  backupStorage,
  backupTools,
  hasRestic,
  kopiaRepository,
  newResticRepository,
  resticRepository,
} from "./backup-rig.ts";
import { leftOn, openOn } from "./directory-rig.ts";

driverContract("local-hostpath with kopia", async () => backupRig(await kopiaRepository()), {
  ...{ "snapshots hold their volume": "snapshots are copies", kept: "copies need nothing" },
  modify: "folders have no properties",
  groupSnapshots: "copies are not made at one moment",
});

const call = callWith();
const { base, opened, through } = backupStorage();

describe.each(backupTools)("snapshots by %s", (_, repositoryOf, tool) => {
  test("contain the folder of a volume with its whole content, and so does a volume made from one", async () => {
    const driver = await opened(repositoryOf());
    await driver.create(volumeOf("a"), call);
    await mkdir(`${base()}/v/a/sub`);
    await writeFile(`${base()}/v/a/sub/file`, "then");
    await symlink("/etc/passwd", `${base()}/v/a/link`);
    await chmod(`${base()}/v/a`, 0o750);
    const snapshot = await snapshotsOf(driver).create("s", "a", {}, call);
    expect(snapshot).toMatchObject({ volumeId: "a", bytes: gib, ready: true });
    await writeFile(`${base()}/v/a/sub/file`, "now");
    const source = { kind: "snapshot", id: snapshot.id } as const;
    expect((await driver.create(volumeOf("b", gib, source), call)).bytes).toBe(gib);
    expect(await readFile(`${base()}/v/b/sub/file`, "utf8")).toBe("then");
    expect([(await lstat(`${base()}/v/b/link`)).isSymbolicLink(), await readlink(`${base()}/v/b/link`)]).toEqual([
      true,
      "/etc/passwd",
    ]);
    expect((await stat(`${base()}/v/b`)).mode & 0o777).toBe(0o750);
    expect((await readdir(`${base()}/v/b`)).sort()).toEqual(["link", "sub"]);
    expect(await codeOf(driver.create(volumeOf("c", gib / 2n, source), call))).toBe("out-of-range");
    await snapshotsOf(driver).delete(snapshot.id, call);
    expect(await snapshotIds(driver)).toEqual([]);
    for (const id of ["a", "b"]) await driver.delete(id, call);
    expect(await leftOn(base())).toEqual([]);
  }, 60_000);

  test("coexist with copies, have ids of their own, and are listed in the same pages", async () => {
    const driver = await opened(repositoryOf());
    await driver.create(volumeOf("a"), call);
    const snapshots = snapshotsOf(driver);
    const copy = await snapshots.create("same name", "a", { driver: "filecopy" }, call);
    const backup = await snapshots.create("same name", "a", { driver: tool }, call);
    const first = await snapshots.list({ volumeId: undefined }, { token: undefined, max: 1 }, call);
    const second = await snapshots.list({ volumeId: "a" }, { token: first.next, max: 1 }, call);
    expect([first, second].map(({ items }) => items.map(({ id }) => id))).toEqual([[copy.id], [backup.id]]);
    expect(second.next).toBeUndefined();
    await snapshots.delete(copy.id, call);
    expect(await snapshotIds(driver)).toEqual([backup.id]);
  }, 60_000);

  test("interrupted after the tool has read everything are taken again, and nothing of the first remains", async () => {
    const driver = await opened(repositoryOf());
    await driver.create(volumeOf("a"), call);
    const { repository } = driver;
    const isReading = ({ argv }: Command) =>
      argv.includes("backup") || (argv.includes("create") && argv.includes("snapshot"));
    const dying = through(repository, async (command, signal) => {
      const output = await repository.runner.run(command, signal);
      if (isReading(command)) throw new Error("the process was killed");
      return output;
    });
    await expect(snapshotsOf(dying).create("s", "a", {}, call)).rejects.toThrow();
    const snapshot = await snapshotsOf(driver).create("s", "a", {}, call);
    expect(await snapshotIds(driver)).toEqual([snapshot.id]);
    expect(await snapshotsOf(driver).create("s", "a", {}, call)).toEqual(snapshot);
  }, 60_000);

  const foreign: readonly (readonly [string, readonly string[]])[] = [
    ["another program", ["daily"]],
    [
      "another connection",
      ["source=csimux", "csi_connection=c2", "csi_snapshot_name=s", "csi_volume_id=a", "csi_complete"],
    ],
    [
      "a democratic-csi of another instance",
      ["source=democratic-csi", "csi_volume_id=acsi_instance_id=b", "csi_instance_id=b"],
    ],
  ];
  test.each(foreign)(
    "made by %s are restored, and never deleted",
    async (_who, tags) => {
      const driver = await opened(repositoryOf());
      const mine = join(driver.repository.folder, "mine");
      await mkdir(mine);
      await writeFile(`${mine}/file`, "precious");
      const id = await backupBy(driver.repository, tool, mine, tags);
      const handles = [`${tool[0]}/${id.slice(0, 32)}`, `snapshot_driver=${tool}&snapshot_id=${id}`];
      for (const handle of handles) {
        const error = await snapshotsOf(driver)
          .delete(handle, call)
          .catch((thrown: unknown) => thrown);
        expect(error).toMatchObject({ code: "failed-precondition" });
        expect(String(error)).toContain(`"${id}" was made by`);
      }
      await driver.create(volumeOf("b", gib, { kind: "snapshot", id: handles[0] ?? "" }), call);
      expect(await readFile(`${base()}/v/b/file`, "utf8")).toBe("precious");
      expect(await snapshotIds(driver)).toEqual([]);
    },
    60_000,
  );

  test("made by the democratic-csi before it are deleted", async () => {
    const driver = await opened(repositoryOf());
    const mine = join(driver.repository.folder, "a");
    await mkdir(mine);
    const id = await backupBy(driver.repository, tool, mine, ["source=democratic-csi", "csi_volume_id=a"]);
    const handle = `snapshot_driver=${tool}&snapshot_id=${id}`;
    expect(await snapshotsOf(driver).get(handle, call)).toMatchObject({ volumeId: "a" });
    await snapshotsOf(driver).delete(handle, call);
    expect(await codeOf(snapshotsOf(driver).get(handle, call))).toBe("not-found");
  }, 60_000);

  test("taken by two controllers under one name are one snapshot and are deleted together", async () => {
    const driver = await opened(repositoryOf());
    await driver.create(volumeOf("a"), call);
    const { repository } = driver;
    const other = through(repository, (command, signal) => repository.runner.run(command, signal));
    const first = await snapshotsOf(driver).create("other", "a", {}, call);
    const made = await Promise.all([driver, other].map(each => snapshotsOf(each).create("s", "a", {}, call)));
    const again = await snapshotsOf(other).create("s", "a", {}, call);
    expect(made.map(({ volumeId }) => volumeId)).toEqual(["a", "a"]);
    await snapshotsOf(driver).delete(again.id, call);
    expect(await snapshotIds(other)).toEqual([first.id]);
  }, 60_000);

  test("that the repository keeps after a deletion are not reported as deleted", async () => {
    const driver = await opened(repositoryOf());
    await driver.create(volumeOf("a"), call);
    const { id } = await snapshotsOf(driver).create("s", "a", {}, call);
    const { repository } = driver;
    const refusing = through(repository, async (command, signal) => {
      const removes = command.argv.includes("forget") || command.argv.includes("delete");
      return removes ? { exitCode: 0, stdout: "", stderr: "" } : await repository.runner.run(command, signal);
    });
    expect(await codeOf(snapshotsOf(refusing).delete(id, call))).toBe("unavailable");
    expect(await snapshotIds(driver)).toEqual([id]);
  }, 60_000);

  test("do not count as missing when the tool prints nothing", async () => {
    const driver = await opened(repositoryOf());
    await driver.create(volumeOf("a"), call);
    const { id } = await snapshotsOf(driver).create("s", "a", {}, call);
    const { repository } = driver;
    const silent = through(repository, async (command, signal) => {
      const lists = command.argv.includes("snapshots") || command.argv.includes("list");
      return lists ? { exitCode: 0, stdout: "", stderr: "" } : await repository.runner.run(command, signal);
    });
    expect(await codeOf(snapshotsOf(silent).delete(id, call))).toBe("unavailable");
    expect(await codeOf(snapshotsOf(silent).create("s", "a", {}, call))).toBe("unavailable");
    expect(await snapshotIds(driver)).toEqual([id]);
  }, 60_000);

  test("never show a secret in a command line", async () => {
    const driver = await opened(repositoryOf());
    await driver.create(volumeOf("a"), call);
    const { repository } = driver;
    const lines: string[] = [];
    const watched = through(repository, (command, signal) => {
      lines.push(command.argv.join(" "));
      return repository.runner.run(command, signal);
    });
    const { id } = await snapshotsOf(watched).create("s", "a", {}, call);
    await watched.create(volumeOf("b", gib, { kind: "snapshot", id }), call);
    expect(lines.filter(line => line.includes("nsenter")).length).toBeGreaterThan(0);
    expect(lines.filter(line => /a secret word|good token/.test(line))).toEqual([]);
    await watched.close?.();
  }, 60_000);
});

test("a snapshot with an unreadable part fails and leaves nothing", async () => {
  const driver = await opened(kopiaRepository({ env: { KOPIA_FAULT: "torn" } }));
  await driver.create(volumeOf("a"), call);
  expect(await codeOf(snapshotsOf(driver).create("s", "a", {}, call))).toBe("unavailable");
  expect(await readdir(join(driver.repository.folder, "repository"))).toEqual([]);
  await driver.close?.();
});

test("an invalid token is reported as such", async () => {
  const driver = await opened(kopiaRepository({ token: "bad token" }));
  await driver.create(volumeOf("a"), call);
  expect(await codeOf(snapshotsOf(driver).create("s", "a", {}, call))).toBe("failed-precondition");
  await driver.close?.();
});

test.skipIf(!hasRestic)(
  "restic files all snapshots under one host, each with tags of its own, in a repository that csimux makes",
  async () => {
    const driver = await opened(newResticRepository());
    const { runner, settings } = driver.repository;
    await driver.create(volumeOf("a"), call);
    for (const name of ["s", "t"]) await snapshotsOf(driver).create(name, "a", {}, call);
    const listing = { argv: ["restic", "snapshots", "--json"], env: settings.restic?.env ?? {} } as const;
    const found: { hostname: string; tags: string[] }[] = JSON.parse((await runner.run(listing, call.signal)).stdout);
    expect(found.map(({ hostname }) => hostname)).toEqual(["csimux", "csimux"]);
    for (const { tags } of found) {
      expect(tags.length).toBeGreaterThan(1);
      expect(tags.filter(tag => !/^[a-z_]+(=[^,]+)?$/.test(tag))).toEqual([]);
    }
    expect(found[0]?.tags).not.toEqual(found[1]?.tags);
  },
  60_000,
);

test.skipIf(!hasRestic)(
  "snapshots that democratic-csi made with restic are restored and deleted by their handles",
  async () => {
    const driver = await opened(resticRepository());
    const { runner, settings, folder } = driver.repository;
    const env = settings.restic?.env ?? {};
    const restic = async (...words: string[]) =>
      await runner.run({ argv: ["restic", ...words] as never, env }, call.signal);
    await mkdir(`${folder}/old/v/pvc-1`, { recursive: true });
    await writeFile(`${folder}/old/v/pvc-1/file`, "old");
    const tags = ["--tag", "source=democratic-csi", "--tag", "csi_volume_id=pvc-1"];
    await restic("backup", "--host", "undefined", ...tags, `${folder}/old/v/pvc-1`);
    const [{ id }] = JSON.parse((await restic("snapshots", "--json")).stdout);
    const handle = `snapshot_driver=restic&snapshot_id=${id}`;
    expect(await snapshotsOf(driver).get(handle, call)).toMatchObject({ id: handle, volumeId: "pvc-1", bytes: 0n });
    await driver.create(volumeOf("b", gib, { kind: "snapshot", id: handle }), call);
    expect(await readdir(`${base()}/v/b`)).toEqual(["file"]);
    expect(await snapshotIds(driver)).toEqual([]);
    await snapshotsOf(driver).delete(handle, call);
    expect(JSON.parse((await restic("snapshots", "--json")).stdout)).toEqual([]);
  },
  60_000,
);

test.skipIf(!hasRestic)(
  "snapshots that are taken at the same time do not lock each other out, and two connections make one repository",
  async () => {
    const driver = await opened(newResticRepository());
    for (const id of ["a", "b", "c"]) await driver.create(volumeOf(id), call);
    const other = through(driver.repository, driver.repository.runner.run);
    expect(await Promise.all([driver, other].map(each => snapshotIds(each)))).toEqual([[], []]);
    const by = (id: string) => snapshotsOf(id === "a" ? other : driver);
    await Promise.all(["a", "b", "c"].map(id => by(id).create(`s-${id}`, id, {}, call)));
    expect(await readdir(join(driver.repository.folder, "repository", "keys"))).toHaveLength(1);
    const ids = await snapshotIds(driver);
    expect(ids).toHaveLength(3);
    await Promise.all(ids.map(id => by(id).delete(id, call)));
    expect(await snapshotIds(driver)).toEqual([]);
  },
  120_000,
);

test.skipIf(!hasRestic)("a repository with another password is not changed", async () => {
  const right = await opened(resticRepository());
  await right.create(volumeOf("a"), call);
  await snapshotsOf(right).create("s", "a", {}, call);
  const { runner, settings } = right.repository;
  const env = { ...settings.restic?.env, RESTIC_PASSWORD: "another word" };
  const restic = { flags: [], tags: [], prune: false, env };
  const wrong = openOn(base(), { runner, settings: { ...settings, restic } });
  expect(await codeOf(snapshotsOf(wrong).create("t", "a", {}, call))).toBe("failed-precondition");
  expect(await snapshotIds(right)).toHaveLength(1);
});

test.skipIf(!hasRestic)(
  "a lock that a killed restic left does not stay in the way",
  async () => {
    const driver = await opened(resticRepository());
    await driver.create(volumeOf("a"), call);
    const { id } = await snapshotsOf(driver).create("s", "a", {}, call);
    const { folder, settings } = driver.repository;
    const env = { ...process.env, ...settings.restic?.env };
    // It reads what never comes, and holds its lock until then.
    const hanging = spawn("restic", ["backup", "--no-cache", "--stdin"], { env, stdio: ["pipe", "ignore", "ignore"] });
    const locks = () => readdir(join(folder, "repository", "locks"));
    // restic writes a lock under another name first; killed then, it would leave what no restic takes for a lock.
    const isLocked = async () => (await locks()).some(name => /^[0-9a-f]{64}$/.test(name));
    for (const until = Date.now() + 60_000; !(await isLocked()) && Date.now() < until; ) await pause(50);
    expect(await locks()).toHaveLength(1);
    hanging.kill("SIGKILL");
    await once(hanging, "exit");
    await snapshotsOf(driver).delete(id, call);
    expect(await snapshotIds(driver)).toEqual([]);
    expect(await locks()).toEqual([]);
  },
  120_000,
);
