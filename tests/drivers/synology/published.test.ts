import { describe, expect, test } from "bun:test";
import { DsmError, explainDsm } from "../../../lib/drivers/synology/dsm-error.ts";
import { codeOf } from "../../contract/driver-volumes.ts";
import { perTest } from "../../contract/per-test.ts";
import { callWith, volumeOf } from "../../contract/rig.ts";
import type { Dsm } from "../../fakes/dsm/double.ts";
import { otherSquashWords, squashWords, type Target } from "../../fakes/dsm/state.ts";
import { dsmRig } from "./dsm-rig.ts";
import { folderRig } from "./folder-rig.ts";

// What other clients of DSM have published of its behaviour; the double names them with each rule.

const call = callWith();
const luns = perTest(dsmRig);
const nfs = perTest(() => folderRig("nfs"));
const smb = perTest(() => folderRig("smb"));

const ofDsm = (dsm: Dsm, method: string) => dsm.requests.filter(each => each.method === method);

function onlyTarget(dsm: Dsm): Target {
  const [target] = dsm.state.targets.values();
  if (!target) throw new Error("the test needs a target");
  return target;
}

describe("rules of NFS", () => {
  test("have the words for the mapping of users that most versions of DSM take", async () => {
    const { dsm, open } = await nfs();
    await open().create(volumeOf("a"), call);
    const [share] = dsm.state.shares.values();
    expect(share?.rules.map(({ root_squash }) => root_squash)).toEqual(["root", "root"]);
    expect(squashWords).toContain("root");
  });

  test("have other names where DSM refuses the usual ones, and are not saved again by a repetition", async () => {
    const { dsm, open } = await nfs();
    dsm.state.habits.squash = otherSquashWords;
    const driver = open();
    await driver.create(volumeOf("a"), call);
    const [share] = dsm.state.shares.values();
    expect(share?.rules.map(({ root_squash }) => root_squash)).toEqual(["no_map", "no_map"]);
    expect(ofDsm(dsm, "save")).toHaveLength(2);
    await driver.create(volumeOf("a"), call);
    expect(ofDsm(dsm, "save")).toHaveLength(2);
  });

  test("are refused with what to do while NFS is off, and the volume is complete once it is on", async () => {
    const { dsm, open } = await nfs();
    dsm.state.habits.nfs = false;
    const driver = open();
    const refused = driver.create(volumeOf("a"), call);
    await expect(refused).rejects.toThrow("switch NFS on");
    dsm.state.habits.nfs = true;
    await driver.create(volumeOf("a"), call);
    expect([...dsm.state.shares.values()].map(({ rules }) => rules.length)).toEqual([2]);
  });
});

describe("changes of shared folders", () => {
  test("are sent one at a time by all connections to a system, so that DSM refuses none", async () => {
    const { dsm, open } = await nfs();
    dsm.state.habits.changeMs = 10;
    const drivers = [open(), open()];
    const codes: string[] = [];
    dsm.mangle = text => {
      codes.push(...(/"code":([0-9]+)/.exec(text)?.slice(1) ?? []));
      return text;
    };
    await Promise.all([...Array(8).keys()].map(n => drivers[n % 2]?.create(volumeOf(`v${n}`), call)));
    expect(codes).toEqual([]);
    expect(dsm.state.shares.size).toBe(8);
  });

  test.each([3328, 3330, 3332])("are repeated after %i, the answer during another change", async code => {
    const { dsm, open } = await nfs();
    dsm.answers.set("SYNO.Core.Share create", [code, code]);
    await open().create(volumeOf("a"), call);
    expect(ofDsm(dsm, "create")).toHaveLength(3);
  });

  test("wait for an earlier one to settle", async () => {
    const { dsm, open } = await nfs();
    dsm.state.habits.settleMs = 250;
    await open().create(volumeOf("a"), call);
    expect([...dsm.state.shares.values()].map(({ rules }) => rules.length)).toEqual([2]);
  });

  test("that DSM refuses for good fail after a short while", async () => {
    const { dsm, open } = await nfs();
    dsm.answers.set("SYNO.Core.Share create", [3300, 3300, 3300]);
    await expect(open().create(volumeOf("a"), call)).rejects.toThrow("is its volume Btrfs?");
    expect(dsm.state.remains()).toEqual([]);
  });

  test("of a folder that was removed meanwhile are repeated, and a refused mark keeps its own words", async () => {
    for (const [code, wanted] of [
      [402, "aborted"],
      [403, "invalid-argument"],
    ] as const) {
      const { dsm, open } = await nfs();
      dsm.answers.set("SYNO.Core.Share set", [code]);
      const failed = open().create(volumeOf("a"), call);
      expect(await codeOf(failed)).toBe(wanted);
      expect(dsm.state.remains()).toHaveLength(wanted === "aborted" ? 3 : 0);
      await expect(failed).rejects.toThrow(wanted === "aborted" ? "finished or removed volume" : "rejects a value");
    }
  });
});

describe("targets", () => {
  test("of volumes with several portals admit several sessions, others as many as DSM decides", async () => {
    for (const [targetPortals, admitted] of [
      [["10.0.1.51:3260"], true],
      [[], false],
    ] as const) {
      const { dsm, open } = await luns({ iscsi: { targetPortals } });
      await open().create(volumeOf("a"), call);
      const target = onlyTarget(dsm);
      expect(dsm.state.logIn(target, "iqn.node1", "10.0.0.1")).toBe(true);
      expect(dsm.state.logIn(target, "iqn.node1", "10.0.1.1")).toBe(admitted);
    }
  });

  test("keep the max_sessions of the template", async () => {
    const { dsm, open } = await luns({ iscsi: { targetTemplate: { max_sessions: 3 } } });
    await open().create(volumeOf("a"), call);
    expect(onlyTarget(dsm).options["max_sessions"]).toBe(3);
  });

  test("have names of their own: one whose LUN a person deleted is left alone", async () => {
    const { dsm, open } = await luns();
    const driver = open();
    await driver.create(volumeOf("a"), call);
    const left = onlyTarget(dsm);
    left.mapped = [];
    dsm.state.luns.clear();
    await driver.create(volumeOf("a"), call);
    expect(dsm.state.targets.get(left.id)).toBe(left);
    expect(dsm.state.targets.size).toBe(2);
  });

  test("whose name a person has used are refused with what to do", async () => {
    const { dsm, open } = await luns();
    const driver = open();
    await driver.create(volumeOf("a"), call);
    const { id, name } = onlyTarget(dsm);
    dsm.state.targets.delete(id);
    dsm.state.addTarget({
      name,
      iqn: "iqn.2000-01.com.synology:theirs",
      options: {},
    });
    const failed = driver.create(volumeOf("a"), call);
    await expect(failed).rejects.toThrow('with the IQN "iqn.2000-01.com.synology:theirs" exists');
    expect(dsm.state.targets.size).toBe(1);
  });
});

describe("a volume in use", () => {
  test("through a second target to which a person mapped its LUN is not deleted", async () => {
    const { dsm, open } = await luns();
    const driver = open();
    await driver.create(volumeOf("a"), call);
    const [lun] = dsm.state.luns.values();
    const second = dsm.state.addTarget({ name: "second", iqn: "iqn.2000-01.com.synology:second", options: {} });
    second.mapped = [{ lun_uuid: lun?.uuid ?? "", mapping_index: 1 }];
    dsm.state.logIn(second, "iqn.node1", "10.0.0.9");
    const refused = driver.delete("a", call);
    await expect(refused).rejects.toThrow("in use by 10.0.0.9");
    expect(await codeOf(refused)).toBe("failed-precondition");
    expect([dsm.state.luns.size, dsm.state.targets.size]).toEqual([1, 2]);
    second.sessions = [];
    await driver.delete("a", call);
  });

  test("over SMB is not deleted; sessions with other folders do no harm", async () => {
    const { dsm, open } = await smb();
    const driver = open();
    await driver.create(volumeOf("a"), call);
    const session = { who: "csi-nodes", from: "10.0.0.9", type: "SMB3" };
    dsm.state.connections = [{ ...session, descr: "home, K8S-A" }];
    const refused = driver.delete("a", call);
    await expect(refused).rejects.toThrow("csi-nodes at 10.0.0.9");
    expect(await codeOf(refused)).toBe("failed-precondition");
    expect(dsm.state.shares.size).toBe(1);
    dsm.state.connections = [
      { ...session, descr: "home, k8s-ab" },
      { ...session, type: "HTTP/HTTPS", descr: "k8s-a" },
    ];
    await driver.delete("a", call);
    expect(dsm.state.remains()).toEqual([]);
  });

  test.each([102, 103, 105])("over SMB is deleted as ever where DSM shows no connections (%i)", async code => {
    const { dsm, open } = await smb();
    const driver = open();
    await driver.create(volumeOf("a"), call);
    dsm.answers.set("SYNO.Core.CurrentConnection list", [code, code]);
    await driver.delete("a", call);
    expect(dsm.state.remains()).toEqual([]);
  });
});

test("a LUN that DSM calls a bad UUID is one that does not exist", async () => {
  const { dsm, open } = await luns();
  dsm.state.habits.noLun = 18990505;
  dsm.state.habits.deletion = 0;
  const [one, other] = [open(), open()];
  await one.create(volumeOf("a"), call);
  await Promise.all([one.delete("a", call), other.delete("a", call)]);
  expect(dsm.state.remains()).toEqual([]);
});

test("a volume of DSM that does not exist is an error of the file, for capacity and for volumes", async () => {
  const { open } = await luns({ synology: { volume: "/volume9" } });
  const driver = open();
  for (const work of [driver.capacity?.available({}, call), driver.create(volumeOf("a"), call)]) {
    await expect(work).rejects.toThrow("check synology.volume");
    expect(await codeOf(work ?? Promise.resolve())).toBe("failed-precondition");
  }
});

test("snapshots say whether they are locked and consistent, also without a template", async () => {
  const { dsm, open } = await luns();
  const driver = open();
  await driver.create(volumeOf("a"), call);
  await driver.snapshots?.create("s", "a", {}, call);
  expect(ofDsm(dsm, "take_snapshot").map(({ params }) => [params["is_locked"], params["is_app_consistent"]])).toEqual([
    [false, false],
  ]);
});

test("a snapshot that DSM keeps is not reported as deleted, although DSM answers with success", async () => {
  const { dsm, open } = await luns();
  const driver = open();
  await driver.create(volumeOf("a"), call);
  const snapshot = await driver.snapshots?.create("s", "a", {}, call);
  const [taken] = dsm.state.snapshots.values();
  if (!snapshot || !taken) throw new Error("the test needs a snapshot");
  taken.kept = true;
  const refused = driver.snapshots?.delete(snapshot.id, call);
  await expect(refused).rejects.toThrow("18990540");
  delete taken.kept;
  await driver.snapshots?.delete(snapshot.id, call);
  expect(dsm.state.snapshots.size).toBe(0);
});

test.each([
  ["SYNO.Core.Share", 3320, "resource-exhausted"],
  ["SYNO.Core.Share", 3304, "failed-precondition"],
  ["SYNO.Core.Share", 3319, "invalid-argument"],
  ["SYNO.Core.Share", 3312, "failed-precondition"],
  ["SYNO.Core.Share.Snapshot", 3329, "resource-exhausted"],
  ["SYNO.Core.Share", 3350, "failed-precondition"],
  ["SYNO.Core.FileServ.NFS.SharePrivilege", 2301, "failed-precondition"],
  ["SYNO.Core.FileServ.NFS.SharePrivilege", 2370, "unavailable"],
  ["SYNO.Core.FileServ.NFS.SharePrivilege", 2371, "failed-precondition"],
  ["SYNO.Core.Share", 3314, "failed-precondition"],
  ["SYNO.Core.Share", 3341, "resource-exhausted"],
  ["SYNO.Core.ISCSI.LUN", 18990501, "failed-precondition"],
  ["SYNO.Core.ISCSI.LUN", 18990502, "out-of-range"],
  ["SYNO.Core.ISCSI.LUN", 18990513, "already-exists"],
  ["SYNO.Core.ISCSI.LUN", 18990004, "invalid-argument"],
  ["SYNO.Core.ISCSI.Target", 18990745, "already-exists"],
  ["SYNO.Core.Storage.Volume", 117, "failed-precondition"],
  ["SYNO.Core.ISCSI.LUN", 117, "unavailable"],
  ["SYNO.Core.ISCSI.LUN", 118, "unavailable"],
  ["SYNO.Core.Share", 150, "unavailable"],
  ["SYNO.API.Auth", 411, "unauthenticated"],
] as const)("%s answers %i: %s", (api, code, wanted) => {
  expect(explainDsm(new DsmError(api, "create", code))?.code).toBe(wanted);
});

test.each([
  ["SYNO.Core.ISCSI.Target", 18990700, "the target's name"],
  ["SYNO.Core.ISCSI.Target", 18990702, "auth_type"],
  ["SYNO.Core.FileServ.NFS.SharePrivilege", 2371, "mounted inside"],
  ["SYNO.Core.FileServ.NFS.SharePrivilege", 2372, "HFS+"],
] as const)("%s answers %i: says %s, as the pages of DSM do", (api, code, words) => {
  expect(explainDsm(new DsmError(api, "create", code))?.text).toContain(words);
});
