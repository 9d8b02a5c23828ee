import type { Capability, Segments } from "../core/access.ts";
import type { Call } from "../core/call.ts";
import { CsiError } from "../core/errors.ts";
import { RepeatedLines } from "../core/log.ts";
import { mapLimit } from "../core/semaphore.ts";
import type { Context } from "../drivers/driver.ts";
import type { RouterContext } from "./context.ts";
import { fingerprint } from "./jobs.ts";
import { evaluatePlacement } from "./placement.ts";
import { connectionsAtOnce } from "./storage-calls.ts";
import { checkKey } from "./storage-checks.ts";
import type { WhenUnavailable } from "./unusable.ts";

/** The answer for storage systems that cannot tell, so that capacity tracking does not exclude them: exact in every JSON reader. */
export const infiniteBytes = 9007199254740991n;

/** How long an answer about all connections is reused, in milliseconds. */
const reuseMs = 5_000;

/** The volume for which the capacity is requested (CSI GetCapacity). */
export interface CapacityRequest {
  readonly capabilities: readonly Capability[];
  readonly parameters: Context;
  /** The segment from which the volume must be reachable; undefined: anywhere. */
  readonly segment: Segments | undefined;
}

/** GetCapacity: the size in bytes of one new volume. */
export class Capacity {
  readonly #context: RouterContext;
  readonly #repeats = new RepeatedLines();
  /** Answers about all connections by their parameters; `at` is a time of performance.now(). */
  readonly #all = new Map<string, { readonly bytes: bigint; readonly at: number }>();

  constructor(context: RouterContext) {
    this.#context = context;
  }

  /**
   * Bytes for one new volume; `infiniteBytes` if the storage system cannot tell, 0 if no such volume can be created. Throws
   * "failed-precondition" for a class with an unknown connection.
   */
  async available(request: CapacityRequest, call: Call): Promise<bigint> {
    const { connections, groups, settings } = this.#context;
    const named = request.parameters["connection"] || settings().single;
    if (!named) return this.#anywhere(request, call);
    if (!(await groups.has(named))) return this.#on(named, request, call, "refuse");
    // One volume is on one member. The class names the group, so a member without a file is not a mistake in the class; a class
    // without any capacity would keep all its pods pending.
    const members = await groups.members(named);
    const { known, failures } = await this.#onEach(members, request, call, "retry");
    const [failure] = failures;
    if (known.length === 0 && failure) throw failure.error;
    // The log already has unreachable storage systems.
    for (const { name, error } of failures)
      if (!connections.record(name)?.outage)
        this.#log(call, `the capacity of group "${named}" is reported without a member: ${error.message}`, name);
    return largest(known);
  }

  /** Without a class: the largest connection that answers in time. Throws "unavailable" if there are some and none answers. */
  async #anywhere(request: CapacityRequest, call: Call): Promise<bigint> {
    const isPlain = request.segment === undefined && request.capabilities.length === 0;
    const key = fingerprint(request.parameters);
    for (const [other, { at }] of this.#all) if (performance.now() - at >= reuseMs) this.#all.delete(other);
    const earlier = isPlain ? this.#all.get(key) : undefined;
    if (earlier) return earlier.bytes;
    const { known, failures } = await this.#onEach(await this.#context.connections.names(), request, call, "refuse");
    const [failure] = failures;
    if (known.length === 0 && failure)
      throw new CsiError("unavailable", `no connection answers; ${failure.error.message}`, { cause: failure.error });
    const bytes = known.length === 0 ? infiniteBytes : largest(known);
    if (isPlain) this.#all.set(key, { bytes, at: performance.now() });
    return bytes;
  }

  async #onEach(names: readonly string[], request: CapacityRequest, call: Call, when: WhenUnavailable) {
    const answers = await mapLimit(names, connectionsAtOnce, name =>
      this.#on(name, request, call, when).catch((error: unknown) => {
        if (error instanceof CsiError) return { name, error };
        throw error;
      }),
    );
    return {
      known: answers.filter(answer => typeof answer === "bigint"),
      failures: answers.filter(answer => typeof answer === "object"),
    };
  }

  #on(name: string, request: CapacityRequest, call: Call, when: WhenUnavailable): Promise<bigint> {
    const { calls, connections, jobs, settings } = this.#context;
    const { capabilities, parameters, segment } = request;
    const isAnywhere = segment === undefined || Object.keys(segment).length === 0;
    const accessibility = { requisite: isAnywhere ? [] : [segment], preferred: [] };
    return connections.use(name, when, async connection => {
      const verdict = evaluatePlacement(connection, { capabilities, accessibility }, settings().policy);
      // csi-provisioner 6 asks the same again and again, because its queue tells equal items apart (pkg/capacity/capacity.go, QueueKey).
      const key = checkKey(`capacity for ${fingerprint(parameters)}`, connection);
      const free = (own: Call) => calls.freeSpace(connection, parameters, own);
      if (!(verdict instanceof CsiError)) return (await jobs.run(key, "", call, free)) ?? infiniteBytes;
      this.#log(call, `no capacity: ${verdict.message}; ${shownAs}`, `${name} ${verdict.code}`, segment);
      return 0n;
    });
  }

  /** Limits lines that would be repeated every minute for each class and segment, by `key`; the first segment represents all. */
  #log(call: Call, line: string, key: string, segment?: Segments): void {
    const times = this.#repeats.due(key);
    if (times !== undefined) call.log.info(line, { ...(segment && { segment }), ...(times > 0 && { times }) });
  }
}

/** What the scheduler says about pods without another option. */
const shownAs = 'for pods that can run nowhere else Kubernetes shows "did not have enough free storage"';

const largest = (values: readonly bigint[]): bigint => values.reduce((a, b) => (a > b ? a : b), 0n);
