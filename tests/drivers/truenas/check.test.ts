import { expect, test } from "bun:test";
import { callWith } from "../../contract/rig.ts";
import type { Double } from "../../fakes/truenas/double.ts";
import type { Version } from "../../fakes/truenas/versions.ts";
import { type Opening, on, type Protocol, refusal } from "./rig.ts";

const call = callWith();
const stopped = ({ state }: Double) => Object.assign(state.services, { nfs: "STOPPED" });
const beta = (double: Double) => Object.assign(double, { beta: true });
const emptied = (table: "portal" | "nvmetPort") => (double: Double) =>
  Object.assign(double.state.tables, { [table]: [] });
const pool = { datasetParentName: "other/v", detachedSnapshotsDatasetParentName: "other/s" };

test.each<[string, Protocol, (double: Double) => unknown, RegExp, Opening?, Version?]>([
  ["nothing", "nfs", () => undefined, /^$/],
  ["a stopped service", "nfs", stopped, /service "nfs" is not running/],
  ["a revoked key", "nfs", double => double.accounts.revoke("1-secret"), /wrong|revoked/],
  ["an account without roles", "nfs", () => undefined, /lacks the role/, { key: "3-none" }],
  ["a missing pool", "nfs", () => undefined, /pool "other" does not exist/, { zfs: pool }],
  ["a portal that is not there", "iscsi", emptied("portal"), /no iSCSI portal with id 1/],
  ["a port that is not there", "nvmeof", emptied("nvmetPort"), /no NVMe-oF port with id 1/],
  ["a version that is too old", "nvmeof", () => undefined, /needs TrueNAS 25.10 or newer/, {}, "25.04"],
  ["a beta that drops marks", "nfs", beta, /26\.0\.0-BETA\.3 .*: update to 26\.0\.0-RC\.1/, {}, "26.0"],
  ["a node on standby", "nfs", double => Object.assign(double, { redirect: [] }), /standby/, { username: "csi" }],
  ["an address that is not allowed", "nfs", double => Object.assign(double, { closedToAll: true }), /not allowed/],
  ["a server that is away", "nfs", double => Object.assign(double, { away: true }), /HTTP 502/],
])("the check reports %s in one line", async (_, protocol, spoil, expected, opening = {}, version = "25.10") => {
  await on(
    { version },
    protocol,
    async (driver, double) => {
      double.accounts.addKey("3-none", []);
      spoil(double);
      const { message } = await refusal(driver.check?.(call) ?? Promise.resolve());
      expect(message).toMatch(expected);
      expect(message).not.toContain("\n");
    },
    opening,
  );
});
