import { afterEach, expect, test } from "bun:test";
import type { Driver } from "../../../lib/drivers/driver.ts";
import { callWith, volumeOf } from "../../contract/rig.ts";
import { type Double, startDouble } from "../../fakes/truenas/double.ts";
import { openOn, type Protocol } from "./rig.ts";

const call = callWith();
let double: Double;
let driver: Driver;
afterEach(async () => {
  await driver.close?.();
  await double.close();
});

/** What is wrong with the storage, and with each volume. */
async function look(): Promise<Readonly<Record<string, readonly string[]>>> {
  const found = await driver.health?.look(call);
  const entries = [["storage", found?.storage ?? []] as const, ...(found?.volumes ?? [])];
  return Object.fromEntries(
    entries.flatMap(([id, all]) => (all.length > 0 ? [[id, all.map(({ reason }) => reason)]] : [])),
  );
}

const tables = { nfs: "nfs", smb: "smb", iscsi: "target", nvmeof: "nvmetSubsys" } as const;
const versions = ["24.10", "25.10"] as const;
const protocols = Object.keys(tables) as readonly Protocol[];
const cases = protocols.flatMap(protocol => versions.map(version => [protocol, version] as const));

test.each(cases.filter(([protocol, version]) => protocol !== "nvmeof" || version === "25.10"))(
  "a share or target over %s of TrueNAS %s is reported missing from its removal until its return",
  async (protocol, version) => {
    double = await startDouble({ version });
    driver = openOn(double, protocol);
    const { id } = await driver.create(volumeOf("pvc-1"), call);
    await driver.create(volumeOf("pvc-2"), call);
    expect(await look()).toEqual({});
    const table = double.state.tables[tables[protocol]];
    const at = table.findIndex(row => JSON.stringify(row).includes("pvc-1"));
    const [row] = table.splice(at, 1);
    expect(await look()).toEqual({
      [id]: [protocol === "nfs" || protocol === "smb" ? "ShareMissing" : "TargetMissing"],
    });
    if (row) table.push(row);
    expect(await look()).toEqual({});
  },
);
