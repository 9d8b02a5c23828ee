import { CsiError } from "../core/errors.ts";
import { type Group, selects } from "../core/proxy.ts";
import { mapLimit } from "../core/semaphore.ts";
import { filesAtOnce, forgetMs } from "./connection.ts";
import type { Connections } from "./connections.ts";

/** The groups of the main file at present. */
export type ConfiguredGroups = () => Promise<ReadonlyMap<string, Group>>;

/** The connections of a group. */
export interface Members {
  readonly members: readonly string[];
  /** Connections whose labels cannot be read; no volume is created on them. */
  readonly unknown: readonly string[];
  /** How a member is selected. */
  readonly policy: Group["policy"];
}

/** The groups that a class may name. */
export class Groups {
  readonly #connections: Connections;
  readonly #configured: ConfiguredGroups;
  readonly #now: () => number;
  /** When a volume was last asked for of each group while that was configured. */
  readonly #asked = new Map<string, number>();

  /** `now` returns milliseconds of a monotonic clock. */
  constructor(connections: Connections, configured: ConfiguredGroups, now: () => number = () => performance.now()) {
    this.#connections = connections;
    this.#configured = configured;
    this.#now = now;
  }

  /** Whether there is a group of this name. */
  async has(name: string): Promise<boolean> {
    return (await this.#configured()).has(name);
  }

  /**
   * Like `has`, for a new volume. Throws "unavailable" for a group that was removed, if a volume was asked for of it within the last hour:
   * this one may have been begun on one of its members, and after a final answer no caller would delete it there.
   */
  async asked(name: string): Promise<boolean> {
    const isOne = await this.has(name);
    if (isOne) this.#asked.set(name, this.#now());
    const isFormer = !isOne && this.#now() - (this.#asked.get(name) ?? Number.NEGATIVE_INFINITY) < forgetMs;
    if (!isFormer || this.#connections.record(name)) return isOne;
    throw new CsiError("unavailable", `group "${name}" is not configured any more; restore it in the main file`);
  }

  /** The names of all groups. */
  async names(): Promise<readonly string[]> {
    return [...(await this.#configured()).keys()];
  }

  /** Whether a class that names `name` can lead to this connection: it is the connection, or a group with it. */
  async leads(name: string, connection: string): Promise<boolean> {
    if (name === connection) return true;
    return (await this.has(name)) && (await this.members(name)).includes(connection);
  }

  /** The names of its members, in the order of the group. Throws "failed-precondition" if the group no longer exists. */
  async members(name: string): Promise<readonly string[]> {
    return (await this.resolve(name)).members;
  }

  /** Like `members`, with the policy and the connections that may or may not match the group's selector. */
  async resolve(name: string): Promise<Members> {
    const group = (await this.#configured()).get(name);
    if (!group) throw new CsiError("failed-precondition", `group "${name}" is not configured; add it to the main file`);
    const { from, policy } = group;
    if (from.kind === "members") return { members: from.members, unknown: [], policy };
    const names = await this.#connections.names();
    const chosen = await mapLimit(names, filesAtOnce, async each => {
      const labels = await this.#connections.labels(each).catch(unknownLabels);
      return labels && selects(from.selector, labels);
    });
    const those = (wanted: boolean | undefined) => names.filter((_, index) => chosen[index] === wanted);
    return { members: those(true), unknown: those(undefined), policy };
  }
}

/** Labels that cannot be read, as a value. Rethrows any other error. */
function unknownLabels(error: unknown): undefined {
  if (!(error instanceof CsiError)) throw error;
}
