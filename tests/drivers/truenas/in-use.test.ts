import { describe, expect, test } from "bun:test";
import { tagOf } from "../../../lib/drivers/zfs/targets/names.ts";
import { callWith, gib, volumeOf } from "../../contract/rig.ts";
import type { Double } from "../../fakes/truenas/double.ts";
import { pause } from "../../waiting.ts";
import { on, parent, refusal, remainsOf } from "./rig.ts";

const call = callWith();
/** The name that a target must have: by the guid of the zvol, or, where the API shows none, by its name and creation. */
function tagged(double: Double, id: string, version: string): string {
  const dataset = double.state.datasets[`${parent}/${id}`];
  const identity = version === "24.10" ? `${parent}/${id} ${dataset?.creation}` : dataset?.guid;
  return `${id}-${tagOf(identity ?? "")}`;
}

/** Waits for the next second, the unit of creation times. */
async function nextSecond(): Promise<void> {
  const now = Math.floor(Date.now() / 1000);
  while (Math.floor(Date.now() / 1000) === now) await pause(20);
}
const nameTables = { iscsi: "target", nvmeof: "nvmetSubsys" } as const;

describe.each([
  ["24.10", ["iscsi"]],
  ["25.10", ["iscsi", "nvmeof"]],
  ["26.0", ["iscsi", "nvmeof"]],
] as const)("on TrueNAS %s", (version, protocols) => {
  test.each(protocols)(
    "a volume over %s with a connected node is neither deleted nor changed until the node has left",
    protocol =>
      on({ version }, protocol, async (driver, double) => {
        const { id } = await driver.create(volumeOf("pvc-1"), call);
        const [row] = double.state.tables[nameTables[protocol]];
        double.sessions.add(String(row?.["name"]));
        const before = structuredClone(double.state.tables);
        expect(await refusal(driver.delete(id, call))).toMatchObject({
          code: "failed-precondition",
          message: expect.stringContaining("is in use"),
        });
        expect(double.state.tables).toEqual(before);
        expect(double.state.datasets[`${parent}/pvc-1`]).toBeDefined();
        double.sessions.clear();
        await driver.delete(id, call);
        expect(remainsOf(double)).toEqual([]);
      }),
  );

  test.concurrent.each(protocols)(
    "the target of a new volume over %s has another name than that of a deleted volume of the same name, and retries find it",
    protocol =>
      on({ version }, protocol, async (driver, double) => {
        const names = () => double.state.tables[nameTables[protocol]].map(each => each["name"]);
        const { id } = await driver.create(volumeOf("pvc-1"), call);
        const [old] = names();
        expect(old).toBe(tagged(double, "pvc-1", version));
        await driver.delete(id, call);
        await nextSecond();
        const { context } = await driver.create(volumeOf("pvc-1"), call);
        expect(names()).not.toContain(old);
        expect((await driver.create(volumeOf("pvc-1"), call)).context).toEqual(context);
        expect(names()).toHaveLength(1);
      }),
  );
});

test.each(["25.10", "26.0"] as const)(
  "a volume with a connected node is not deleted after the server has got another base NQN on TrueNAS %s",
  version =>
    on({ version }, "nvmeof", async (driver, double) => {
      const { id } = await driver.create(volumeOf("pvc-1"), call);
      const { basenqn } = double.state;
      const [row] = double.state.tables.nvmetSubsys;
      double.sessions.add(String(row?.["name"]));
      double.state.basenqn = "nqn.2011-06.com.example:other";
      const before = structuredClone(double.state.tables);
      expect(await refusal(driver.delete(id, call))).toMatchObject({ code: "failed-precondition" });
      expect(double.state.tables).toEqual(before);
      double.sessions.clear();
      double.state.basenqn = basenqn;
      await driver.delete(id, call);
      expect(remainsOf(double)).toEqual([]);
    }),
);

test.each(["24.10", "25.10", "26.0"] as const)(
  "the target of a clone, of a restored volume and of a copy has the tag of its own zvol on TrueNAS %s",
  version =>
    on({ version }, "iscsi", async (driver, double) => {
      const { id } = await driver.create(volumeOf("pvc-1"), call);
      const taken = await driver.snapshots?.create("s", id, {}, call);
      const copied = { detachedVolumesFromVolumes: "true" };
      await driver.create(volumeOf("pvc-2", gib, { kind: "volume", id }), call);
      await driver.create(volumeOf("pvc-3", gib, { kind: "snapshot", id: taken?.id ?? "" }), call);
      await driver.create({ ...volumeOf("pvc-4", gib, { kind: "volume", id }), parameters: copied }, call);
      const names = ["pvc-1", "pvc-2", "pvc-3", "pvc-4"].map(each => tagged(double, each, version));
      expect(double.state.tables.target.map(each => each["name"])).toEqual(names);
    }),
);

test("a volume of democratic-csi keeps the name of its target, whether it noted one or not", async () => {
  await on({ version: "25.10" }, "iscsi", async (driver, double) => {
    await driver.create(volumeOf("pvc-1"), call);
    const dataset = double.state.datasets[`${parent}/pvc-1`];
    const { target, extent } = double.state.tables;
    for (const row of [target[0], extent[0]]) Object.assign(row ?? {}, { name: "pvc-1" });
    for (const noted of ["pvc-1", undefined]) {
      const user = dataset?.user;
      if (!user) throw new Error("no dataset");
      if (noted === undefined) delete user["democratic-csi:freenas_iscsi_assets_name"];
      else user["democratic-csi:freenas_iscsi_assets_name"] = noted;
      await driver.create(volumeOf("pvc-1"), call);
      expect(target.map(each => each["name"])).toEqual(["pvc-1"]);
    }
  });
});

test.each([
  ["an interrupted creation gets the access that the file says now", false],
  ["a finished volume keeps the access that its administrator has given it", true],
])("the target of %s", async (_, isFinished) => {
  await on({ version: "25.10" }, "iscsi", async (driver, double) => {
    await driver.create(volumeOf("pvc-1"), call);
    const [target] = double.state.tables.target;
    const ofFile = target?.["groups"];
    const others = [{ portal: 1, initiator: null, authmethod: "CHAP", auth: 7 }];
    Object.assign(target ?? {}, { groups: others });
    const user = double.state.datasets[`${parent}/pvc-1`]?.user;
    if (!isFinished) delete user?.["democratic-csi:provision_success"];
    await driver.create(volumeOf("pvc-1"), call);
    expect(double.state.tables.target[0]?.["groups"]).toEqual(isFinished ? others : ofFile);
  });
});

/** As if the creation of "pvc-1" had been interrupted before anything but its dataset was made; `notes` are what it noted. */
function unfinish(double: Double, notes: Readonly<Record<string, string>>): void {
  const user = double.state.datasets[`${parent}/pvc-1`]?.user;
  if (!user) throw new Error("no dataset");
  for (const key of Object.keys(user))
    if (/provision_success|share_volume_context|freenas_/.test(key)) delete user[key];
  Object.assign(user, notes);
  for (const table of ["target", "extent", "targetextent", "nvmetSubsys", "nvmetNamespace", "nvmetPortSubsys"] as const)
    double.state.tables[table].splice(0);
}

test("a target that was created by hand under the recorded name is neither used nor removed", async () => {
  await on({ version: "25.10" }, "iscsi", async (driver, double) => {
    await driver.create(volumeOf("pvc-1"), call);
    unfinish(double, { "democratic-csi:freenas_iscsi_assets_name": "plain" });
    const theirs = { id: 77, name: "plain", alias: null, mode: "ISCSI", groups: [] };
    double.state.tables.target.push(theirs);
    expect(await refusal(driver.create(volumeOf("pvc-1"), call))).toMatchObject({
      code: "failed-precondition",
      message: expect.stringContaining('the iSCSI target "plain" exists already, for no extent'),
    });
    await driver.delete("pvc-1", call);
    expect(double.state.tables.target).toEqual([theirs]);
  });
});

test("a subsystem that was created by hand under the recorded name is neither used nor removed", async () => {
  await on({ version: "25.10" }, "nvmeof", async (driver, double) => {
    await driver.create(volumeOf("pvc-1"), call);
    unfinish(double, { "democratic-csi:freenas_nvmeof_assets_name": "plain" });
    const theirs = { id: 77, name: "plain", subnqn: "nqn.x:plain", allow_any_host: true };
    double.state.tables.nvmetSubsys.push(theirs);
    expect((await refusal(driver.create(volumeOf("pvc-1"), call))).code).toBe("failed-precondition");
    await driver.delete("pvc-1", call);
    expect(double.state.tables.nvmetSubsys).toEqual([theirs]);
  });
});

describe("an existing share of the path of an unfinished volume", () => {
  test.each([
    ["hosts", { hosts: [] }],
    ["networks", { networks: ["0.0.0.0/0"] }],
    ["root", { maproot_user: "root" }],
  ])("over NFS with other %s than in the file is refused", async (_, change) => {
    const nfs = {
      ...{ shareHost: "nas", shareAllowedHosts: ["10.0.0.9"], shareAllowedNetworks: ["10.0.0.0/24"] },
      ...{ shareMaprootUser: "guest" },
    };
    const work = async (driver: Parameters<Parameters<typeof on>[2]>[0], double: Double): Promise<void> => {
      await driver.create(volumeOf("pvc-1"), call);
      const [share] = double.state.tables.nfs;
      // One that a call left which was interrupted before it was noted is taken.
      const user = double.state.datasets[`${parent}/pvc-1`]?.user ?? {};
      delete user["democratic-csi:provision_success"];
      await driver.create(volumeOf("pvc-1"), call);
      delete user["democratic-csi:provision_success"];
      Object.assign(share ?? {}, change);
      expect(await refusal(driver.create(volumeOf("pvc-1"), call))).toMatchObject({
        code: "failed-precondition",
        message: expect.stringContaining(Object.keys(change).join()),
      });
    };
    await on({ version: "25.10" }, "nfs", work, { more: { nfs } });
  });

  test("over SMB with other hosts than in the file is refused", async () => {
    const smb = { shareHost: "nas", shareAllowedHosts: ["10.0.0.9"] };
    await on(
      { version: "25.10" },
      "smb",
      async (driver, double) => {
        await driver.create(volumeOf("pvc-1"), call);
        const [share] = double.state.tables.smb;
        delete double.state.datasets[`${parent}/pvc-1`]?.user["democratic-csi:provision_success"];
        Object.assign(share?.["options"] ?? {}, { hostsallow: [] });
        expect(await refusal(driver.create(volumeOf("pvc-1"), call))).toMatchObject({
          code: "failed-precondition",
          message: expect.stringContaining("hostsallow"),
        });
      },
      { more: { smb } },
    );
  });
});
