import type { CopyByStream } from "../../lib/copies/copy-work.ts";
import { type Access, protocols } from "../../lib/core/access.ts";
import { CsiError } from "../../lib/core/errors.ts";
import type { CopySource, CopySpec, CopyTarget, SourceSnapshot, StreamEnd } from "../../lib/drivers/copying.ts";
import type { Driver, Volume } from "../../lib/drivers/driver.ts";
import type { ForeignSource, Source } from "../../lib/drivers/volume.ts";

interface StoredContent {
  readonly content: string;
  readonly bytes: bigint;
  readonly origin?: ForeignSource | undefined;
}

interface ProtectedContent extends StoredContent {
  readonly name: string;
  readonly proof: string;
  readonly since: number;
}

interface TargetContent {
  content: string;
  /** The proof of the snapshot of which it has a part, or all. */
  proof: string;
  isWhole: boolean;
}

/** A storage in memory that is source and target of copies. It outlives the drivers on it, like a storage system. */
export class CopyStorage {
  readonly volumes = new Map<string, StoredContent>();
  readonly snapshots = new Map<string, StoredContent>();
  /** By target, then by pass. */
  readonly held = new Map<string, Map<number, ProtectedContent>>();
  readonly records = new Map<string, string>();
  /** The ids of cancelled copies. */
  readonly cancelled = new Set<string>();
  readonly targets = new Map<string, TargetContent>();
  /** Runs before each step of the storage; throws to interrupt. */
  step: (what: string) => void = () => {};
  /** Awaited before each piece of a stream. */
  gate: () => Promise<void> = async () => {};
  /** The refusal of all ways. */
  refuses: CsiError | undefined;
  content: "files" | "blocks" = "files";
  /** How often a snapshot was taken. */
  taken = 0;

  /** What is left of copies, in words. */
  remains(): readonly string[] {
    const all = { snapshot: this.held, record: this.records, target: this.targets };
    return Object.entries(all).flatMap(([what, things]) => [...things.keys()].map(key => `${what} ${key}`));
  }
}

const files: Access = protocols.hostpath;

/** Never started: streamInMemory joins the storages itself. */
const never = (): StreamEnd => {
  throw new Error("a stream in memory runs no programs");
};

const traits = { encrypted: undefined, blockBytes: 0n, fixed: {} };

function copySourceOn(storage: CopyStorage, machine: string): CopySource {
  const step = (what: string) => storage.step(what);
  return {
    content: storage.content,
    protect: async (source, target, pass) => {
      const known = storage.held.get(target)?.get(pass);
      if (known) return snapshotOf(known);
      const from = (source.kind === "volume" ? storage.volumes : storage.snapshots).get(source.id);
      if (!from) throw new CsiError("not-found", `${source.kind} ${source.id} does not exist`);
      step("protect");
      storage.taken++;
      const name = `${source.id}@${target}-${pass}`;
      const taken = { ...from, name, proof: `guid-${storage.taken}`, since: Math.floor(Date.now() / 1_000) };
      storage.held.set(target, (storage.held.get(target) ?? new Map()).set(pass, taken));
      step("protected");
      return snapshotOf(taken);
    },
    release: async (target, keep) => {
      step("release");
      const kept = [...(storage.held.get(target) ?? [])].filter(([, { name }]) => name === keep?.name);
      if (kept.length > 0) storage.held.set(target, new Map(kept));
      else storage.held.delete(target);
      step("released");
    },
    protectedSnapshots: async () =>
      [...storage.held].map(([target, passes]) => ({
        volume: [...passes.values()][0]?.name.split("@")[0],
        target,
        since: Math.min(...[...passes.values()].map(({ since }) => since)),
      })),
    stream: { format: "zfs:filesystem", machine, open: never, isTokenOf: async () => true },
  };
}

const snapshotOf = ({ name, proof, bytes, content }: ProtectedContent): SourceSnapshot => ({
  ...{ name, proof, bytes, traits },
  toSend: BigInt(content.length),
  stable: true,
});

const volumeOf = (id: string, { bytes }: StoredContent): Volume => ({
  id,
  bytes,
  context: { at: id },
  source: undefined,
});

function copyTargetOn(storage: CopyStorage, machine: string): CopyTarget {
  const step = (what: string) => storage.step(what);
  const stored = (id: string): TargetContent => {
    const found = storage.targets.get(id);
    if (found) return found;
    throw new CsiError("unavailable", `target ${id} does not exist`);
  };
  const storedOf = (id: string, record: string) => ({ id, record, isCancelled: storage.cancelled.has(id) });
  return {
    content: storage.content,
    idOf: name => name,
    existing: async spec => {
      const found = storage.volumes.get(spec.name);
      if (!found) return undefined;
      if (found.origin?.handle !== spec.origin.handle || found.bytes !== spec.range.required)
        throw new CsiError("already-exists", `volume ${spec.name} is another one`);
      return volumeOf(spec.name, found);
    },
    refusal: async () => storage.refuses,
    begin: async (spec, _, record) => {
      const id = spec.name;
      if (storage.targets.has(id) && !storage.records.has(id))
        throw new CsiError("failed-precondition", `target ${id} is foreign`);
      // As lib/drivers/directory/copying/unfinished-copies.ts: another process has finished it.
      if (storage.volumes.has(id)) throw new CsiError("aborted", `volume ${id} was created meanwhile`);
      step("begin");
      if (!storage.records.has(id)) {
        storage.records.set(id, record);
        storage.cancelled.delete(id);
      }
      step("recorded");
      if (!storage.targets.has(id)) storage.targets.set(id, { content: "", proof: "", isWhole: false });
      step("begun");
      return storedOf(id, storage.records.get(id) ?? "");
    },
    find: async id => {
      const record = storage.records.get(id);
      return record === undefined ? undefined : storedOf(id, record);
    },
    note: async (id, record) => {
      if (!storage.records.has(id)) throw new CsiError("not-found", `there is no record of ${id}`);
      step("note");
      storage.records.set(id, record);
      step("noted");
    },
    markCancelled: async id => {
      if (!storage.records.has(id)) throw new CsiError("not-found", `there is no record of ${id}`);
      step("cancel");
      storage.cancelled.add(id);
      step("cancelled");
    },
    finish: async (id, spec, snapshot, stillHeld) => {
      const finished = storage.volumes.get(id);
      if (finished) return volumeOf(id, finished);
      const { content, proof, isWhole } = stored(id);
      if (!isWhole || proof !== snapshot.proof) throw new CsiError("unavailable", `target ${id} is not complete`);
      step("finish");
      await stillHeld();
      // A rename: both at once.
      storage.volumes.set(id, { content, bytes: spec.range.required ?? snapshot.bytes, origin: spec.origin });
      storage.targets.delete(id);
      step("finished");
      return volumeOf(id, { content, bytes: spec.range.required ?? snapshot.bytes });
    },
    hasContent: async id => storage.targets.has(id) || storage.volumes.has(id),
    empty: async id => {
      if (storage.volumes.has(id) && storage.records.has(id))
        throw new CsiError("failed-precondition", `volume ${id} is finished`);
      step("empty");
      storage.targets.delete(id);
      step("emptied");
    },
    drop: async id => {
      if (storage.volumes.has(id) && storage.records.has(id))
        throw new CsiError("failed-precondition", `volume ${id} is finished`);
      step("drop");
      storage.targets.delete(id);
      step("emptied");
      storage.records.delete(id);
      step("dropped");
    },
    forget: async id => {
      step("forget");
      storage.records.delete(id);
    },
    copies: async () => [...storage.records].map(([id, record]) => storedOf(id, record)),
    stream: {
      format: "zfs:filesystem",
      machine,
      state: async () => ({ kind: "nothing" }),
      open: never,
      stop: async () => {},
      discard: async () => {},
    },
  };
}

/** A driver on a storage in memory. */
export function copyDriver(storage: CopyStorage, machine: string): Driver {
  const copySource = copySourceOn(storage, machine);
  const copyTarget = copyTargetOn(storage, machine);
  const create = async (spec: {
    readonly name: string;
    readonly source: Source | undefined;
    readonly range: CopySpec["range"];
  }) => {
    const from = spec.source && storage.volumes.get(spec.source.id);
    const made = storage.volumes.get(spec.name) ?? { content: from?.content ?? "", bytes: spec.range.required ?? 1n };
    storage.volumes.set(spec.name, made);
    return volumeOf(spec.name, made);
  };
  return {
    protocol: "hostpath",
    access: files,
    create,
    delete: async id => {
      if (storage.records.has(id) && !storage.volumes.has(id)) return;
      storage.volumes.delete(id);
    },
    clones: { from: ["volume", "snapshot"] },
    names: {
      idOf: name => name,
      find: async name => {
        const found = storage.volumes.get(name);
        return found && { kind: "volume", volume: volumeOf(name, found) };
      },
      discard: async () => {},
    },
    reading: {
      get: async id => {
        const found = storage.volumes.get(id);
        if (found) return volumeOf(id, found);
        throw new CsiError("not-found", `volume ${id} does not exist`);
      },
    },
    inventory: {
      list: async () => ({ items: [...storage.volumes].map(([id, each]) => volumeOf(id, each)), next: undefined }),
    },
    copySource,
    copyTarget,
  };
}

/** How many characters a piece of a stream has. */
const piece = 4;

/** Streams between the storages of `machines`; like the real one, it continues what has arrived of the same snapshot. */
export const streamInMemory =
  (machines: ReadonlyMap<string, CopyStorage>): CopyByStream =>
  async ({ source, target, id, snapshot, basic, progress }, call) => {
    const from = machines.get(source.machine);
    const to = machines.get(target.machine);
    // zfs receive creates the target of a record that has none.
    if (to?.records.has(id) && !to.targets.has(id)) to.targets.set(id, { content: "", proof: "", isWhole: false });
    const stored = to?.targets.get(id);
    if (!from || !to || !stored) throw new CsiError("unavailable", `there is no target ${id}`);
    const sent = [...from.held.values()].flatMap(each => [...each.values()]).find(({ name }) => name === snapshot.name);
    if (!sent) throw new CsiError("not-found", `snapshot ${snapshot.name} is gone`);
    if (stored.proof !== sent.proof) Object.assign(stored, { content: "", proof: sent.proof, isWhole: false });
    while (stored.content.length < sent.content.length) {
      await to.gate();
      call.signal.throwIfAborted();
      from.step("send");
      to.step("receive");
      stored.content += sent.content.slice(stored.content.length, stored.content.length + piece);
      progress(BigInt(stored.content.length));
    }
    stored.isWhole = true;
    return { basic };
  };
