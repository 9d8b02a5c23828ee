import { afterEach, describe, expect, test } from "bun:test";
import type { Driver } from "../../../lib/drivers/driver.ts";
import { callWith, reasonsOf, volumeOf } from "../../contract/rig.ts";
import { type Double, startDouble } from "../../fakes/truenas/double.ts";
import type { tableNames } from "../../fakes/truenas/state.ts";
import { openOn, type Protocol, parent } from "./rig.ts";

const call = callWith();
let double: Double;
let driver: Driver;
afterEach(async () => {
  await driver.close?.();
  await double.close();
});

const tables = { nfs: "nfs", smb: "smb", iscsi: "target", nvmeof: "nvmetSubsys" } as const;
const versions = ["24.10", "25.10"] as const;
const protocols = Object.keys(tables) as readonly Protocol[];
/** What a loss takes away, by protocol. */
const losses: readonly (readonly [Protocol, ...(readonly (typeof tableNames)[number][])])[] = [
  ["nfs", "nfs"],
  ["smb", "smb"],
  ["iscsi", "target", "targetextent"],
  ["iscsi", "extent", "targetextent"],
  ["iscsi", "targetextent"],
  ["iscsi", "target", "extent", "targetextent"],
  ["nvmeof", "nvmetSubsys", "nvmetNamespace", "nvmetPortSubsys"],
  ["nvmeof", "nvmetNamespace"],
  ["nvmeof", "nvmetPortSubsys"],
];

/** A row without the ids that the server draws. */
const drawn = (row: object): object => ({ ...row, id: 0, device_nguid: "", device_uuid: "" });

const cases = protocols.flatMap(protocol => versions.map(version => [protocol, version] as const));

test.each(cases.filter(([protocol, version]) => protocol !== "nvmeof" || version === "25.10"))(
  "a share or target over %s of TrueNAS %s is reported missing from its removal until its return",
  async (protocol, version) => {
    double = await startDouble({ version });
    driver = openOn(double, protocol);
    const { id } = await driver.create(volumeOf("pvc-1"), call);
    await driver.create(volumeOf("pvc-2"), call);
    expect(await reasonsOf(driver)).toEqual({});
    const table = double.state.tables[tables[protocol]];
    const at = table.findIndex(row => JSON.stringify(row).includes("pvc-1"));
    const [row] = table.splice(at, 1);
    expect(await reasonsOf(driver)).toEqual({
      [id]: [protocol === "nfs" || protocol === "smb" ? "ShareMissing" : "TargetMissing"],
    });
    if (row) table.push(row);
    expect(await reasonsOf(driver)).toEqual({});
  },
);

describe.each(versions)("on TrueNAS %s", version => {
  test.each(losses.filter(([protocol]) => protocol !== "nvmeof" || version === "25.10").map(each => [each] as const))(
    "what was lost is made again as it was: %j",
    async ([protocol, ...lost]) => {
      double = await startDouble({ version });
      driver = openOn(double, protocol);
      const { id, context } = await driver.create(volumeOf("pvc-1"), call);
      const { tables: all } = double.state;
      const before = structuredClone(lost.map(name => all[name].map(drawn)));
      for (const name of lost) all[name].length = 0;
      expect(Object.keys(await reasonsOf(driver))).toEqual([id]);
      await driver.health?.restore?.(id, call);
      expect(await reasonsOf(driver)).toEqual({});
      if (lost.length === 1 || protocol === "nfs" || protocol === "smb") {
        const now = lost.map(name => all[name].map(drawn));
        expect(now).toEqual(before);
      }
      expect((await driver.reading?.get(id, call))?.context).toEqual(context);
      await driver.delete(id, call);
      for (const name of lost) expect([name, all[name]]).toEqual([name, []]);
    },
  );
});

const foreign: readonly (readonly [Protocol, string, (at: Double) => void])[] = [
  [
    "smb",
    "exists already, for /mnt/tank/theirs",
    ({ state }) => Object.assign(state.tables.smb[0] ?? {}, { path: "/mnt/tank/theirs" }),
  ],
  [
    "nfs",
    "is disabled; enable or remove it",
    ({ state }) => Object.assign(state.tables.nfs[0] ?? {}, { enabled: false }),
  ],
  ["iscsi", "it is disabled", ({ state }) => Object.assign(state.tables.extent[0] ?? {}, { enabled: false })],
  [
    "iscsi",
    "exists already, for zvol/tank/theirs",
    ({ state }) => Object.assign(state.tables.extent[0] ?? {}, { disk: "zvol/tank/theirs" }),
  ],
  [
    "nvmeof",
    "exists already, for something other than this volume",
    ({ state }) => Object.assign(state.tables.nvmetNamespace[0] ?? {}, { device_path: "zvol/tank/theirs" }),
  ],
];

test.each(foreign)(
  "over %s nothing is made or changed where a person is in the way: %s",
  async (protocol, why, harm) => {
    double = await startDouble({ version: "25.10" });
    driver = openOn(double, protocol);
    const { id } = await driver.create(volumeOf("pvc-1"), call);
    harm(double);
    const before = structuredClone(double.state.tables);
    expect(Object.keys(await reasonsOf(driver))).toEqual([id]);
    await expect(driver.health?.restore?.(id, call)).rejects.toMatchObject({ message: expect.stringContaining(why) });
    expect(double.state.tables).toEqual(before);
  },
);

test("what depends on the class's parameters is not made again, because health checks do not know them", async () => {
  double = await startDouble({ version: "25.10" });
  const smb = { shareHost: "nas", shareAuxiliaryConfigurationTemplate: "hosts allow = {{ parameters.hosts }}" };
  driver = openOn(double, "smb", { more: { smb } });
  const { id } = await driver.create(volumeOf("pvc-1"), call);
  double.state.tables.smb.length = 0;
  await expect(driver.health?.restore?.(id, call)).rejects.toMatchObject({ code: "failed-precondition" });
  expect(double.state.tables.smb).toEqual([]);
});

test("nor after a failed deletion, where the share would admit every host", async () => {
  double = await startDouble({ version: "25.10" });
  const smb = { shareHost: "nas", shareAuxiliaryConfigurationTemplate: "hosts allow = {{ parameters.hosts }}" };
  driver = openOn(double, "smb", { more: { smb } });
  const spec = { ...volumeOf("pvc-1"), parameters: { hosts: "10.0.0.1" } };
  const { id } = await driver.create(spec, call);
  double.busy.add(`${parent}/${id}`);
  await expect(driver.delete(id, call)).rejects.toMatchObject({ code: expect.any(String) });
  expect(double.state.tables.smb).toEqual([]);
  double.busy.clear();
  await driver.create(spec, call);
  expect(double.state.tables.smb).toMatchObject([{ options: { auxsmbconf: "hosts allow = 10.0.0.1" } }]);
});
