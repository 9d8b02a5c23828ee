import { type Capability, firstUnmet, type Segments } from "../core/access.ts";
import type { Call } from "../core/call.ts";
import { CsiError } from "../core/errors.ts";
import { RepeatedLines } from "../core/log.ts";
import { mapLimit } from "../core/semaphore.ts";
import type { Context } from "../drivers/driver.ts";
import { isReachableFrom, type PlacementPolicy } from "../topology/accessible-topology.ts";
import type { Connection } from "./connection.ts";
import { fingerprint } from "./fingerprint.ts";
import type { FreeSpace } from "./free-space.ts";
import type { WhenUnavailable } from "./refusals.ts";
import type { RouterContext } from "./router-context.ts";

/** The answer for storage that cannot tell, so that capacity tracking does not exclude it: exact in every JSON reader. */
export const infiniteBytes = 9007199254740991n;

/** How long the answer over all connections is reused, in milliseconds. */
const reuseMs = 5_000;

/** How many connections are asked at the same time. */
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
  readonly #common: RouterContext;
  readonly #space: FreeSpace;
  readonly #repeats = new RepeatedLines();
  /** Answers over all connections by the parameters that they were given for; `at` is a time of performance.now(). */
  readonly #all = new Map<string, { readonly bytes: bigint; readonly at: number }>();

  constructor(common: RouterContext, space: FreeSpace) {
    this.#common = common;
    this.#space = space;
  }

  /** Bytes for one new volume; `infiniteBytes` where storage cannot tell, 0 where no such volume can be made. Throws "invalid-argument" for an unknown class. */
  async available(request: CapacityRequest, call: Call): Promise<bigint> {
    const wanted = request.parameters["connection"] || this.#common.settings().single;
    if (!wanted) return this.#anywhere(request, call);
    if (!(await this.#common.groups.has(wanted))) return this.#on(wanted, request, call);
    // One volume lives in one place, so a group can take what its largest member can. The class named the group, so a member
    // whose file is away is no mistake of the class; a class without any capacity would keep all its pods pending.
    const members = await this.#common.groups.members(wanted);
    const answers = await mapLimit(members, width, member => this.#on(member, request, call, "retry").catch(expected));
    const known = answers.filter(answer => typeof answer === "bigint");
    const failure = answers.find(answer => answer instanceof CsiError);
    if (known.length === 0 && failure) throw failure;
    for (const [index, answer] of answers.entries()) {
      // The log has said already of which storages nothing is to be had.
      const isTold = this.#common.breakers.of(members[index] ?? "") !== undefined;
      if (answer instanceof CsiError && !isTold)
        this.#tell(call, `the capacity of group "${wanted}" is told without a member: ${answer.message}`);
    }
    return largest(known);
  }

  /** No class given: the largest connection that answers in time. Throws "unavailable" when there are some and none answers. */
  async #anywhere(request: CapacityRequest, call: Call): Promise<bigint> {
    const plain = request.segment === undefined && request.capabilities.length === 0;
    const key = fingerprint(request.parameters);
    const now = performance.now();
    for (const [other, { at }] of this.#all) if (now - at >= reuseMs) this.#all.delete(other);
    const earlier = plain ? this.#all.get(key) : undefined;
    if (earlier) return earlier.bytes;
    const answers = await mapLimit(await this.#common.connections.names(), width, name =>
      this.#on(name, request, call).catch(expected),
    );
    const known = answers.filter(answer => typeof answer === "bigint");
    const failure = answers.find(answer => answer instanceof CsiError);
    if (known.length === 0 && failure)
      throw new CsiError("unavailable", `no connection answers; ${failure.message}`, { cause: failure });
    const bytes = known.length === 0 ? infiniteBytes : largest(known);
    if (plain) this.#all.set(key, { bytes, at: performance.now() });
    return bytes;
  }

  /** One line for what is asked again every minute, for each class and place; the first place stands for all. */
  #tell(call: Call, line: string, segment?: Segments): void {
    const times = this.#repeats.due(line);
    if (times !== undefined) call.log.info(line, { ...(segment && { segment }), ...(times > 0 && { times }) });
  }

  #on(name: string, request: CapacityRequest, call: Call, then: WhenUnavailable = "refuse"): Promise<bigint> {
    return this.#common.connections.use(name, then, async connection => {
      const reason = unusable(connection, request, this.#common.settings().policy);
      if (reason !== undefined) {
        this.#tell(call, `connection "${name}" tells no capacity: ${reason}; ${shownAs}`, request.segment);
        return 0n;
      }
      return (await this.#space.on(connection, request.parameters, call)) ?? infiniteBytes;
    });
  }
}

/** What the scheduler says of pods for which nothing else is left. */
const shownAs = 'for pods that can run nowhere else Kubernetes shows "did not have enough free storage"';

/** Why no volume of this kind can be made here and reached from there; undefined when it can. */
function unusable(
  connection: Connection,
  { capabilities, segment }: CapacityRequest,
  policy: PlacementPolicy,
): string | undefined {
  if (connection.suspended) return "it is suspended";
  const unmet = firstUnmet(connection.access, capabilities);
  if (unmet !== undefined) return unmet;
  return segment === undefined || isReachableFrom(connection.accessibleTopology, segment, policy)
    ? undefined
    : "it cannot be reached from the place that was asked for";
}

/** A failure as a value. Throws what nobody threw on purpose. */
function expected(error: unknown): CsiError {
  if (error instanceof CsiError) return error;
  throw error;
}

const largest = (values: readonly bigint[]): bigint => values.reduce((a, b) => (a > b ? a : b), 0n);
