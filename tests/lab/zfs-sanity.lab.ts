import { afterAll, beforeAll, expect, test } from "bun:test";
import type { World } from "../serve/world.ts";
import { hasSanity, sanityAgainst, startCsimux } from "./rig.ts";
import { run } from "./run.ts";
import { type Login, makeLogin } from "./ssh-login.ts";
import { leftSince, traces } from "./traces.ts";
import { nvmePort, type ZfsDriver, zfsDrivers } from "./zfs-drivers.ts";
import { poolBelow } from "./zfs-pool.ts";

let before: ReadonlySet<string>;
let login: Login;

beforeAll(async () => {
  // smbd looks for a usershare as the user who is logged in, and where that may not look it takes the share for gone (Samba 4.17).
  await run(["chmod", "1775", "/var/lib/samba/usershares"]);
  await nvmePort();
  before = await traces();
  login = await makeLogin();
}, 240_000);
afterAll(async () => {
  await login.remove();
  for (const { connection } of zfsDrivers)
    await run(["sh", "-c", 'zfs destroy -r "$1" 2>/dev/null || :', "destroy", `tank/${connection}`]);
  expect(await leftSince(before)).toEqual([]);
}, 240_000);

/** csimux with this connection alone. */
function started(driver: ZfsDriver): Promise<World> {
  // The suite hands no secrets over, so the node has them from the connection's file.
  const credentials = ["node:", "  mount:", "    mount_flags: username=csi,password=csi,closetimeo=0", ""].join("\n");
  const file = `${driver.file(login)}${driver.connection === "smb" ? credentials : ""}`;
  return startCsimux({ connections: { [driver.connection]: file }, flags: ["--health-interval=0"] });
}

test.skipIf(!(await hasSanity())).each(zfsDrivers)(
  "csi-sanity passes with $title",
  async driver => {
    const { connection } = driver;
    const world = await started(driver);
    const tally = await sanityAgainst(world, { connection });
    expect(await world.end()).toEqual([]);
    expect(tally).toMatchObject({ failed: 0 });
    expect(tally.passed).toBeGreaterThan(50);
    expect(await poolBelow(`tank/${connection}`)).toEqual(["/v"]);
  },
  900_000,
);
