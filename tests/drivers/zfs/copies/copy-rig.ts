import { CsiError } from "../../../../lib/core/errors.ts";
import type { CopySource, CopySpec, CopyTarget, SourceSnapshot, StreamEnd } from "../../../../lib/drivers/copying.ts";
import type { Driver, Source, Volume } from "../../../../lib/drivers/driver.ts";
import { callWith, gib, volumeOf } from "../../../contract/rig.ts";
import { type ZfsOptions, type ZfsRig, zfsRig } from "../zfs-rig.ts";

const call = callWith();

/** Says that the lease is held. */
export const held = async (): Promise<void> => {};

/** Two storage systems, of which the first gives and the second takes. */
export interface CopyRig {
  readonly source: ZfsRig;
  readonly target: ZfsRig;
  close(): Promise<void>;
}

/** Two hosts with pools of the same names. Guids differ, as they do in the real thing. */
export async function copyRig(options: { readonly from: ZfsOptions; readonly to: ZfsOptions }): Promise<CopyRig> {
  const [source, target] = [await zfsRig(options.from), await zfsRig(options.to)];
  target.fake.with(pools => {
    pools.state.next = 500_000;
  });
  return {
    source,
    target,
    async close() {
      await source.close();
      await target.close();
    },
  };
}

export const copySource = ({ copySource: ability }: Driver): CopySource => {
  if (!ability) throw new Error("this driver gives nothing");
  return ability;
};

export const copyTarget = ({ copyTarget: ability }: Driver): CopyTarget => {
  if (!ability) throw new Error("this driver takes nothing");
  return ability;
};

/** The streams of a driver on ZFS. */
export const streamsOf = (from: Driver, to: Driver) => {
  const [source, target] = [copySource(from).stream, copyTarget(to).stream];
  if (!source || !target) throw new Error("there are no streams");
  return { source, target };
};

/** A request for a volume with the content of another connection's. */
export const copyOf = (name: string, source: Source, bytes = gib): CopySpec => ({
  ...volumeOf(name, bytes),
  origin: { kind: source.kind, handle: `${source.kind === "volume" ? "v" : "s"}:a/${source.id}` },
});

export const targetOf = (name: string): string => `v:b/${name}`;

/** Joins both ends of a stream; throws what the failing one said. `cut`: after how many characters it breaks. */
export async function joined(from: StreamEnd, to: StreamEnd, cut?: number): Promise<void> {
  const sent = await from.host.runner.run({ argv: from.argv, maxBytes: 1 << 22 }, call.signal);
  if (sent.exitCode !== 0) throw new Error(sent.stderr);
  const stdin = sent.stdout.slice(0, cut);
  const received = await to.host.runner.run({ argv: to.argv, stdin }, call.signal);
  if (received.exitCode !== 0) throw new Error(received.stderr);
}

/** What the requests of most cases are about. */
export const source = { kind: "volume", id: "v" } as const;

/** The volume of a rig, with content, and a snapshot of it for the other side. */
export async function protectedOn(rig: CopyRig) {
  const [a, b] = [rig.source.open(), rig.target.open()];
  await rig.source.write(await a.create(volumeOf("v"), call), "content");
  const snapshot = await copySource(a).protect(source, targetOf("c"), 0, call);
  return { there: rig.source, here: rig.target, a, b, snapshot };
}

/** What is recorded of a snapshot: numbers of any size as text. */
const recordOf = (snapshot: SourceSnapshot): string =>
  JSON.stringify(snapshot, (_, value: unknown) => (typeof value === "bigint" ? `${value}n` : value));

const momentIn = (record: string): SourceSnapshot =>
  JSON.parse(record, (_, value: unknown) =>
    typeof value === "string" && /^\d+n$/.test(value) ? BigInt(value.slice(0, -1)) : value,
  ) as SourceSnapshot;

/** One stream, or as much of it as is missing; whatever the landing has already. */
async function fill(from: Driver, to: Driver, id: string, snapshot: SourceSnapshot): Promise<void> {
  const { source, target } = streamsOf(from, to);
  for (;;) {
    const state = await target.state(id, call);
    if (state.kind === "whole" && state.proof === snapshot.proof) return;
    if (state.kind === "whole") throw new Error("it holds another snapshot");
    if (state.kind === "busy") await target.stop(id, call);
    else if (state.kind === "partial" && state.proof !== snapshot.proof) await target.discard(id, call);
    else {
      const start =
        state.kind === "partial" ? { kind: "token" as const, token: state.token } : { kind: "whole" as const };
      await joined(source.open(snapshot, start, false), target.open(id, snapshot, false));
    }
  }
}

/** What a caller of both abilities does for one request, from the beginning or where an earlier call ended. */
export async function copied(from: Driver, to: Driver, spec: CopySpec, source: Source): Promise<Volume> {
  const [gives, takes] = [copySource(from), copyTarget(to)];
  const id = takes.idOf(spec.name);
  const target = targetOf(id);
  const done = async (volume: Volume) => {
    await gives.release(target, undefined, call);
    await takes.forget(id, call);
    return volume;
  };
  const existing = await takes.existing(spec, call);
  if (existing) return done(existing);
  let landing = await takes.find(id, call);
  if (!landing) {
    const snapshot = await gives.protect(source, target, 0, call);
    const refusal = await takes.refusal("zfs-send", spec, snapshot, call);
    if (refusal) {
      await gives.release(target, undefined, call);
      throw refusal;
    }
    landing = await takes.begin(spec, snapshot, recordOf(snapshot), call);
  }
  const snapshot = momentIn(landing.record);
  await fill(from, to, id, snapshot);
  return done(await takes.finish(id, spec, snapshot, held, call));
}

/** The code of a failure. */
export const codeOf = (work: Promise<unknown>): Promise<string> =>
  work.then(
    () => "none",
    (error: unknown) => (error instanceof CsiError ? error.code : String(error)),
  );

/** All holds in a model. */
export const holdsIn = ({ fake }: Pick<ZfsRig, "fake">): readonly string[] =>
  fake.with(pools => pools.all().flatMap(({ name, holds = [] }) => holds.map(tag => `${name} ${tag}`)));

/** Names of datasets and snapshots below the parents of a rig. */
export const namesIn = ({ fake }: Pick<ZfsRig, "fake">): readonly string[] =>
  fake.with(pools =>
    pools.all().flatMap(({ name }) => (/^tank\/k\/[vs]\//.test(name) ? [name.replace(/^tank\/k\/(?:v\/)?/, "")] : [])),
  );

/** The user properties of copies in a model, by the names of what has them. */
export const copyProperties = ({ fake }: Pick<ZfsRig, "fake">): readonly string[] =>
  fake.with(pools =>
    pools.all().flatMap(({ name, own }) =>
      Object.keys(own)
        .filter(key => /^csimux:(?:copy(?:-[a-z2-7]{16})?|landing)$/.test(key))
        .map(key => `${name} ${key}`),
    ),
  );
