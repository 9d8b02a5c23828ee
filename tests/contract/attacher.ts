import { describe, expect } from "bun:test";
import type { Call } from "../../lib/core/call.ts";
import { CsiError } from "../../lib/core/errors.ts";
import type { Attached, Attacher, Attachment, AttachRequest } from "../../lib/node/attach/attacher.ts";
import { MountTable } from "../../lib/node/mount/mount-table.ts";
import { codeOf } from "./driver-volumes.ts";
import { testCases } from "./needs.ts";
import { callWith } from "./rig.ts";
import { atEachStep } from "./steps.ts";

const call = callWith();
type Context = AttachRequest["context"];

/** One node and volumes that it can attach. */
export interface AttacherRig {
  open(): Attacher;
  /** An attacher whose process ends at its n-th step. */
  dying(step: number, when: "before" | "after"): { readonly attacher: Attacher; dead(): boolean };
  /** The contexts of two volumes; where the protocol has targets, both are behind one. */
  readonly volumes: readonly [Context, Context];
  /** The context of a volume that is not there. */
  readonly absent: Context;
  /** Contexts that lack something. */
  readonly incomplete: readonly Context[];
  /** What attaching has left on the node, in words. */
  remains(): Promise<readonly string[]>;
  close(): Promise<void>;
}

/** The record of one volume on disk: what an attacher has noted outlives its process. */
class Recorded {
  #notes: Attachment["notes"] = {};
  readonly volumeId: string;
  readonly context: Context;

  constructor(volumeId: string, context: Context) {
    this.volumeId = volumeId;
    this.context = context;
  }

  get attachment(): Attachment {
    return { volumeId: this.volumeId, context: this.context, notes: this.#notes };
  }

  get wanted(): AttachRequest {
    const { volumeId, context } = this;
    const capability = {
      kind: "mount",
      fsType: undefined,
      mountFlags: [],
      mountGroup: undefined,
      mode: "single-node-writer",
    } as const;
    const notes = this.#notes;
    return { volumeId, context, capability, publishContext: {}, readonly: false, notes, table: new MountTable([]) };
  }

  attach(attacher: Attacher, by: Call = call): Promise<Attached> {
    const note = async (more: Readonly<Partial<Attachment["notes"]>>) => {
      const all = Object.entries({ ...this.#notes, ...more });
      this.#notes = Object.fromEntries(all.flatMap(([key, value]) => (value === undefined ? [] : [[key, value]])));
    };
    return attacher.attach(this.wanted, note, by);
  }

  async detach(attacher: Attacher, others: readonly Recorded[] = []): Promise<void> {
    await attacher.detach?.(
      this.attachment,
      others.map(({ attachment }) => attachment),
      call,
    );
  }
}

type Run = (rig: AttacherRig) => Promise<void>;

/** What every attacher owes the node that stages with it. */
const cases: Readonly<Record<string, Run>> = {
  "a repeated attach gives the same, also after a restart, and a detach leaves nothing": async rig => {
    const volume = new Recorded("a", rig.volumes[0]);
    const first = await volume.attach(rig.open());
    expect(await volume.attach(rig.open())).toEqual(first);
    await volume.detach(rig.open());
    await volume.detach(rig.open());
    expect(await rig.remains()).toEqual([]);
  },

  "what never was attached is detached": async rig => {
    await new Recorded("a", rig.volumes[0]).detach(rig.open());
    expect(await rig.remains()).toEqual([]);
  },

  "an attach that is interrupted anywhere is finished by its repeat, and undone by a detach": async rig => {
    for (const repeat of [true, false]) {
      let volume = new Recorded("a", rig.volumes[0]);
      await atEachStep(
        (step, when) => {
          const { attacher, dead } = rig.dying(step, when);
          return { work: () => volume.attach(attacher), dead };
        },
        async step => {
          if (repeat) expect(await volume.attach(rig.open())).toBeDefined();
          await volume.detach(rig.open());
          expect([step, await rig.remains()]).toEqual([step, []]);
          volume = new Recorded("a", rig.volumes[0]);
        },
      );
    }
  },

  "a detach that is interrupted anywhere is finished by its repeat": async rig => {
    const volume = new Recorded("a", rig.volumes[0]);
    await volume.attach(rig.open());
    await atEachStep(
      (step, when) => {
        const { attacher, dead } = rig.dying(step, when);
        return { work: () => volume.detach(attacher), dead };
      },
      async step => {
        await volume.detach(rig.open());
        expect([step, await rig.remains()]).toEqual([step, []]);
        await volume.attach(rig.open());
      },
    );
    await volume.detach(rig.open());
  },

  "detaching one volume keeps what another one needs": async rig => {
    const [a, b] = [new Recorded("a", rig.volumes[0]), new Recorded("b", rig.volumes[1])];
    await a.attach(rig.open());
    const kept = await b.attach(rig.open());
    await a.detach(rig.open(), [b]);
    expect(await b.attach(rig.open())).toEqual(kept);
    await b.detach(rig.open());
    expect(await rig.remains()).toEqual([]);
  },

  "an incomplete context is an invalid argument, a volume that is not there is not found": async rig => {
    for (const context of rig.incomplete)
      expect([context, await codeOf(new Recorded("a", context).attach(rig.open()))]).toEqual([
        context,
        "invalid-argument",
      ]);
    const absent = new Recorded("a", rig.absent);
    expect(await codeOf(absent.attach(rig.open()))).toBe("not-found");
    await absent.detach(rig.open());
    expect(await rig.remains()).toEqual([]);
  },

  "a call that has ended attaches nothing": async rig => {
    const ended = callWith(AbortSignal.abort(new CsiError("deadline-exceeded", "the call has ended")));
    const attacher = rig.open();
    const work = new Recorded("a", rig.volumes[0]).attach(attacher, ended);
    expect(["deadline-exceeded", "unavailable", "aborted"]).toContain(await codeOf(work));
    expect(await rig.remains()).toEqual([]);
  },
};

/** Checks an attacher. */
export function attacherContract(name: string, open: () => Promise<AttacherRig>): void {
  describe(`attacher contract: ${name}`, () => {
    testCases(cases, open, {});
  });
}
