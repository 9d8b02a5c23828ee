import { expect, test } from "bun:test";
import { callWith, volumeOf } from "../../../contract/rig.ts";
import type { ZfsOptions } from "../zfs-rig.ts";
import { copyOf, copyRig, copySource, copyTarget, joined, streamsOf, targetOf } from "./copy-rig.ts";

const call = callWith();
const nfs: ZfsOptions = { driver: "zfs-generic-nfs" };
const source = { kind: "volume", id: "v" } as const;
const name = "tank/k/v/csimux-land-c";

test("a landing without a proof is discarded only if nothing is below it", async () => {
  const rig = await copyRig({ from: nfs, to: nfs });
  const { fake } = rig.target;
  try {
    const [a, b] = [rig.source.open(), rig.target.open()];
    await rig.source.write(await a.create(volumeOf("v"), call), "content");
    const snapshot = await copySource(a).protect(source, targetOf("c"), 0, call);
    await copyTarget(b).begin(copyOf("c", source), snapshot, "record", call);
    const ends = streamsOf(a, b);
    await joined(ends.source.open(snapshot, { kind: "whole" }, false), ends.target.open("c", snapshot, false));
    fake.zfs("inherit", "csimux:proof", name);
    await ends.target.discard("c", call);
    expect(fake.find(name)).toBeDefined();
    for (const { name: each } of fake.with(pools => pools.all()))
      if (each.startsWith(`${name}@`)) fake.zfs("destroy", each);
    fake.zfs("create", `${name}/theirs`);
    await ends.target.discard("c", call);
    expect(fake.find(name)).toBeDefined();
    fake.zfs("destroy", `${name}/theirs`);
    await ends.target.discard("c", call);
    expect(fake.find(name)).toBeUndefined();
  } finally {
    await rig.close();
  }
});
