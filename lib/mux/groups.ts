import { CsiError } from "../core/errors.ts";
import type { Group } from "../core/group.ts";
import { mapLimit } from "../core/map-limit.ts";
import { selects } from "../core/selector.ts";
import type { Connections } from "./connections.ts";

/** How many files are read at the same time. */
const width = 64;

/** The groups that are configured now. */
export type ConfiguredGroups = () => Promise<ReadonlyMap<string, Group>>;

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
    const { from } = await this.#group(name);
    if (from.kind === "members") return from.members;
    const names = await this.#connections.names();
    const labels = await mapLimit(names, width, name => this.#connections.labels(name));
    return names.filter((_, index) => selects(from.selector, labels[index] ?? {}));
  }

  async #group(name: string): Promise<Group> {
    const group = (await this.#configured()).get(name);
    if (group) return group;
    throw new CsiError("failed-precondition", `group "${name}" is not configured; add it to the main file`);
  }
}
