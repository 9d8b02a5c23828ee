import { afterEach, beforeEach, describe, expect, test } from "bun:test";
import { mkdir, readdir, readFile, rm, symlink, utimes, writeFile } from "node:fs/promises";
import { join } from "node:path";
import type { Driver } from "../../../../lib/drivers/driver.ts";
import { callWith, gib, snapshotIds, snapshotsOf, volumeOf } from "../../../contract/rig.ts";
import { kopias, type Repository } from "../backup-rig.ts";
import { openOn, temporaryFolder } from "../directory-rig.ts";

// What kopia does with the snapshots of a folder unless a policy says otherwise.

const call = callWith();
describe.each(kopias)("%s", (_, repositoryOf) => {
  let base = "";
  let repository: Repository;
  let driver: Driver;
  beforeEach(async () => {
    base = await temporaryFolder();
    repository = await repositoryOf();
    driver = openOn(base, { runner: repository.runner, settings: repository.settings });
    await driver.create(volumeOf("a"), call);
  });
  afterEach(async () => {
    await driver.close?.();
    for (const folder of [base, repository.folder]) await rm(folder, { recursive: true, force: true });
  });

  /** What a volume restored from a new snapshot of "a" contains. */
  async function restored(): Promise<readonly string[]> {
    const { id } = await snapshotsOf(driver).create("s", "a", {}, call);
    await driver.create(volumeOf("b", gib, { kind: "snapshot", id }), call);
    return (await readdir(join(base, "v", "b"), { recursive: true })).toSorted();
  }

  test("deletes no earlier snapshot of a volume, however many there are", async () => {
    const made: string[] = [];
    for (let number = 0; number < 12; number++)
      made.push((await snapshotsOf(driver).create(`s${number}`, "a", {}, call)).id);
    expect(await snapshotIds(driver)).toEqual(made.toSorted());
  }, 60_000);

  test("leaves out no folder that a program has marked as a cache", async () => {
    await mkdir(join(base, "v", "a", "target"));
    await writeFile(join(base, "v", "a", "target", "CACHEDIR.TAG"), "Signature: 8a477f597d28d172789f06886806bc55");
    await writeFile(join(base, "v", "a", "target", "data"), "data");
    expect(await restored()).toEqual(["target", "target/CACHEDIR.TAG", "target/data"]);
  });

  test("leaves nothing out for a file .kopiaignore of a pod, so that a link to a file of others does not tell what that contains", async () => {
    await driver.create(volumeOf("other"), call);
    await writeFile(join(base, "v", "other", "secret"), "guess\n");
    await symlink(join(base, "v", "other", "secret"), join(base, "v", "a", ".kopiaignore"));
    await writeFile(join(base, "v", "a", "guess"), "");
    expect(await restored()).toEqual([".kopiaignore", "guess"]);
  });

  test("takes the content of a file whose time and size are those of the last snapshot", async () => {
    const file = join(base, "v", "a", "file");
    const write = async (text: string) => {
      await writeFile(file, text);
      await utimes(file, 1, 1);
    };
    await write("before");
    await snapshotsOf(driver).create("first", "a", {}, call);
    await write("after!");
    expect(await restored()).toEqual(["file"]);
    expect(await readFile(join(base, "v", "b", "file"), "utf8")).toBe("after!");
  });
});
