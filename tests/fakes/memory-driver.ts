import { insideRange, wantedBytes } from "../../lib/core/bytes.ts";
import type { Call } from "../../lib/core/call.ts";
import { CsiError } from "../../lib/core/errors.ts";
import type { Driver, Page, PageRequest, Snapshot, Volume } from "../../lib/drivers/driver.ts";

/** A storage that keeps volumes in a Map, with the faults that a test wants. */
export class MemoryDriver {
  readonly volumes = new Map<string, Volume>();
  readonly snapshots = new Map<string, Snapshot>();
  /** Names whose creation was interrupted half-way. */
  readonly begun = new Set<string>();
  closed = 0;
  free: bigint | undefined = 1n << 40n;
  /** Thrown by the next calls of this operation. */
  fail: Partial<Record<"create" | "find" | "list" | "delete" | "available", CsiError>> = {};
  /** Awaited inside create, so that a test can hold one open. */
  gate: Promise<void> = Promise.resolve();
  /** Awaited inside find, list and available, so that a test can make the storage hang. */
  look: Promise<void> = Promise.resolve();

  driver(): Driver {
    return {
      protocol: "hostpath",
      access: { kinds: ["mount"], filesystems: "any", sharedWriters: true },
      create: async (spec, call) => {
        if (this.fail.create) throw this.fail.create;
        await this.gate;
        if (call.signal.aborted) throw call.signal.reason;
        const old = this.volumes.get(spec.name);
        if (old && !insideRange(old.bytes, spec.range)) throw new CsiError("already-exists", "other size");
        const volume = old ?? { id: spec.name, bytes: wantedBytes(spec.range), context: {}, source: spec.source };
        this.volumes.set(spec.name, volume);
        return volume;
      },
      delete: async id => {
        if (this.fail.delete) throw this.fail.delete;
        this.volumes.delete(id);
        this.begun.delete(id);
      },
      reading: {
        get: async id => {
          const volume = this.volumes.get(id);
          if (!volume) throw new CsiError("not-found", `no ${id}`);
          return volume;
        },
      },
      names: {
        idOf: name => name,
        find: async name => {
          await this.look;
          if (this.fail.find) throw this.fail.find;
          const volume = this.volumes.get(name);
          if (volume) return { kind: "volume", volume };
          return this.begun.has(name) ? { kind: "unfinished", id: name } : undefined;
        },
      },
      snapshots: {
        create: async (name, volumeId) => {
          const made = this.snapshots.get(name) ?? {
            id: name,
            volumeId,
            bytes: 0n,
            createdAt: new Date(0),
            ready: true,
          };
          if (made.volumeId !== volumeId) throw new CsiError("already-exists", "other volume");
          this.snapshots.set(name, made);
          return made;
        },
        delete: async id => void this.snapshots.delete(id),
        get: async id => {
          const snapshot = this.snapshots.get(id);
          if (!snapshot) throw new CsiError("not-found", `no ${id}`);
          return snapshot;
        },
        list: ({ volumeId }, page) =>
          this.#page(
            [...this.snapshots.values()].filter(s => volumeId === undefined || s.volumeId === volumeId),
            page,
          ),
      },
      clones: { from: ["volume", "snapshot"] },
      capacity: {
        available: async () => {
          await this.look;
          if (this.fail.available) throw this.fail.available;
          return this.free ?? 0n;
        },
      },
      inventory: { list: page => this.#page([...this.volumes.values()], page) },
      close: async () => void this.closed++,
    };
  }

  async #page<T extends { readonly id: string }>(all: readonly T[], { token, max }: PageRequest): Promise<Page<T>> {
    await this.look;
    if (this.fail.list) throw this.fail.list;
    const items = [...all]
      .sort((a, b) => (a.id < b.id ? -1 : 1))
      .filter(item => token === undefined || item.id > token);
    const shown = items.slice(0, max);
    return { items: shown, next: items.length > max ? shown.at(-1)?.id : undefined };
  }
}

const silent = { debug() {}, info() {}, warn() {}, error() {}, with: () => silent };

/** A call of a patient client. */
export const testCall = (signal: AbortSignal = new AbortController().signal): Call => ({
  id: "test",
  signal,
  log: silent,
  secrets: {},
});
