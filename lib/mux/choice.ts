import { CsiError } from "../core/errors.ts";
import type { Handle } from "../core/handle.ts";
import type { Found } from "../drivers/driver.ts";
import { type Candidate, candidateOf, nobody, ordered } from "./candidates.ts";
import type { Common } from "./common.ts";
import type { Connection } from "./connection.ts";
import type { FreeSpace } from "./free-space.ts";
import { lockKey, nameLock } from "./handles.ts";
import type { Creation, PlacedVolume } from "./placed.ts";

/** Makes the volume on one member. */
type Make = (member: string) => Promise<PlacedVolume>;

/** A member of now, or a former one that the volume was begun on. */
interface Look {
  readonly member: string;
  readonly former: boolean;
}

/** Of a member that was not asked: it is away and has nothing of the volume, or cannot look volumes up. */
interface Unasked {
  readonly kind: "away" | "unable";
}

/**
 * Chooses a member of a group for each new volume. The choice is safe to repeat, because every member is first asked whether it
 * has the volume; a member that cannot say stops the creation rather than risk a second volume of the same name.
 */
export class Choice {
  readonly #common: Common;
  readonly #space: FreeSpace;

  /** `space` tells how much is free on members. */
  constructor(common: Common, space: FreeSpace) {
    this.#common = common;
    this.#space = space;
  }

  /** Throws "resource-exhausted" when no member can take the volume, "invalid-argument" when none ever could. */
  create(creation: Creation, make: Make): Promise<PlacedVolume> {
    const { named, request, source } = creation;
    const { groups, begun, locks } = this.#common;
    return locks.hold([nameLock(request.name)], async () => {
      const members = await groups.members(named);
      const former = begun.members(request.name, named).filter(member => !members.includes(member));
      const looks = [
        ...members.map(member => ({ member, former: false })),
        ...former.map(member => ({ member, former: true })),
      ];
      const found = await Promise.all(looks.map(look => this.#has(look, creation)));
      const away = members.filter((_, index) => found[index]?.kind === "away");
      const owner = looks.find((_, index) => found[index]?.kind === "volume");
      if (owner) return make(owner.member);
      if (members.length === 0) throw new CsiError("failed-precondition", `group "${named}" has no members`);
      // The choice may be another one than that of an interrupted call, of which nothing shall stay behind.
      const begunOn = looks.filter((_, index) => found[index]?.kind === "unfinished");
      for (const { member } of begunOn) await this.#clear(member, creation);
      const unable = members.filter((_, index) => found[index]?.kind === "unable");
      if (unable.length > 0) throw unfit(named, unable);
      if (source) return make(pinned(named, members, source));
      const here = members.filter(member => !away.includes(member));
      return this.#first(creation, await this.#ranked(here, away, creation), away, make);
    });
  }

  /** What a member has of the volume. Throws "unavailable" when it cannot say: the volume must not be made on another one then. */
  async #has(look: Look, creation: Creation): Promise<Found | Unasked | undefined> {
    const { begun, connections, lookup } = this.#common;
    const { request, call } = creation;
    if (this.#isSpared(look.member, creation)) return { kind: "away" };
    try {
      return await connections.use(look.member, "retry", async connection => {
        try {
          if (!connection.driver.names && !connection.suspended) return { kind: "unable" };
          const found = await lookup.find(connection, request.name, call);
          if (!found) begun.foundAbsent(request.name, connection.name);
          return found;
        } catch (error) {
          if (!connection.suspended) throw error;
          // Suspending a dead member is how an operator says: go on without it.
          call.log.warn("a suspended member of the group does not answer and is passed over", {
            connection: connection.name,
          });
          return undefined;
        }
      });
    } catch (error) {
      const reason = error instanceof Error ? error.message : String(error);
      throw new CsiError("unavailable", `${unsure(look)}: ${reason}`, { cause: error });
    }
  }

  /**
   * A member that is away is passed over where nothing of the volume can be on it: it has said so to this process, or the
   * volume has a source, beside which alone it is ever made.
   */
  #isSpared(member: string, { request, source, call }: Creation): boolean {
    const { begun, breakers } = this.#common;
    if (!breakers.of(member)) return false;
    const cannotBe = source ? source.connection !== member : begun.cannotBeOn(request.name, member);
    if (cannotBe)
      call.log.info("a member of the group is away and passed over: nothing of the volume is on it", {
        connection: member,
      });
    return cannotBe;
  }

  async #clear(member: string, { request, call }: Creation): Promise<void> {
    const { connections, locks, lookup } = this.#common;
    await connections.use(member, "retry", connection =>
      locks.hold([volumeLock(connection, request.name)], () => lookup.clear(connection, request.name, call)),
    );
  }

  async #ranked(
    members: readonly string[],
    away: readonly string[],
    { named, request, call }: Creation,
  ): Promise<readonly Candidate[]> {
    const { connections, groups, settings } = this.#common;
    const found = await Promise.all(
      members.map(member =>
        connections.use(member, "retry", connection =>
          candidateOf(connection, request, settings().policy, this.#space, call),
        ),
      ),
    );
    const candidates = found.flatMap(each => (each instanceof CsiError ? [] : [each]));
    if (candidates.length === 0)
      throw nobody(
        named,
        found.filter(each => each instanceof CsiError),
        away,
      );
    return ordered(candidates, await groups.policy(named), request.name);
  }

  /** Goes on to the next member only after an answer that proves that nothing was made. */
  async #first(
    { named, call }: Creation,
    candidates: readonly Candidate[],
    away: readonly string[],
    make: Make,
  ): Promise<PlacedVolume> {
    const refusals: CsiError[] = [];
    for (const { name: member } of candidates) {
      try {
        return await make(member);
      } catch (error) {
        if (!(error instanceof CsiError && error.code === "resource-exhausted")) throw error;
        call.log.info("a member of the group is full, trying the next", { connection: member, reason: error.message });
        refusals.push(error);
      }
    }
    throw nobody(named, refusals, away);
  }
}

/** The key that locks the volume of this name on a connection. */
export const volumeLock = ({ name, driver }: Connection, volume: string): string =>
  lockKey({ kind: "volume", connection: name, id: driver.names?.idOf(volume) ?? volume });

const unsure = ({ member, former }: Look): string =>
  former
    ? `the volume was begun on "${member}", which cannot say whether it has it; mend or suspend it, or restart csimux to go on without it`
    : `member "${member}" of the group cannot say whether it has the volume; mend it, suspend it, or take it out of the group`;

/**
 * No repeat heals that. What was made on other members for the same name was found before, and a member that cannot look volumes up
 * was never given one by this group.
 */
const unfit = (group: string, members: readonly string[]): CsiError =>
  new CsiError(
    "failed-precondition",
    `members of group "${group}" cannot look volumes up by their names, so a repeated call could make a second volume: take ${members.map(each => `"${each}"`).join(", ")} out of the group`,
  );

function pinned(group: string, members: readonly string[], source: Handle): string {
  if (members.includes(source.connection)) return source.connection;
  throw new CsiError(
    "invalid-argument",
    `the source is on connection "${source.connection}", which is not a member of group "${group}"`,
  );
}
