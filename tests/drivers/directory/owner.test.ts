import { dlopen } from "bun:ffi";
import { afterEach, beforeEach, describe, expect, test } from "bun:test";
import { chmod, mkdir, rm, stat } from "node:fs/promises";
import { codeOf } from "../../contract/driver-volumes.ts";
import { callWith, volumeOf } from "../../contract/rig.ts";
import { isHostRoot } from "../../root.ts";
import { leftOn, openOn, temporaryFolder } from "./directory-rig.ts";

const call = callWith();

let base = "";
beforeEach(async () => {
  base = await temporaryFolder();
});
afterEach(() => rm(base, { recursive: true, force: true }));

/** A default ACL that gives owner rwx, group r-x and others nothing (linux/posix_acl_xattr.h: version 2, then tag, bits, id). */
const narrowAcl = new Uint8Array(Uint16Array.of(2, 0, 0x1, 7, -1, -1, 0x4, 5, -1, -1, 0x20, 0, -1, -1).buffer);

/** Sets an extended attribute (setxattr(2)), for which Node has no verb. */
function setXattr(path: string, name: string, value: Uint8Array): void {
  const libc = dlopen("libc.so.6", { setxattr: { args: ["cstring", "cstring", "ptr", "u64", "i32"], returns: "i32" } });
  const text = (word: string) => Buffer.from(`${word}\0`);
  expect(libc.symbols.setxattr(text(path), text(name), value, value.length, 0)).toBe(0);
  libc.close();
}

describe("mode and owner", () => {
  test.each([0o700, 0o777, 0o2770, 0o1777, 0o000])("mode %o is exact", async mode => {
    await openOn(base, { settings: { mode } }).create(volumeOf("a"), call);
    expect((await stat(`${base}/v/a`)).mode & 0o7777).toBe(mode);
  });

  test.skipIf(process.platform !== "linux")("a mode is exact below a folder whose default ACL gives less", async () => {
    await mkdir(`${base}/v`);
    setXattr(`${base}/v`, "system.posix_acl_default", narrowAcl);
    for (const mode of [0o777, 0o2770]) {
      await openOn(base, { settings: { mode } }).create(volumeOf(`a${mode}`), call);
      expect((await stat(`${base}/v/a${mode}`)).mode & 0o7777).toBe(mode);
    }
  });

  test.skipIf(!isHostRoot)("0 is an owner, names are looked up, and user and group are independent", async () => {
    await openOn(base, { settings: { user: 1234 } }).create(volumeOf("user"), call);
    await openOn(base, { settings: { group: "4321" } }).create(volumeOf("group"), call);
    await openOn(base, { settings: { user: "root", group: 0, mode: 0o750 } }).create(volumeOf("root"), call);
    const owner = async (id: string) => {
      const { uid, gid } = await stat(`${base}/v/${id}`);
      return [uid, gid];
    };
    expect(await owner("user")).toEqual([1234, 0]);
    expect(await owner("group")).toEqual([0, 4321]);
    expect(await owner("root")).toEqual([0, 0]);
  });

  test.skipIf(!isHostRoot)("an owner alone changes no mode", async () => {
    const driver = openOn(base);
    await driver.create(volumeOf("plain"), call);
    await openOn(base, { settings: { user: 1234, group: 4321 } }).create(volumeOf("owned"), call);
    expect((await stat(`${base}/v/owned`)).mode).toBe((await stat(`${base}/v/plain`)).mode);
  });

  test("an unknown name creates nothing", async () => {
    const driver = openOn(base, { settings: { user: "no-such-user-here" } });
    expect(await codeOf(driver.create(volumeOf("a"), call))).toBe("failed-precondition");
    expect(await leftOn(base)).toEqual([]);
  });

  test("a volume in use keeps the permissions that its owner has set since", async () => {
    const driver = openOn(base, { settings: { mode: 0o770 } });
    await driver.create(volumeOf("a"), call);
    await chmod(`${base}/v/a`, 0o711);
    await driver.create(volumeOf("a"), call);
    expect((await stat(`${base}/v/a`)).mode & 0o777).toBe(0o711);
  });
});
