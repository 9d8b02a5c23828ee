import { expect, test } from "bun:test";
import { perTest } from "../../../contract/per-test.ts";
import { callWith, volumeOf } from "../../../contract/rig.ts";
import { copyRig, copySource, streamsOf, targetOf } from "./copy-rig.ts";

const call = callWith();
const opened = perTest(copyRig);

test("the commands of streams are exactly these", async () => {
  const rig = await opened({ from: { driver: "zfs-generic-iscsi" }, to: { driver: "zfs-generic-nfs" } });
  const [a, b] = [rig.source.open(), rig.target.open()];
  await a.create(volumeOf("v"), call);
  const snapshot = await copySource(a).protect({ kind: "volume", id: "v" }, targetOf("c"), 0, call);
  const { source: from, target: to } = streamsOf(a, b);
  const { name, proof } = snapshot;
  expect(from.open(snapshot, { kind: "whole" }, false).argv).toEqual(["zfs", "send", "-L", "-c", name]);
  expect(from.open(snapshot, { kind: "whole" }, true).argv).toEqual(["zfs", "send", name]);
  const later = { ...snapshot, name: name.replace(/-0$/, "-10") };
  const since = { kind: "since", snapshot: { name: name.replace(/-0$/, "-9"), proof: "1" } } as const;
  const base = since.snapshot.name.slice(name.indexOf("@"));
  expect(from.open(later, since, false).argv.join(" ")).toBe(`zfs send -L -c -i ${base} ${later.name}`);
  expect(from.open(snapshot, { kind: "token", token: "1-ab" }, false).argv).toEqual(["zfs", "send", "-t", "1-ab"]);
  const landing = `tank/k/v/csimux-land-c@csimux-copy-${proof}`;
  expect(to.open("c", snapshot, false).argv).toEqual([
    "zfs",
    ...["receive", "-u", "-s"],
    ...["-o", "canmount=noauto", "-o", "mountpoint=none", "-o", "sharenfs=off", "-o", "sharesmb=off"],
    ...["-o", "democratic-csi:volume_context_provisioner_driver=zfs-generic-nfs", "-o", "csimux:landing=c", landing],
  ]);
  const [shell, , text] = to.open("c", snapshot, true).argv;
  expect([shell, text]).toEqual(["sh", expect.stringContaining(`exec zfs receive -u -s -F ${landing}`)]);
  expect([from.format, to.format, from.machine]).toEqual(["zfs:volume", "zfs:filesystem", to.machine]);
});
