import { createHash } from "node:crypto";
import { wantedBytes } from "../core/bytes.ts";
import type { Call } from "../core/call.ts";
import { CsiError, isFinal, jointCode } from "../core/errors.ts";
import type { Handle } from "../core/handle.ts";
import type { HeldLocks } from "../core/locks.ts";
import type { Group } from "../core/proxy.ts";
import type { Connection } from "./connection.ts";
import type { CreateRequest, RouterContext } from "./context.ts";
import type { Copies } from "./copies.ts";
import { type RoutedVolume, volumeLock } from "./handles.ts";
import { evaluatePlacement, type Placement } from "./placement.ts";
import { BegunMembers } from "./skipped-members.ts";

/** A running CreateVolume. */
export interface Creation {
  /** The connection or group that the class names. */
  readonly named: string;
  readonly request: CreateRequest;
  readonly source: Handle | undefined;
  readonly call: Call;
  /** The locks that it holds. */
  readonly held: HeldLocks;
}

/** Where to create a volume. */
export interface Selection {
  /** The members to try, the best first. */
  readonly members: readonly string[];
  /** Members that could not be asked whether they have the volume. */
  readonly skipped: readonly string[];
  /** Throws the error of a member. It is not final while others, which cannot be asked, may have the volume or take it. */
  failure(member: string, error: unknown): never;
  /** The error if none of `members` has room; `full`: their refusals. */
  refusal(full: readonly CsiError[]): CsiError;
  /** Further members, if none of these has room. */
  readonly others?: () => Promise<Selection>;
}

/** A member of a group that could take a volume. */
interface Candidate extends Pick<Placement, "preference"> {
  readonly name: string;
  /** Bytes that a new volume may take; undefined if the driver cannot tell. */
  readonly free: bigint | undefined;
}

/** What a member has of a volume. "unable": its driver cannot look up names; "silent": it cannot be asked. */
interface MemberLookup {
  readonly member: string;
  readonly has: "nothing" | "volume" | "unfinished" | "stored" | "unable" | "silent";
}

/**
 * Selects members of a group for a new volume. Every member that can be asked is asked first whether it has the volume, so that a
 * retry finds what an earlier call created; so is a former one on which this process has begun it. A member that cannot be asked is
 * skipped; if the volume then exists on two members, that is found when the member answers again (SkippedMembers).
 */
export class MemberSelection {
  readonly #context: RouterContext;
  readonly #begun = new BegunMembers();

  constructor(context: RouterContext) {
    this.#context = context;
  }

  /** The caller holds the lock of the volume's name. Throws CsiError if no member can be selected. */
  async select(creation: Creation): Promise<Selection> {
    const { named, request, source } = creation;
    const { groups, skipped: remembered } = this.#context;
    const { members, unknown, policy } = await groups.resolve(named);
    const asked = new Set([...members, ...this.#begun.of(creation)]);
    const lookups = await Promise.all([...asked].map(member => this.#lookUp(member, creation)));
    const having = (has: MemberLookup["has"]) => lookups.filter(each => each.has === has).map(({ member }) => member);
    const owners = having("volume");
    // Of two, the one that was returned last may already be in use.
    const returned = remembered.createdOn(named, request.name);
    const owner = owners.find(member => member === returned) ?? owners[0];
    if (owner !== undefined) return this.#only(creation, owner);
    const skipped = [...new Set([...having("silent"), ...unknown])];
    // The volume may be created on another member than in an interrupted call; nothing of that may remain.
    for (const member of having("unfinished")) {
      const left = await this.#clear(member, creation);
      // Another process has finished it since.
      if (left === "volume") return this.#only(creation, member);
      if (left === "silent") skipped.push(member);
    }
    if (members.length + skipped.length === 0)
      throw new CsiError("failed-precondition", `group "${named}" has no members`);
    const unable = having("unable");
    if (unable.length > 0) throw cannotLookUp(named, unable);
    // A copy that has begun continues where it is.
    const [stored] = having("stored");
    if (stored !== undefined) return this.#only(creation, stored);
    if (!source || !members.includes(source.connection)) return this.#ranked(members, skipped, policy, creation);
    // On the connection of the source, a clone needs no copy.
    const others = members.filter(member => member !== source.connection);
    const own = this.#only(creation, source.connection);
    if (others.length === 0) return own;
    return { ...own, others: () => this.#ranked(others, skipped, policy, creation) };
  }

  /** Records a volume that was created or found in a group, and writes into its context which members were skipped. */
  created(creation: Creation, volume: RoutedVolume, skipped: readonly string[]): RoutedVolume {
    const { named, request, call } = creation;
    const { handles, skipped: remembered } = this.#context;
    this.#begun.end(creation);
    remembered.created(named, request.name, handles.known(volume.id, "volume"), skipped);
    if (skipped.length === 0) return volume;
    call.log.warn("created a volume while members of its group could not be asked whether they have it", {
      volume: volume.id,
      skipped,
    });
    return { ...volume, context: { ...volume.context, skipped: skipped.join(",") } };
  }

  #only(creation: Creation, member: string): Selection {
    return {
      ...{ members: [member], skipped: [], failure: this.#failure(creation, []) },
      refusal: full => noMember(creation.named, full, []),
    };
  }

  /** As Selection.failure; `silent`: the others. */
  readonly #failure =
    (creation: Creation, silent: readonly string[]): Selection["failure"] =>
    (member, error) => {
      if (!isFinal(error)) this.#begun.add(creation, member);
      else if (silent.length === 0) this.#begun.end(creation);
      else if (error instanceof CsiError) throw unasked(error, silent);
      throw error;
    };

  /** What a member has of the volume. One that is being checked because it did not answer is not waited for. */
  async #lookUp(member: string, { request, source, call }: Creation): Promise<MemberLookup> {
    const { calls, connections, copies } = this.#context;
    if (calls.isDoubted(member)) return { member, has: "silent" };
    const has = connections.use(member, "retry", async (connection): Promise<MemberLookup["has"]> => {
      if (!connection.driver.names) return connection.suspended ? "nothing" : "unable";
      const found = (await calls.find(connection, request.name, call))?.kind;
      if (found === "volume" || !source || source.connection === member) return found ?? "nothing";
      return (await copies?.hasBegun(connection, request.name, call)) ? "stored" : (found ?? "nothing");
    });
    return { member, has: (await answered(has, call)) ?? "silent" };
  }

  /** Removes what is unfinished. Returns what the member has then. */
  async #clear(member: string, { request, call, held }: Creation): Promise<MemberLookup["has"]> {
    const { calls, connections } = this.#context;
    const cleared = connections.use(member, "retry", async connection => {
      held.add([volumeLock(connection, request.name)]);
      return (await calls.clear(connection, request.name, call)) ? "volume" : "nothing";
    });
    return (await answered<MemberLookup["has"]>(cleared, call)) ?? "silent";
  }

  /** The members that can take the volume, by preferred topology and the group's policy. */
  async #ranked(
    members: readonly string[],
    skipped: readonly string[],
    policy: Group["policy"],
    creation: Creation,
  ): Promise<Selection> {
    const { named, request, source } = creation;
    // No member can take a copy while the source's connection cannot be used: that is not a fault of theirs.
    if (source) await this.#context.connections.use(source.connection, "retry", async () => {});
    const asked = members.filter(member => !skipped.includes(member));
    const found = await Promise.all(asked.map(member => this.#candidate(member, creation)));
    const silent = asked.filter((_, index) => found[index] === undefined);
    const begun = this.#begun.of(creation);
    // Members that cannot be asked are judged by their files, unless something of the volume may be on them.
    const excluded = [...skipped, ...silent].map(
      name => [name, begun.includes(name) ? undefined : this.#excluded(name, request)] as const,
    );
    const eligible = excluded.filter(([, why]) => why === undefined).map(([name]) => name);
    const refusals = [...found, ...excluded.map(([, why]) => why)].filter(each => each instanceof CsiError);
    const candidates = found.filter((each): each is Candidate => each !== undefined && !(each instanceof CsiError));
    return {
      members: ordered(candidates, policy, request.name),
      skipped,
      failure: this.#failure(creation, eligible),
      refusal: full => noMember(named, [...refusals, ...full], eligible),
    };
  }

  /** Evaluates one member: a candidate, the reason against it, or undefined if it is unreachable. */
  async #candidate(name: string, { request, source, call }: Creation): Promise<Candidate | CsiError | undefined> {
    const { calls, connections, copies, settings } = this.#context;
    const judged = connections.use(name, "retry", async (connection): Promise<Candidate | CsiError> => {
      const verdict = evaluatePlacement(connection, request, settings().policy);
      if (verdict instanceof CsiError) return verdict;
      const noMethod = source && (await noMethodTo(connection, source, copies));
      if (noMethod) return noMethod;
      const free = await calls.freeSpace(connection, request.parameters, call);
      const wanted = wantedBytes(request.range);
      if (free !== undefined && free < wanted)
        return new CsiError("resource-exhausted", `connection "${name}": ${free} of the ${wanted} bytes are free`);
      return { name, preference: verdict.preference, free };
    });
    return answered(judged, call);
  }

  /** Why a member that cannot be asked would not take the volume, according to its last valid file. */
  #excluded(name: string, request: CreateRequest): CsiError | undefined {
    const facts = this.#context.connections.record(name)?.lastValid?.facts;
    const verdict = facts && evaluatePlacement({ ...facts, name }, request, this.#context.settings().policy);
    return verdict instanceof CsiError ? verdict : undefined;
  }
}

/** The answer of a member; undefined if it does not answer. One that is busy with the volume does: then the caller retries. */
async function answered<T>(asking: Promise<T>, call: Call): Promise<T | undefined> {
  try {
    return await asking;
  } catch (error) {
    if (call.signal.aborted || !(error instanceof CsiError) || error.code === "aborted") throw error;
    return undefined;
  }
}

function ordered(candidates: readonly Candidate[], policy: Group["policy"], volume: string): readonly string[] {
  const byPolicy = (a: Candidate, b: Candidate): number => {
    if (policy === "ordered") return 0;
    if (policy === "most-free" && a.free !== b.free) return (b.free ?? 0n) > (a.free ?? 0n) ? 1 : -1;
    return weight(b.name, volume) > weight(a.name, volume) ? 1 : -1;
  };
  return candidates.toSorted((a, b) => a.preference - b.preference || byPolicy(a, b)).map(({ name }) => name);
}

/** Rendezvous hashing: the rank of a member for a name does not change when other members come or go. */
const weight = (member: string, volume: string): string =>
  createHash("sha256").update(`${member}\0${volume}`).digest("hex");

/** A final failure of a member that is not final for its group. */
function unasked(error: CsiError, silent: readonly string[]): CsiError {
  const others = silent.map(each => `"${each}"`).join(", ");
  const text = `${error.message}; retry until ${others} can be asked whether the volume is there`;
  return new CsiError("unavailable", text, { cause: error });
}

/** The refusal of a whole group. It is not final if a member of `silent` might take the volume once it answers. */
function noMember(group: string, refusals: readonly CsiError[], silent: readonly string[]): CsiError {
  const reasons = [
    ...refusals.map(each => each.message),
    ...silent.map(name => `connection "${name}": it is unreachable`),
  ];
  const text = `no member of group "${group}" can take the volume: ${reasons.join("; ")}`;
  return new CsiError(silent.length > 0 ? "unavailable" : codeOf(refusals), text);
}

/** A setting that forbids copies to all members does not depend on the node. */
const codeOf = (refusals: readonly CsiError[]): CsiError["code"] => {
  const isForbidden = refusals.some(({ code }) => code === "failed-precondition");
  const others = refusals.filter(({ code }) => code !== "failed-precondition");
  return isForbidden && jointCode(others) === "invalid-argument" ? "failed-precondition" : jointCode(refusals);
};

/**
 * No retry can help. Volumes of the same name on other members were found before, and a member that cannot look up names was never
 * given a volume by this group.
 */
const cannotLookUp = (group: string, members: readonly string[]): CsiError =>
  new CsiError(
    "failed-precondition",
    `members of group "${group}" cannot look up volumes by name, so a retry could create a second volume: take ${members.map(each => `"${each}"`).join(", ")} out of the group`,
  );

/** Why the content of a source on another connection cannot get to a member. Throws "unavailable" if the source's connection cannot be used. */
async function noMethodTo(to: Connection, source: Handle, copies: Copies | undefined): Promise<CsiError | undefined> {
  if (to.name === source.connection) return undefined;
  if (!copies) return new CsiError("invalid-argument", `the source is on connection "${source.connection}"`);
  const choice = await copies.methods(source, to);
  return choice.kind === "refused" ? choice.error() : undefined;
}
