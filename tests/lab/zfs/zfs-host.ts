import { afterAll, beforeAll, expect } from "bun:test";
import { run } from "../run.ts";
import { leftSince, traces } from "../traces.ts";
import { type Login, makeLogin } from "./ssh-login.ts";
import { nvmePort, type ZfsDriver, zfsDrivers } from "./zfs-drivers.ts";

const limitMs = 240_000;

/**
 * Makes this machine a storage host for the ZFS drivers during the tests of a file, and proves afterwards that they left
 * nothing. Returns a function for the connection file of a driver.
 */
export function storageHost(): (driver: ZfsDriver) => string {
  let before: ReadonlySet<string>;
  let login: Login;
  beforeAll(async () => {
    await nvmePort();
    before = await traces();
    login = await makeLogin();
  }, limitMs);
  afterAll(async () => {
    await login.remove();
    for (const { connection } of zfsDrivers)
      await run(["sh", "-c", 'zfs destroy -r "$1" 2>/dev/null || :', "destroy", `tank/${connection}`]);
    expect(await leftSince(before)).toEqual([]);
  }, limitMs);
  return driver => driver.file(login);
}
