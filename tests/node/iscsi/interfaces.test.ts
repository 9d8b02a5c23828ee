import { expect, test } from "bun:test";
import { rmSync } from "node:fs";
import { join } from "node:path";
import { FakeVolume } from "../fake-volume.ts";
import { FakeHost, iqn } from "./fake-host.ts";

// open-iscsi has one record file of a portal for all interfaces, unless the host has discovered the target.

const portal = "10.0.0.1:3260";
const volumeOf = (id: string, lun: string, iface: string) =>
  new FakeVolume(id, { node_attach_driver: "iscsi", iqn, lun, portal, interface: iface });

const left = (host: FakeHost) => ({ sessions: host.sessions, disks: host.disks, records: host.records });
const nothing = { sessions: [], disks: [], records: [] };

function hostWithTwoLuns(): FakeHost {
  const host = new FakeHost(portal);
  host.luns.set("1", { wwid: "naa.1", mebibytes: 8 });
  return host;
}

test.each([
  ["first", 0, ["session2"]],
  ["second", 1, ["session1"]],
] as const)(
  "volumes of one target over two interfaces are detached one by one, the %s one first, and the other one's lost session is reopened",
  async (_, index, stays) => {
    using host = hostWithTwoLuns();
    const volumes = [volumeOf("a", "0", "default"), volumeOf("b", "1", "eth1")];
    for (const volume of volumes) await volume.attach(host);
    const [leaving, staying] = index === 0 ? volumes : volumes.toReversed();
    if (!leaving || !staying) throw new Error("there are two volumes");
    await leaving.detach(host, staying);
    expect(host.sessions).toEqual([...stays]);
    host.lose(stays[0]);
    expect(await staying.restore(host)).toHaveLength(2);
    await staying.detach(host);
    expect(left(host)).toEqual(nothing);
  },
);

test("a session of the host over another interface stays, although csimux has made the record of its portal", async () => {
  using host = hostWithTwoLuns();
  host.foreignSession(portal, "0");
  const [own, used] = [volumeOf("a", "1", "eth1"), volumeOf("b", "0", "default")];
  await own.attach(host);
  await used.attach(host);
  await used.detach(host, own);
  expect(host.disks).toEqual(["sda", "sdb"]);
  await own.detach(host);
  expect(left(host)).toEqual({ sessions: ["session1"], disks: ["sda"], records: [] });
});

test("a session that the host opened after a restart is disowned, and not that of another interface", async () => {
  using host = hostWithTwoLuns();
  const [before, now] = [volumeOf("a", "0", "default"), volumeOf("b", "1", "eth1")];
  await before.attach(host);
  host.boot("second");
  await now.attach(host);
  host.foreignSession(portal, "0");
  await before.detach(host, now);
  rmSync(join(host.root, "opened"), { recursive: true });
  await now.detach(host);
  expect([host.sessions, host.records]).toEqual([["session3"], []]);
});

test.each([
  ["default", "eth1"],
  ["eth1", "default"],
  ["eth1", "eth2"],
])("volumes over the interfaces %s and %s leave nothing, whichever goes first", async (one, other) => {
  for (const turned of [false, true]) {
    using host = hostWithTwoLuns();
    const volumes = [volumeOf("a", "0", one), volumeOf("b", "1", other)];
    for (const volume of volumes) await volume.attach(host);
    if (turned) volumes.reverse();
    for (const [index, volume] of volumes.entries()) await volume.detach(host, ...volumes.slice(index + 1));
    expect(left(host)).toEqual(nothing);
  }
});
