import { expect, test } from "bun:test";
import type { Driver } from "../../../lib/drivers/driver.ts";
import { codeOf } from "../../contract/driver-volumes.ts";
import { perTest } from "../../contract/per-test.ts";
import { callWith, getVolume, gib, volumeOf } from "../../contract/rig.ts";
import { pause } from "../../waiting.ts";
import type { DsmRig } from "./dsm-rig.ts";
import { folderRig } from "./folder-rig.ts";

const call = callWith();
const open = perTest(() => folderRig("nfs"));

const create = (driver: Driver) => driver.create(volumeOf("pvc-1"), call);
const remove = (driver: Driver) => driver.delete(driver.names?.idOf("pvc-1") ?? "", call);
const expand = async (driver: Driver, gibs: bigint) =>
  driver.expand?.expand(driver.names?.idOf("pvc-1") ?? "", { required: gibs * gib, limit: undefined }, call);

/** A controller whose change DSM refuses because it is busy; what happens then is over before it tries that again. */
function delayed(rig: DsmRig, change: string, happens: () => Promise<unknown>): Driver {
  const { dsm } = rig;
  let state: "before" | "refused" | "over" = "before";
  return rig.after(async (_, about) => {
    if (state === "refused") {
      state = "over";
      await happens();
    } else if (state === "before" && about.startsWith(change)) {
      state = "refused";
      dsm.answers.set(change, [3328]);
    }
    return "run" as const;
  });
}

async function madeAgain(rig: DsmRig): Promise<void> {
  await remove(rig.open());
  await rig.write(await create(rig.open()), "new");
}

test.each(["SYNO.Core.Share set", "SYNO.Core.Share delete", "SYNO.Core.FileServ.NFS.SharePrivilege save"])(
  "a deletion that DSM delays (%s) spares the folder that another controller has made again meanwhile",
  async change => {
    const rig = await open();
    await create(rig.open());
    const late = delayed(rig, change, () => madeAgain(rig));
    expect(await codeOf(remove(late))).toBe("aborted");
    const volume = await getVolume(rig.open(), rig.open().names?.idOf("pvc-1") ?? "");
    expect(await rig.read(volume)).toBe("new");
    expect((await rig.open().health?.look(call))?.volumes.get(volume.id) ?? []).toEqual([]);
  },
);

test("an expansion that DSM delays does not shrink the folder that another controller has expanded further", async () => {
  const rig = await open();
  const { id } = await create(rig.open());
  const late = delayed(rig, "SYNO.Core.Share set", () => expand(rig.open(), 5n));
  expect(await codeOf(expand(late, 2n))).toBe("aborted");
  expect((await getVolume(rig.open(), id)).bytes).toBe(5n * gib);
  await expand(late, 2n);
  await expand(late, 6n);
  expect((await getVolume(rig.open(), id)).bytes).toBe(6n * gib);
});

test("an expansion that waits behind another change of DSM does not shrink the folder that another controller has expanded further", async () => {
  const rig = await open();
  const { id } = await create(rig.open());
  const waiting = Promise.withResolvers<void>();
  const held = Promise.withResolvers<void>();
  // The two are connections of one process, so that one waits for the other.
  const late = rig.after(async (_, about) => {
    if (about.startsWith("SYNO.Core.Share create")) {
      waiting.resolve();
      await held.promise;
    }
    return "run" as const;
  });
  const making = late.create(volumeOf("pvc-2"), call);
  await waiting.promise;
  const expanding = codeOf(expand(late, 2n));
  // It reads the folder before it waits.
  const reads = rig.dsm.count("list");
  while (rig.dsm.count("list") === reads) await pause(1);
  await expand(rig.open(), 5n);
  held.resolve();
  await making;
  expect(await expanding).toBe("aborted");
  expect((await getVolume(rig.open(), id)).bytes).toBe(5n * gib);
});
