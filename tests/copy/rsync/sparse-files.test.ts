import { afterEach, beforeEach, describe, expect, test } from "bun:test";
import { execFileSync } from "node:child_process";
import { existsSync } from "node:fs";
import { chmod, chown, link, lstat, mkdir, mkdtemp, rm, symlink, truncate, utimes, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { copyFiles } from "../../../lib/copies/rsync/rsync.ts";
import { localRunner } from "../../../lib/io/local.ts";
import { callWith } from "../../contract/rig.ts";
import { isHostRoot } from "../../root.ts";
import { attribute, setAttribute } from "./attributes.ts";

const runner = localRunner({ env: { PATH: process.env["PATH"] ?? "/usr/bin:/bin" } });
const call = callWith();

let base = "";
let from = "";
let to = "";
beforeEach(async () => {
  base = await mkdtemp(`${tmpdir()}/csimux-sparse-files-`);
  [from, to] = [`${base}/from`, `${base}/to`];
  await mkdir(from);
  await mkdir(to);
});
afterEach(() => rm(base, { recursive: true, force: true }));

const copy = (stable: boolean, compare: boolean) =>
  copyFiles(
    { tree: { path: from, runner }, folder: to, stable, compare: compare ? "all" : [], progress: () => {} },
    call,
  );

/** Everything about the tree but contents. */
const shape = `find . -printf '%P %y %m %U %G %n %s %T@ %l\\0' | sort -z | tr '\\0' '\\n'`;

describe.skipIf(!isHostRoot || !Bun.which("rsync"))("a copy by files", () => {
  test.each([
    [true, false],
    [true, true],
    [false, false],
    [false, true],
  ])(
    "does not read holes: 8 TiB without data take seconds (stable %p, compared by content %p)",
    async (stable, compare) => {
      await mkdir(`${from}/a*b [c]/\\d?`, { recursive: true });
      const odd = `${from}/a*b [c]/\\d?/\n\\#012 é is over max-size`;
      for (const path of [`${from}/disk`, odd, `${from}/-t`]) {
        await writeFile(path, "");
        await truncate(path, 8 * 2 ** 40);
      }
      execFileSync("sh", ["-c", "printf tail | dd of=disk bs=1 seek=4398046511104 conv=notrunc status=none"], {
        cwd: from,
      });
      await link(`${from}/disk`, `${from}/hard`);
      await chown(odd, 1234, 4321);
      await chmod(odd, 0o640);
      setAttribute(odd, "user.color", Buffer.from("blue"));
      await writeFile(`${from}/dense`, "x".repeat(70_000_000));
      execFileSync("sh", ["-c", "truncate -s 65M \"$(printf '\\377')\""], { cwd: from });
      // What an earlier copy has left there is replaced, and a link is not followed.
      await symlink(`${base}/outside`, `${to}/-t`);
      await writeFile(`${to}/hard`, "other");
      for (const name of ["disk", "dense", "a*b [c]/\\d?", "a*b [c]", "."])
        await utimes(`${from}/${name}`, 1e9, 1e9 + 0.123456);
      for (let run = 0; run < 2; run++) {
        await copy(stable, compare);
        expect(execFileSync("sh", ["-c", shape], { cwd: to, encoding: "latin1" })).toBe(
          execFileSync("sh", ["-c", shape], { cwd: from, encoding: "latin1" }),
        );
      }
      const tail = ["-c", "dd if=disk bs=1 skip=4398046511104 count=4 status=none"];
      expect(execFileSync("sh", tail, { cwd: to, encoding: "latin1" })).toBe("tail");
      expect((await lstat(`${to}/hard`)).ino).toBe((await lstat(`${to}/disk`)).ino);
      expect(attribute(odd.replace(from, to), "user.color")).toBe(Buffer.from("blue").toString("hex"));
      expect(existsSync(`${base}/outside`)).toBe(false);
    },
  );

  test("a path that is too long for rsync is named, by a final error", async () => {
    const deep = 'for at in $(seq 30); do mkdir "$0" && cd -P "./$0" || exit 1; done; : >file';
    execFileSync("sh", ["-c", deep, "x".repeat(200)], { cwd: from });
    await writeFile(`${from}/other`, "other");
    expect(await copy(true, false).catch(({ code, message }) => `${code}: ${message}`)).toMatch(
      /^invalid-argument: the source has a path that cannot be copied, "x{200}\.\.\.": it has more than 4096 bytes.*shorten it/,
    );
  });
});
