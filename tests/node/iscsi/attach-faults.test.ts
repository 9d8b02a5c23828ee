import { expect, test } from "bun:test";
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { CsiError } from "../../../lib/core/errors.ts";
import { later } from "../../waiting.ts";
import { FakeVolume } from "../fake-volume.ts";
import { codeOf } from "../lab.ts";
import { FakeHost, iqn } from "./fake-host.ts";

const one = "10.0.0.1:3260";
const two = "10.0.0.2:3260";
const both = { portal: one, portals: `${one},${two}` };

const volumeOf = (id: string, more: Readonly<Record<string, string>> = {}) =>
  new FakeVolume(id, { node_attach_driver: "iscsi", iqn, lun: "0", portal: one, ...more });

/** What csimux has left on a node. */
const left = (host: FakeHost) => ({ sessions: host.sessions, disks: host.disks, records: host.records });
const nothing = { sessions: [], disks: [], records: [] };

test("after an attach interrupted at any step, a retry succeeds and a detach leaves nothing", async () => {
  for (const multipath of [false, true]) {
    for (let cut = 0; ; cut++) {
      using host = new FakeHost(one, two);
      host.multipath = multipath;
      const volume = volumeOf("a", both);
      let count = 0;
      host.before = () => {
        if (count++ === cut) throw new CsiError("unavailable", "cut");
      };
      const outcome = await codeOf(volume.attach(host));
      const reached = count > cut;
      host.before = () => {};
      if (cut % 2 === 0) expect(await codeOf(volume.attach(host))).toBe("ok");
      await volume.detach(host);
      expect({ multipath, cut, ...left(host) }).toEqual({ multipath, cut, ...nothing });
      if (!reached) {
        expect(outcome).toBe("ok");
        break;
      }
    }
  }
});

test("after a detach interrupted at any step, a retry leaves nothing", async () => {
  for (let cut = 0, reached = true; reached; cut++) {
    using host = new FakeHost(one, two);
    host.multipath = true;
    const volume = volumeOf("a", both);
    await volume.attach(host);
    let count = 0;
    host.before = () => {
      if (count++ === cut) throw new CsiError("unavailable", "cut");
    };
    await codeOf(volume.detach(host));
    reached = count > cut;
    host.before = () => {};
    await volume.detach(host);
    expect({ cut, ...left(host) }).toEqual({ cut, ...nothing });
  }
});

test("a session that ends by itself before csimux ends it is gone as well", async () => {
  using host = new FakeHost(one);
  const volume = volumeOf("a");
  await volume.attach(host);
  host.before = line => {
    if (line === "iscsiadm -m session -r 1 -u") host.lose("session1");
  };
  await volume.detach(host);
  expect([host.ran.filter(line => line.includes("-m session")), left(host)]).toEqual([
    ["iscsiadm -m session -r 1 -u"],
    nothing,
  ]);
});

test("a lost session is reopened with the earlier credentials, and closed when the volume is detached", async () => {
  using host = new FakeHost(one);
  host.credentials = { username: "node", password: "a = secret" };
  const auth = "node-db.node.session.auth";
  const volume = volumeOf("a");
  await volume.attach(host, { [`${auth}.username`]: "node", [`${auth}.password`]: "a = secret" });
  expect(await volume.restore(host)).toEqual([]);
  host.lose("session1");
  host.portals.set(one, { alive: false });
  expect(await volume.restore(host)).toEqual([]);
  host.portals.set(one, { alive: true });
  expect(await volume.restore(host)).toEqual(["session 2", "sda"]);
  await volume.detach(host);
  expect(left(host)).toEqual(nothing);
});

test("a portal that was dead when the volume was attached joins the map later, but stays unused without multipath", async () => {
  for (const multipath of [true, false]) {
    using host = new FakeHost(one, two);
    host.multipath = multipath;
    host.portals.set(two, { alive: false });
    const volume = volumeOf("a", both);
    await volume.attach(host);
    host.portals.set(two, { alive: true });
    expect(await volume.restore(host)).toEqual(multipath ? ["session 2", "sdb"] : []);
    expect(await volume.restore(host)).toEqual([]);
    await volume.detach(host);
    expect({ multipath, ...left(host) }).toEqual({ multipath, ...nothing });
  }
});

test("a session of the host is not reopened", async () => {
  using host = new FakeHost(one);
  host.foreignSession(one, "0");
  const volume = volumeOf("a");
  await volume.attach(host);
  host.lose("session1");
  expect(await volume.restore(host)).toEqual([]);
  expect(host.sessions).toEqual([]);
});

test("a disk with one portal waits for multipathd only if multipathd claims it", async () => {
  using host = new FakeHost(one);
  host.multipath = true;
  const volume = volumeOf("a");
  expect(await volume.attach(host)).toMatchObject({ path: `${host.root}/dev/sda` });
  expect(host.ran.filter(line => line.startsWith("multipath"))).toEqual(["multipath -c /dev/sda"]);
  await volume.detach(host);
  host.greedy = true;
  host.udevBehind = 1;
  expect(await volume.attach(host)).toMatchObject({ path: `${host.root}/dev/dm-0` });
});

/** The current texts of the attributes in a device's proof. */
const saysNow = (host: FakeHost, proof: Readonly<Record<string, string>>) =>
  Object.fromEntries(
    Object.keys(proof).map(file => [file, readFileSync(join(host.root, "sys", file), "utf8").trim()] as const),
  );

for (const multipath of [false, true]) {
  test(`a disk is proved by its attributes in the kernel, not by its name (${multipath ? "with" : "without"} multipath)`, async () => {
    using host = new FakeHost(one, two);
    host.multipath = multipath;
    const { path, number, proof } = await volumeOf("a", both).attach(host);
    expect(saysNow(host, proof)).toEqual(proof);
    for (const session of host.sessions) host.lose(session);
    host.luns.set("0", { wwid: "naa.another", mebibytes: 8 });
    host.foreignSession(one, "0");
    host.foreignSession(two, "0");
    if (!multipath) expect([path, number]).toEqual([`${host.root}/dev/sda`, "8:16"]);
    expect(host.disks).toContain("sda");
    expect(saysNow(host, proof)).not.toEqual(proof);
  });
}

test("a map with a path to another disk is not used", async () => {
  using host = new FakeHost(one, two);
  host.multipath = true;
  host.luns.set("1", { wwid: "naa.another", mebibytes: 8 });
  const volume = volumeOf("a", both);
  await volume.attach(host);
  host.foreignSession(one, "1");
  host.join("sdc", "dm-0");
  await expect(volume.attach(host)).rejects.toThrow("the path sdc, which is a different disk");
});

test("a session that another program opens during the login is used, and stays", async () => {
  using host = new FakeHost(one);
  const volume = volumeOf("a");
  host.before = line => {
    if (!line.endsWith("--login")) return;
    host.before = () => {};
    host.foreignSession(one);
  };
  expect(await volume.attach(host)).toMatchObject({ path: `${host.root}/dev/sda` });
  await volume.detach(host);
  expect(left(host)).toMatchObject({ sessions: ["session1"], disks: [] });
});

test("a portal that still logs in when the volume is detached is waited for, and leaves no session that nothing closes", async () => {
  using host = new FakeHost(one, two);
  Object.assign(host, { multipath: true, graceMs: 1 });
  const login = Promise.withResolvers<void>();
  host.portals.set(two, { alive: true, answers: login.promise });
  const attacher = host.attacher();
  const volume = volumeOf("a", both);
  await volume.attach({ attacher: () => attacher });
  expect(left(host)).toMatchObject({ sessions: ["session1"], records: ["10.0.0.1,3260", "10.0.0.2,3260"] });
  // The portal answers in the middle of the detachment.
  later(() => login.resolve(), 1_000);
  await volume.detach({ attacher: () => attacher });
  await login.promise;
  expect(left(host)).toEqual(nothing);
});

test("a disk that appears some time after the scan is waited for", async () => {
  using host = new FakeHost(one);
  host.lateMs = 300;
  const volume = volumeOf("a");
  expect(await volume.attach(host)).toMatchObject({ path: `${host.root}/dev/sda`, identity: "naa.0" });
  await volume.detach(host);
  expect(left(host)).toEqual(nothing);
});

test("a disk that has lost its session is not used, and is waited for", async () => {
  using host = new FakeHost(one);
  host.foreignSession(one, "0");
  host.transport("sda", "transport-offline");
  let repaired = false;
  // After the first looks, which are 50 ms apart.
  later(() => {
    repaired = true;
    host.transport("sda", "running");
  }, 100);
  expect(await volumeOf("a").attach(host)).toMatchObject({ path: `${host.root}/dev/sda` });
  expect(repaired).toBe(true);
});

test("another LUN that the target shows under an old number has its own identity", async () => {
  using host = new FakeHost(one);
  host.foreignSession(one, "0");
  expect(await volumeOf("a").attach(host)).toMatchObject({ identity: "naa.0" });
  await volumeOf("a").detach(host);
  host.luns.set("0", { wwid: "naa.9", mebibytes: 16 });
  expect(await volumeOf("b").attach(host)).toMatchObject({ path: `${host.root}/dev/sda`, identity: "naa.9" });
});
