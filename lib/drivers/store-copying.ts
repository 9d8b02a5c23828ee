import type { Call } from "../core/call.ts";
import type { CopySource, CopySpec, CopyTarget, StreamTarget } from "./copying.ts";
import type { Volume } from "./driver.ts";
import type { CopyTargetStore, StoredVolume } from "./store.ts";

/** Runs an operation; its failures get a code and a message that names connection and object. */
export type Guard = <T>(doing: string, object: string, call: Call, work: () => Promise<T>) => Promise<T>;

/** The volumes of a store, as far as copies need them. */
interface CopiedVolumes {
  existing(spec: CopySpec, call: Call): Promise<Volume | undefined>;
  readonly finish: CopyTarget["finish"];
  empty(id: string, call: Call): Promise<void>;
  drop(id: string, call: Call): Promise<void>;
}

/** A store as the source of copies, with failures as a driver reports them. */
export function copySourceOf(copySource: CopySource, guard: Guard): CopySource {
  const { content, stream, freeze, tree, fill } = copySource;
  return {
    content,
    stream: stream && {
      ...stream,
      isTokenOf: (token, snapshot, call) =>
        guard("continue the stream of", snapshot.name, call, () => stream.isTokenOf(token, snapshot, call)),
    },
    protect: (source, target, pass, call) =>
      guard(`protect the content of ${source.kind}`, source.id, call, () =>
        copySource.protect(source, target, pass, call),
      ),
    release: (target, keep, call) =>
      guard("release what is protected for", target, call, () => copySource.release(target, keep, call)),
    protectedSnapshots: call =>
      guard("list what is protected for copies", "", call, () => copySource.protectedSnapshots(call)),
    freeze:
      freeze && ((id, on, call) => guard(on ? "freeze volume" : "thaw volume", id, call, () => freeze(id, on, call))),
    tree:
      tree &&
      ((snapshot, call, work, isStopped) =>
        guard("read", snapshot.name, call, () => tree(snapshot, call, work, isStopped))),
    fill:
      fill && ((snapshot, folder, call) => guard("restore", snapshot.name, call, () => fill(snapshot, folder, call))),
  };
}

/** A store as the target of copies, with failures as a driver reports them. */
export function copyTargetOf<A extends StoredVolume>(
  copyTarget: CopyTargetStore<A>,
  volumes: CopiedVolumes,
  idOf: (name: string) => string,
  guard: Guard,
): CopyTarget {
  const { content, stream, folder, flush, mayHave } = copyTarget;
  const copying = <T>(id: string, call: Call, work: () => Promise<T>) => guard("copy into volume", id, call, work);
  const looking = <T>(id: string, call: Call, work: () => Promise<T>) =>
    guard("look for a copy into volume", id, call, work);
  return {
    ...{ content, idOf },
    existing: (spec, call) => guard("look up volume", spec.name, call, () => volumes.existing(spec, call)),
    refusal: (method, spec, snapshot, call) =>
      copying(spec.name, call, () => copyTarget.refusal(method, spec, snapshot, call)),
    begin: (spec, snapshot, record, call) =>
      copying(spec.name, call, () => copyTarget.begin(spec, snapshot, record, call)),
    find: (id, call) => looking(id, call, () => copyTarget.find(id, call)),
    mayHave: mayHave && ((id, call) => looking(id, call, () => mayHave(id, call))),
    note: (id, record, call) => guard("record the copy into volume", id, call, () => copyTarget.note(id, record, call)),
    markCancelled: (id, call) =>
      guard("cancel the copy into volume", id, call, () => copyTarget.markCancelled(id, call)),
    finish: (id, spec, snapshot, stillHeld, call) =>
      copying(id, call, () => volumes.finish(id, spec, snapshot, stillHeld, call)),
    hasContent: (id, call) => looking(id, call, () => copyTarget.hasContent(id, call)),
    empty: (id, call) => guard("empty the unfinished copy", id, call, () => volumes.empty(id, call)),
    drop: (id, call) => guard("remove the unfinished copy", id, call, () => volumes.drop(id, call)),
    forget: (id, call) => guard("forget the copy into volume", id, call, () => copyTarget.forget(id, call)),
    copies: call => guard("list copies", "", call, () => copyTarget.copies(call)),
    stream: stream && targetOf(stream, copying),
    folder: folder && ((id, call) => copying(id, call, () => folder(id, call))),
    flush: flush && ((id, call) => copying(id, call, () => flush(id, call))),
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
    open: (id, snapshot, isLater) => stream.open(id, snapshot, isLater),
    stop: (id, call) => copying(id, call, () => stream.stop(id, call)),
    discard: (id, call) => copying(id, call, () => stream.discard(id, call)),
  };
}
