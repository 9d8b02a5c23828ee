import { expect, test } from "bun:test";
import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { Disk, hasLoops, held } from "../disks/disk.ts";
import { FakeVolume } from "../fake-volume.ts";
import { codeOf } from "../lab.ts";
import { FakeHost, iqn } from "./fake-host.ts";

const [one, two] = ["10.0.0.1:3260", "10.0.0.2:3260"];

/** A volume on a storage system whose targets have the names of the other one's. */
const volumeAt = (id: string, portal: string) =>
  new FakeVolume(id, { node_attach_driver: "iscsi", iqn, lun: "0", portal });

for (const found of ["LOGGED_IN", "FAILED"])
  test.skipIf(!hasLoops)(
    `a mount that ran out of time on one path is not followed by one on another path of the disk (session ${found})`,
    async () => {
      using host = new FakeHost(one, two);
      using disk = new Disk(1);
      host.portals.set(one, { alive: false });
      const volume = new FakeVolume("a", { node_attach_driver: "iscsi", iqn, lun: "0", portals: `${one},${two}` });
      const { path, number } = await volume.attach(host);
      expect(host.disks).toEqual(["sda"]);
      const free = held(host, "sda", disk);
      host.portals.set(one, { alive: true });
      writeFileSync(join(host.root, "sys/class/iscsi_session/session1/state"), `${found}\n`);
      expect(await volume.attach(host)).toMatchObject({ path, number });
      free();
      const name = found === "FAILED" ? "sdb" : "sda";
      expect(await volume.attach(host)).toMatchObject({ path: join(host.root, "dev", name) });
    },
  );

test("a target of another storage system that has the same name is neither grown with the volume nor keeps its disk", async () => {
  using host = new FakeHost(one, two);
  const [a, b] = [volumeAt("a", one), volumeAt("b", two)];
  await a.attach(host);
  host.luns.set("0", { wwid: "naa.9", mebibytes: 16 });
  expect(await b.attach(host)).toMatchObject({ path: join(host.root, "dev/sdb"), identity: "naa.9" });
  expect(await b.grown(host, 16n << 20n)).toBe(16n << 20n);
  expect(host.ran.filter(line => line.includes("sda/device/rescan"))).toEqual([]);
  await a.detach(host, b);
  expect([host.sessions, host.disks]).toEqual([["session2"], ["sdb"]]);
  await b.detach(host);
  expect([host.sessions, host.disks]).toEqual([[], []]);
});

for (const isMapped of [true, false])
  test(`multipathd does not join the disks of two storage systems that report one identity (mapped before: ${isMapped})`, async () => {
    using host = new FakeHost(one, two);
    const [a, b] = [volumeAt("a", one), volumeAt("b", two)];
    host.multipath = true;
    host.greedy = isMapped;
    const first = await a.attach(host, {}, b);
    expect(first.path).toBe(join(host.root, "dev", isMapped ? "dm-0" : "sda"));
    // A map of a disk that no program holds is made as soon as a second path to it appears.
    host.before = line => {
      if (line.startsWith("multipath -c") && host.disks.length > 1) host.greedy = true;
      if (line.startsWith("multipathd add") && !isMapped) host.join("sda", "dm-0");
    };
    expect(await codeOf(b.attach(host, {}, a))).toBe("unavailable");
    expect(host.disks).toEqual(["sda"]);
    // Its record stays, because the orchestrator asks for it again: that keeps no disk of the other one.
    await a.detach(host, b);
    expect(host.disks).toEqual([]);
    host.before = () => {};
    expect((await b.attach(host, {})).path).toBe(join(host.root, "dev/dm-0"));
    await b.detach(host);
    expect([host.sessions, host.disks]).toEqual([[], []]);
  });

test("a lost disk comes back also while a target of another storage system that has the same name shows its own", async () => {
  using host = new FakeHost(one, two);
  const [a, b] = [volumeAt("a", one), volumeAt("b", two)];
  await a.attach(host);
  await b.attach(host);
  host.lose("session1");
  expect(host.disks).toEqual(["sdb"]);
  expect(await a.restore(host)).toEqual(["session 3", "sda"]);
});
