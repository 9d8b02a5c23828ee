import { type Capability, firstUnmet } from "../core/access.ts";
import type { Call } from "../core/call.ts";
import { CsiError } from "../core/errors.ts";
import type { Segments } from "../core/topology.ts";
import type { Context } from "../drivers/driver.ts";
import { type PlacementPolicy, reaches } from "../topology/place.ts";
import type { Connection } from "./connection.ts";
import type { Connections } from "./connections.ts";
import type { Groups } from "./groups.ts";
import { Patience } from "./patience.ts";
import type { MuxSettings } from "./placed.ts";
import type { Origin } from "./refusals.ts";

/** The answer for storage that cannot tell, so that capacity tracking does not exclude it: exact in every JSON reader. */
export const infiniteBytes = 9007199254740991n;

/** How long the answer over all connections is reused, and how long one connection may take for its own, in milliseconds. */
const reuseMs = 5_000;
const patienceMs = 5_000;
const width = 16;

/** Which volume the capacity is asked for (CSI GetCapacity). */
export interface CapacityRequest {
  readonly capabilities: readonly Capability[];
  readonly parameters: Context;
  /** The segment that the volume must be reachable from; undefined for anywhere. */
  readonly segment: Segments | undefined;
}

/** GetCapacity: bytes that one new volume can take. */
export class Capacity {
  readonly #connections: Connections;
  readonly #groups: Groups;
  readonly #settings: () => MuxSettings;
  readonly #patience: Patience;
  #all: { readonly bytes: bigint; readonly at: number } | undefined;

  constructor(
    connections: Connections,
    groups: Groups,
    settings: () => MuxSettings,
    patience: Patience = new Patience(patienceMs),
  ) {
    this.#connections = connections;
    this.#groups = groups;
    this.#settings = settings;
    this.#patience = patience;
  }

  /** Bytes for one new volume; `infiniteBytes` where storage cannot tell, 0 where no such volume can be made. Throws "invalid-argument" for an unknown class. */
  async available(request: CapacityRequest, call: Call): Promise<bigint> {
    const wanted = request.parameters["connection"];
    if (!wanted) return this.#anywhere(request, call);
    if (!(await this.#groups.has(wanted))) return this.#on(wanted, request, call);
    // One volume lives in one place, so a group can take what its largest member can.
    // The class named the group, so a member whose file is away is no mistake of the class.
    return largest(await each(await this.#groups.members(wanted), member => this.#on(member, request, call, "handle")));
  }

  /** No class given: the largest connection that answers in time. Throws "unavailable" when there are some and none answers. */
  async #anywhere(request: CapacityRequest, call: Call): Promise<bigint> {
    const plain = request.segment === undefined && request.capabilities.length === 0;
    if (plain && this.#all && Date.now() - this.#all.at < reuseMs) return this.#all.bytes;
    const answers = await each(await this.#connections.names(), name => this.#on(name, request, call).catch(expected));
    const known = answers.filter(answer => typeof answer === "bigint");
    const failure = answers.find(answer => answer instanceof CsiError);
    if (known.length === 0 && failure)
      throw new CsiError("unavailable", `no connection answers; ${failure.message}`, { cause: failure });
    const bytes = known.length === 0 ? infiniteBytes : largest(known);
    if (plain) this.#all = { bytes, at: Date.now() };
    return bytes;
  }

  #on(name: string, request: CapacityRequest, call: Call, origin: Origin = "class"): Promise<bigint> {
    return this.#connections.use(name, origin, async connection => {
      if (!usable(connection, request, this.#settings().policy)) return 0n;
      const { capacity } = connection.driver;
      if (!capacity) return infiniteBytes;
      try {
        return await this.#patience.ask(connection, () => capacity.available(request.parameters, call));
      } catch (error) {
        if (error instanceof CsiError && error.code === "unimplemented") return infiniteBytes;
        throw error;
      }
    });
  }
}

/** Whether a volume of this kind could be made here and reached from there. */
const usable = (connection: Connection, { capabilities, segment }: CapacityRequest, policy: PlacementPolicy): boolean =>
  !connection.suspended &&
  firstUnmet(connection.access, capabilities) === undefined &&
  (segment === undefined || reaches(connection.places, segment, policy));

/** A failure as a value. Throws what nobody threw on purpose. */
function expected(error: unknown): CsiError {
  if (error instanceof CsiError) return error;
  throw error;
}

const largest = (values: readonly bigint[]): bigint => values.reduce((a, b) => (a > b ? a : b), 0n);

async function each<T>(names: readonly string[], work: (name: string) => Promise<T>): Promise<readonly T[]> {
  const results: T[] = [];
  for (let from = 0; from < names.length; from += width) {
    results.push(...(await Promise.all(names.slice(from, from + width).map(work))));
  }
  return results;
}
