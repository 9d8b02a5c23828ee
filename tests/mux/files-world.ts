import { CsiError } from "../../lib/core/errors.ts";
import type { CacheTimeout } from "../../lib/core/proxy.ts";
import type { Connection } from "../../lib/mux/connection.ts";
import { Connections } from "../../lib/mux/connections.ts";
import { MemoryDriver, testCall } from "../fakes/memory-driver.ts";

/** Files in a Map; a text "bad…" cannot be opened, "unreadable" cannot even be read, a text "family:x…" is of family x. */
export function filesWorld(timeout: CacheTimeout = { kind: "forever" }) {
  const files = new Map<string, string>();
  const clock = { now: 0 };
  const reads: { gate: Promise<void> } = { gate: Promise.resolve() };
  const hung = new Set<string>();
  const opened: { text: string; memory: MemoryDriver }[] = [];
  const warnings: string[] = [];
  const open = (name: string, text: string): Connection => {
    if (text.startsWith("bad")) throw new CsiError("failed-precondition", `line 1: ${text}`);
    const memory = new MemoryDriver();
    opened.push({ text, memory });
    const family = /^family:(\w+)/.exec(text)?.[1] ?? "memory";
    const driver = memory.driver();
    return {
      name,
      driverName: family,
      family,
      driver,
      access: driver.access,
      accessibleTopology: [],
      labels: {},
      suspended: false,
      retain: false,
    };
  };
  const said: string[] = [];
  const info = (message: string) => void said.push(message);
  const warn = (message: string, fields?: object) => {
    warnings.push(message);
    const { reason } = (fields ?? {}) as { reason?: string };
    said.push(reason === undefined ? message : `${message}: ${reason}`);
  };
  const log = { ...testCall().log, info, warn };
  const defaults = {};
  const source = {
    names: async () => [...files.keys()].sort(),
    read: async (name: string) => {
      if (hung.has(name)) await new Promise(() => undefined);
      const text = files.get(name);
      await reads.gate;
      if (text === "unreadable") throw new CsiError("failed-precondition", "EIO");
      return text;
    },
    labels: async () => undefined,
  };
  return {
    files,
    /** Names whose file is never read to its end. */
    hung,
    opened,
    warnings,
    said,
    clock,
    /** Reads that have the text already do not end before. */
    reads,
    connections: new Connections(
      source,
      async () => open,
      () => defaults,
      timeout,
      log,
      () => clock.now,
    ),
  };
}

/** In milliseconds. */
export const hour = 3_600_000;
/** Returns the name of a connection. */
export const nameOf = async (connection: Connection) => connection.name;
