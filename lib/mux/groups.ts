import type { Call } from "../core/call.ts";
import { CsiError } from "../core/errors.ts";
import type { Group } from "../core/group.ts";
import type { Handle } from "../core/handle.ts";
import type { Locks } from "../core/locks.ts";
import { selects } from "../core/selector.ts";
import { ability } from "./ability.ts";
import { Begun } from "./begun.ts";
import { type Candidate, candidateOf, nobody, ordered } from "./candidates.ts";
import type { Connection } from "./connection.ts";
import type { Connections } from "./connections.ts";
import { lockKey, nameLock } from "./handles.ts";
import { Patience } from "./patience.ts";
import type { CreateRequest, MuxSettings, PlacedVolume } from "./placed.ts";

/** Makes the volume on one member; `found` says that it exists there already. */
type Make = (member: string, found: boolean) => Promise<PlacedVolume>;

/**
 * Chooses a member for each new volume. The choice is safe to repeat, because every member is first asked whether it has
 * the volume; a member that cannot say stops the creation rather than risk a second volume of the same name.
 */
export class Groups {
  readonly #connections: Connections;
  readonly #locks: Locks;
  readonly #groups: () => Promise<ReadonlyMap<string, Group>>;
  readonly #settings: () => MuxSettings;
  readonly #begun = new Begun();
  readonly #patience: Patience;

  /** `groups` gives those that are configured now. */
  constructor(
    connections: Connections,
    locks: Locks,
    groups: () => Promise<ReadonlyMap<string, Group>>,
    settings: () => MuxSettings,
    patience = new Patience(),
  ) {
    this.#patience = patience;
    this.#connections = connections;
    this.#locks = locks;
    this.#groups = groups;
    this.#settings = settings;
  }

  /** Whether a group of this name is configured now. */
  async has(name: string): Promise<boolean> {
    return (await this.#groups()).has(name);
  }

  /** Whether a class that names `name` can lead to this connection: it is the connection, or a group that has it. */
  async leads(name: string, connection: string): Promise<boolean> {
    if (name === connection) return true;
    return (await this.has(name)) && (await this.members(name)).includes(connection);
  }

  /** Names of the members now, in the order of the group. */
  async members(name: string): Promise<readonly string[]> {
    const group = (await this.#groups()).get(name);
    if (!group) throw new CsiError("invalid-argument", `group "${name}" is not configured`);
    if (group.from.kind === "members") return group.from.members;
    const { selector } = group.from;
    const chosen: string[] = [];
    for (const connection of await this.#connections.names()) {
      if (selects(selector, await this.#connections.labels(connection))) chosen.push(connection);
    }
    return chosen;
  }

  /** Throws "resource-exhausted" when no member can take the volume, "invalid-argument" when none ever could. */
  create(
    name: string,
    request: CreateRequest,
    source: Handle | undefined,
    call: Call,
    make: Make,
  ): Promise<PlacedVolume> {
    return this.#locks.hold([nameLock(request.name)], async () => {
      const members = await this.members(name);
      const former = this.#begun.members(request.name, name).filter(member => !members.includes(member));
      const makeOn: Make = (member, found) => {
        this.#begun.remember(request.name, name, member);
        return make(member, found);
      };
      const owner = await this.#owner(members, former, request.name, call);
      if (owner !== undefined) return makeOn(owner, true);
      if (members.length === 0) throw new CsiError("failed-precondition", `group "${name}" has no members`);
      // The choice may be another one than that of an interrupted call, of which nothing shall stay behind.
      for (const member of [...members, ...former]) await this.#clear(member, request.name, call);
      if (source) return makeOn(pinned(name, members, source), false);
      return this.#first(name, await this.#ranked(name, members, request, call), makeOn, request.name, call);
    });
  }

  /** A volume is gone: a new one of its name need not be looked for there. */
  deleted({ connection, id }: Handle): void {
    // The id is the name, unless that was too long.
    this.#begun.forget(id, connection);
  }

  /** The member that has the volume already; `former` are those that it was begun on before they left the group. */
  async #owner(
    members: readonly string[],
    former: readonly string[],
    volume: string,
    call: Call,
  ): Promise<string | undefined> {
    const looks = [
      ...members.map(member => ({ member, unsure: unsure(member) })),
      ...former.map(member => ({ member, unsure: unsureBefore(member) })),
    ];
    const answers = await Promise.all(
      looks.map(async look => ((await this.#has(look.member, look.unsure, volume, call)) ? look.member : undefined)),
    );
    return answers.find(member => member !== undefined);
  }

  async #clear(member: string, volume: string, call: Call): Promise<void> {
    await this.#connections.use(member, "handle", connection =>
      answered(connection, call, () => {
        const names = ability(connection, "names");
        const key = lockKey({ kind: "volume", connection: member, id: names.idOf(volume) });
        return this.#locks.hold([key], async () => {
          const found = await this.#patience.ask(connection, () => names.find(volume, call));
          if (found?.kind === "unfinished") await connection.driver.delete(found.id, call);
        });
      }),
    );
  }

  /** Throws "unavailable" when the member cannot say: the volume may be there, so it must not be made on another one. */
  async #has(member: string, unsure: string, volume: string, call: Call): Promise<boolean> {
    try {
      const found = await this.#connections.use(member, "handle", connection =>
        answered(connection, call, () =>
          this.#patience.ask(connection, () => ability(connection, "names").find(volume, call)),
        ),
      );
      return found?.kind === "volume";
    } catch (error) {
      const reason = error instanceof Error ? error.message : String(error);
      throw new CsiError("unavailable", `${unsure}: ${reason}`, { cause: error });
    }
  }

  async #ranked(
    name: string,
    members: readonly string[],
    request: CreateRequest,
    call: Call,
  ): Promise<readonly Candidate[]> {
    const refusals: CsiError[] = [];
    const candidates: Candidate[] = [];
    for (const member of members) {
      const found = await this.#connections.use(member, "handle", connection =>
        candidateOf(connection, request, this.#settings().policy, call),
      );
      if (found instanceof CsiError) refusals.push(found);
      else candidates.push(found);
    }
    if (candidates.length === 0) throw nobody(name, refusals);
    const policy = (await this.#groups()).get(name)?.policy ?? "ordered";
    return ordered(candidates, policy, request.name);
  }

  /** Goes on to the next member only after an answer that proves that nothing was made. */
  async #first(
    name: string,
    candidates: readonly Candidate[],
    make: Make,
    volume: string,
    call: Call,
  ): Promise<PlacedVolume> {
    const refusals: CsiError[] = [];
    for (const { name: member } of candidates) {
      try {
        return await make(member, false);
      } catch (error) {
        if (!(error instanceof CsiError && error.code === "resource-exhausted")) throw error;
        call.log.info("a member of the group is full, trying the next", { connection: member, reason: error.message });
        this.#begun.forget(volume, member);
        refusals.push(error);
      }
    }
    throw nobody(name, refusals);
  }
}

const unsure = (member: string): string =>
  `member "${member}" of the group cannot say whether it has the volume; mend it, suspend it, or take it out of the group`;

const unsureBefore = (member: string): string =>
  `the volume was begun on "${member}", which cannot say whether it has it; mend or suspend it, or restart csimux to go on without it`;

/** The answer of a member; undefined from a suspended one that gives none. */
async function answered<T>(connection: Connection, call: Call, ask: () => Promise<T>): Promise<T | undefined> {
  try {
    return await ask();
  } catch (error) {
    if (!connection.suspended) throw error;
    // Suspending a dead member is how an operator says: go on without it.
    call.log.warn("a suspended member of the group does not answer and is passed over", {
      connection: connection.name,
    });
    return undefined;
  }
}

function pinned(group: string, members: readonly string[], source: Handle): string {
  if (members.includes(source.connection)) return source.connection;
  throw new CsiError(
    "invalid-argument",
    `the source is on connection "${source.connection}", which is not a member of group "${group}"`,
  );
}
