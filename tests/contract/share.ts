import { describe, expect } from "bun:test";
import type { Notes, ShareProtocol, StoredVolume, VolumeStore } from "../../lib/drivers/store.ts";
import { testCases } from "./needs.ts";
import { callWith, volumeOf } from "./rig.ts";
import { atEachStep } from "./steps.ts";

const call = callWith();

/** A store and a share on one storage, empty at first. */
export interface ShareRig<A extends StoredVolume> {
  open(): { readonly store: VolumeStore<A>; readonly share: ShareProtocol<A> };
  /** A share whose process ends at its n-th step; the steps of the store count too. */
  dying(
    step: number,
    when: "before" | "after",
  ): { readonly store: VolumeStore<A>; readonly share: ShareProtocol<A>; dead(): boolean };
  /** Everything that is there, in words. */
  remains(): Promise<readonly string[]>;
  close(): Promise<void>;
}

type Parts<A extends StoredVolume> = ReturnType<ShareRig<A>["open"]>;

/** Publishes the volume of an id, as a driver does, and finishes it. */
async function publish<A extends StoredVolume>({ store, share }: Parts<A>, id: string): Promise<A> {
  let asset = await known(store, id);
  const keep = async (notes: Notes) => {
    asset = (await store.note?.(asset, notes, call)) ?? asset;
    return asset;
  };
  const notes = (await share.publish?.(asset, volumeOf("pvc-1"), keep, call)) ?? {};
  const kept = Object.entries(notes).every(([key, value]) => asset.notes[key] === value);
  return asset.finished && kept ? asset : store.finish(asset, notes, call);
}

async function known<A extends StoredVolume>(store: VolumeStore<A>, id: string): Promise<A> {
  const asset = await store.find(id, call);
  if (!asset) throw new Error(`nothing exists under ${id}`);
  return asset;
}

type Run = <A extends StoredVolume>(rig: ShareRig<A>) => Promise<void>;

/** What every share owes the driver that is made of it. */
const cases: Readonly<Record<string, Run>> = {
  "a repeated publish changes nothing, and the context follows from the notes alone": async rig => {
    const { id } = await rig.open().store.create(volumeOf("pvc-1"), call);
    const first = await publish(rig.open(), id);
    const all = await rig.remains();
    const again = await publish(rig.open(), id);
    expect([again, await rig.remains()]).toEqual([first, all]);
    const { store, share } = rig.open();
    expect(share.context(await known(store, id))).toEqual(share.context(first));
  },

  "a publish that is interrupted anywhere is finished by its repeat, and nothing stands twice": async rig => {
    const { id } = await rig.open().store.create(volumeOf("pvc-1"), call);
    await publish(rig.open(), id);
    const all = await rig.remains();
    const undo = async () => {
      const { store, share } = rig.open();
      await share.withdraw?.(await known(store, id), call);
    };
    await undo();
    await atEachStep(
      (step, when) => {
        const parts = rig.dying(step, when);
        return { work: () => publish(parts, id), dead: parts.dead };
      },
      async step => {
        await publish(rig.open(), id);
        expect([step, await rig.remains()]).toEqual([step, all]);
        await undo();
      },
    );
  },

  "a withdrawal that is interrupted anywhere is finished by its repeat; what is not published is withdrawn too":
    async rig => {
      const { id } = await rig.open().store.create(volumeOf("pvc-1"), call);
      const before = await rig.remains();
      const withdraw = async ({ store, share }: Parts<StoredVolume>) => share.withdraw?.(await known(store, id), call);
      const open = () => rig.open() as unknown as Parts<StoredVolume>;
      await withdraw(open());
      await publish(rig.open(), id);
      await atEachStep(
        (step, when) => {
          const parts = rig.dying(step, when);
          return { work: () => withdraw(parts as unknown as Parts<StoredVolume>), dead: parts.dead };
        },
        async step => {
          await withdraw(open());
          await withdraw(open());
          const left = (await rig.remains()).filter(each => !before.includes(each));
          expect([step, left]).toEqual([step, []]);
          await publish(rig.open(), id);
        },
      );
    },
};

/** Checks a share on a store that keeps its notes. */
export function shareContract<A extends StoredVolume>(name: string, open: () => Promise<ShareRig<A>>): void {
  describe(`share contract: ${name}`, () => {
    testCases<ShareRig<A>, never>(cases, open, {});
  });
}
