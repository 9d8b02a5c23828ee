import { describe, expect, test } from "bun:test";
import type { CopyByStream } from "../../../lib/copies/copy-work.ts";
import { CsiError } from "../../../lib/core/errors.ts";
import type { Driver } from "../../../lib/drivers/driver.ts";
import { asked, type CopyProcess, copyProcess, copyRequest, until } from "../../copy/copy-world.ts";
import { testCall } from "../../fakes/memory-driver.ts";
import { codeOf } from "../../mux/world.ts";
import { everything, seed } from "../../sample.ts";
import { meetAtSteps, others } from "./second-writer.ts";

/** One storage of a pair, and the hands of a person on it. */
export interface CopyEndRig {
  /** A driver as another process would open it. */
  open(): Driver;
  write(id: string, content: string): Promise<void>;
  read(id: string): Promise<string>;
  /** Everything that copies have left: snapshots, records, targets. */
  remains(): Promise<readonly string[]>;
  /** From now on, the storage fails at the n-th step of a copy, once; 0: never. Returns whether it did since the last call. */
  cut(at: number): boolean;
}

/** A source and a target. */
export interface CopyPairRig {
  readonly source: CopyEndRig;
  readonly target: CopyEndRig;
  readonly stream?: CopyByStream;
  end(): Promise<void>;
}

/** A size that every storage has: TrueNAS gives file systems no less than 1 GiB. */
export const sized = { range: { required: 1n << 30n, limit: undefined } };

const call = testCall();
const content = "the content of the first volume, longer than a piece";

/** Which steps are cut: each one, or one of `every`, from the step `first` on. */
export interface CopySample {
  readonly every: number;
  readonly first: number;
}

/** Every step, counted from 1. */
export const everyStep: CopySample = { every: 1, first: 1 };

/** One step of `every` for the pair of this number, another one for each pair; with CSIMUX_FUZZ=all, each step. */
export const sampleOf = (pair: number, every: number): CopySample =>
  everything ? everyStep : { every, first: 1 + ((seed + 2 * pair) % every) };

/** The time limit of a test that makes a copy for each of its steps, in milliseconds. */
const longMs = 600_000;

/** More steps than a copy has. */
export const mostSteps = 400;

/** Every source with every target has to pass: content equal, repeats join, interruptions at each step on both sides, nothing left. */
export function copiesContract(name: string, open: () => Promise<CopyPairRig>, sample = everyStep): void {
  const inPair = (title: string, work: (rig: CopyPairRig, process: () => CopyProcess) => Promise<void>) =>
    test(
      title,
      async () => {
        const rig = await open();
        const processes: CopyProcess[] = [];
        const process = (): CopyProcess => {
          const drivers = new Map([
            ["a", () => rig.source.open()],
            ["b", () => rig.target.open()],
          ]);
          const opened = copyProcess({ drivers, ...(rig.stream && { stream: rig.stream }) });
          processes.push(opened);
          return opened;
        };
        try {
          await process().volumes.create(copyRequest("source", "a", "", { ...sized, source: undefined }), call);
          await rig.source.write("source", content);
          await work(rig, process);
        } finally {
          for (const each of processes) await each.stop(1_000);
          await rig.end();
        }
      },
      longMs,
    );
  const make = (process: CopyProcess, volume = "copy") =>
    process.volumes.create(copyRequest(volume, "b", "v:a/source", sized), call);
  const nothingLeft = async ({ source, target }: CopyPairRig) => {
    await until(async () => [...(await source.remains()), ...(await target.remains())].length === 0).catch(() => {});
    expect([...(await source.remains()), ...(await target.remains())]).toEqual([]);
  };

  describe(`copies: ${name}`, () => {
    inPair("a volume on one connection becomes one on another, and nothing else is left", async (rig, process) => {
      const one = process();
      const made = await asked(() => make(one));
      expect(made).toMatchObject({ id: "v:b/copy", source: { kind: "volume", id: "v:a/source" } });
      expect(await rig.target.read("copy")).toBe(content);
      expect((await make(one)).id).toBe("v:b/copy");
      await nothingLeft(rig);
    });

    inPair("requests at once are one copy, and nothing is listed before its end", async (rig, process) => {
      const one = process();
      const answers = await Promise.all([1, 2, 3].map(() => asked(() => make(one))));
      expect(new Set(answers.map(({ id }) => id))).toEqual(new Set(["v:b/copy"]));
      const { items } = await one.listing.volumes({ token: "", max: 100 }, call);
      expect(items.map(({ id }) => id).sort()).toEqual(["v:a/source", "v:b/copy"]);
      await nothingLeft(rig);
    });

    inPair("a name with another source or size is refused, and the volume stays", async (rig, process) => {
      const one = process();
      await asked(() => make(one));
      await one.volumes.create(copyRequest("other", "a", "", { ...sized, source: undefined }), call);
      expect(await codeOf(one.volumes.create(copyRequest("copy", "b", "v:a/other", sized), call))).toBe(
        "already-exists",
      );
      const larger = { range: { required: 2n << 30n, limit: undefined } };
      expect(await codeOf(one.volumes.create(copyRequest("copy", "b", "v:a/source", larger), call))).toBe(
        "already-exists",
      );
      expect(await rig.target.read("copy")).toBe(content);
      await nothingLeft(rig);
    });

    inPair("a source that does not exist is not found, and nothing is left", async (rig, process) => {
      const one = process();
      expect(await codeOf(one.volumes.create(copyRequest("copy", "b", "v:a/none", sized), call))).toBe("not-found");
      await nothingLeft(rig);
    });

    for (const side of ["source", "target"] as const)
      inPair(
        `an interruption at any step of the ${side} is repaired by the next request of a new process`,
        async (rig, process) => {
          let step = sample.first;
          for (; step < mostSteps; step += sample.every) {
            rig[side].cut(step);
            const first = process();
            await make(first).catch(() => {});
            const failed = rig[side].cut(0);
            // A process that ends does not clean up: another one continues.
            await first.stop(1_000);
            const next = process();
            const made = await asked(() => make(next));
            expect(made.id).toBe("v:b/copy");
            expect(await rig.target.read("copy")).toBe(content);
            const last = process();
            await until(async () => {
              await asked(() => make(last));
              return (await rig.target.remains()).length + (await rig.source.remains()).length === 0;
            });
            await asked(() => next.volumes.delete("v:b/copy", call));
            if (!failed) break;
          }
          expect(step).toBeGreaterThan(2);
          expect(step).toBeLessThan(mostSteps);
        },
      );

    for (const [what, work] of others)
      inPair(
        `a second controller that ${what} between two steps: one whole volume, and no remains`,
        ({ source, target, stream }) =>
          meetAtSteps(
            {
              open: name => (name === "a" ? source : target).open(),
              ...(stream && { stream }),
              read: () => target.read("copy"),
              remains: async () => [...(await source.remains()), ...(await target.remains())],
            },
            work,
            content,
            sized,
          ),
      );

    inPair("a copy that is deleted before its end leaves nothing", async (rig, process) => {
      const one = process();
      rig.target.cut(0);
      await make(one).catch((error: unknown) => expect(error).toBeInstanceOf(CsiError));
      await one.stop(1_000);
      const other = process();
      await asked(() => other.volumes.delete("v:b/copy", call));
      await nothingLeft(rig);
    });
  });
}
