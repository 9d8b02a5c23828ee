import { expect, test } from "bun:test";
import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { perTest } from "../../../contract/per-test.ts";
import { callWith, snapshotsOf, volumeOf } from "../../../contract/rig.ts";
import { from, zfsRig } from "../zfs-rig.ts";

const call = callWith();
const opened = perTest(zfsRig);

/** What sudo says at each call while the host cannot look up its own name (sudo 1.9, plugins/sudoers/sudoers.c). */
const remark = "sudo: unable to resolve host nas: Temporary failure in name resolution";

test.each(["zfs-generic-nfs", "zfs-local-zvol"])(
  "%s: volumes live while sudo remarks at each call that its host's name cannot be looked up",
  async driver => {
    const rig = await opened({ driver, programs: true, zfs: { cli: { sudoEnabled: true } } });
    writeFileSync(join(rig.fake.bin, "sudo"), `#!/bin/sh\necho "${remark}" >&2\nshift\nexec "$@"\n`, { mode: 0o755 });
    const one = rig.open();
    await one.create(volumeOf("a"), call);
    await snapshotsOf(one).create("s", "a", {}, call);
    await one.create({ ...volumeOf("b"), source: from("a@s") }, call);
    await one.expand?.expand("b", { required: 2n << 30n, limit: undefined }, call);
    for (const _ of [1, 2]) await one.delete("b", call);
    for (const _ of [1, 2]) await snapshotsOf(one).delete("a@s", call);
    for (const _ of [1, 2]) await one.delete("a", call);
    expect(await rig.remains()).toEqual([]);
  },
);
