import type { Call } from "../../lib/core/call.ts";
import type { CsiError } from "../../lib/core/errors.ts";
import type { CapacityAbility, Driver, ListAbility, LookupAbility, StorageFindings } from "../../lib/drivers/driver.ts";
import { toyDriver } from "../toy/module.ts";
import { ToyStorage } from "../toy/storage.ts";

/** The toy driver, which passes the contract, with the faults that a test of the router wants. */
export class MemoryDriver {
  readonly #storage = new ToyStorage();
  readonly volumes = this.#storage.volumes;
  readonly snapshots = this.#storage.snapshots;
  /** Names whose creation was interrupted half-way. */
  readonly begun = this.#storage.begun;
  closed = 0;
  /** How many pages of a listing were asked for. */
  asked = 0;
  free: bigint | undefined = 1n << 40n;
  /** Thrown by the next calls of this operation. */
  fail: Partial<Record<"create" | "find" | "list" | "delete" | "available" | "health" | "repair", CsiError>> = {};
  /** Awaited inside create, so that a test can hold one open. */
  gate: Promise<void> = Promise.resolve();
  /** How often it was asked how much is free. */
  measured = 0;
  /** Awaited inside available alone. */
  measure: Promise<void> = Promise.resolve();
  /** Whether volumes can be looked up by name. */
  named = true;
  /** What a check of its health finds. */
  findings: StorageFindings = { storage: [], volumes: new Map(), example: undefined };
  /** Awaited inside a check of its health, which answers what was true before. */
  inspection: Promise<void> = Promise.resolve();
  /** How often its health was checked. */
  lookedAt = 0;
  /** Volumes whose export was to be restored. */
  readonly repaired: string[] = [];
  /** Awaited inside find, list and available, so that a test can make the storage hang. */
  look: Promise<void> = Promise.resolve();

  /** As Driver.check; a driver without one when undefined. */
  check: Driver["check"];

  driver(): Driver {
    const toy = toyDriver("toy-folder", this.#storage);
    return {
      protocol: toy.protocol,
      access: toy.access,
      create: async (spec, call) => {
        if (this.fail.create) throw this.fail.create;
        await this.gate;
        if (call.signal.aborted) throw call.signal.reason;
        return toy.create(spec, call);
      },
      delete: async (id, call) => {
        if (this.fail.delete) throw this.fail.delete;
        await toy.delete(id, call);
      },
      reading: toy.reading,
      names: this.named ? this.#names(toy.names) : undefined,
      snapshots: toy.snapshots,
      clones: toy.clones,
      modify: toy.modify,
      expand: toy.expand,
      groupSnapshots: toy.groupSnapshots,
      capacity: this.#capacity(),
      inventory: this.#inventory(toy.inventory),
      health: {
        look: async () => {
          this.lookedAt++;
          if (this.fail.health) throw this.fail.health;
          const { findings } = this;
          await this.inspection;
          return findings;
        },
        restore: async id => {
          this.repaired.push(id);
          if (this.fail.repair) throw this.fail.repair;
        },
      },
      ...(this.check && { check: call => this.check?.(call) ?? Promise.resolve() }),
      close: async () => void this.closed++,
    };
  }

  #names(toy: LookupAbility): LookupAbility {
    return {
      idOf: name => toy.idOf(name),
      find: async (name, call) => {
        await this.look;
        if (this.fail.find) throw this.fail.find;
        return toy.find(name, call);
      },
      discard: async (id, call) => {
        if (this.fail.delete) throw this.fail.delete;
        await toy.discard(id, call);
      },
    };
  }

  #capacity(): CapacityAbility {
    return {
      available: async () => {
        await this.look;
        this.measured++;
        await this.measure;
        if (this.fail.available) throw this.fail.available;
        return this.free ?? 0n;
      },
    };
  }

  #inventory(toy: ListAbility | undefined): ListAbility {
    return {
      list: async (page, call) => {
        this.asked++;
        await this.look;
        if (this.fail.list) throw this.fail.list;
        return (await toy?.list(page, call)) ?? { items: [], next: undefined };
      },
    };
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
