import { expect, test } from "bun:test";
import { CsiError } from "../../../lib/core/errors.ts";
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

test("a LUN is attached once, is the same disk when attached again, and leaves nothing", async () => {
  using host = new FakeHost(one);
  const volume = volumeOf("a");
  const device = await volume.attach(host);
  expect(device).toMatchObject({ kind: "device", path: `${host.root}/dev/sda`, number: "8:16", identity: "naa.0" });
  expect(await volume.attach(host)).toEqual(device);
  expect(left(host)).toEqual({ sessions: ["session1"], disks: ["sda"], records: ["10.0.0.1,3260"] });
  for (let times = 0; times < 2; times++) await volume.detach(host);
  expect(left(host)).toEqual(nothing);
});

test.each(["255", "256", "300", "16383"])("LUN %s is found, and not confused with smaller numbers", async lun => {
  using host = new FakeHost(one);
  host.luns.set(lun, { wwid: `naa.${lun}`, mebibytes: 8 });
  for (const other of [`${Number(lun) % 256}`, lun.slice(0, -1)])
    if (other !== lun) host.luns.set(other, { wwid: `naa.${other}`, mebibytes: 8 });
  const volume = volumeOf("a", { lun });
  expect(await volume.attach(host)).toMatchObject({ identity: `naa.${lun}` });
  await volume.detach(host);
  expect(left(host)).toEqual(nothing);
});

test("an interface of open-iscsi gets its own session, and a session over another one stays", async () => {
  using host = new FakeHost(one);
  host.foreignSession(one, "0");
  const volume = volumeOf("a", { interface: "eth1" });
  expect(await volume.attach(host)).toMatchObject({ path: `${host.root}/dev/sdb` });
  expect(host.ran.filter(line => line.endsWith("--login"))).toEqual([
    `iscsiadm -m node -T ${iqn} -p ${one} -I eth1 --login`,
  ]);
  await volume.detach(host);
  expect(left(host)).toEqual({ sessions: ["session1"], disks: ["sda"], records: [] });
});

test("credentials reach the target, but no command line", async () => {
  using host = new FakeHost(one);
  host.credentials = { username: "node", password: "a secret word" };
  const secrets = {
    "node-db.node.session.auth.username": "node",
    "node-db.node.session.auth.password": "wrong",
    "democratic-csi.org/node-db.node.session.auth.password": "a secret word",
    "node-db.node.session.auth.username_in": "target",
    "node-db.node.session.auth.password_in": "another secret",
  };
  await volumeOf("a").attach(host, secrets);
  expect(host.recordText("10.0.0.1,3260")).toContain("node.session.auth.password_in = another secret\n");
  expect(host.recordText("10.0.0.1,3260")).toMatch(/^node.startup = manual$/m);
  expect(host.ran.filter(line => line.includes("secret"))).toEqual([]);
});

test("refused credentials are unauthenticated, and a silent target is unavailable", async () => {
  using host = new FakeHost(one);
  host.credentials = { username: "node", password: "right" };
  expect(await codeOf(volumeOf("a").attach(host))).toBe("unauthenticated");
  host.portals.set(one, { alive: false });
  expect(await codeOf(volumeOf("a").attach(host))).toBe("unavailable");
  host.before = line => {
    if (line.startsWith("iscsiadm")) throw new CsiError("failed-precondition", "no iscsiadm");
  };
  expect(await codeOf(volumeOf("a").attach(host))).toBe("failed-precondition");
});

test.each([
  ["node.session.auth.username", "node.session.auth.password"],
  ["username", "password"],
  ["node-db.node.session.auth.username", "node-db.node.session.auth.password"],
])("a refused login with the secrets %s and %s names the right ones unless they were given", async (user, secret) => {
  using host = new FakeHost(one);
  host.credentials = { username: "node", password: "right" };
  const error: unknown = await volumeOf("a")
    .attach(host, { [user]: "node", [secret]: "wrong" })
    .catch(cause => cause);
  const isGiven = user.startsWith("node-db.");
  const text =
    "no key that csimux uses for it, which are node-db.node.session.auth.username and node-db.node.session.auth.password";
  expect(error).toMatchObject({ code: "unauthenticated" });
  expect(String(error).includes(text)).toBe(!isGiven);
});

test("a portal with its group, as iscsiadm prints it, is the portal", async () => {
  using host = new FakeHost(one, two);
  host.multipath = true;
  const volume = volumeOf("a", { portal: `${one},1`, portals: `${two},2,${one},1` });
  await volume.attach(host);
  expect([host.records, await host.attacher().health?.(volume)]).toEqual([["10.0.0.1,3260", "10.0.0.2,3260"], []]);
});

test.each([
  { iqn: "../etc" },
  { iqn: "iqn.2005-10.org.example:a/b" },
  { lun: "-1" },
  { lun: "1 2" },
  { portal: "" },
  { portal: "1" },
  { portal: "-h:3260" },
  { portals: "a:b:c" },
  { interface: "../x" },
])("a volume context with %p is refused before any program runs", async more => {
  using host = new FakeHost(one);
  expect(await codeOf(volumeOf("a", more as never).attach(host))).toBe("invalid-argument");
  expect(host.ran).toEqual([]);
});

test("a value of a secret cannot add a line to the record", async () => {
  using host = new FakeHost(one);
  const secrets = { "node-db.node.session.auth.username": "a\nnode.startup = automatic" };
  expect(await codeOf(volumeOf("a").attach(host, secrets))).toBe("invalid-argument");
  expect(left(host)).toEqual(nothing);
});

test("without multipath, only the first portal that answers is used", async () => {
  using host = new FakeHost(one, two);
  host.portals.set(one, { alive: false });
  const volume = volumeOf("a", both);
  await volume.attach(host);
  expect(host.disks).toEqual(["sda"]);
  host.portals.set(one, { alive: true });
  await volume.attach(host);
  expect(host.sessions).toEqual(["session1"]);
  await volume.detach(host);
  expect(left(host)).toEqual(nothing);
});

test("a dead portal is not tried while others answer, but all are tried if none answers", async () => {
  using host = new FakeHost(one, two);
  host.portals.set(one, { alive: false });
  await volumeOf("a", both).attach(host);
  expect(host.ran.filter(line => line.includes(`${one} --login`))).toEqual([]);
  using other = new FakeHost(one, two);
  other.portals.set(one, { alive: false });
  other.probes = false;
  await volumeOf("a", both).attach(other);
  expect(other.ran.filter(line => line.includes("--login")).length).toBe(2);
});

test("a busy database of open-iscsi is retried", async () => {
  using host = new FakeHost(one);
  host.databaseBusy = 3;
  const volume = volumeOf("a");
  await volume.attach(host);
  host.databaseBusy = 2;
  await volume.detach(host);
  expect(left(host)).toEqual(nothing);
});

test("with multipath, every portal is used, the map is the disk, and a dead portal does no harm", async () => {
  using host = new FakeHost(one, two, "10.0.0.3:3260");
  host.multipath = true;
  host.udevBehind = 1;
  host.portals.set("10.0.0.3:3260", { alive: false });
  const volume = volumeOf("a", { portals: `${two},10.0.0.3` });
  expect(await volume.attach(host)).toMatchObject({
    path: `${host.root}/dev/dm-0`,
    number: "254:0",
    identity: "naa.0",
  });
  expect(host.disks).toEqual(["sda", "sdb"]);
  host.mapBusy = 2;
  await volume.detach(host);
  expect([left(host), host.known]).toEqual([nothing, false]);
  const order = host.ran
    .filter(line => /--flushbufs|multipath -f|delete$|-u$/.test(line))
    .map(line => line.split(" ")[0]);
  expect(order.slice(0, 2)).toEqual(["blockdev", "multipath"]);
});

test("a device on the disk that is not a multipath map is never flushed", async () => {
  for (const uuid of ["LVM-x", "CRYPT-LUKS2-x", "part1-mpath-x"]) {
    using host = new FakeHost(one);
    const volume = volumeOf("a");
    await volume.attach(host);
    host.stack("sda", "dm-7", uuid);
    expect((await volume.attach(host)).path).toBe(`${host.root}/dev/sda`);
    await volume.detach(host);
    expect(host.ran.filter(line => line.startsWith("multipath -f"))).toEqual([]);
  }
});

test("another LUN of the same target keeps its session and its disk", async () => {
  using host = new FakeHost(one);
  host.luns.set("1", { wwid: "naa.1", mebibytes: 8 });
  const [first, second] = [volumeOf("a"), volumeOf("b", { lun: "1" })];
  await first.attach(host);
  await second.attach(host);
  await first.detach(host, second);
  expect([host.sessions, host.disks]).toEqual([["session1"], ["sdb"]]);
  await second.detach(host);
  expect(left(host)).toEqual(nothing);
});

test("two volumes of one LUN: the disk stays until the last one is detached", async () => {
  using host = new FakeHost(one);
  const [first, second] = [volumeOf("a"), volumeOf("b")];
  await first.attach(host);
  await second.attach(host);
  await first.detach(host, second);
  expect(host.disks).toEqual(["sda"]);
});

test("a session that csimux did not open stays, with all its disks", async () => {
  using host = new FakeHost(one);
  host.luns.set("1", { wwid: "naa.1", mebibytes: 8 });
  host.foreignSession(one, "0");
  const [own, added] = [volumeOf("a"), volumeOf("b", { lun: "1" })];
  await own.attach(host);
  await added.attach(host);
  await own.detach(host, added);
  await added.detach(host);
  expect([host.sessions, host.disks]).toEqual([["session1"], ["sda"]]);
});

test("a session that the host opened after a restart of the machine stays", async () => {
  using host = new FakeHost(one);
  const volume = volumeOf("a");
  await volume.attach(host);
  host.boot("second");
  host.foreignSession(one, "0");
  await volume.detach(host);
  expect(host.sessions).toEqual(["session2"]);
});

test("after a restart of the machine, the record of open-iscsi is deleted", async () => {
  using host = new FakeHost(one);
  const volume = volumeOf("a");
  await volume.attach(host);
  host.boot("second");
  await volume.detach(host);
  expect(left(host)).toEqual(nothing);
});

test("a record with automatic startup belongs to the host: it is used and stays unchanged", async () => {
  using host = new FakeHost(one);
  await host.run({ argv: ["iscsiadm", "-m", "node", "-T", iqn, "-p", one, "-o", "new"] });
  const before = host.recordText("10.0.0.1,3260");
  const volume = volumeOf("a");
  await volume.attach(host);
  await volume.detach(host);
  expect(host.recordText("10.0.0.1,3260")).toBe(before);
});

test("portals that show different disks are not one volume", async () => {
  using host = new FakeHost(one, two);
  host.multipath = true;
  host.before = line => {
    const scanned = /host([0-9]+)\/scan/.exec(line)?.[1];
    if (scanned) host.luns.set("0", { wwid: `naa.${scanned}`, mebibytes: 8 });
  };
  expect(await codeOf(volumeOf("a", both).attach(host))).toBe("failed-precondition");
});

test("a grown LUN is seen at once, one that has not grown yet is retried", async () => {
  using host = new FakeHost(one, two);
  host.multipath = true;
  const volume = volumeOf("a", both);
  await volume.attach(host);
  expect(await volume.grown(host)).toBe(8n << 20n);
  host.luns.set("0", { wwid: "naa.0", mebibytes: 16 });
  host.before = line => {
    if (line.startsWith("multipathd resize")) host.resizeMap("dm-0", 16);
  };
  expect(await volume.grown(host, 16n << 20n)).toBe(16n << 20n);
});
