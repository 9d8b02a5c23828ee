import { expect, test } from "bun:test";
import type { World } from "../../serve/world.ts";
import { hasSanity, sanityAgainst, startCsimux } from "../rig.ts";
import { type ZfsDriver, zfsDrivers } from "./zfs-drivers.ts";
import { storageHost } from "./zfs-host.ts";
import { poolBelow } from "./zfs-pool.ts";

const fileOf = storageHost();

/** csimux with only this connection. */
function started(driver: ZfsDriver): Promise<World> {
  // The suite passes no secrets, so the node takes them from the connection file.
  const credentials = ["node:", "  mount:", "    mount_flags: username=csi,password=csi,closetimeo=0", ""].join("\n");
  const file = `${fileOf(driver)}${driver.connection === "smb" ? credentials : ""}`;
  return startCsimux({ connections: { [driver.connection]: file }, flags: ["--health-interval=0"] });
}

// The same driver through sudo takes an hour on an emulated processor; zfs-life tests it.
const drivers = zfsDrivers.filter(({ connection }) => connection !== "sudo");

test.skipIf(!hasSanity()).each(drivers)(
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
  3_900_000,
);
