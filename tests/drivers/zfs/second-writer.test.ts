import { expect, test } from "bun:test";
import { setImmediate as turn } from "node:timers/promises";
import type { Driver } from "../../../lib/drivers/driver.ts";
import type { Script } from "../../../lib/io/script.ts";
import { perTest } from "../../contract/per-test.ts";
import { callWith, findVolume, volumeOf } from "../../contract/rig.ts";
import { wholeWith } from "../../fakes/zfs/whole.ts";
import { codeOf } from "./copies/copy-rig.ts";
import { around, type ZfsRig, zfsRig } from "./zfs-rig.ts";

const call = callWith();
const opened = perTest(zfsRig);

const has = ({ steps }: Script, name: string): boolean => steps.some(each => each.name === name);

/** A controller that is not allowed to finish a volume; `before` runs before it destroys something. */
const refused = (rig: ZfsRig, before: () => Promise<unknown>): Driver =>
  rig.on(
    around(rig.host, async (whole, run) => {
      const finishing = wholeWith(whole, "finish", ":");
      if (finishing) {
        const outputs = await run(finishing);
        const make = { stdout: "", stderr: "cannot set property: permission denied\n", exitCode: 3 };
        return outputs.get("make")?.exitCode === 0 ? new Map([["make", make]]) : outputs;
      }
      if (has(whole, "set") && JSON.stringify(whole.steps).includes("provision_success=true"))
        return new Map([["set", { stdout: "", stderr: "cannot set property: permission denied\n", exitCode: 1 }]]);
      if (has(whole, "destroy")) await before();
      return run();
    }),
  );

test.each(["zfs-generic-nfs", "zfs-local-zvol", "zfs-generic-iscsi"])(
  "%s: the undo of a failed creation spares the volume that another controller has finished meanwhile",
  async driver => {
    const rig = await opened({ driver });
    const other = rig.open();
    const one = refused(rig, async () => {
      const volume = await other.create(volumeOf("pvc-1"), call);
      await rig.write(volume, "content");
    });
    expect(await codeOf(one.create(volumeOf("pvc-1"), call))).toBe("unavailable");
    const volume = await findVolume(other, "pvc-1");
    expect(volume && (await rig.read(volume))).toBe("content");
    await other.delete("pvc-1", call);
    expect(await rig.remains()).toEqual([]);
  },
);

test("a volume that another controller has removed and begun again is not finished by the first one", async () => {
  const rig = await opened({ driver: "zfs-local-zvol" });
  const other = rig.open();
  let isFirst = true;
  const one = rig.on(
    around(rig.host, async (whole, run) => {
      if (isFirst && has(whole, "set")) {
        isFirst = false;
        await other.delete("pvc-1", call);
        // Another controller begins it again, and ends.
        await rig.dying(3, "after").driver.create(volumeOf("pvc-1"), call).catch(turn);
      }
      return run();
    }),
  );
  expect(await codeOf(one.create(volumeOf("pvc-1"), call))).toBe("aborted");
  expect((await one.create(volumeOf("pvc-1"), call)).id).toBe("pvc-1");
});

test.each([
  { driver: "zfs-generic-iscsi" },
  { driver: "zfs-generic-nvmeof" },
  { driver: "zfs-generic-nvmeof", spdk: true },
])(
  "%o: the target of a zvol that another controller has removed never leads to the one that it made again",
  async options => {
    const rig = await opened(options);
    const other = rig.open();
    let made: readonly string[] = [];
    const one = rig.after(async (_, about): Promise<"run"> => {
      if (made.length === 0 && about.includes("python3")) {
        await other.delete("pvc-1", call);
        await other.create(volumeOf("pvc-1"), call);
        made = await rig.remains();
      }
      return "run";
    });
    expect(await codeOf(one.create(volumeOf("pvc-1"), call))).toBe("aborted");
    expect(made).toContainEqual(expect.stringContaining("pvc-1"));
    expect(await rig.remains()).toEqual(made);
    await other.delete("pvc-1", call);
    expect(await rig.remains()).toEqual([]);
  },
);

test.each(["zfs-generic-nfs", "zfs-local-zvol"])(
  "%s: where the parent has the mark of a finished volume, its children are none, and a failed creation leaves nothing",
  async driver => {
    const rig = await opened({ driver });
    rig.fake.zfs(
      "set",
      "democratic-csi:provision_success=true",
      "democratic-csi:csi_volume_content_source_type=x",
      "tank",
    );
    const one = refused(rig, async () => {});
    expect(await codeOf(one.create(volumeOf("pvc-1"), call))).toBe("permission-denied");
    expect(await rig.remains()).toEqual([]);
    expect((await rig.open().create(volumeOf("pvc-1"), call)).id).toBe("pvc-1");
  },
);
