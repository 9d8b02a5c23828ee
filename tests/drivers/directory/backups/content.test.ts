import { describe, expect, test } from "bun:test";
import { execFileSync } from "node:child_process";
import { mkdir, readdir, readFile, rm, symlink, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { codeOf } from "../../../contract/driver-volumes.ts";
import { callWith, gib, snapshotsOf, volumeOf } from "../../../contract/rig.ts";
import { backupBy, backupStorage, backupTools, hasRestic, kopiaRepository, resticRepository } from "../backup-rig.ts";
import { leftOn } from "../directory-rig.ts";

const call = callWith();
const { base, opened, through } = backupStorage();

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

/** What a person has backed up; "through a link": what restic restores has a link in the middle of its path, to the original. */
const unfit = ["a link to nothing", "a link to a folder", "a file", "through a link"] as const;

test.skipIf(!hasRestic).each(unfit)(
  "a snapshot by restic that is %s is refused with a final code, moves nothing and leaves nothing",
  async what => {
    const { repository } = await opened(resticRepository());
    const [, top = ""] = repository.folder.split("/");
    const driver = through(repository, async (command, signal) => {
      const output = await repository.runner.run(command, signal);
      if (what === "through a link" && command.argv.includes("restore")) {
        const link = join(command.argv[command.argv.indexOf("--target") + 1] ?? "", top);
        await rm(link, { recursive: true });
        await symlink(`/${top}`, link);
      }
      return output;
    });
    const [mine, other] = [join(repository.folder, "mine"), join(repository.folder, "other")];
    for (const folder of what === "through a link" ? [mine, other] : [other]) await mkdir(folder);
    await writeFile(`${other}/file`, "precious");
    if (what === "a file") await writeFile(mine, "");
    if (what.startsWith("a link")) await symlink(what === "a link to nothing" ? "/absent" : other, mine);
    const id = await backupBy(repository, "restic", mine, ["daily"]);
    const source = { kind: "snapshot", id: `r/${id.slice(0, 32)}` } as const;
    const refused = await driver.create(volumeOf("b", gib, source), call).catch((error: unknown) => error);
    expect(refused).toMatchObject({ code: "failed-precondition", message: expect.stringContaining(id) });
    expect(await leftOn(base())).toEqual([]);
    expect((await readdir(repository.folder)).filter(name => name === "mine" || name === "other")).toHaveLength(2);
    expect(await readFile(`${other}/file`, "utf8")).toBe("precious");
  },
  60_000,
);
