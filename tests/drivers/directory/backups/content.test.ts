import { expect, test } from "bun:test";
import { readdir, writeFile } from "node:fs/promises";
import { codeOf } from "../../../contract/driver-volumes.ts";
import { callWith, gib, snapshotsOf, volumeOf } from "../../../contract/rig.ts";
import { backupStorage, kopiaRepository } from "../backup-rig.ts";

const call = callWith();
const { base, opened } = backupStorage();

test("a volume whose files cannot get the owners that they have in a snapshot by kopia is not made", async () => {
  const driver = await opened(kopiaRepository({ env: { KOPIA_FAULT: "squashed" } }));
  await driver.create(volumeOf("a"), call);
  await writeFile(`${base()}/v/a/file`, "mine");
  const { id } = await snapshotsOf(driver).create("s", "a", {}, call);
  expect(await codeOf(driver.create(volumeOf("b", gib, { kind: "snapshot", id }), call))).toBe("failed-precondition");
  expect(await readdir(`${base()}/v`)).toEqual(["a"]);
});
