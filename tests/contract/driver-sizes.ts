import { expect } from "bun:test";
import type { CapacityRange } from "../../lib/core/bytes.ts";
import { codeOf } from "./driver-volumes.ts";
import { type Cases, needing } from "./needs.ts";
import { callWith, getVolume, gib, volumeOf } from "./rig.ts";

/** Sizes that a request can name and no volume has: the largest int64 of the wire, one more, nothing, less than nothing. */

const call = callWith();
const largest = 2n ** 63n - 1n;
const impossible = /^(?:out-of-range|resource-exhausted|invalid-argument)$/;

const range = (required: bigint | undefined, limit?: bigint): CapacityRange => ({ required, limit });

/** What no storage can answer with OK. */
const wrong: readonly CapacityRange[] = [
  range(largest + 1n),
  range(2n ** 64n),
  range(0n),
  range(-1n),
  range(undefined, 0n),
  range(undefined, -1n),
  range(gib, gib - 1n),
  range(gib, 0n),
  range(largest + 1n, largest),
  range(-2n, -1n),
];

/** What a storage without bounds may take: then as it was asked for. */
const huge: readonly CapacityRange[] = [range(largest), range(largest, largest), range(largest - 1n)];

const words = ({ required, limit }: CapacityRange): string => `${required} to ${limit}`;

export const sizeCases: Cases = {
  "a size that no volume can have is refused with a code that says so, and nothing is left": needing()(async rig => {
    for (const each of wrong) {
      const code = await codeOf(rig.open().create({ ...volumeOf("pvc-1"), range: each }, call));
      expect([words(each), code]).toEqual([words(each), expect.stringMatching(impossible)]);
      expect([words(each), await rig.remains()]).toEqual([words(each), []]);
    }
  }),

  "the largest size of the wire is refused, or answered with as much and no more than the wire can tell": needing()(
    async rig => {
      for (const each of huge) {
        const driver = rig.open();
        const made = driver.create({ ...volumeOf("pvc-1"), range: each }, call);
        const code = await codeOf(made);
        if (code !== "ok") expect([words(each), code]).toEqual([words(each), expect.stringMatching(impossible)]);
        else {
          const { id, bytes } = await made;
          expect([words(each), bytes >= (each.required ?? 0n), bytes <= largest]).toEqual([words(each), true, true]);
          await driver.delete(id, call);
        }
        expect([words(each), await rig.remains()]).toEqual([words(each), []]);
      }
    },
  ),

  "a volume is not expanded to a size that no volume can have, and keeps its own": needing(
    "expand",
    "reading",
  )(async rig => {
    const driver = rig.open();
    const { id } = await driver.create(volumeOf("pvc-1"), call);
    for (const each of [...wrong, ...huge]) {
      const code = await codeOf(driver.expand?.expand(id, each, call) ?? Promise.resolve());
      const { bytes } = await getVolume(rig.open(), id);
      if (code !== "ok") {
        expect([words(each), code]).toEqual([words(each), expect.stringMatching(impossible)]);
        expect([words(each), bytes]).toEqual([words(each), gib]);
      } else {
        // A volume never shrinks, so requesting less than it has changes nothing.
        expect([words(each), bytes >= gib, bytes <= largest]).toEqual([words(each), true, true]);
        if (bytes === gib) continue;
        await driver.delete(id, call);
        await driver.create(volumeOf("pvc-1"), call);
      }
    }
    await driver.delete(id, call);
    expect(await rig.remains()).toEqual([]);
  }),

  "a volume is never larger than the limit, also where the storage has larger units": needing(
    "expand",
    "reading",
  )(async rig => {
    const driver = rig.open();
    const odd = gib + 1n;
    const tight = range(odd, odd);
    const made = driver.create({ ...volumeOf("pvc-1"), range: tight }, call);
    if ((await codeOf(made)) === "ok") expect((await made).bytes).toBe(odd);
    else expect([await codeOf(made), await rig.remains()]).toEqual(["out-of-range", []]);
    const { id } = await driver.create(volumeOf("pvc-2"), call);
    const code = await codeOf(driver.expand?.expand(id, tight, call) ?? Promise.resolve());
    expect(["expand", code]).toEqual(["expand", expect.stringMatching(/^(?:ok|out-of-range)$/)]);
    expect((await getVolume(driver, id)).bytes).toBe(code === "ok" ? odd : gib);
  }),
};
