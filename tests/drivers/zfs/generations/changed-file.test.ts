import { expect, test } from "bun:test";
import { CommandError } from "../../../../lib/io/runner.ts";
import { perTest } from "../../../contract/per-test.ts";
import { callWith, volumeOf } from "../../../contract/rig.ts";
import { nfsCache } from "../../../fakes/zfs/nfsd.ts";
import { around, dataset, type ZfsOptions, zfsRig } from "../zfs-rig.ts";

const call = callWith();
const open = perTest((options: ZfsOptions) => zfsRig(options));

test("a volume that clients have used is deleted by the login of its own connection, although an earlier one of the host has ended", async () => {
  const rig = await open({ driver: "zfs-generic-nfs" });
  let isClosed = false;
  const before = around(rig.host, (_, run) =>
    isClosed ? Promise.reject(new CommandError("fake", "cat", "unreachable", "the connection is closed")) : run(),
  );
  for (const [id, host] of [["a", before] as const, ["b", rig.host] as const]) {
    await rig.open().create(volumeOf(id), call);
    nfsCache(rig.fake.folder, [rig.fake.place(dataset(id))]);
    await rig.on(host).delete(id, call);
    isClosed = true;
  }
  expect(await rig.remains()).toEqual([]);
});
