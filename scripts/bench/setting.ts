import { type CsiClient, csiClient } from "../client.ts";
import { type Daemon, startDaemon } from "../daemon.ts";
import { makeSandbox, type Sandbox } from "../sandbox.ts";

/** How much of everything a run does. */
export interface Scale {
  readonly spawns: number;
  readonly idleMs: number;
  readonly probes: number;
  readonly probeRuns: number;
  readonly soakCalls: number;
  readonly pairs: number;
  /** Pairs until the engine has compiled what runs often. */
  readonly morePairs: number;
  readonly cycles: number;
  /** Operations of each kind on a storage system behind an API. */
  readonly remote: number;
  readonly connections: number;
  readonly restMs: number;
  readonly silenceMs: number;
}

/** The run that the figures of the peer were taken with. */
export const full: Scale = {
  spawns: 11,
  idleMs: 2000,
  probes: 10_000,
  probeRuns: 7,
  soakCalls: 100_000,
  pairs: 300,
  morePairs: 2000,
  cycles: 40,
  remote: 100,
  connections: 1000,
  restMs: 10_000,
  silenceMs: 65_000,
};

/** The same in about a minute; good for a look, not for a record. */
export const quick: Scale = {
  spawns: 5,
  idleMs: 500,
  probes: 3000,
  probeRuns: 3,
  soakCalls: 20_000,
  pairs: 100,
  morePairs: 300,
  cycles: 16,
  remote: 20,
  connections: 200,
  restMs: 5000,
  silenceMs: 3000,
};

/** A server of its own with a client on it. */
export interface Setting {
  readonly daemon: Daemon;
  readonly sandbox: Sandbox;
  readonly client: CsiClient;
}

/** What is started, with which connections, and variables for it. */
export interface SettingOptions {
  readonly executable: string;
  readonly connections?: readonly string[];
  readonly env?: Readonly<Record<string, string>>;
  /** Adds to the sandbox before the start. */
  readonly prepare?: (sandbox: Sandbox) => Promise<void>;
}

/** Starts a server with zone topology, gives it to `work`, and clears everything away whatever happens. */
export async function inSetting<T>(options: SettingOptions, work: (setting: Setting) => Promise<T>): Promise<T> {
  const sandbox = await makeSandbox("zone", options.connections);
  try {
    const { executable, env, prepare } = options;
    await prepare?.(sandbox);
    const daemon = await startDaemon({ command: [executable], sandbox, ...(env && { env }) });
    const client = csiClient(sandbox.socket);
    try {
      return await work({ daemon, sandbox, client });
    } finally {
      client.close();
      await daemon.stop();
    }
  } finally {
    await sandbox.remove();
  }
}
