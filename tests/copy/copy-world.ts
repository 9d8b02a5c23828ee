import type { CopyByStream } from "../../lib/copies/copy-work.ts";
import { type CopyTimes, usualTimes } from "../../lib/copies/lease.ts";
import { openCopies } from "../../lib/copies/open.ts";
import { CsiError, isFinal } from "../../lib/core/errors.ts";
import { type CopySettings, type Group, usualCopies } from "../../lib/core/proxy.ts";
import type { Driver } from "../../lib/drivers/driver.ts";
import type { Connection } from "../../lib/mux/connection.ts";
import { Connections } from "../../lib/mux/connections.ts";
import type { CreateRequest } from "../../lib/mux/context.ts";
import { openRouter } from "../../lib/mux/router.ts";
import { testCall } from "../fakes/memory-driver.ts";
import { failure, request } from "../mux/world.ts";
import { pause } from "../waiting.ts";

/** Short times, so that no test waits; only the lease of a process that stands still for a moment is not lost. */
export const quick: CopyTimes = {
  ...usualTimes,
  heartbeat: 20,
  leaseTimeout: 5_000,
  takeoverAfter: 60,
  verifyDelay: 1,
  slowClaimDelay: 1,
  firstPause: 1,
  longestPause: 5,
  turn: 60_000,
  answerWithin: 30,
};

/** What a process is opened on. */
export interface CopyWorldParts {
  /** Drivers by the name of their connection. */
  readonly drivers: ReadonlyMap<string, () => Driver>;
  readonly traits?: Readonly<Record<string, Partial<Connection>>>;
  readonly settings?: Partial<CopySettings>;
  readonly times?: Partial<CopyTimes>;
  readonly groups?: ReadonlyMap<string, Group>;
  readonly stream?: CopyByStream;
  /** The id that it takes over from an earlier process. */
  readonly lockedId?: string;
  /** The connection of ids without a prefix. */
  readonly legacyConnection?: string;
  /** The time limit of a listing, in milliseconds. */
  readonly look?: number;
}

const noStream: CopyByStream = async () => {
  throw new CsiError("invalid-argument", "there are no streams here");
};

/** One process of csimux over these storages: its router with copies. Opening it again is another process. */
export function copyProcess({
  drivers,
  traits = {},
  settings = {},
  times = {},
  groups,
  stream = noStream,
  legacyConnection,
  look = 5_000,
  lockedId,
}: CopyWorldParts) {
  const { log } = testCall();
  const present = { ...usualCopies, ...settings };
  const open = (name: string): Connection => {
    const driver = drivers.get(name)?.();
    if (!driver) throw new CsiError("failed-precondition", "no such storage");
    const facts = { driverName: "memory", family: "memory", accessibleTopology: [], labels: {}, suspended: false };
    return { name, ...facts, retain: false, driver, access: driver.access, ...traits[name] };
  };
  const files = {
    names: async () => [...drivers.keys()].sort(),
    // A test that changes the traits of a connection has changed its file.
    read: async (name: string) => (drivers.has(name) ? JSON.stringify(traits[name] ?? {}) : undefined),
    labels: async () => undefined,
  };
  const connections = new Connections(
    files,
    async () => open,
    () => files,
    { kind: "forever" },
    log,
  );
  const copying = { stream, settings: () => present, log, lockedId: async () => lockedId };
  const router = openRouter({
    connections,
    configured: async () => groups ?? new Map(),
    settings: () => ({
      policy: { match: "lenient", report: "all", honourPreferred: "off", prefix: "t.example" },
      ...{ legacyConnection, single: undefined, listing: "complete" },
    }),
    log,
    times: { look, capacity: 5_000 },
    healthTimes: { hold: 0, fresh: 0 },
    openCopies: openCopies({ ...copying, times: { ...quick, ...times } }),
  });
  const { copies } = router;
  if (!copies) throw new Error("it copies");
  return { ...router, copies, connections };
}

/** A process of csimux with copies. */
export type CopyProcess = ReturnType<typeof copyProcess>;

/** A request for a copy. */
export const copyRequest = (
  name: string,
  connection: string,
  source: string,
  more: Partial<CreateRequest> = {},
): CreateRequest =>
  request(name, connection, {
    source: { kind: source.startsWith("s:") ? "snapshot" : "volume", id: source },
    ...more,
  });

/** What callers do: asks until the answer is final. Throws the final error, and when it takes too long. */
export async function asked<T>(work: () => Promise<T>, limitMs = 60_000): Promise<T> {
  const end = performance.now() + limitMs;
  for (;;) {
    try {
      return await work();
    } catch (error) {
      if (!(error instanceof CsiError) || isFinal(error) || performance.now() > end) throw error;
      await pause(2);
    }
  }
}

/** Asks until the answer says this; throws after a time. */
export const untilSaid = (work: () => Promise<unknown>, text: string): Promise<void> =>
  until(async () => (await failure(work()))?.message.includes(text) ?? false);

/** Waits until something holds; throws after a time. */
export async function until(holds: () => boolean | Promise<boolean>, limitMs = 60_000): Promise<void> {
  const end = performance.now() + limitMs;
  while (!(await holds())) {
    if (performance.now() > end) throw new Error("it does not become true");
    await pause(2);
  }
}
