import { describe, expect, test } from "bun:test";
import type { VolumeSpec } from "../../../lib/drivers/driver.ts";
import { codeOf, messageOf } from "../../contract/driver-volumes.ts";
import { perTest } from "../../contract/per-test.ts";
import { callWith, gib, volumeIds, volumeOf } from "../../contract/rig.ts";
import type { Dsm } from "../../fakes/dsm/double.ts";
import { type DsmOptions, dsmRig, openDsm } from "./dsm-rig.ts";

const call = callWith();
const opened = perTest(dsmRig);
async function rigOf(options: DsmOptions = {}) {
  const rig = await opened(options);
  return { rig, dsm: rig.dsm, driver: rig.open() };
}

const withParameters = (name: string, parameters: Readonly<Record<string, string>>): VolumeSpec => ({
  ...volumeOf(name),
  parameters,
});

/** What a request was sent with. */
const sent = (dsm: Dsm, api: string, method: string) =>
  dsm.requests.filter(each => each.api.endsWith(api) && each.method === method).map(({ params }) => params);

describe("a new volume", () => {
  test("has the names and the context of democratic-csi", async () => {
    const { driver, dsm } = await rigOf({ identity: { instanceId: "i1" } });
    const volume = await driver.create(volumeOf("pvc-1"), call);
    const iqn = `iqn.2000-01.com.synology:Csi.k8s-pvc-1-x.${[...dsm.state.luns.keys()][0]?.slice(0, 8)}`;
    expect(volume).toMatchObject({
      id: "pvc-1",
      bytes: gib,
      context: {
        node_attach_driver: "iscsi",
        provisioner_driver: "synology-iscsi",
        provisioner_driver_instance_id: "i1",
        portal: "10.0.0.51:3260",
        portals: "10.0.1.51:3260",
        interface: "",
        iqn,
        lun: "1",
      },
    });
    expect(dsm.state.remains()).toEqual(["lun k8s-pvc-1-x", `target ${iqn}`]);
    expect([...dsm.state.luns.values()][0]?.description).toBe("csimux:i1");
  });

  test("costs nine requests, and its deletion seven, because each takes DSM a good part of a second", async () => {
    const { driver, dsm } = await rigOf();
    await driver.check?.(call);
    // A system that lists a LUN for longer is asked for its LUNs again.
    dsm.state.habits.deletion = 0;
    const cost = async (work: Promise<unknown>) => {
      const before = dsm.requests.length;
      await work;
      const asked = dsm.requests.slice(before);
      return asked.map(({ api, method }) => `${api.split(".").at(-1)} ${method}`).sort();
    };
    const lists = ["LUN list", "LUN list", "Target list"];
    expect(await cost(driver.create(volumeOf("pvc-1"), call))).toEqual(
      [...lists, "Target list", "Target list", "LUN create", "LUN map_target", "LUN set", "Target create"].sort(),
    );
    expect(await cost(driver.delete("pvc-1", call))).toEqual(
      [...lists, "LUN list_snapshot", "LUN set", "LUN delete", "Target delete"].sort(),
    );
  });

  test("is created by the templates of file, class and secret, with attributes merged by name and removed by null", async () => {
    const attributes = [
      { dev_attrib: "emulate_tpu", enable: 1 },
      { dev_attrib: "emulate_caw", enable: 1 },
      { dev_attrib: "can_snapshot", enable: 1 },
    ];
    const { driver, dsm } = await rigOf({ iscsi: { lunTemplate: { type: "BLUN", dev_attribs: attributes } } });
    const lunTemplate = [
      'description: "{{ parameters.[csi.storage.k8s.io/pvc/name] }} of {{ name }}"',
      "dev_attribs:",
      "- {dev_attrib: emulate_tpu, enable: 0}",
      "- {dev_attrib: emulate_caw, enable: null}",
    ].join("\n");
    const secrets = { lunTemplate: "dev_attribs: [{dev_attrib: emulate_3pc, enable: 1}]" };
    const spec = withParameters("pvc-1", { lunTemplate, "csi.storage.k8s.io/pvc/name": "data" });
    await driver.create(spec, { ...call, secrets });
    const [params] = sent(dsm, "LUN", "create");
    expect(params?.["dev_attribs"]).toEqual([
      { dev_attrib: "can_snapshot", enable: 1 },
      { dev_attrib: "emulate_tpu", enable: 0 },
      { dev_attrib: "emulate_3pc", enable: 1 },
    ]);
    expect(params?.["description"]).toBe("csimux:c1 | data of pvc-1");
  });

  const classes = [
    ["lunTemplate", "type: [", "not YAML"],
    ["lunTemplate", "just text", "must be a mapping"],
    ["lunTemplate", "type: NONE", "type"],
    ["lunTemplate", "size: 5", "unknown key"],
    ["lunTemplate", "type: null", "sets the type"],
    ["targetTemplate", "user: node", "password"],
    ["targetTemplate", "auth_type: 1", "needs user and password"],
    ["targetTemplate", "{auth_type: 2, user: node, password: chapsecret12}", "needs mutual_user"],
  ] as const;
  test.each(classes)("a class with %s %p is refused, leaves nothing and shows no secret", async (key, text, why) => {
    const { driver, rig } = await rigOf();
    const spec = withParameters("pvc-1", { [key]: text });
    expect(await messageOf(driver.create(spec, call))).toContain(why);
    expect(await messageOf(driver.create(spec, call))).not.toContain("chapsecret12");
    expect(await codeOf(driver.create(spec, call))).toBe("invalid-argument");
    expect(await rig.remains()).toEqual([]);
  });

  const chap = { user: "node", password: "chapsecret12" };
  const mutual = { ...chap, mutualUser: "nas", mutualPassword: "mutualsecret" };
  const underscored = { ...chap, mutual_user: "nas", mutual_password: "mutualsecret" };
  const credentials = [
    ["none", {}, 0, {}],
    ["one pair", chap, 1, chap],
    ["one pair and auth_type 0", { ...chap, auth_type: 0 }, 1, chap],
    ["both pairs", mutual, 2, underscored],
    ["both pairs in the other spelling", underscored, 2, underscored],
  ] as const;
  test.each(credentials)("with %s in the secret of the class uses CHAP", async (_, template, type, fields) => {
    const { driver, dsm } = await rigOf();
    await driver.create(volumeOf("pvc-1"), { ...call, secrets: { targetTemplate: JSON.stringify(template) } });
    expect(sent(dsm, "Target", "create")).toEqual([expect.objectContaining({ ...fields, auth_type: type })]);
  });

  test("that DSM refuses and creates anyway does not remain", async () => {
    const { driver, rig, dsm } = await rigOf();
    dsm.refuseAfter("SYNO.Core.ISCSI.LUN create", 18990068);
    expect(await codeOf(driver.create(volumeOf("pvc-1"), call))).toBe("internal");
    expect(await rig.remains()).toEqual([]);
  });

  test("leaves no LUN if there are too many targets", async () => {
    const { driver, rig, dsm } = await rigOf();
    dsm.state.habits.maxTargets = 0;
    expect(await codeOf(driver.create(volumeOf("pvc-1"), call))).toBe("resource-exhausted");
    expect(await rig.remains()).toEqual([]);
  });
});

describe("a clone", () => {
  test("is waited for while DSM does not list it or locks it", async () => {
    const { driver, rig, dsm } = await rigOf();
    const origin = await driver.create(volumeOf("origin"), call);
    await rig.write(origin, "content");
    dsm.state.habits.cloneHidden = 3;
    dsm.state.habits.cloneLocked = 3;
    const spec = volumeOf("clone", 3n * gib, { kind: "volume", id: origin.id });
    const clone = await driver.create(spec, call);
    expect([clone.bytes, await rig.read(clone)]).toEqual([3n * gib, "content"]);
  });

  test("has its source in its name, because some DSMs do not keep the descriptions of clones", async () => {
    const { driver, dsm } = await rigOf();
    dsm.state.habits.describesClones = false;
    const { id } = await driver.create(volumeOf("origin"), call);
    const other = await driver.create(volumeOf("other"), call);
    const spec = volumeOf("clone", gib, { kind: "volume", id });
    const clone = await driver.create(spec, call);
    expect(await driver.create(spec, call)).toEqual(clone);
    expect(await codeOf(driver.create(volumeOf("clone", gib, { kind: "volume", id: other.id }), call))).toBe(
      "already-exists",
    );
    await driver.delete(clone.id, call);
    expect(await volumeIds(driver)).toEqual(["origin", "other"]);
  });
});

describe("a deletion", () => {
  test("is refused while a node is logged in, and changes nothing", async () => {
    const { driver, rig, dsm } = await rigOf();
    const volume = await driver.create(volumeOf("pvc-1"), call);
    await rig.write(volume, "kept");
    const [target] = dsm.state.targets.values();
    if (target) target.sessions = [{ iqn: "iqn.node", ip: "10.0.0.7" }];
    expect(await messageOf(driver.delete("pvc-1", call))).toContain("in use by 10.0.0.7");
    expect(await codeOf(driver.delete("pvc-1", call))).toBe("failed-precondition");
    expect(await rig.read(volume)).toBe("kept");
    if (target) target.sessions = [];
    await driver.delete("pvc-1", call);
    expect(await rig.remains()).toEqual([]);
  });
});

test("a connection that gets an instance_id keeps its volumes and clones, and other instances do not get them", async () => {
  const { driver, dsm } = await rigOf();
  const { id } = await driver.create(volumeOf("origin"), call);
  await driver.create(volumeOf("clone", gib, { kind: "volume", id }), call);
  const later = openDsm(dsm, { identity: { instanceId: "cluster-1" } });
  await later.create(volumeOf("new"), call);
  expect(await volumeIds(later)).toEqual(["clone", "new", "origin"]);
  const other = openDsm(dsm, { identity: { connection: "c2", instanceId: "cluster-2" } });
  expect(await volumeIds(other)).toEqual([]);
  await Promise.all([later.close?.(), other.close?.()]);
});

describe("an expansion", () => {
  test("of a missing volume is not found; a volume that is large enough stays unchanged", async () => {
    const { driver, dsm } = await rigOf();
    const grow = (id: string, required: bigint) => driver.expand?.expand(id, { required, limit: undefined }, call);
    expect(await codeOf(Promise.resolve(grow("absent", gib)))).toBe("not-found");
    await driver.create(volumeOf("pvc-1", 2n * gib), call);
    expect(await grow("pvc-1", gib)).toEqual({ bytes: 2n * gib, onNode: true });
    expect(sent(dsm, "LUN", "set").filter(params => "new_size" in params)).toEqual([]);
  });
});

test("the free space is that of the volume of DSM", async () => {
  const { driver, dsm } = await rigOf();
  dsm.state.free = 123_456_789;
  expect(await driver.capacity?.available({}, call)).toBe(123_456_789n);
  await driver.check?.(call);
});

test("the iSCSI name with the longest id has at most 223 bytes", async () => {
  const baseiqn = `iqn.2000-01.com.synology:${"b".repeat(60)}`;
  const { driver, dsm } = await rigOf({ iscsi: { baseiqn, namePrefix: "p".repeat(40), nameSuffix: "s".repeat(40) } });
  await driver.create(volumeOf("n".repeat(128)), call);
  const [target] = dsm.state.targets.values();
  expect(target?.iqn.length).toBeLessThanOrEqual(223);
  expect(target?.iqn).toStartWith(`${baseiqn}${"p".repeat(40)}n`);
});
