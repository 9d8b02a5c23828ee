import type { Call } from "../core/call.ts";
import type { CopySpec, GivingAbility, Moment, StreamTarget, TakingAbility } from "./copying.ts";
import type { Volume } from "./driver.ts";
import type { LandingStore, StoredVolume } from "./store.ts";

/** Runs an operation; its failures get a code and a message that names connection and object. */
export type Guard = <T>(doing: string, object: string, call: Call, work: () => Promise<T>) => Promise<T>;

/** The volumes of a store, as far as copies need them. */
interface CopiedVolumes {
  existing(spec: CopySpec, call: Call): Promise<Volume | undefined>;
  land(id: string, spec: CopySpec, moment: Moment, call: Call): Promise<Volume>;
  empty(id: string, call: Call): Promise<void>;
  drop(id: string, call: Call): Promise<void>;
}

/** The ability of a store to give content, with failures as a driver reports them. */
export function givingOf(moments: GivingAbility, guard: Guard): GivingAbility {
  const { content, stream, freeze, tree, fill } = moments;
  return {
    content,
    stream: stream && {
      ...stream,
      isTokenOf: (token, moment, call) =>
        guard("continue the stream of", moment.name, call, () => stream.isTokenOf(token, moment, call)),
    },
    protect: (source, target, round, call) =>
      guard(`protect the content of ${source.kind}`, source.id, call, () =>
        moments.protect(source, target, round, call),
      ),
    release: (target, keep, call) =>
      guard("release what is protected for", target, call, () => moments.release(target, keep, call)),
    protectedMoments: call =>
      guard("list what is protected for copies", "", call, () => moments.protectedMoments(call)),
    freeze:
      freeze && ((id, on, call) => guard(on ? "freeze volume" : "thaw volume", id, call, () => freeze(id, on, call))),
    tree:
      tree &&
      ((moment, call, work, isStopped) => guard("read", moment.name, call, () => tree(moment, call, work, isStopped))),
    fill: fill && ((moment, folder, call) => guard("restore", moment.name, call, () => fill(moment, folder, call))),
  };
}

/** The ability of a store to take content, with failures as a driver reports them. */
export function takingOf<A extends StoredVolume>(
  landings: LandingStore<A>,
  volumes: CopiedVolumes,
  idOf: (name: string) => string,
  guard: Guard,
): TakingAbility {
  const { content, stream, folder } = landings;
  const copying = <T>(id: string, call: Call, work: () => Promise<T>) => guard("copy into volume", id, call, work);
  return {
    ...{ content, idOf },
    existing: (spec, call) => guard("look up volume", spec.name, call, () => volumes.existing(spec, call)),
    refusal: (way, spec, moment, call) => copying(spec.name, call, () => landings.refusal(way, spec, moment, call)),
    begin: (spec, moment, record, call) => copying(spec.name, call, () => landings.begin(spec, moment, record, call)),
    find: (id, call) => copying(id, call, () => landings.find(id, call)),
    note: (id, record, call) => copying(id, call, () => landings.note(id, record, call)),
    cancel: (id, call) => copying(id, call, () => landings.cancel(id, call)),
    land: (id, spec, moment, call) => copying(id, call, () => volumes.land(id, spec, moment, call)),
    hasContent: (id, call) => copying(id, call, () => landings.hasContent(id, call)),
    empty: (id, call) => guard("empty the unfinished copy", id, call, () => volumes.empty(id, call)),
    drop: (id, call) => guard("remove the unfinished copy", id, call, () => volumes.drop(id, call)),
    forget: (id, call) => copying(id, call, () => landings.forget(id, call)),
    landings: call => guard("list copies", "", call, () => landings.landings(call)),
    stream: stream && targetOf(stream, copying),
    folder: folder && ((id, call) => copying(id, call, () => folder(id, call))),
  };
}

function targetOf(
  stream: StreamTarget,
  copying: <T>(id: string, call: Call, work: () => Promise<T>) => Promise<T>,
): StreamTarget {
  const { format, machine } = stream;
  return {
    ...{ format, machine },
    state: (id, call) => copying(id, call, () => stream.state(id, call)),
    open: (id, moment, isLater) => stream.open(id, moment, isLater),
    stop: (id, call) => copying(id, call, () => stream.stop(id, call)),
    discard: (id, call) => copying(id, call, () => stream.discard(id, call)),
  };
}
