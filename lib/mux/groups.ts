import { CsiError } from "../core/errors.ts";
import { type Group, selects } from "../core/proxy.ts";
import { mapLimit } from "../core/semaphore.ts";
import type { Connections } from "./connections.ts";

/** How many files are read at the same time. */
const width = 64;

/** The groups that are configured now. */
export type ConfiguredGroups = () => Promise<ReadonlyMap<string, Group>>;

/** The connections of a group. */
export interface Members {
  readonly members: readonly string[];
  /** Connections whose labels cannot be read; no volume is made on them. */
  readonly unknown: readonly string[];
}

/** Which connections stand behind a name that a class may use. */
export class Groups {
  readonly #connections: Connections;
  readonly #configured: ConfiguredGroups;

  constructor(connections: Connections, configured: ConfiguredGroups) {
    this.#connections = connections;
    this.#configured = configured;
  }

  /** Whether a group of this name is configured now. */
  async has(name: string): Promise<boolean> {
    return (await this.#configured()).has(name);
  }

  /** Names of all groups that are configured now. */
  async names(): Promise<readonly string[]> {
    return [...(await this.#configured()).keys()];
  }

  /** Whether a class that names `name` can lead to this connection: it is the connection, or a group that has it. */
  async leads(name: string, connection: string): Promise<boolean> {
    if (name === connection) return true;
    return (await this.has(name)) && (await this.members(name)).includes(connection);
  }

  /** How a member is chosen. Throws "failed-precondition" when there is no such group any more. */
  async policy(name: string): Promise<Group["policy"]> {
    return (await this.#group(name)).policy;
  }

  /** Names of the members now, in the order of the group. Throws "failed-precondition" when there is no such group any more. */
  async members(name: string): Promise<readonly string[]> {
    return (await this.resolve(name)).members;
  }

  /** As `members`, and the connections of which nothing can tell whether the group's selector chooses them. */
  async resolve(name: string): Promise<Members> {
    const { from } = await this.#group(name);
    if (from.kind === "members") return { members: from.members, unknown: [] };
    const names = await this.#connections.names();
    const labels = await mapLimit(names, width, each => this.#connections.labels(each).catch(untold));
    const chosen = names.map((_, index) => {
      const own = labels[index];
      return own === undefined ? undefined : selects(from.selector, own);
    });
    const those = (wanted: boolean | undefined) => names.filter((_, index) => chosen[index] === wanted);
    return { members: those(true), unknown: those(undefined) };
  }

  async #group(name: string): Promise<Group> {
    const group = (await this.#configured()).get(name);
    if (group) return group;
    throw new CsiError("failed-precondition", `group "${name}" is not configured; add it to the main file`);
  }
}

/** Labels that cannot be read, as a value. Rethrows a defect. */
function untold(error: unknown): undefined {
  if (!(error instanceof CsiError)) throw error;
}
