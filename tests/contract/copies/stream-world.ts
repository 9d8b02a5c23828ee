import { expect, test } from "bun:test";
import type { CopyByStream } from "../../../lib/copies/copy-work.ts";
import { readRecord } from "../../../lib/copies/record.ts";
import { CsiError, isFinal } from "../../../lib/core/errors.ts";
import type { Driver } from "../../../lib/drivers/driver.ts";
import {
  asked,
  type CopyProcess,
  type CopyWorldParts,
  copyProcess,
  copyRequest,
  until,
} from "../../copy/copy-world.ts";
import { testCall } from "../../fakes/memory-driver.ts";
import { failure } from "../../mux/world.ts";
import { type CopyEndRig, type CopyPairRig, sized } from "./copies.ts";
import { type CopyLife, copyLife } from "./life.ts";

/** One storage of a pair that exchanges streams. */
export interface StreamEndRig extends CopyEndRig {
  /** A driver of a process with this life. */
  openIn(life: CopyLife): Driver;
  /** Everything on the storage, in words: volumes, snapshots, holds, shares, and what copies keep. */
  everything(): Promise<readonly string[]>;
}

/** The volume "source" with its snapshots; the snapshots that copies have taken of it; or its snapshots alone. */
export type Destroyed = "volume" | "snapshot" | "protected";

/** A source and a target whose content travels as streams, and the hands of a person on them. */
export interface StreamPairRig extends CopyPairRig {
  readonly source: StreamEndRig;
  readonly target: StreamEndRig;
  readonly stream: CopyByStream;
  /** From now on, streams stand still in their middle until `release`. */
  hold(): { isHeld(): boolean; release(): void };
  /** From now on, streams end after so many bytes; undefined: no more. */
  cutAfter(bytes: number | undefined): void;
  /** From now on, the target's pool has no room; or has some again. */
  fill(isFull: boolean): void;
  /** The commands that have sent streams since the last call. */
  sends(): readonly string[];
  /** Destroys a part of the source with all holds on it, as a person would by hand. */
  destroy(what: Destroyed): void;
}

const call = testCall();

/** How long something may take where many other tests run, in milliseconds; and a test that makes a copy for each of its steps. */
export const patientMs = 60_000;
const longMs = 600_000;

/** What the source has. */
export const content = "the content of the first volume";

/** No process writes into its record without a reason, so that steps can be counted. */
export const calm = { heartbeat: 1_000_000, leaseTimeout: 1_000_000, takeoverAfter: 20, answerWithin: 2_000 };
/** As usual, but faster: an owner that hangs has lost its copy before another one takes it over. */
export const brisk = { heartbeat: 30, leaseTimeout: 500, takeoverAfter: 1_000 };
/** Whatever was not asked for in this moment is forgotten. */
const forgetful = { keepSeconds: -1 };

/** Asks once for a copy of the volume "source", or of a snapshot. */
export const make = (process: CopyProcess, source = "v:a/source") =>
  process.volumes.create(copyRequest("copy", "b", source, sized), call);

/** Asks until the answer says this. */
export const told = (process: CopyProcess, text: RegExp, source?: string): Promise<void> =>
  until(async () => text.test((await failure(make(process, source)))?.message ?? ""), patientMs);

/** The ids of all volumes that a process shows. */
export const listed = async (process: CopyProcess): Promise<readonly string[]> =>
  (await process.listing.volumes({ token: "", max: 100 }, call)).items.map(({ id }) => id);

/** A pair with the volume "source", processes on it, and what tests ask of both. */
export class StreamWorld {
  readonly rig: StreamPairRig;
  readonly #processes: CopyProcess[] = [];

  constructor(rig: StreamPairRig) {
    this.rig = rig;
  }

  /** Another process. */
  opened(parts: Partial<CopyWorldParts> = {}, life = copyLife()): CopyProcess {
    const { source, target, stream } = this.rig;
    const drivers = new Map([
      ["a", () => source.openIn(life)],
      ["b", () => target.openIn(life)],
    ]);
    const process = copyProcess({ drivers, stream, ...parts });
    this.#processes.push(process);
    return process;
  }

  /** Everything on both storages. */
  async everything(): Promise<readonly (readonly string[])[]> {
    return [await this.rig.source.everything(), await this.rig.target.everything()];
  }

  /** What copies have left. */
  async remains(): Promise<readonly string[]> {
    return [...(await this.rig.source.remains()), ...(await this.rig.target.remains())];
  }

  /** What the record of the copy says. */
  async record() {
    const stored = await this.rig.target.open().copyTarget?.find("copy", call);
    return stored && readRecord(stored.record, "test");
  }

  /** Asks until the copy is the volume, with the content of its source, and nothing else is left. */
  async completes(process: CopyProcess, source?: string): Promise<void> {
    expect((await asked(() => make(process, source), patientMs)).id).toBe("v:b/copy");
    expect(await this.rig.target.read("copy")).toBe(content);
    await this.nothingLeft();
  }

  /** Asks until the stream stands still in its middle. */
  async begun(process: CopyProcess, isHeld: () => boolean, source?: string): Promise<void> {
    await until(async () => {
      const error = await failure(make(process, source));
      expect(error instanceof CsiError && !isFinal(error)).toBe(true);
      return isHeld();
    }, patientMs);
  }

  /** Waits for what processes do after their answers. */
  async nothingLeft(): Promise<void> {
    await until(async () => (await this.remains()).length === 0, patientMs).catch(() => {});
    expect(await this.remains()).toEqual([]);
  }

  /** Nothing is left once a clean-up has seen that everything is forgotten. */
  async cleaned(): Promise<void> {
    const { copies } = this.opened({ settings: forgetful, times: calm });
    await until(async () => {
      await copies.cleanUp(call);
      return (await this.remains()).length === 0;
    }, patientMs).catch(() => {});
    expect(await this.remains()).toEqual([]);
  }

  /** Nothing is left of a cancelled copy but its record, which goes with the next request. */
  async cancelled(process: CopyProcess, before: readonly (readonly string[])[]): Promise<void> {
    expect((await this.record())?.state).toBe("cancelled");
    expect((await this.remains()).filter(each => !/csimux-copy-copy(?: |$)/.test(each))).toEqual([]);
    expect(await failure(make(process))).toMatchObject({ code: "failed-precondition" });
    expect(await this.everything()).toEqual(before);
  }

  /** Deletes the copy, after which both storages are as they were. */
  async deleted(before: readonly (readonly string[])[]): Promise<void> {
    const process = this.opened();
    await asked(() => process.volumes.delete("v:b/copy", call), patientMs);
    expect(await this.everything()).toEqual(before);
  }

  /** A person destroys a part of the source in the middle of its stream, which breaks. */
  async destroyed(process: CopyProcess, what: Destroyed, source: string): Promise<void> {
    const { isHeld, release } = this.rig.hold();
    await this.begun(process, isHeld, source);
    this.rig.destroy(what);
    this.rig.cutAfter(3_000);
    release();
    await told(process, /last attempt failed|does not exist/, source);
    this.rig.cutAfter(undefined);
  }

  async close(): Promise<void> {
    this.rig.hold().release();
    for (const each of this.#processes) await each.stop(1_000);
    await this.rig.end();
  }
}

/** A test on a pair that `open` makes. */
export const streamTest = (
  open: () => Promise<StreamPairRig>,
  title: string,
  work: (world: StreamWorld, rig: StreamPairRig) => Promise<void>,
): void =>
  test(
    title,
    async () => {
      const rig = await open();
      const world = new StreamWorld(rig);
      try {
        await world.opened().volumes.create(copyRequest("source", "a", "", { ...sized, source: undefined }), call);
        await rig.source.write("source", content);
        await work(world, rig);
      } finally {
        await world.close();
      }
    },
    longMs,
  );
