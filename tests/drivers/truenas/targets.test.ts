import { describe, expect, test } from "bun:test";
import { callWith, volumeOf } from "../../contract/rig.ts";
import { recentVersions } from "../../fakes/truenas/versions.ts";
import { on, refusal, remainsOf, type Work } from "./rig.ts";

const call = callWith();

const onIscsi = (group: object, work: Work): Promise<void> =>
  on({ version: "25.10" }, "iscsi", work, {
    more: { iscsi: { targetPortal: "nas:3260", targetGroups: [{ targetGroupPortalGroup: 1, ...group }] } },
  });

const onNvmeof = (more: object, work: Work): Promise<void> =>
  on({ version: "25.10" }, "nvmeof", work, { more: { nvmeof: { transports: ["tcp://10.0.0.5:4420"], ...more } } });

describe("a portal and a group of initiators", () => {
  test.each([
    ["ids", { targetGroupPortalGroup: 5, targetGroupInitiatorGroup: 4 }],
    ["ids out of an environment variable", { targetGroupPortalGroup: "5", targetGroupInitiatorGroup: "4" }],
    ["comments", { targetGroupPortalGroup: "Storage", targetGroupInitiatorGroup: "k8s" }],
    [
      "an address and the name of an initiator",
      { targetGroupPortalGroup: "10.0.0.5", targetGroupInitiatorGroup: "iqn.a:n1" },
    ],
    ["an address with its port", { targetGroupPortalGroup: "10.0.0.5:3260", targetGroupInitiatorGroup: "k8s" }],
  ])("are found by %s, whatever their ids are", async (_, group) => {
    await onIscsi(group, async (driver, double) => {
      double.state.tables.portal.push({ id: 5, tag: 2, comment: "storage", listen: [{ ip: "10.0.0.5", port: 3260 }] });
      double.state.tables.initiator.push({ id: 4, initiators: ["iqn.a:n1"], comment: "k8s" });
      await driver.check?.(call);
      const { id } = await driver.create(volumeOf("pvc-1"), call);
      expect(double.state.tables.target[0]?.["groups"]).toMatchObject([{ portal: 5, initiator: 4 }]);
      await driver.delete(id, call);
      expect(remainsOf(double)).toEqual([]);
    });
  });

  test("that are missing or ambiguous are reported with the existing ones", async () => {
    await onIscsi({ targetGroupPortalGroup: "storage" }, async (driver, double) => {
      expect((await refusal(driver.check?.(call) ?? Promise.resolve())).message).toContain(
        'no iSCSI portal known as "storage"; there are: 1 (main',
      );
      expect((await refusal(driver.create(volumeOf("pvc-1"), call))).message).toContain("no iSCSI portal");
      for (const id of [5, 6]) double.state.tables.portal.push({ id, tag: id, comment: "storage", listen: [] });
      expect((await refusal(driver.create(volumeOf("pvc-1"), call))).message).toContain("name one of them by its id");
      expect(remainsOf(double)).toEqual([]);
    });
  });
});

const port = (id: number, addr_traddr: string, addr_trsvcid = 4420) => ({
  ...{ id, index: id, addr_trtype: "TCP", addr_traddr, addr_trsvcid, addr_adrfam: "IPV4", enabled: true },
});

describe("a port of NVMe over fabrics", () => {
  test.each([
    ["where the transports say", {}, [7]],
    ["by its address", { ports: ["10.0.0.6:4421"] }, [8]],
    ["by an address of IPv6 and by its id", { ports: ["[fe80::1]:4420", 8] }, [9, 8]],
    ["by an address without its port", { ports: ["tcp://10.0.0.5"] }, [7]],
  ])("is found %s", async (_, more, expected) => {
    await onNvmeof(more, async (driver, double) => {
      double.state.tables.nvmetPort.push(port(7, "10.0.0.5"), port(8, "10.0.0.6", 4421), port(9, "fe80::1"));
      await driver.check?.(call);
      const { id } = await driver.create(volumeOf("pvc-1"), call);
      expect(double.state.tables.nvmetPortSubsys.map(link => link["port_id"])).toEqual(expected);
      await driver.delete(id, call);
      expect(remainsOf(double)).toEqual([]);
    });
  });

  test("that listens on every address is used if no other port matches", async () => {
    await onNvmeof({}, async (driver, double) => {
      double.state.tables.nvmetPort.push(port(7, "0.0.0.0"));
      await driver.create(volumeOf("pvc-1"), call);
      expect(double.state.tables.nvmetPortSubsys.map(link => link["port_id"])).toEqual([7]);
    });
  });

  test("that does not exist is reported with the existing ones", async () => {
    await onNvmeof({ ports: ["10.0.0.9"] }, async driver => {
      const { message } = await refusal(driver.check?.(call) ?? Promise.resolve());
      expect(message).toContain('no NVMe-oF port known as "10.0.0.9:4420"; there are: 1 (127.0.0.1:4420)');
    });
  });
});

describe("hosts of a connection file", () => {
  const hosts = [
    {
      hostnqn: "nqn.2014-08.org.nvmexpress:uuid:2cd3a8f6-4b1c-4b8e-9d7f-0a6d0c4bb101",
      dhchapKey: "DHHC-1:00:a2V5:",
      dhchapCtrlKey: "DHHC-1:00:Y3RybA:",
    },
    { hostnqn: "nqn.2014-08.org.nvmexpress:uuid:2cd3a8f6-4b1c-4b8e-9d7f-0a6d0c4bb102" },
  ];

  test("are the only ones that may connect, and each is created once, with its keys", async () => {
    await onNvmeof({ ports: [1], hosts }, async (driver, double) => {
      const { tables } = double.state;
      await driver.check?.(call);
      for (const name of ["pvc-1", "pvc-2", "pvc-1"]) await driver.create(volumeOf(name), call);
      expect(tables.nvmetSubsys.map(each => each["allow_any_host"])).toEqual([false, false]);
      expect(tables.nvmetHost).toMatchObject([
        { hostnqn: hosts[0]?.hostnqn, dhchap_key: "DHHC-1:00:a2V5:", dhchap_ctrl_key: "DHHC-1:00:Y3RybA:" },
        { hostnqn: hosts[1]?.hostnqn, dhchap_key: null },
      ]);
      expect(tables.nvmetHostSubsys).toHaveLength(4);
      for (const id of ["pvc-1", "pvc-2"]) await driver.delete(id, call);
      expect(tables.nvmetHostSubsys).toEqual([]);
      expect(tables.nvmetSubsys).toEqual([]);
    });
  });

  test("that TrueNAS knows with other keys are refused, and no volume admits them", async () => {
    await onNvmeof({ ports: [1], hosts }, async (driver, double) => {
      const { tables } = double.state;
      tables.nvmetHost.push({
        id: 1,
        hostnqn: hosts[0]?.hostnqn,
        dhchap_key: "DHHC-1:00:b3RoZXI:",
        dhchap_ctrl_key: null,
      });
      for (const work of [driver.check?.(call), driver.create(volumeOf("pvc-1"), call)]) {
        const { message } = await refusal(work ?? Promise.resolve());
        expect(message).toContain("with other keys than the connection file");
        expect(message).not.toContain("DHHC");
      }
      expect(tables.nvmetPortSubsys).toEqual([]);
    });
  });
});

test.each(recentVersions)(
  "a target without a disk belongs to its volume after an interrupted creation on TrueNAS %s; one made by hand does not",
  async version => {
    await on({ version }, "iscsi", async (driver, double) => {
      double.faults.loseOnce(/^iscsi\.targetextent\.create$/, "before", 0);
      expect((await refusal(driver.create(volumeOf("pvc-1"), call))).code).toBe("unavailable");
      expect(double.state.tables.target).toHaveLength(1);
      const { id } = await driver.create(volumeOf("pvc-1"), call);
      expect(double.state.tables.targetextent).toHaveLength(1);
      await driver.delete(id, call);
      double.state.tables.target.push({ id: 7, name: "pvc-1", alias: null, mode: "ISCSI", groups: [] });
      await driver.create(volumeOf("pvc-1"), call);
      await driver.delete(id, call);
      expect(remainsOf(double)).toEqual(['target "pvc-1"']);
    });
  },
);
