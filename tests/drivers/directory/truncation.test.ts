import { expect, test } from "bun:test";
import { mkdir, rm, writeFile } from "node:fs/promises";
import { join } from "node:path";
import type { Driver } from "../../../lib/drivers/driver.ts";
import type { Command } from "../../../lib/io/runner.ts";
import { callWith, gib, snapshotIds, snapshotsOf, volumeOf } from "../../contract/rig.ts";
import { truncation } from "../../contract/truncation.ts";
import { backupBy, backupTools } from "./backup-rig.ts";
import { openOn, temporaryFolder } from "./directory-rig.ts";

const call = callWith();

/** Commands that make, mark or remove a backup. */
const changes = ({ argv }: Command): boolean =>
  argv.some(word => ["backup", "tag", "forget", "create", "delete"].includes(word));

test.each(backupTools)(
  "a truncated, doubled or late output of %s causes no wrong result and deletes no other backup",
  async (_, repositoryOf, tool) => {
    const [base, repository] = [await temporaryFolder(), await repositoryOf()];
    const opened: Driver[] = [];
    const open = (runner = repository.runner): Driver => {
      const driver = openOn(base, { runner, settings: repository.settings });
      opened.push(driver);
      return driver;
    };
    const isTool = ({ argv }: Command): boolean => argv.includes(tool);
    const fuzz = (work: (driver: Driver) => Promise<unknown>): Promise<number> =>
      truncation({ runner: repository.runner, isTool, changes, work: replay => work(open(replay)) });
    try {
      const driver = open();
      await driver.create(volumeOf("a"), call);
      await writeFile(`${base}/v/a/file`, "content");
      const { id } = await snapshotsOf(driver).create("s", "a", {}, call);
      await snapshotsOf(driver).create("t", "a", {}, call);
      const mine = join(repository.folder, "mine");
      await mkdir(mine);
      const foreign = `${tool[0]}/${(await backupBy(repository, tool, mine, ["daily"])).slice(0, 32)}`;

      let runs = 0;
      runs += await fuzz(each => snapshotIds(each));
      runs += await fuzz(each => snapshotsOf(each).get(id, call));
      runs += await fuzz(each => snapshotsOf(each).create("s", "a", {}, call));
      runs += await fuzz(each => snapshotsOf(each).delete(foreign, call));
      runs += await fuzz(async each => {
        // Whatever an earlier run made is gone again: each begins with nothing.
        await driver.delete("b", call);
        return await each.create(volumeOf("b", gib, { kind: "snapshot", id }), call);
      });
      runs += await fuzz(each => snapshotsOf(each).delete(id, call));
      expect(runs).toBeGreaterThan(500);
    } finally {
      for (const driver of opened) await driver.close?.();
      for (const folder of [base, repository.folder]) await rm(folder, { recursive: true, force: true });
    }
  },
  120_000,
);
