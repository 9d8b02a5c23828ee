import type { Call } from "../core/call.ts";
import { CsiError } from "../core/errors.ts";
import type { Handle } from "../core/handle.ts";
import type { HeldLocks, TryLocks } from "../core/locks.ts";
import type { Finding, VolumeFindings } from "../health/finding.ts";
import type { Connection } from "./connection.ts";
import type { Connections } from "./connections.ts";
import { nameLock, volumeLock } from "./handles.ts";
import type { StorageCalls } from "./storage-calls.ts";

/** The number of volumes remembered; the oldest are forgotten first. */
const most = 10_000;

/** The time limit of one round, in milliseconds; the next one continues. */
const roundMs = 30_000;

/** A volume of a connection, by the driver's id. */
export type VolumeLocation = Pick<Handle, "connection" | "id">;

/** A volume that was created while members of its group could not be asked whether they have it. */
interface SkippedVolume {
  readonly name: string;
  /** Where it was created; undefined once this process has deleted it. */
  created: VolumeLocation | undefined;
  /** Members that have not been asked since. */
  readonly members: Set<string>;
  /** Members that have a finished volume of the name, with the driver's id. */
  readonly found: Map<string, string>;
}

interface SkippedParts {
  readonly connections: Connections;
  readonly locks: TryLocks;
  readonly calls: StorageCalls;
}

/**
 * The volumes that this process created while members of a group could not be asked. Such a member may hold an earlier attempt at the
 * same volume: once it answers, an unfinished one is removed; a finished one is reported and never removed.
 */
export class SkippedMembers {
  readonly #parts: SkippedParts;
  readonly #skips = new Map<string, SkippedVolume>();

  constructor(parts: SkippedParts) {
    this.#parts = parts;
  }

  /** A volume of the group was returned; `members` could not be asked, and any volume of its name there is another one. */
  created(group: string, name: string, location: VolumeLocation, members: readonly string[]): void {
    const key = `${group}/${name}`;
    const before = this.#skips.get(key);
    const found = new Map(before?.found);
    const skip: SkippedVolume = {
      name,
      created: location,
      members: new Set([...(before?.members ?? []), ...members]),
      found,
    };
    skip.members.delete(location.connection);
    found.delete(location.connection);
    this.#skips.delete(key);
    if (!isSettled(skip)) this.#skips.set(key, skip);
    const [oldest] = this.#skips.keys();
    if (this.#skips.size > most && oldest !== undefined) this.#skips.delete(oldest);
  }

  /** The connection on which a volume was created while members were skipped. */
  createdOn(group: string, name: string): string | undefined {
    return this.#skips.get(`${group}/${name}`)?.created?.connection;
  }

  /** A volume was deleted. */
  deleted({ connection, id }: VolumeLocation): void {
    for (const [key, skip] of this.#skips) {
      if (skip.created?.connection === connection && skip.created.id === id) skip.created = undefined;
      if (skip.found.get(connection) === id) skip.found.delete(connection);
      if (isSettled(skip)) this.#skips.delete(key);
    }
  }

  /** The findings about finished volumes of a connection whose name another member's volume has too. Sends no request. */
  findings(connection: string): VolumeFindings {
    const findings = new Map<string, readonly Finding[]>();
    for (const { found, created } of this.#skips.values()) {
      const members = [...found.keys()].map(member => `"${member}"`).join(", ");
      if (found.size > 0 && created?.connection === connection) findings.set(created.id, doubled(`is on ${members}`));
      const id = found.get(connection);
      const other = created
        ? `is on "${created.connection}"`
        : "was created on another member of the group and deleted since";
      if (id !== undefined) findings.set(id, doubled(other));
    }
    return findings;
  }

  /** Asks the skipped members that answer now. Throws no CsiError. */
  async round(call: Call): Promise<void> {
    const end = performance.now() + roundMs;
    const silent = new Set<string>();
    for (const [key, skip] of [...this.#skips]) {
      for (const member of [...skip.members, ...skip.found.keys()]) {
        if (performance.now() > end || call.signal.aborted) return;
        if (!silent.has(member) && !(await this.#settle(skip, member, call))) silent.add(member);
      }
      if (isSettled(skip) && this.#skips.get(key) === skip) this.#skips.delete(key);
    }
  }

  async #settle(skip: SkippedVolume, member: string, call: Call): Promise<boolean> {
    const { connections, locks } = this.#parts;
    try {
      using held = locks.lock([nameLock(skip.name)]);
      using lease = await connections.lease(member, "retry");
      await this.#ask(skip, lease.connection, held, call);
      return true;
    } catch (error) {
      if (!(error instanceof CsiError)) throw error;
      // The volume is being created or removed: the member may answer for others.
      return error.code === "aborted";
    }
  }

  async #ask(skip: SkippedVolume, connection: Connection, held: HeldLocks, call: Call): Promise<void> {
    const { calls } = this.#parts;
    const { name } = connection;
    let found = await calls.find(connection, skip.name, call);
    skip.found.delete(name);
    if (found?.kind === "unfinished") {
      if (!(await this.#isUnneeded(skip, call))) return;
      held.add([volumeLock(connection, skip.name)]);
      // A volume that another process has finished since stays.
      found = await calls.clear(connection, skip.name, call);
      if (!found)
        call.log.info("removed an unfinished volume that was created on another member of the group", {
          connection: name,
          volume: skip.name,
          ...(skip.created && { createdOn: skip.created.connection }),
        });
    }
    if (found?.kind === "volume") skip.found.set(name, found.volume.id);
    skip.members.delete(name);
  }

  /** Whether an unfinished volume is no longer needed: it exists elsewhere right now, or this process has deleted it. */
  async #isUnneeded({ created, name }: SkippedVolume, call: Call): Promise<boolean> {
    const { connections, calls } = this.#parts;
    if (!created) return true;
    const found = await connections.use(created.connection, "retry", other => calls.find(other, name, call));
    return found?.kind === "volume";
  }
}

const doubled = (where: string): readonly Finding[] => [
  { reason: "VolumeDoubled", message: `a volume of the same name ${where}` },
];

const isSettled = ({ members, found }: SkippedVolume): boolean => members.size + found.size === 0;

/** A volume of a group, by the name that was asked for. */
interface GroupVolume {
  readonly named: string;
  readonly request: { readonly name: string };
}

const keyOf = ({ named, request }: GroupVolume): string => `${named}/${request.name}`;

/**
 * The members on which this process has begun a volume of a group without a final answer. Such a member may have the volume or a part of it,
 * also after it was taken out of the group.
 */
export class BegunMembers {
  readonly #members = new Map<string, Set<string>>();

  /** The creation on a member has ended, and something of the volume may be there. */
  add(volume: GroupVolume, member: string): void {
    const key = keyOf(volume);
    const members = this.#members.get(key) ?? new Set();
    this.#members.set(key, members.add(member));
    const [oldest] = this.#members.keys();
    if (this.#members.size > most && oldest !== undefined) this.#members.delete(oldest);
  }

  /** The members that were added. */
  of(volume: GroupVolume): readonly string[] {
    return [...(this.#members.get(keyOf(volume)) ?? [])];
  }

  /** The request has a final answer. */
  end(volume: GroupVolume): void {
    this.#members.delete(keyOf(volume));
  }
}
