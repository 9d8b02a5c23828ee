import { describe, expect } from "bun:test";
import type { StoredVolume, VolumeStore } from "../../lib/drivers/store.ts";
import { type Lacks, testCases } from "./needs.ts";
import { callWith, gib, hostileIds, volumeOf } from "./rig.ts";
import { atEachStep } from "./steps.ts";

const call = callWith();

/** One storage, empty at first, and stores on it. */
export interface StoreRig<A extends StoredVolume> {
  open(): VolumeStore<A>;
  /** A store whose process ends at its n-th step. */
  dying(step: number, when: "before" | "after"): { readonly store: VolumeStore<A>; dead(): boolean };
  /** The keys of notes that shares on this store keep; any where this is absent. */
  readonly noteKeys?: readonly string[];
  /** Like losePower of DriverRig. */
  losePower?(): Promise<void>;
  remains(): Promise<readonly string[]>;
  close(): Promise<void>;
}

type Run = <A extends StoredVolume>(rig: StoreRig<A>) => Promise<void>;

/** What a store may lack: `loss of power` as in needs.ts; `notes`: shares keep notes in its volumes. */
type StoreNeed = "loss of power" | "notes";

/** A removal that nothing has to be done before. */
const unseen = async (): Promise<void> => {};

const needing = (need: StoreNeed, run: Run) => ({ needs: [need], run });

/** What every store owes the driver that is made of it. */
const cases: Readonly<Record<string, Run | { readonly needs: readonly StoreNeed[]; readonly run: Run }>> = {
  "what each method has returned is there after a loss of power": needing("loss of power", async rig => {
    if (!rig.losePower) throw new Error("the rig has no losePower");
    const asset = await rig.open().create(volumeOf("pvc-1"), call);
    await rig.losePower();
    expect(await rig.open().find(asset.id, call)).toEqual(asset);
    const finished = await rig.open().finish(asset, {}, call);
    await rig.losePower();
    expect(await rig.open().find(asset.id, call)).toEqual(finished);
    await rig.open().remove(asset.id, unseen, call);
    await rig.losePower();
    expect([await rig.open().find(asset.id, call), await rig.remains()]).toEqual([undefined, []]);
  }),

  "what is created is found under its id, and finished once that is said": async rig => {
    const store = rig.open();
    const asset = await store.create(volumeOf("pvc-1"), call);
    expect(asset).toMatchObject({ id: store.idOf("pvc-1"), bytes: gib });
    expect(await rig.open().find(asset.id, call)).toEqual(asset);
    await store.finish(asset, {}, call);
    expect(await rig.open().find(asset.id, call)).toMatchObject({ id: asset.id, finished: true });
  },

  "what exists under the id is returned unchanged, even if something else is requested": async rig => {
    const store = rig.open();
    const asset = await store.finish(await store.create(volumeOf("pvc-1"), call), {}, call);
    const other = await store.create(volumeOf("pvc-1", 2n * gib), call).catch((error: unknown) => error);
    // A store may also compare by itself, and refuse.
    if (other instanceof Error) expect(other).toMatchObject({ code: "already-exists" });
    else expect(other).toEqual(asset);
    expect(await store.find(asset.id, call)).toEqual(asset);
  },

  "notes add up and outlive the process": needing("notes", async rig => {
    const store = rig.open();
    const [a, b = a] = rig.noteKeys ?? ["a", "b"];
    if (!store.note || a === undefined || b === undefined) throw new Error("this store keeps no notes");
    const asset = await store.create(volumeOf("pvc-1"), call);
    await store.note(await store.note(asset, { [b]: "1", [a]: "1" }, call), { [b]: "2" }, call);
    expect((await rig.open().find(asset.id, call))?.notes).toMatchObject({ [a]: "1", [b]: "2" });
  }),

  "ids are plain, fit, and differ where names differ": async rig => {
    const store = rig.open();
    const names = ["a", "A", "a b", "../a", "x".repeat(128), `${"x".repeat(127)}y`, "ö"];
    const ids = names.map(name => store.idOf(name));
    expect(new Set(ids).size).toBe(names.length);
    expect(ids).toEqual(names.map(name => rig.open().idOf(name)));
    expect(ids.filter(id => id.length > 120 || /[/\0\s]/.test(id))).toEqual([]);
  },

  "an id that nothing can have is not there, and destroying it touches nothing": async rig => {
    const store = rig.open();
    const asset = await store.finish(await store.create(volumeOf("pvc-1"), call), {}, call);
    for (const id of hostileIds) {
      expect([id, await store.find(id, call)]).toEqual([id, undefined]);
      await store.remove(id, unseen, call);
    }
    expect(await store.find(asset.id, call)).toEqual(asset);
  },

  "a create that is interrupted anywhere leaves what a destroy removes": async rig => {
    await atEachStep(
      (step, when) => {
        const { store, dead } = rig.dying(step, when);
        return { work: () => store.create(volumeOf("pvc-1"), call), dead };
      },
      async step => {
        const id = rig.open().idOf("pvc-1");
        await rig.open().remove(id, unseen, call);
        expect([step, await rig.open().find(id, call), await rig.remains()]).toEqual([step, undefined, []]);
      },
    );
  },

  "what is to be removed is shown first, and stays whole when that is refused; what is not there is not shown":
    async rig => {
      const store = rig.open();
      const asset = await store.finish(await store.create(volumeOf("pvc-1"), call), {}, call);
      const refusing = async () => {
        throw new Error("it stays");
      };
      expect(await store.remove(asset.id, refusing, call).catch((error: Error) => error.message)).toBe("it stays");
      expect(await rig.open().find(asset.id, call)).toEqual(asset);
      const seen: StoredVolume[] = [];
      const noting = async (each: StoredVolume) => void seen.push(each);
      for (const id of [asset.id, asset.id, store.idOf("pvc-2")]) await store.remove(id, noting, call);
      expect(seen.map(({ id, finished }) => [id, finished])).toEqual([[asset.id, true]]);
      expect(await rig.remains()).toEqual([]);
    },

  "a destroy that is interrupted anywhere is finished by its repeat": async rig => {
    const make = async () => {
      const store = rig.open();
      return (await store.finish(await store.create(volumeOf("pvc-1"), call), {}, call)).id;
    };
    let id = await make();
    await atEachStep(
      (step, when) => {
        const { store, dead } = rig.dying(step, when);
        return { work: () => store.remove(id, unseen, call), dead };
      },
      async step => {
        await rig.open().remove(id, unseen, call);
        expect([step, await rig.remains()]).toEqual([step, []]);
        id = await make();
      },
    );
  },

  "a listing shows what is finished, and nothing else": async rig => {
    const store = rig.open();
    if (!store.list) throw new Error("this store lists nothing");
    const asset = await store.finish(await store.create(volumeOf("pvc-1"), call), {}, call);
    const begun = await store.create(volumeOf("pvc-2"), call);
    const { items } = await store.list({ token: undefined, max: 10 }, call);
    expect(items).toEqual(begun.finished ? [asset, begun] : [asset]);
  },
};

/** Checks a store apart from shares; the cases that need what `lacks` names, with the reason, are skipped. */
export function storeContract<A extends StoredVolume>(
  name: string,
  open: () => Promise<StoreRig<A>>,
  lacks: Lacks<StoreNeed> = {},
): void {
  describe(`store contract: ${name}`, () => {
    testCases<StoreRig<A>, StoreNeed>(cases, open, lacks);
  });
}
