import { CsiError } from "../core/errors.ts";
import type { Handle } from "../core/handle.ts";
import { type Candidate, candidateOf, noMember, ordered } from "./candidates.ts";
import type { FreeSpace } from "./free-space.ts";
import { nameLock, volumeLock } from "./handles.ts";
import { evaluatePlacement } from "./placement.ts";
import type { Creation, RoutedVolume } from "./routed.ts";
import type { RouterContext } from "./router-context.ts";

/** Makes the volume on one member. */
type Make = (member: string) => Promise<RoutedVolume>;

/** What a member says that it has of a volume. "unable": its driver cannot look volumes up; "silent": it cannot be asked. */
interface MemberLookup {
  readonly member: string;
  readonly has: "nothing" | "volume" | "unfinished" | "unable" | "silent";
}

/** Members that could not be asked, by what is known of them. */
interface UnreachableMembers {
  readonly members: readonly string[];
  /** Those that would not take the volume anyway, and why. */
  readonly excluded: readonly CsiError[];
  /** Those that might. */
  readonly eligible: readonly string[];
}

/**
 * Chooses a member of a group for each new volume. Every member that can be asked is asked first whether it has the volume, so a
 * repeat finds what an earlier call made. A member that cannot be asked is passed over: then the volume may come to stand on two
 * members, which is noticed when the member answers again (DuplicateVolumes, SkippedMembers).
 */
export class MemberSelection {
  readonly #common: RouterContext;
  readonly #space: FreeSpace;

  /** `space` tells how much is free on members. */
  constructor(common: RouterContext, space: FreeSpace) {
    this.#common = common;
    this.#space = space;
  }

  /** Throws "resource-exhausted" when no member can take the volume, "invalid-argument" when none ever could, "unavailable" when one that cannot be asked might. */
  create(creation: Creation, make: Make): Promise<RoutedVolume> {
    const { named, request } = creation;
    return this.#common.locks.hold([nameLock(request.name)], async () => {
      const { members, unknown } = await this.#common.groups.resolve(named);
      const begun = this.#common.attempts.members(request.name, named);
      const former = begun.filter(member => !members.includes(member));
      const answers = await Promise.all([...members, ...former].map(member => this.#lookUp(member, creation)));
      const having = (has: MemberLookup["has"]) => answers.filter(each => each.has === has).map(({ member }) => member);
      // Of two, the one that was answered last may be in use already.
      const owners = having("volume");
      const owner = begun.findLast(member => owners.includes(member)) ?? owners[0];
      const away = [...having("silent"), ...unknown.filter(name => !former.includes(name))];
      if (owner !== undefined) return this.#skipping(creation, [], () => make(owner));
      if (members.length + unknown.length === 0)
        throw new CsiError("failed-precondition", `group "${named}" has no members`);
      // The choice may be another one than that of an interrupted call, of which nothing shall stay behind.
      for (const member of having("unfinished")) if (!(await this.#clear(member, creation))) away.push(member);
      const unable = members.filter(member => having("unable").includes(member));
      if (unable.length > 0) throw cannotLookUp(named, unable);
      return this.#onOneOf(creation, members, away, make);
    });
  }

  async #onOneOf(
    creation: Creation,
    members: readonly string[],
    skipped: readonly string[],
    make: Make,
  ): Promise<RoutedVolume> {
    const { named, source } = creation;
    // Beside its source alone a volume is ever made, so nothing of it is on the others.
    if (source) return this.#skipping(creation, [], () => make(memberOfSource(named, members, source)));
    const here = members.filter(member => !skipped.includes(member));
    return this.#skipping(creation, skipped, async () => {
      const { candidates, refusals, away } = await this.#ranked(here, skipped, creation);
      return this.#first(creation, candidates, refusals, away, make);
    });
  }

  /**
   * What a member has of the volume. One whose storage is being checked, because it did not answer, is not waited for, unless this
   * process began the volume there.
   */
  async #lookUp(member: string, { named, request, call }: Creation): Promise<MemberLookup> {
    const { attempts: begun, breakers, connections, lookup } = this.#common;
    if (breakers.isDoubted(member) && !begun.members(request.name, named).includes(member))
      return { member, has: "silent" };
    try {
      return await connections.use(member, "retry", async connection => {
        if (!connection.driver.names) return { member, has: connection.suspended ? "nothing" : "unable" };
        const found = await lookup.find(connection, request.name, call);
        return { member, has: found?.kind ?? "nothing" };
      });
    } catch (error) {
      if (call.signal.aborted || !isUnreachable(error)) throw error;
      return { member, has: "silent" };
    }
  }

  /** Removes what is unfinished. False when the member cannot be asked any more. */
  async #clear(member: string, { request, call }: Creation): Promise<boolean> {
    const { connections, locks, lookup } = this.#common;
    try {
      await connections.use(member, "retry", connection =>
        locks.hold([volumeLock(connection, request.name)], () => lookup.clear(connection, request.name, call)),
      );
      return true;
    } catch (error) {
      if (call.signal.aborted || !isUnreachable(error)) throw error;
      return false;
    }
  }

  /** Members that can take the volume, the best first; why others cannot; and which cannot be asked. */
  async #ranked(members: readonly string[], skipped: readonly string[], creation: Creation) {
    const { connections, groups, settings } = this.#common;
    const { named, request, call } = creation;
    const { policy } = settings();
    const found = await Promise.all(
      members.map(async member => {
        try {
          return await connections.use(member, "retry", connection =>
            candidateOf(connection, request, policy, this.#space, call),
          );
        } catch (error) {
          if (call.signal.aborted || !isUnreachable(error)) throw error;
          return member;
        }
      }),
    );
    const candidates = found.filter(
      (each): each is Candidate => typeof each === "object" && !(each instanceof CsiError),
    );
    const away = this.#away([...skipped, ...found.filter(each => typeof each === "string")], creation);
    const refusals = [...found.filter(each => each instanceof CsiError), ...away.excluded];
    return { candidates: ordered(candidates, await groups.policy(named), request.name), refusals, away };
  }

  /** Judges members that cannot be asked by their files. One that this process began the volume on may have it, whatever is asked for now. */
  #away(members: readonly string[], { named, request }: Creation): UnreachableMembers {
    const { attempts: begun, connections, settings } = this.#common;
    const began = begun.members(request.name, named);
    const verdicts = members.map(name => {
      const facts = connections.lastGood(name)?.connection;
      const verdict =
        facts && !began.includes(name) && evaluatePlacement({ ...facts, name }, request, settings().policy);
      return verdict instanceof CsiError ? verdict : undefined;
    });
    const eligible = members.filter((_, index) => verdicts[index] === undefined);
    return { members, eligible, excluded: verdicts.filter(each => each !== undefined) };
  }

  /** Tries the next member only after an answer that proves that nothing was made. */
  async #first(
    { named, call }: Creation,
    candidates: readonly Candidate[],
    unfit: readonly CsiError[],
    { eligible }: UnreachableMembers,
    make: Make,
  ): Promise<RoutedVolume> {
    const refusals = [...unfit];
    for (const { name: member } of candidates) {
      try {
        return await make(member);
      } catch (error) {
        if (!(error instanceof CsiError && error.code === "resource-exhausted")) throw error;
        call.log.info("a member of the group is full, trying the next", { connection: member, reason: error.message });
        refusals.push(error);
      }
    }
    throw noMember(named, refusals, eligible);
  }

  /** Keeps in mind, and writes into the volume context, which members were not asked whether they have the volume. */
  async #skipping(
    { named, request, call }: Creation,
    skipped: readonly string[],
    make: () => Promise<RoutedVolume>,
  ): Promise<RoutedVolume> {
    const { handles, duplicates: twins } = this.#common;
    const volume = await make();
    const made = handles.known(volume.id, "volume");
    twins.answered(named, request.name, made, skipped);
    if (skipped.length === 0) return volume;
    call.log.warn("made a volume while members of its group could not be asked whether they have it", {
      volume: volume.id,
      skipped,
    });
    return { ...volume, context: { ...volume.context, skipped: skipped.join(",") } };
  }
}

/** A member that is busy with the volume can be asked: the caller repeats. */
const isUnreachable = (error: unknown): error is CsiError => error instanceof CsiError && error.code !== "aborted";

/**
 * No repeat heals that. What was made on other members for the same name was found before, and a member that cannot look volumes up
 * was never given one by this group.
 */
const cannotLookUp = (group: string, members: readonly string[]): CsiError =>
  new CsiError(
    "failed-precondition",
    `members of group "${group}" cannot look volumes up by their names, so a repeated call could make a second volume: take ${members.map(each => `"${each}"`).join(", ")} out of the group`,
  );

function memberOfSource(group: string, members: readonly string[], source: Handle): string {
  if (members.includes(source.connection)) return source.connection;
  throw new CsiError(
    "invalid-argument",
    `the source is on connection "${source.connection}", which is not a member of group "${group}"`,
  );
}
