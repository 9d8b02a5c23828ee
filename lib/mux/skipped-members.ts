import type { Call } from "../core/call.ts";
import { CsiError } from "../core/errors.ts";
import type { Handle } from "../core/handle.ts";
import type { TryLocks } from "../core/locks.ts";
import type { Connection } from "./connection.ts";
import type { Connections } from "./connections.ts";
import { nameLock, volumeLock } from "./handles.ts";
import type { Lookup } from "./lookup.ts";

/** How many volumes are remembered; the oldest go first. */
const most = 10_000;

/** How long one round may take, in milliseconds; the next one continues. */
const roundMs = 30_000;

/** Which volume of a connection, by the driver's id. */
type Where = Pick<Handle, "connection" | "id">;

/** A volume that was made while members of its group could not be asked for it. */
interface SkippedMember {
  readonly volume: string;
  /** Where it was made; undefined once this process has deleted it. */
  made: Where | undefined;
  /** Members that have not been asked since. */
  readonly members: Set<string>;
  /** Members that have a finished volume of the name, with the driver's id. */
  readonly found: Map<string, string>;
}

interface SkippedParts {
  readonly connections: Connections;
  readonly locks: TryLocks;
  readonly lookup: Lookup;
}

/**
 * What this process made while members of a group could not be asked. Such a member may hold an earlier attempt at the same volume:
 * once it answers, an unfinished one is removed, and a finished one is reported, never removed.
 */
export class SkippedMembers {
  readonly #parts: SkippedParts;
  readonly #skips = new Map<string, SkippedMember>();

  constructor(parts: SkippedParts) {
    this.#parts = parts;
  }

  /** A volume of the group was answered; `members` could not be asked, and what stands under its name there is not it. */
  answered(group: string, volume: string, made: Where, members: readonly string[]): void {
    const key = `${group}/${volume}`;
    const before = this.#skips.get(key);
    const skip: SkippedMember = { volume, made, members: new Set(before?.members), found: new Map(before?.found) };
    for (const member of members) skip.members.add(member);
    skip.members.delete(made.connection);
    skip.found.delete(made.connection);
    this.#skips.delete(key);
    if (skip.members.size + skip.found.size > 0) this.#skips.set(key, skip);
    const [oldest] = this.#skips.keys();
    if (this.#skips.size > most && oldest !== undefined) this.#skips.delete(oldest);
  }

  /** A volume was deleted. */
  deleted({ connection, id }: Where): void {
    for (const [key, skip] of this.#skips) {
      if (skip.made?.connection === connection && skip.made.id === id) skip.made = undefined;
      if (skip.found.get(connection) === id) skip.found.delete(connection);
      if (skip.members.size + skip.found.size === 0) this.#skips.delete(key);
    }
  }

  /** Finished volumes of a connection beside which another one of the name was made, by the driver's id. */
  found(connection: string): ReadonlyMap<string, { readonly elsewhere: string | undefined }> {
    const own = [...this.#skips.values()].flatMap(({ found, made }) => {
      const id = found.get(connection);
      return id === undefined ? [] : [[id, { elsewhere: made?.connection }] as const];
    });
    return new Map(own);
  }

  /** Asks the members that were passed over, those of them that answer. Throws no CsiError. */
  async round(call: Call): Promise<void> {
    const end = performance.now() + roundMs;
    const silent = new Set<string>();
    for (const [key, skip] of [...this.#skips]) {
      for (const member of [...skip.members, ...skip.found.keys()]) {
        if (performance.now() > end || call.signal.aborted) return;
        if (!silent.has(member) && !(await this.#settle(skip, member, call))) silent.add(member);
      }
      if (skip.members.size + skip.found.size === 0 && this.#skips.get(key) === skip) this.#skips.delete(key);
    }
  }

  /** Whether the member could be asked. */
  async #settle(skip: SkippedMember, member: string, call: Call): Promise<boolean> {
    const { connections, locks } = this.#parts;
    try {
      await locks.hold([nameLock(skip.volume)], () =>
        connections.use(member, "retry", connection => this.#look(skip, connection, call)),
      );
      return true;
    } catch (error) {
      if (!(error instanceof CsiError)) throw error;
      // The volume is being made or removed: the member may answer for others.
      return error.code === "aborted";
    }
  }

  async #look(skip: SkippedMember, connection: Connection, call: Call): Promise<void> {
    const { locks, lookup } = this.#parts;
    const { name } = connection;
    const found = await lookup.find(connection, skip.volume, call);
    skip.found.delete(name);
    if (found?.kind === "volume") skip.found.set(name, found.volume.id);
    if (found?.kind === "unfinished") {
      if (!(await this.#isElsewhere(skip, call))) return;
      await locks.hold([volumeLock(connection, skip.volume)], () => lookup.clear(connection, skip.volume, call));
      call.log.info("removed the unfinished rest of a volume that was made on another member of the group", {
        connection: name,
        volume: skip.volume,
        ...(skip.made && { madeOn: skip.made.connection }),
      });
    }
    skip.members.delete(name);
  }

  /** Whether nobody needs an unfinished one any more: the volume stands elsewhere at this moment, or this process has deleted it. */
  async #isElsewhere({ made, volume }: SkippedMember, call: Call): Promise<boolean> {
    const { connections, lookup } = this.#parts;
    if (!made) return true;
    const found = await connections.use(made.connection, "retry", other => lookup.find(other, volume, call));
    return found?.kind === "volume";
  }
}
