import { expect } from "bun:test";
import { groupBy } from "../../lib/core/group-by.ts";
import type { Ability, Driver, Source, VolumeSpec } from "../../lib/drivers/driver.ts";
import { callWith, getVolume, gib, snapshotsOf, volumeOf } from "./rig.ts";
import { cutsOf, numbers } from "./truncation.ts";

// Every answer of a storage to every operation, spoiled in every way in which a program, a shell or a connection in between can spoil
// it. However it is spoiled, an operation that succeeds has done what it does otherwise and answers the same, and an operation that
// fails has destroyed nothing that it would not have destroyed otherwise.

/** An answer of a storage: the text of a command with its exit code, or the body of a response. */
export interface Answer {
  readonly text: string;
  /** 0 where the storage says success. */
  readonly code: number;
}

/** What becomes of an answer. `late`: the text that comes with the next answer, in front of that. */
export interface Harm<A extends Answer = Answer> {
  readonly title: string;
  spoil(answer: A): A & { readonly late?: string };
}

/** Hands on the answers of one operation and spoils the n-th, counted from 0. */
export class Spoiler<A extends Answer = Answer> {
  /** The answers before they were spoiled. */
  readonly answers: A[] = [];
  readonly #at: number;
  readonly #harm: Harm<A> | undefined;
  #late = "";

  constructor(at = -1, harm?: Harm<A>) {
    this.#at = at;
    this.#harm = harm;
  }

  /** What becomes of the next answer; undefined when it is handed on as it is. */
  get next(): Harm<A> | undefined {
    return this.answers.length === this.#at ? this.#harm : undefined;
  }

  /** What the driver gets in place of an answer. */
  answer(given: A): A {
    const honest = { ...given, text: this.#late + given.text };
    this.#late = "";
    this.answers.push(given);
    if (this.answers.length - 1 !== this.#at || !this.#harm) return honest;
    const spoiled = this.#harm.spoil(honest);
    this.#late = spoiled.late ?? "";
    return spoiled;
  }
}

/** All ways in which the output of a command is spoiled; `random`: at how many places within its lines it is cut. */
export function harmsOf<A extends Answer>({ text }: A, random: number): readonly Harm<A>[] {
  const cut = (at: number, code: number): Harm<A> => ({
    title: `cut after ${at} of ${text.length} bytes, exit code ${code}`,
    spoil: answer => ({ ...answer, text: answer.text.slice(0, at), code }),
  });
  const failed: Harm<A> = { title: "whole, exit code 1", spoil: answer => ({ ...answer, code: 1 }) };
  if (text === "") return [failed];
  return [
    failed,
    ...cutsOf(text, random).map(at => cut(at, 0)),
    ...cutsOf(text, 6, 2).map(at => cut(at, 1)),
    { title: "doubled", spoil: answer => ({ ...answer, text: answer.text + answer.text }) },
    ...cutsOf(text, 4, 3).map(at => ({
      title: `all after ${at} of ${text.length} bytes comes with the next answer`,
      spoil: (answer: A) => ({ ...answer, text: answer.text.slice(0, at), late: answer.text.slice(at) }),
    })),
  ];
}

/** A storage whose answers can be spoiled. */
export interface SpoiledRig<A extends Answer = Answer> {
  /** A driver whose answers come through `spoiler`. */
  open(spoiler: Spoiler<A>): Driver;
  /** All ways in which an answer is spoiled; harmsOf() when absent. */
  harms?(answer: A, random: number): readonly Harm<A>[];
  /** Remembers what is on the storage; the result puts it there again. */
  save(): Promise<() => Promise<void>>;
  /** Everything on the storage, each as one text that no other thing has, before or after: its name and a number, for example. */
  things(): Promise<readonly string[]>;
  close(): Promise<void>;
}

/** An operation, and what must be there before. */
export interface Operation {
  readonly needs: readonly Ability[];
  before?(driver: Driver): Promise<unknown>;
  /** What it answers, without what differs from time to time. */
  run(driver: Driver): Promise<unknown>;
}

const call = callWith();
const from = (kind: Source["kind"], id: string): Source => ({ kind, id });
const whole = (spec: VolumeSpec): VolumeSpec => ({
  ...spec,
  parameters: { detachedVolumesFromVolumes: "true", detachedVolumesFromSnapshots: "true" },
});
const shown = ({ id, bytes, context, source }: Awaited<ReturnType<Driver["create"]>>) => ({
  id,
  bytes,
  context,
  source,
});
const origin = (driver: Driver) => driver.create(volumeOf("origin"), call);
const snapped = async (driver: Driver) => {
  const { id } = await origin(driver);
  return (await snapshotsOf(driver).create("snap", id, {}, call)).id;
};

/** The operations of a driver, in words. Ids are those that a driver gives to plain names. */
export const operations: Readonly<Record<string, Operation>> = {
  create: { needs: [], run: async driver => shown(await origin(driver)) },
  "create what is there": { needs: [], before: origin, run: async driver => shown(await origin(driver)) },
  get: { needs: ["reading"], before: origin, run: async driver => shown(await getVolume(driver, "origin")) },
  list: {
    needs: ["inventory"],
    before: async driver => [await origin(driver), await driver.create(volumeOf("second"), call)],
    run: async driver => (await driver.inventory?.list({ token: undefined, max: 10 }, call))?.items.map(shown),
  },
  expand: {
    needs: ["expand"],
    before: origin,
    run: driver => driver.expand?.expand("origin", { required: 2n * gib, limit: undefined }, call) ?? Promise.resolve(),
  },
  delete: { needs: [], before: origin, run: driver => driver.delete("origin", call) },
  "delete what is not there": { needs: [], run: driver => driver.delete("origin", call) },
  "delete a volume with a snapshot": {
    needs: ["snapshots"],
    before: snapped,
    run: driver => driver.delete("origin", call),
  },
  "delete a volume with a clone": {
    needs: ["clones"],
    before: async driver => driver.create(volumeOf("clone", gib, from("volume", (await origin(driver)).id)), call),
    run: driver => driver.delete("origin", call),
  },
  clone: {
    needs: ["clones"],
    before: origin,
    run: async driver => shown(await driver.create(volumeOf("clone", gib, from("volume", "origin")), call)),
  },
  copy: {
    needs: ["clones"],
    before: origin,
    run: async driver => shown(await driver.create(whole(volumeOf("copy", gib, from("volume", "origin"))), call)),
  },
  restore: {
    needs: ["clones", "snapshots", "names"],
    before: snapped,
    async run(driver) {
      const [snapshot] = (await snapshotsOf(driver).list({ volumeId: undefined }, { token: undefined, max: 1 }, call))
        .items;
      const spec = volumeOf("restored", gib, from("snapshot", snapshot?.id ?? "origin@snap"));
      return shown(await driver.create(spec, call));
    },
  },
  "take a snapshot": {
    needs: ["snapshots"],
    before: origin,
    run: async driver => (await snapshotsOf(driver).create("snap", "origin", {}, call)).id,
  },
  "list snapshots": {
    needs: ["snapshots"],
    before: snapped,
    run: async driver =>
      (await snapshotsOf(driver).list({ volumeId: undefined }, { token: undefined, max: 10 }, call)).items.map(
        ({ id, volumeId, bytes }) => ({ id, volumeId, bytes }),
      ),
  },
  "delete a snapshot": {
    needs: ["snapshots"],
    before: snapped,
    run: async driver => {
      const all = await snapshotsOf(driver).list({ volumeId: undefined }, { token: undefined, max: 10 }, call);
      for (const { id } of all.items) await snapshotsOf(driver).delete(id, call);
    },
  },
  "delete a volume with a group snapshot": {
    needs: ["groupSnapshots"],
    before: async driver => driver.groupSnapshots?.create("group", [(await origin(driver)).id], {}, call),
    run: driver => driver.delete("origin", call),
  },
  "take a group snapshot": {
    needs: ["groupSnapshots"],
    before: async driver => [await origin(driver), await driver.create(volumeOf("second"), call)],
    run: async driver => (await driver.groupSnapshots?.create("group", ["origin", "second"], {}, call))?.id,
  },
  "delete a group": {
    needs: ["groupSnapshots"],
    before: async driver => driver.groupSnapshots?.create("group", [(await origin(driver)).id], {}, call),
    run: driver => driver.groupSnapshots?.delete("group", [], call) ?? Promise.resolve(),
  },
};

interface Ending {
  readonly ok: boolean;
  readonly value: unknown;
  readonly things: readonly string[];
}

async function ended(rig: Pick<SpoiledRig, "things">, work: () => Promise<unknown>): Promise<Ending> {
  const [ok, value] = await work().then(
    done => [true, done] as const,
    (error: unknown) => [false, String(error)] as const,
  );
  return { ok, value, things: await rig.things() };
}

/** The texts of `all`, without one of each of `these`. */
function without(all: readonly string[], these: readonly string[]): readonly string[] {
  const rest = [...these];
  return all.filter(each => {
    const at = rest.indexOf(each);
    if (at >= 0) rest.splice(at, 1);
    return at < 0;
  });
}

const nameOf = (thing: string): string => thing.split("#")[0] ?? "";

/** What is wrong with the end of a spoiled operation; undefined when nothing is. */
function fault(before: readonly string[], honest: Ending, spoiled: Ending): string | undefined {
  const kept = new Set(spoiled.things);
  const mayGo = new Set(before.filter(thing => !honest.ok || !honest.things.includes(thing)));
  const lost = before.filter(thing => !kept.has(thing) && !(honest.ok && mayGo.has(thing)));
  if (lost.length > 0) return `destroyed ${lost.join(", ")}`;
  if (!spoiled.ok) return undefined;
  if (!honest.ok) return "succeeded, where the whole answer lets it fail";
  if (!Bun.deepEquals(spoiled.value, honest.value)) return `answered ${Bun.inspect(spoiled.value)}`;
  const missing = without(honest.things.map(nameOf), spoiled.things.map(nameOf));
  const more = without(spoiled.things.map(nameOf), honest.things.map(nameOf));
  return missing.length + more.length === 0 ? undefined : `left ${more.join(", ")} instead of ${missing.join(", ")}`;
}

/** How thoroughly an operation is tried. */
interface Effort {
  /** As in cutsOf(), at how many places within lines; 50 when absent. */
  readonly random?: number;
  /** How many spoiled answers are drawn of all; all when absent. The draw is the same in each run. */
  readonly most?: number;
  /** What the draw depends on; 1 when absent. */
  readonly seed?: number;
  /** The operation, where it is not one of `operations`. */
  readonly operation?: Operation;
}

/** `most` of these, in their order: one of each kind before a second one of any. */
function drawn<T>(all: readonly T[], most: number, seed: number, kindOf: (each: T) => string): readonly T[] {
  const next = numbers(seed);
  const keys = all.map(() => next(1 << 30));
  const shuffled = [...all.keys()].sort((a, b) => (keys[a] ?? 0) - (keys[b] ?? 0));
  const byKind = groupBy(shuffled, at => kindOf(all[at] as T));
  const inTurn = [...byKind.values()].flatMap(some => some.map((at, turn) => ({ at, turn })));
  const first = inTurn.sort((a, b) => a.turn - b.turn || (keys[a.at] ?? 0) - (keys[b.at] ?? 0)).slice(0, most);
  const chosen = new Set(first.map(({ at }) => at));
  return all.filter((_, at) => chosen.has(at));
}

/** Runs an operation once for each way of spoiling each of its answers, and expects no fault. Answers how many runs there were. */
export async function expectTruthful<A extends Answer = Answer>(
  rig: SpoiledRig<A>,
  title: string,
  effort: Effort = {},
): Promise<number> {
  const { random = 50, most = Number.POSITIVE_INFINITY, seed = 1 } = effort;
  const operation = effort.operation ?? operations[title];
  if (!operation) throw new Error(`there is no operation "${title}"`);
  await operation.before?.(rig.open(new Spoiler<A>()));
  const restore = await rig.save();
  const before = await rig.things();
  const plain = new Spoiler<A>();
  const honest = await ended(rig, () => operation.run(rig.open(plain)));
  const faults: string[] = [];
  const harms = rig.harms ?? harmsOf<A>;
  const all = plain.answers.flatMap((answer, at) => harms(answer, random).map(harm => ({ answer, at, harm })));
  const kindOf = ({ at, harm }: (typeof all)[number]) => `${at} ${harm.title.replaceAll(/\d+/g, "")}`;
  const runs = drawn(all, most, seed * 1_000_003 + title.length + all.length, kindOf);
  for (const { answer, at, harm } of runs) {
    await restore();
    const spoiled = await ended(rig, () => operation.run(rig.open(new Spoiler(at, harm))));
    const found = fault(before, honest, spoiled);
    if (found !== undefined)
      faults.push(`${title}, answer ${at + 1} ${JSON.stringify(answer.text.slice(0, 60))} ${harm.title}: ${found}`);
  }
  await restore();
  expect(faults.slice(0, 20)).toEqual([]);
  return runs.length;
}
