import { describe, expect, test } from "bun:test";
import { execFileSync } from "node:child_process";
import { readdir, readFile, writeFile } from "node:fs/promises";
import { codeOf } from "../../../contract/driver-volumes.ts";
import { callWith, gib, snapshotsOf, volumeOf } from "../../../contract/rig.ts";
import { backupStorage, backupTools, kopiaRepository } from "../backup-rig.ts";

const call = callWith();
const { base, opened } = backupStorage();

describe.each(backupTools)("a snapshot by %s", (_, repositoryOf) => {
  test("has what a program has written through a mapping since the last one, which changes no time of the file", async () => {
    const driver = await opened(repositoryOf());
    await driver.create(volumeOf("a"), call);
    const file = `${base()}/v/a/file`;
    await writeFile(file, "0000");
    const mapped = Bun.mmap(file, { shared: true });
    mapped[0] = 0x31;
    await snapshotsOf(driver).create("first", "a", {}, call);
    mapped[1] = 0x31;
    execFileSync("sync", ["--file-system", file]);
    const { id } = await snapshotsOf(driver).create("second", "a", {}, call);
    await driver.create(volumeOf("b", gib, { kind: "snapshot", id }), call);
    expect(await readFile(`${base()}/v/b/file`, "utf8")).toBe("1100");
  }, 60_000);
});

test("a volume whose files cannot get the owners that they have in a snapshot by kopia is not made", async () => {
  const driver = await opened(kopiaRepository({ env: { KOPIA_FAULT: "squashed" } }));
  await driver.create(volumeOf("a"), call);
  await writeFile(`${base()}/v/a/file`, "mine");
  const { id } = await snapshotsOf(driver).create("s", "a", {}, call);
  expect(await codeOf(driver.create(volumeOf("b", gib, { kind: "snapshot", id }), call))).toBe("failed-precondition");
  expect(await readdir(`${base()}/v`)).toEqual(["a"]);
});

test("a snapshot by kopia with an unreadable part fails although the policy of all folders ignores that", async () => {
  const driver = await opened(kopiaRepository({ env: { KOPIA_FAULT: "ignored" } }));
  await driver.create(volumeOf("a"), call);
  expect(await codeOf(snapshotsOf(driver).create("s", "a", {}, call))).toBe("unavailable");
  expect(await readdir(`${driver.repository.folder}/repository`)).toEqual([]);
});
