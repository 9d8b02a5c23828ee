import { expect, test } from "bun:test";
import { callWith, volumeOf } from "../../../contract/rig.ts";
import type { ZfsOptions } from "../zfs-rig.ts";
import { copyOf, copyRig, giving, joined, streamsOf, taking, targetOf } from "./copy-rig.ts";

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
    const moment = await giving(a).protect(source, targetOf("c"), 0, call);
    await taking(b).begin(copyOf("c", source), moment, "record", call);
    const ends = streamsOf(a, b);
    await joined(ends.source.open(moment, { kind: "whole" }, false), ends.target.open("c", moment, false));
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
