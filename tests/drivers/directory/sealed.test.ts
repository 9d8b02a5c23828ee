import { afterEach, beforeEach, describe, expect, test } from "bun:test";
import { chmod, mkdir, readdir, rm, stat, symlink, writeFile } from "node:fs/promises";
import { parseMountinfo } from "../../../lib/core/mountinfo.ts";
import { isSealed, sealPoint } from "../../../lib/drivers/directory/sealed.ts";
import { localFiles } from "../../../lib/io/files.ts";
import { localRunner } from "../../../lib/io/local.ts";
import { codeOf } from "../../contract/driver-volumes.ts";
import { callWith, gib, snapshotsOf, volumeIds, volumeOf } from "../../contract/rig.ts";
import { openOn, temporaryFolder } from "./directory-rig.ts";

const call = callWith();
const isRoot = process.getuid?.() === 0;

const mounts = (...lines: readonly string[]) =>
  parseMountinfo(lines.map(line => `${line} - ext4 /dev/sda1 rw`).join("\n"));
const seals = "rw,nosuid,nodev,noexec,relatime,nosymfollow";

describe("the folder to seal for a copy", () => {
  const table = mounts(
    "21 1 8:1 / / rw",
    "22 21 8:2 / /mnt rw",
    "23 22 8:3 / /mnt/v/own rw",
    "24 22 8:4 / /mnt/v/a/inside rw",
  );
  test.each([
    ["/mnt/v/a", "/mnt"],
    ["/mnt/s/_x", "/mnt"],
    ["/mnt/v/own", "/mnt/v/own"],
    ["/mnt/v/own/deeper", "/mnt/v/own/deeper"],
    ["/elsewhere/a", "/elsewhere/a"],
    ["/mnt-2/a", "/mnt-2/a"],
  ])("of %p is %p", (source, point) => expect(sealPoint(table, "/mnt", source)).toBe(point));
});

describe("a folder", () => {
  test.each([
    ["with all options is sealed", true, [`30 21 8:1 /b /b ${seals}`]],
    ["over another mount is sealed", true, ["30 21 8:1 / /b rw", `31 30 8:1 / /b ${seals}`]],
    ["is not sealed without nosymfollow", false, ["30 21 8:1 /b /b rw,nosuid,nodev,noexec"]],
    ["is not sealed by a mount elsewhere", false, [`30 21 8:1 /b /b/c ${seals}`]],
    ["is not sealed below another mount", false, [`30 21 8:1 /b /b ${seals}`, "31 30 8:1 / /b rw"]],
  ] as const)("%s: %p", (_, sealed, lines) => {
    expect(isSealed(mounts("21 1 8:1 / / rw", ...lines), "/b")).toBe(sealed);
  });
});

describe.skipIf(!isRoot)("a system that cannot keep a copy inside its source", () => {
  const systemPath = "/usr/sbin:/usr/bin:/sbin:/bin";
  let base = "";
  beforeEach(async () => {
    base = await temporaryFolder();
    await mkdir(`${base}/bin`);
    await openOn(base).create(volumeOf("a"), call);
    await writeFile(`${base}/v/a/file`, "content");
  });
  afterEach(() => rm(base, { recursive: true, force: true }));

  test.each([
    [
      "may not make mounts",
      "unshare",
      'echo "unshare: unshare failed: Operation not permitted" >&2; exit 1',
      "CAP_SYS_ADMIN",
    ],
    ["has an unshare that does nothing", "unshare", "exec cat", "util-linux"],
    ["may not bind", "mount", 'echo "mount: permission denied" >&2; exit 32', "CAP_SYS_ADMIN"],
    [
      "has a mount program or a kernel that drops the option",
      "mount",
      'exec /bin/mount --bind "$5" "$6"',
      "nosymfollow",
    ],
  ])("refuses a copy and leaves nothing if it %s", async (_, program, script, words) => {
    await writeFile(`${base}/bin/${program}`, `#!/bin/sh\n${script}\n`);
    await chmod(`${base}/bin/${program}`, 0o755);
    const runner = localRunner({ env: { PATH: `${base}/bin:${systemPath}` } });
    const driver = openOn(base, { runner });
    const error = await driver.create(volumeOf("b", gib, { kind: "volume", id: "a" }), call).catch(reason => reason);
    expect(error).toMatchObject({ code: "failed-precondition" });
    expect(error.message).toContain(words);
    expect(await codeOf(snapshotsOf(driver).create("s", "a", {}, call))).toBe("failed-precondition");
    expect(await codeOf(driver.check?.(call) ?? Promise.resolve())).toBe("failed-precondition");
    expect(await volumeIds(driver)).toEqual(["a"]);
    expect((await readdir(`${base}/.csimux`)).filter(name => name !== "work")).toEqual(["v.a.json"]);
  });

  // The command line of nsenter(1) has the process that keeps the mounts: --mount=/proc/PID/ns/mnt.
  const killHolder = 'pid=${1#--mount=/proc/}; kill -KILL "${pid%/ns/mnt}"; while [ -e "${1#--mount=}" ]; do :; done';
  test.each([
    ["before it answers", "unshare", "kill -KILL $$"],
    ["before the mount", "nsenter", `${killHolder}; exec /usr/bin/nsenter "$@"`],
    ["after the mount", "nsenter", `/usr/bin/nsenter "$@" || exit; ${killHolder}`],
    ["before the copy", "nsenter", `case "$*" in *" cp "*) ${killHolder};; esac; exec /usr/bin/nsenter "$@"`],
  ])("asks for another request if the process that keeps the mounts is killed %s", async (_, program, script) => {
    await writeFile(`${base}/bin/${program}`, `#!/bin/sh\n${script}\n`);
    await chmod(`${base}/bin/${program}`, 0o755);
    const driver = openOn(base, { runner: localRunner({ env: { PATH: `${base}/bin:${systemPath}` } }) });
    const source = { kind: "volume", id: "a" } as const;
    const error = await driver.create(volumeOf("b", gib, source), call).catch(reason => reason);
    expect(error).toMatchObject({ code: "unavailable" });
    expect(error.message).toMatch(/was killed|SIGKILL/);
    expect(await volumeIds(driver)).toEqual(["a"]);
    await rm(`${base}/bin`, { recursive: true });
    await openOn(base).create(volumeOf("b", gib, source), call);
    expect(await volumeIds(driver)).toEqual(["a", "b"]);
  });

  test("refuses a copy if no program can hold the mounts", async () => {
    const { where, run } = localRunner({ env: { PATH: systemPath } });
    const driver = openOn(base, { runner: { where, run } });
    expect(await codeOf(snapshotsOf(driver).create("s", "a", {}, call))).toBe("failed-precondition");
    await driver.delete("a", call);
  });

  test("a link in place of a folder does not pass on the folder's mode", async () => {
    await symlink(`${base}/v/a`, `${base}/link`);
    const { mode } = await stat(`${base}/v/a`);
    const failed = await localFiles.chmod(`${base}/link`, 0o777).catch(error => error.code);
    expect(["ELOOP", "ENOTDIR"]).toContain(failed);
    expect((await stat(`${base}/v/a`)).mode).toBe(mode);
  });
});
