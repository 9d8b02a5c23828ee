import type { Call } from "../core/call.ts";
import { CsiError } from "../core/errors.ts";
import { mapLimit } from "../core/semaphore.ts";
import type { Finding, VolumeFindings } from "../health/finding.ts";
import type { Connection } from "./connection.ts";
import type { Connections } from "./connections.ts";
import type { Groups } from "./groups.ts";
import type { SkippedMembers, VolumeLocation } from "./skipped-members.ts";
import type { StorageCalls } from "./storage-calls.ts";

/** How many members are listed at once. */
const width = 16;

/** The most volumes on one page of a listing. */
const pageSize = 800;

/** A group is compared again after this time, in milliseconds, even if all its members have always answered this process. */
const againMs = 3_600_000;

/** The volumes of a member. */
export interface MemberListing {
  readonly member: string;
  readonly ids: ReadonlySet<string>;
  /** Like LookupAbility.idOf. */
  readonly idOf: (name: string) => string;
}

/** A volume with the same name as one on another member. */
export interface Duplicate {
  readonly member: string;
  readonly id: string;
  readonly other: string;
}

/** The last comparison of a group. */
interface GroupComparison {
  /** Its members at that time. */
  readonly members: readonly string[];
  readonly at: number;
  readonly duplicates: readonly Duplicate[];
}

interface DuplicateParts {
  readonly calls: StorageCalls;
  readonly connections: Connections;
  readonly groups: Groups;
  readonly skipped: SkippedMembers;
}

/**
 * Volumes of the same name on several members of a group. A member that cannot be asked is skipped when a volume is created, so it may
 * already have the volume. The storage systems themselves are the record: ids follow from names, so once the member answers, comparing
 * its listing with those of the others shows duplicates, whichever process created them. Neither of two is removed: only Kubernetes
 * knows which one is in use.
 */
export class DuplicateVolumes {
  readonly #parts: DuplicateParts;
  readonly #now: () => number;
  readonly #compared = new Map<string, GroupComparison>();
  /** Members of each group that were skipped, or could not be listed, since their last comparison. */
  readonly #missing = new Map<string, Set<string>>();

  /** `now` returns milliseconds of a monotonic clock. */
  constructor(parts: DuplicateParts, now: () => number = () => performance.now()) {
    this.#parts = parts;
    this.#now = now;
  }

  /** A volume of a group was created or found; `skipped` could not be asked whether they have it. */
  created(group: string, name: string, location: VolumeLocation, skipped: readonly string[]): void {
    this.#parts.skipped.created(group, name, location, skipped);
    this.#missing.set(group, new Set([...(this.#missing.get(group) ?? []), ...skipped]));
  }

  /** Like SkippedMembers.createdOn. */
  createdOn(group: string, name: string): string | undefined {
    return this.#parts.skipped.createdOn(group, name);
  }

  /** A volume was deleted. */
  deleted(volume: VolumeLocation): void {
    this.#parts.skipped.deleted(volume);
    const { connection, id } = volume;
    for (const [group, compared] of this.#compared) {
      const duplicates = compared.duplicates.filter(each => each.member !== connection || each.id !== id);
      if (duplicates.length < compared.duplicates.length) this.#compared.set(group, { ...compared, duplicates });
    }
  }

  /** The findings about volumes of a connection. Sends no request. */
  findings(connection: string): VolumeFindings {
    const others = new Map<string, Set<string>>();
    for (const { duplicates } of this.#compared.values())
      for (const { id, other } of duplicates.filter(({ member }) => member === connection))
        others.set(id, (others.get(id) ?? new Set()).add(other));
    const found = new Map<string, readonly Finding[]>();
    for (const [id, { elsewhere }] of this.#parts.skipped.found(connection)) {
      const message =
        elsewhere === undefined
          ? "a volume of the same name was created on another member of the group and deleted since"
          : existsOn([elsewhere]);
      found.set(id, [{ reason: "VolumeDoubled", message }]);
    }
    for (const [id, members] of others) found.set(id, [{ reason: "VolumeDoubled", message: existsOn([...members]) }]);
    return found;
  }

  /** Compares the groups with members that were missing, and all others once an hour; asks skipped members. Throws no CsiError. */
  async round(call: Call): Promise<void> {
    await this.#parts.skipped.round(call);
    const names = await this.#parts.groups.names();
    for (const map of [this.#compared, this.#missing])
      for (const group of map.keys()) if (!names.includes(group)) map.delete(group);
    for (const group of names) {
      try {
        await this.#compare(group, await this.#parts.groups.members(group), call);
      } catch (error) {
        // Without the folder there are no members; the log already says so.
        if (!(error instanceof CsiError)) throw error;
      }
    }
  }

  async #compare(group: string, members: readonly string[], call: Call): Promise<void> {
    const before = this.#compared.get(group);
    const missing = members.filter(member => this.#missing.get(group)?.has(member));
    const isDue =
      before === undefined ||
      before.duplicates.length > 0 ||
      before.members.join() !== members.join() ||
      this.#now() - before.at >= againMs;
    if (members.length < 2) return;
    // While missing members do not answer, the others need not be listed.
    const first = await this.#listed(isDue ? members : missing, call);
    if (!isDue && first.length === 0) return;
    const others = isDue ? [] : members.filter(member => !missing.includes(member));
    const all = [...first, ...(await this.#listed(others, call))];
    const listed = new Set(all.map(({ member }) => member));
    const kept = (before?.duplicates ?? []).filter(({ member, other }) => !listed.has(member) || !listed.has(other));
    this.#compared.set(group, { members, at: this.#now(), duplicates: [...kept, ...duplicatesOf(all)] });
    this.#missing.set(group, new Set(members.filter(member => !listed.has(member))));
  }

  async #listed(members: readonly string[], call: Call): Promise<readonly MemberListing[]> {
    const all = await mapLimit(members, width, async member => {
      try {
        return await this.#parts.connections.use(member, "retry", connection => this.#list(connection, call));
      } catch (error) {
        if (error instanceof CsiError) return undefined;
        throw error;
      }
    });
    return all.filter(each => each !== undefined);
  }

  async #list(connection: Connection, call: Call): Promise<MemberListing> {
    const { inventory, names } = connection.driver;
    const ids = new Set<string>();
    for (let token: string | undefined, isLast = !inventory; !isLast; isLast = token === undefined) {
      const page = { token, max: pageSize };
      const found = await this.#parts.calls.read("comparison", connection, call, async own =>
        inventory?.list(page, own),
      );
      for (const { id } of found?.items ?? []) ids.add(id);
      token = found?.next;
    }
    return { member: connection.name, ids, idOf: name => names?.idOf(name) ?? name };
  }
}

const existsOn = (members: readonly string[]): string =>
  `a volume of the same name is on ${members.map(each => `"${each}"`).join(", ")}`;

/**
 * The volumes that have the name of one on another member. Most ids are the names themselves; if one member has to shorten a name, the id on the other one is that name.
 */
export function duplicatesOf(all: readonly MemberListing[]): readonly Duplicate[] {
  const duplicates: Duplicate[] = [];
  for (const one of all)
    for (const id of one.ids)
      for (const other of all) {
        if (other === one) continue;
        const same = [id, other.idOf(id)].find(each => other.ids.has(each));
        if (same === undefined) continue;
        duplicates.push({ member: one.member, id, other: other.member });
        duplicates.push({ member: other.member, id: same, other: one.member });
      }
  return duplicates;
}
