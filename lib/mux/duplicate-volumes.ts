import type { Call } from "../core/call.ts";
import { CsiError } from "../core/errors.ts";
import type { Handle } from "../core/handle.ts";
import { mapLimit } from "../core/semaphore.ts";
import type { Finding, VolumeFindings } from "../health/finding.ts";
import type { Breakers } from "./breakers.ts";
import type { Connection } from "./connection.ts";
import type { Connections } from "./connections.ts";
import type { Groups } from "./groups.ts";
import type { ResponseTimeout } from "./response-timeout.ts";
import type { SkippedMembers } from "./skipped-members.ts";

/** How many members are listed at the same time. */
const width = 16;

/** How many volumes one page of a listing has at most. */
const pageSize = 800;

/** A group is compared again after so many milliseconds, although all its members have always answered this process. */
const againMs = 3_600_000;

/** The volumes of a member. */
interface MemberListing {
  readonly member: string;
  readonly ids: ReadonlySet<string>;
  /** As LookupAbility.idOf. */
  readonly idOf: (name: string) => string;
}

/** A volume whose name stands on another member, too. */
interface Duplicate {
  readonly member: string;
  readonly id: string;
  readonly other: string;
}

/** What is known of one group. */
interface GroupComparison {
  /** The members then. */
  readonly members: readonly string[];
  readonly at: number;
  readonly duplicates: readonly Duplicate[];
}

interface DuplicateParts {
  readonly breakers: Breakers;
  readonly connections: Connections;
  readonly groups: Groups;
  readonly patience: ResponseTimeout;
  readonly skipped: SkippedMembers;
}

/**
 * Volumes of one name on several members of a group. A member that cannot be asked is passed over when a volume is made, so the
 * volume may be on it, too. The storages themselves are the record: ids follow from names, so once the member answers its listing,
 * held against those of the others, tells, whatever process made the volumes. Neither of two is removed: only Kubernetes knows which
 * one is in use.
 */
export class DuplicateVolumes {
  readonly #parts: DuplicateParts;
  readonly #now: () => number;
  readonly #compared = new Map<string, GroupComparison>();
  /** Members of each group that were passed over, or could not be listed, since they were compared last. */
  readonly #missing = new Map<string, Set<string>>();

  /** `now` gives milliseconds of a clock that never jumps. */
  constructor(parts: DuplicateParts, now: () => number = () => performance.now()) {
    this.#parts = parts;
    this.#now = now;
  }

  /** A volume of a group was made or found; `skipped` could not be asked whether they have it. */
  answered(group: string, volume: string, made: Pick<Handle, "connection" | "id">, skipped: readonly string[]): void {
    this.#parts.skipped.answered(group, volume, made, skipped);
    const missing = this.#missing.get(group) ?? new Set();
    for (const member of skipped) missing.add(member);
    this.#missing.set(group, missing);
  }

  /** A volume was deleted. */
  deleted(volume: Pick<Handle, "connection" | "id">): void {
    this.#parts.skipped.deleted(volume);
    const { connection, id } = volume;
    for (const [group, compared] of this.#compared) {
      const twins = compared.duplicates.filter(each => each.member !== connection || each.id !== id);
      if (twins.length < compared.duplicates.length) this.#compared.set(group, { ...compared, duplicates: twins });
    }
  }

  /** What is to be said of the volumes of a connection; asks nobody. */
  findings(connection: string): VolumeFindings {
    const others = new Map<string, Set<string>>();
    for (const { duplicates: twins } of this.#compared.values())
      for (const { id, other } of twins.filter(({ member }) => member === connection))
        others.set(id, (others.get(id) ?? new Set()).add(other));
    const found = new Map<string, readonly Finding[]>();
    for (const [id, { elsewhere }] of this.#parts.skipped.found(connection)) {
      const message =
        elsewhere === undefined
          ? "a volume of the same name was made on another member of the group and deleted since"
          : standsOn([elsewhere]);
      found.set(id, [{ reason: "VolumeDoubled", message }]);
    }
    for (const [id, members] of others) found.set(id, [{ reason: "VolumeDoubled", message: standsOn([...members]) }]);
    return found;
  }

  /** Compares the groups whose members were not all there, all others once an hour; settles what was left. Throws no CsiError. */
  async round(call: Call): Promise<void> {
    await this.#parts.skipped.round(call);
    const names = await this.#parts.groups.names();
    for (const map of [this.#compared, this.#missing])
      for (const group of map.keys()) if (!names.includes(group)) map.delete(group);
    for (const group of names) {
      try {
        await this.#compare(group, await this.#parts.groups.members(group), call);
      } catch (error) {
        // Without the folder there are no members; the log has that already.
        if (!(error instanceof CsiError)) throw error;
      }
    }
  }

  async #compare(group: string, members: readonly string[], call: Call): Promise<void> {
    const before = this.#compared.get(group);
    const missing = new Set([...(this.#missing.get(group) ?? [])].filter(member => members.includes(member)));
    const isOld =
      before === undefined ||
      before.duplicates.length > 0 ||
      before.members.join() !== members.join() ||
      this.#now() - before.at >= againMs;
    if (members.length < 2) return;
    // While those that are missed stay away, the others need not list what they have.
    const first = await this.#listed(isOld ? members : [...missing], call);
    if (!isOld && first.length === 0) return;
    const rest = isOld
      ? []
      : await this.#listed(
          members.filter(member => !missing.has(member)),
          call,
        );
    const all = [...first, ...rest];
    const heard = new Set(all.map(({ member }) => member));
    const kept = (before?.duplicates ?? []).filter(({ member, other }) => !heard.has(member) || !heard.has(other));
    this.#compared.set(group, { members, at: this.#now(), duplicates: [...kept, ...duplicatesOf(all)] });
    this.#missing.set(group, new Set(members.filter(member => !heard.has(member))));
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
    const { breakers, patience } = this.#parts;
    const { inventory, names } = connection.driver;
    const ids = new Set<string>();
    for (let token: string | undefined, isLast = !inventory; !isLast; isLast = token === undefined) {
      const page = { token, max: pageSize };
      const found = await breakers.ask(connection, () =>
        patience.ask(connection, call, async own => inventory?.list(page, own)),
      );
      for (const { id } of found?.items ?? []) ids.add(id);
      token = found?.next;
    }
    return { member: connection.name, ids, idOf: name => names?.idOf(name) ?? name };
  }
}

const standsOn = (members: readonly string[]): string =>
  `a volume of the same name is on ${members.map(each => `"${each}"`).join(", ")}`;

/** Most ids are the names themselves; where one member has to shorten a name, the id of the other one is that name. */
function duplicatesOf(all: readonly MemberListing[]): readonly Duplicate[] {
  const twins: Duplicate[] = [];
  for (const one of all)
    for (const id of one.ids)
      for (const other of all) {
        if (other === one) continue;
        const same = [id, other.idOf(id)].find(each => other.ids.has(each));
        if (same === undefined) continue;
        twins.push({ member: one.member, id, other: other.member });
        twins.push({ member: other.member, id: same, other: one.member });
      }
  return twins;
}
