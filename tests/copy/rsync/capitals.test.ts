import { afterEach, beforeEach, describe, expect, test } from "bun:test";
import { mkdir, mkdtemp, readdir, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { copyFiles } from "../../../lib/copies/rsync/rsync.ts";
import { localRunner } from "../../../lib/io/local.ts";
import type { CommandRunner } from "../../../lib/io/runner.ts";
import { callWith } from "../../contract/rig.ts";
import { isHostRoot } from "../../root.ts";

const local = localRunner({ env: { PATH: process.env["PATH"] ?? "/usr/bin:/bin" } });
const call = callWith();

describe.skipIf(!isHostRoot || !Bun.which("rsync"))("a copy of a volume in use to a share of SMB", () => {
  let base = "";
  let from = "";
  let to = "";
  beforeEach(async () => {
    base = await mkdtemp(`${tmpdir()}/csimux-capitals-`);
    [from, to] = [`${base}/from`, `${base}/to`];
    for (const folder of [from, to, `${from}/a b`]) await mkdir(folder);
    for (const name of ["Name\n", "name\n", "other"]) await writeFile(`${from}/a b/${name}`, name);
  });
  afterEach(() => rm(base, { recursive: true, force: true }));

  /** Copies to a share; `server` is what its server does after each run of rsync. */
  async function copied(server: () => Promise<void>): Promise<string> {
    const runner: CommandRunner = {
      where: "test",
      async run(command, signal) {
        if (command.argv[0] === "stat") return { stdout: "ef53\nfe534d42\n", stderr: "", exitCode: 0 };
        const output = await local.run(command, signal);
        if (command.argv.includes("rsync")) await server();
        return output;
      },
    };
    const work = { tree: { path: from, runner }, folder: to, stable: false, progress: () => {} };
    return copyFiles(work, call).then(
      () => "done",
      ({ code, message }) => `${code}: ${message}`,
    );
  }

  test("fails if its server takes two names of the source for one, until they are not", async () => {
    const oneFile = () => rm(`${to}/a b/Name\n`, { force: true });
    expect(await copied(oneFile)).toBe(
      'unavailable: the target does not tell capitals from small letters, and has one of "a b/Name\\n" and "a b/name\\n"; rename all but one of them in the source; retrying',
    );
    await rm(`${from}/a b/Name\n`);
    expect(await copied(oneFile)).toBe("done");
  });

  test("has both files where its server tells them apart", async () => {
    expect(await copied(async () => {})).toBe("done");
    expect((await readdir(`${to}/a b`)).toSorted()).toEqual(["Name\n", "name\n", "other"]);
  });

  test("fails while the names of the source cannot be listed to the end", async () => {
    const gone = () => rm(from, { recursive: true });
    expect(await copied(gone)).toBe("unavailable: the names of the files cannot be listed to the end; retrying");
  });
});
