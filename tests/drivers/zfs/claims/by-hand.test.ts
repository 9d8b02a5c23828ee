import { describe, expect, test } from "bun:test";
import { unclaimed } from "../../../../lib/drivers/tenure.ts";
import { codeOf } from "../../../contract/driver-volumes.ts";
import { perTest } from "../../../contract/per-test.ts";
import { callWith, getVolume, volumeOf } from "../../../contract/rig.ts";
import { zfsRig } from "../zfs-rig.ts";
import { claimsOf, giveUp, state, take } from "./claims-rig.ts";

// What no claim gets again by itself.

const call = callWith();
const open = perTest((driver: string = "zfs-generic-nfs") => zfsRig({ driver, instanceId: "east" }));
const givenUp = async (driver?: string) => giveUp(await open(driver));

describe.each(["zfs-generic-nfs", "zfs-generic-iscsi"])("%s", driver => {
  test("one that is bound by hand, given up before or not, goes to no claim any more, and stays kept", async () => {
    const rig = await givenUp(driver);
    const adopt = (mark: boolean) => rig.open().adoption?.adopt("pvc-1", mark, call);
    const before = await rig.state();
    expect(await adopt(false)).toMatchObject({ tenure: { claim: "shop/data" }, marked: true });
    expect(await rig.state()).toEqual(before);
    expect((await adopt(true))?.tenure).toMatchObject({ claim: undefined, released: undefined, retain: true });
    const bound = async () => {
      expect(await claimsOf(rig.open()).ofClaim("shop/data", call)).toEqual([]);
      expect(await codeOf(take(rig.open(), "pvc-2"))).toBe("aborted");
      const { own = {} } = rig.fake.find("tank/k/v/pvc-1") ?? {};
      expect([own["csimux:retained"]?.value, own["csimux:tenure"]?.value]).toEqual(["true", expect.any(String)]);
      expect(await rig.read(await getVolume(rig.open(), "pvc-1"))).toBe("data");
    };
    await bound();
    const marked = await rig.state();
    await adopt(true);
    expect(await rig.state()).toEqual(marked);
    // Also once the PersistentVolume that a person made is deleted.
    await rig.open().delete("pvc-1", call);
    expect(await state(rig)).toBe("pvc-1 released");
    await bound();
  });

  test("a binding by hand, at whose steps the claim has the volume again, is refused or tells so", async () => {
    const ends = new Set<string>();
    for (let at = 1; ; at++) {
      const rig = await givenUp(driver);
      let second: string | undefined;
      const byHand = rig.after(async (step): Promise<"run"> => {
        if (step === at) second = await codeOf(take(rig.open(), "pvc-2"));
        return "run";
      });
      let holder: string | undefined;
      const adopt = async () => {
        holder = (await byHand.adoption?.adopt("pvc-1", true, call))?.tenure?.holder;
      };
      const first = await codeOf(adopt());
      if (second === undefined) break;
      const { tenure } = await getVolume(rig.open(), "pvc-1");
      // It may begin after the adoption: then its answer shows the new holder.
      if (second === "ok" && first === "ok") expect([at, holder, tenure?.holder]).toEqual([1, "pvc-2", "pvc-2"]);
      else
        expect([at, first, second, tenure?.claim]).toEqual(
          second === "ok" ? [at, "aborted", "ok", "shop/data"] : [at, "ok", "aborted", undefined],
        );
      ends.add(`${first} ${second}`);
    }
    expect(ends).toEqual(new Set(["ok ok", "aborted ok"]));
  });

  test("what its parent has or came with a stream makes a dataset no claim's, given up or not", async () => {
    const rig = await givenUp(driver);
    const own = () => rig.fake.find("tank/k/v/pvc-1")?.own ?? {};
    const { value = "" } = own()["csimux:tenure"] ?? {};
    const change = (name: string, given: { value: string; source: "local" | "received" } | undefined) =>
      rig.fake.with(pools => {
        const all = pools.find(name)?.own;
        if (all && given) all["csimux:tenure"] = given;
        else if (all) delete all["csimux:tenure"];
      });
    const found = async () => (await claimsOf(rig.open()).ofClaim("shop/data", call)).length;
    expect(await found()).toBe(1);
    change("tank/k/v", { value, source: "local" });
    change("tank/k/v/pvc-1", undefined);
    const inherited = await rig.state();
    expect([await found(), await codeOf(take(rig.open(), "pvc-2"))]).toEqual([0, "not-found"]);
    expect(await rig.state()).toEqual(inherited);
    change("tank/k/v/pvc-1", { value, source: "received" });
    const received = await rig.state();
    expect([await found(), await codeOf(take(rig.open(), "pvc-2"))]).toEqual([0, "aborted"]);
    expect(await rig.state()).toEqual(received);
    // What it says about keeping the volume counts.
    await rig.open().delete("pvc-1", call);
    expect([await found(), (await getVolume(rig.open(), "pvc-1")).tenure]).toMatchObject([0, { claim: undefined }]);
  });
});

test("a class keeps also what is made for no known claim, such as a copy from another connection", async () => {
  const rig = await open();
  await rig.open().create({ ...volumeOf("pvc-1"), tenant: unclaimed("pvc-1", { deleteStrategy: "retain" }) }, call);
  await rig.open().delete("pvc-1", call);
  expect((await getVolume(rig.open(), "pvc-1")).tenure).toMatchObject({ claim: undefined, retain: true });
});
