import { describe, expect, test } from "bun:test";
import { chmod, readdir, readFile, rename, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { noRepository } from "../../../../lib/drivers/directory/backups/tool.ts";
import type { CommandRunner } from "../../../../lib/io/runner.ts";
import { codeOf } from "../../../contract/driver-volumes.ts";
import { callWith, gib, snapshotIds, snapshotsOf, volumeOf } from "../../../contract/rig.ts";
import {
  backupBy,
  backupStorage,
  backupTools,
  hasRestic,
  kopiaRepository,
  type Repository,
  resticRepository,
} from "../backup-rig.ts";

// Lists from which the tools leave out what they cannot read, or have not read again.

const call = callWith();
const { base, opened, through } = backupStorage();

/** A volume "a" with a snapshot. */
async function filled(made: Promise<Repository>) {
  const driver = await opened(made);
  await driver.create(volumeOf("a"), call);
  return { repository: driver.repository, driver, id: (await snapshotsOf(driver).create("s", "a", {}, call)).id };
}

/**
 * What the tools print with an empty list, and exit with 0, if the storage does not answer: restic 0.14 with a REST server that answers 500,
 * LoadSnapshots in snapshot/manager.go of kopia.
 */
const unread: Readonly<Record<string, readonly string[]>> = {
  restic: [
    "could not load snapshots: List failed, server response: 500 Internal Server Error (500)\n",
    'Ignoring "87a8e7f5", could not load snapshot: unexpected HTTP response (500): 500 Internal Server Error\n',
    "could not load snapshot 87a8e7f5: unexpected HTTP response (500): 500 Internal Server Error\n",
  ],
  kopia: ["unable to parse snapshot manifest 5c1e: unable to find manifest entries: blob not found\n"],
};

describe.each(backupTools)("snapshots by %s", (_, repositoryOf, tool) => {
  test("do not count as missing when the tool could not read them, and only says so", async () => {
    const { repository, driver, id } = await filled(repositoryOf());
    for (const stderr of unread[tool] ?? []) {
      const blind = through(repository, async (command, signal) => {
        const lists = command.argv.includes("snapshots") || command.argv.includes("list");
        return lists ? { exitCode: 0, stdout: "[]", stderr } : await repository.runner.run(command, signal);
      });
      expect(await codeOf(snapshotsOf(blind).delete(id, call))).toBe("unavailable");
      expect(await codeOf(snapshotsOf(blind).get(id, call))).toBe("unavailable");
      expect(await codeOf(snapshotIds(blind))).toBe("unavailable");
      expect(await codeOf(blind.create(volumeOf("b", gib, { kind: "snapshot", id }), call))).toBe("unavailable");
    }
    expect(await snapshotIds(driver)).toEqual([id]);
  }, 60_000);

  test("that another controller took after the last listing are there, and are deleted", async () => {
    const { repository, driver, id } = await filled(repositoryOf());
    const other = through(repository);
    expect(await snapshotIds(other)).toEqual([id]);
    const later = (await snapshotsOf(driver).create("t", "a", {}, call)).id;
    expect(await codeOf(snapshotsOf(other).get(later, call))).toBe("ok");
    await snapshotsOf(other).delete(later, call);
    expect(await snapshotIds(driver)).toEqual([id]);
  }, 60_000);

  test("that are deleted when their restore begins are not there, and nothing of the volume remains", async () => {
    const { repository, driver, id } = await filled(repositoryOf());
    const late = through(repository, async (command, signal) => {
      if (command.argv.includes("restore")) await snapshotsOf(driver).delete(id, call);
      return await repository.runner.run(command, signal);
    });
    expect(await codeOf(late.create(volumeOf("b", gib, { kind: "snapshot", id }), call))).toBe("not-found");
    expect(await readdir(join(base(), "v"))).toEqual(["a"]);
  }, 60_000);
});

test("a snapshot of which kopia cannot find a blob is there, and one that has been deleted during the restore is not", async () => {
  const { repository, driver, id } = await filled(kopiaRepository());
  let meanwhile = async () => {};
  const damaged = through(repository, async (command, signal) => {
    if (!command.argv.includes("restore")) return await repository.runner.run(command, signal);
    await meanwhile();
    const stderr = "ERROR error restoring: error copying: unable to open content: getContent: BLOB not found\n";
    return { exitCode: 1, stdout: "", stderr };
  });
  const restored = () => codeOf(damaged.create(volumeOf("b", gib, { kind: "snapshot", id }), call));
  expect(await restored()).toBe("unavailable");
  meanwhile = () => snapshotsOf(driver).delete(id, call);
  expect(await restored()).toBe("not-found");
}, 60_000);

test("an id with which several ids in the repository of restic begin does not count as missing", async () => {
  const { repository, id } = await filled(kopiaRepository());
  const restic = { flags: [], tags: [], prune: false, env: {} };
  // restic 0.14: cmd/restic/find.go, and MultipleIDMatchesError in internal/restic/backend_find.go.
  const stderr = `Ignoring "${id.slice(2)}": multiple IDs with prefix "${id.slice(2)}" found\n`;
  const run = async () => ({ exitCode: 0, stdout: "[]", stderr });
  const blind = through({ ...repository, settings: { snapshotDriver: "restic", restic } }, run);
  expect(await codeOf(snapshotsOf(blind).delete(`r/${id.slice(2)}`, call))).toBe("failed-precondition");
});

test.skipIf(!hasRestic)(
  "a snapshot whose record in the repository of restic is damaged is not reported as deleted",
  async () => {
    const { repository, driver, id } = await filled(resticRepository());
    const folder = join(repository.folder, "repository", "snapshots");
    const [name = ""] = await readdir(folder);
    const whole = await readFile(join(folder, name));
    await chmod(join(folder, name), 0o600);
    await writeFile(join(folder, name), "damaged");
    expect(await codeOf(snapshotsOf(driver).delete(id, call))).toBe("unavailable");
    await writeFile(join(folder, name), whole);
    await snapshotsOf(driver).delete(id, call);
    expect(await readdir(folder)).toEqual([]);
  },
  60_000,
);

/** A runner whose restic does not look for a complete id, as from 0.15 on (internal/restic/snapshot_find.go, FindSnapshot). */
const newer =
  ({ runner, folder }: Repository): CommandRunner["run"] =>
  async (command, signal) => {
    const output = await runner.run(command, signal);
    const id = command.argv.at(-1) ?? "";
    if (!/^[0-9a-f]{64}$/.test(id)) return output;
    const why = `failed to load snapshot ${id.slice(0, 8)}: open ${folder}/snapshots/${id}: no such file or directory`;
    return { ...output, stderr: output.stderr.replace(/^(Ignoring "[0-9a-f]{64}"): no matching .*/m, `$1: ${why}`) };
  };

test.skipIf(!hasRestic)(
  "a snapshot and its twin are deleted at once, whatever restic says of a complete id that does not exist",
  async () => {
    const { repository, driver, id } = await filled(resticRepository());
    const folder = join(repository.folder, "repository", "snapshots");
    const path = join(base(), "v", "a");
    const rows = await repository.runner.run(
      { argv: ["restic", "--no-cache", "snapshots", "--json"], env: { ...repository.settings.restic?.env } },
      call.signal,
    );
    const tags: readonly string[] = JSON.parse(rows.stdout)[0].tags;
    await backupBy(repository, "restic", path, tags);
    expect((await readdir(folder)).length).toBe(2);
    await snapshotsOf(through(repository, newer(repository))).delete(id, call);
    expect(await readdir(folder)).toEqual([]);
    expect(await snapshotIds(driver)).toEqual([]);
  },
  60_000,
);

test.skipIf(!hasRestic)(
  "no snapshot is reported as deleted, and no repository is made for that, while the repository of restic is missing",
  async () => {
    const { repository, driver, id } = await filled(resticRepository());
    const place = join(repository.folder, "repository");
    await rename(place, `${place}-away`);
    const later = through(repository);
    expect(await codeOf(snapshotsOf(later).delete(id, call))).toBe("failed-precondition");
    expect(await codeOf(snapshotsOf(later).get(id, call))).toBe("failed-precondition");
    expect(await codeOf(later.create(volumeOf("b", gib, { kind: "snapshot", id }), call))).toBe("failed-precondition");
    expect(await snapshotIds(later)).toEqual([]);
    expect(await readdir(repository.folder)).toEqual(["repository-away"]);
    await rename(`${place}-away`, place);
    expect(await snapshotIds(driver)).toEqual([id]);
    await snapshotsOf(later).delete(id, call);
    expect(await snapshotIds(driver)).toEqual([]);
  },
  60_000,
);

/** restic 0.14 to 0.18, cmd/restic/global.go, open; the messages of its object stores are in internal/backend. */
const unopened = (why: string) =>
  `Fatal: unable to open config file: ${why}\nIs there a repository at the following location?\nrest:http://nas/\n`;

test.skipIf(!hasRestic)(
  "a repository whose storage does not answer is neither empty nor made again",
  async () => {
    const { repository, id } = await filled(resticRepository());
    for (const why of [
      'Head "http://nas/config": dial tcp 192.0.2.1:80: connect: connection refused',
      "unexpected HTTP response (503): 503 Service Unavailable",
      "Stat: Please reduce your request rate.",
    ]) {
      const begun: unknown[] = [];
      const away = through(repository, async (command, signal) => {
        if (command.argv.includes("init")) begun.push(command.argv);
        if (!command.argv.includes("cat")) return await repository.runner.run(command, signal);
        return { exitCode: 1, stdout: "", stderr: unopened(why) };
      });
      expect(await codeOf(snapshotIds(away))).toBe("unavailable");
      expect(await codeOf(snapshotsOf(away).create("t", "a", {}, call))).toBe("unavailable");
      expect(await codeOf(snapshotsOf(away).delete(id, call))).toBe("unavailable");
      expect(begun).toEqual([]);
    }
  },
  60_000,
);

test.each([
  unopened("stat /srv/backups/config: no such file or directory"),
  unopened("Stat: The specified key does not exist."),
  unopened("<config/> does not exist"),
  unopened("storage: object doesn't exist"),
  unopened("Object Not Found"),
  "Fatal: repository does not exist: unable to open config file: <config/> does not exist\nIs there a repository at the following location?\nrest:http://nas/\n",
])("%j means that there is no repository", stderr => expect(noRepository.test(stderr)).toBe(true));

test.skipIf(!hasRestic)(
  "restic's backup waits for another user's lock, and for nothing that a file is called",
  async () => {
    const { repository } = await filled(resticRepository());
    let backups = 0;
    const answering = (stderr: string, exitCode: number) =>
      through(repository, async (command, signal) => {
        if (!command.argv.includes("backup") || backups++ > 0) return repository.runner.run(command, signal);
        return { stdout: "", stderr, exitCode };
      });
    // restic 0.14, cmd/restic/lock.go, and 0.17, whose exit code is 11.
    for (const exitCode of [1, 11]) {
      backups = 0;
      const locked = answering(
        "unable to create lock in backend: repository is already locked exclusively by PID 1 on x\n",
        exitCode,
      );
      await snapshotsOf(locked).create(`t${exitCode}`, "a", {}, call);
      expect(backups).toBe(2);
    }
    backups = 0;
    const named = answering('{"message_type":"error","error":{"Op":"open","Path":"already locked","Err":5}}\n', 3);
    expect(await codeOf(snapshotsOf(named).create("u", "a", {}, call))).not.toBe("ok");
    expect(backups).toBe(1);
  },
);
