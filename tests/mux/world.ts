import { CsiError } from "../../lib/core/errors.ts";
import type { Group } from "../../lib/core/proxy.ts";
import type { Connection } from "../../lib/mux/connection.ts";
import { Connections } from "../../lib/mux/connections.ts";
import type { CreateRequest, RouterSettings } from "../../lib/mux/context.ts";
import { openRouter } from "../../lib/mux/router.ts";
import type { ResponseTimes } from "../../lib/mux/storage-calls.ts";
import type { AccessibilityRequirements } from "../../lib/topology/accessible-topology.ts";
import { MemoryDriver, testCall } from "../fakes/memory-driver.ts";

/** The routing layer over storages in memory; a connection is there as long as its name is in `up`. */
export function muxWorld(
  names: readonly string[],
  patience: Partial<ResponseTimes> = { look: 50, capacity: 50 },
  health = { hold: 0, fresh: 0 },
  waitMs = 50,
) {
  const memories = new Map(names.map(name => [name, new MemoryDriver()]));
  const traits = new Map<string, Partial<Connection>>();
  const up = new Set(names);
  const broken = new Set<string>();
  const edits = new Map<string, number>();
  const groups = new Map<string, Group>();
  const settings: { -readonly [K in keyof RouterSettings]: RouterSettings[K] } = {
    policy: { match: "lenient", report: "all", honourPreferred: "off", prefix: "t.example" },
    legacyConnection: undefined,
    single: undefined,
    listing: "complete",
  };
  const open = (name: string, text: string): Connection => {
    const memory = memories.get(name);
    if (!memory || text.includes("wrong")) throw new CsiError("failed-precondition", "no such storage");
    const driver = memory.driver();
    const single = name === settings.single;
    const plain = { name, single, driverName: "memory", family: "memory", driver, access: driver.access };
    return { ...plain, accessibleTopology: [], labels: {}, suspended: false, retain: false, ...traits.get(name) };
  };
  const files = {
    names: async () => [...up].sort(),
    read: async (name: string) =>
      up.has(name) ? `text ${edits.get(name) ?? 0}${broken.has(name) ? " that is wrong" : ""}` : undefined,
    labels: async () => undefined,
  };
  const { log } = testCall();
  const clock = { ahead: 0 };
  const connections = new Connections(
    files,
    async () => open,
    () => settings,
    { kind: "none" },
    log,
    () => performance.now() + clock.ahead,
  );
  const mux = openRouter({
    ...{ connections, configured: async () => groups, settings: () => settings, log },
    ...{ times: patience, healthTimes: health, waitMs },
  });
  return {
    memories,
    traits,
    up,
    /** Names whose file cannot be used. */
    broken,
    /** The file of a connection is another one from now on. */
    edit: (name: string) => void edits.set(name, (edits.get(name) ?? 0) + 1),
    groups,
    settings,
    /** How many milliseconds have passed for connections besides the real ones. */
    clock,
    memory: (name: string): MemoryDriver => memories.get(name) ?? new MemoryDriver(),
    ...mux,
    /** A comparison of the groups, and then a check, which shows what it has found. */
    checkHealth: async (call: Parameters<typeof mux.checkHealth>[0]) => {
      await mux.askSkipped(call);
      await mux.checkHealth(call);
    },
    /** A check alone. */
    checkHealthOnly: mux.checkHealth,
  };
}

/** A plain request for a volume of a class. */
export const request = (name: string, connection: string, more: Partial<CreateRequest> = {}): CreateRequest => ({
  name,
  range: { required: 1n << 20n, limit: undefined },
  capabilities: [
    { kind: "mount", fsType: undefined, mountFlags: [], mountGroup: undefined, mode: "single-node-writer" },
  ],
  parameters: { connection },
  source: undefined,
  accessibility: { requisite: [], preferred: [] },
  mutable: {},
  ...more,
});

/** The failure of a call, or undefined; awaited with catch, because a matcher would hold up the event loop. */
export const failure = (call: Promise<unknown>): Promise<{ code: string; message: string } | undefined> =>
  call.then(
    () => undefined,
    (error: { code: string; message: string }) => error,
  );

/** A plain request for a snapshot of a volume. */
export const snapshotOf = (
  name: string,
  volume: string,
  demand: AccessibilityRequirements = { requisite: [], preferred: [] },
) => ({
  name,
  volume,
  parameters: {},
  accessibility: demand,
});

/** The code of the failure of a call, or undefined. */
export const codeOf = async (call: Promise<unknown>): Promise<string | undefined> => (await failure(call))?.code;
