import { join } from "node:path";
import type { DescMethodUnary, MessageInitShape, MessageShape } from "@bufbuild/protobuf";
import {
  type Controller,
  Controller as ControllerService,
  Identity,
  type Node,
  Node as NodeService,
} from "../../lib/csi/gen/csi/v1/csi_pb.ts";
import { build } from "../../scripts/build.ts";
import { below } from "../../scripts/check/below.ts";
import { type CsiClient, csiClient, mountCapability } from "../../scripts/client.ts";
import { type Daemon, startDaemon } from "../../scripts/daemon.ts";
import { makeSandbox, type Sandbox, type Topology } from "../../scripts/sandbox.ts";
import { pause } from "../waiting.ts";

/** Status numbers of gRPC that the tests name. */
export const status = {
  invalidArgument: 3,
  deadlineExceeded: 4,
  notFound: 5,
  alreadyExists: 6,
  resourceExhausted: 8,
  failedPrecondition: 9,
  aborted: 10,
  outOfRange: 11,
  internal: 13,
  unavailable: 14,
} as const;

export const mebibytes = (count: number): { requiredBytes: bigint } => ({ requiredBytes: BigInt(count) << 20n });

type ControllerMethods = typeof Controller.method;
type NodeMethods = typeof Node.method;

/** The folders that a directory driver keeps once they are there. */
const staying: ReadonlySet<string> = new Set([
  "v",
  "s",
  ".csimux",
  ".csimux/work",
  ".csimux/copies",
  ".csimux/moments",
]);

/** Every path below a base folder, except the folders that stay there. */
export const leftBelow = async (base: string): Promise<readonly string[]> =>
  below(base).filter(path => !staying.has(path));

/** A compiled csimux on a sandbox of its own, and a client. `restart` gives the same sandbox to a new process. */
export class World {
  readonly sandbox: Sandbox;
  daemon: Daemon;
  client: CsiClient;
  private readonly start: () => Promise<Daemon>;

  private constructor(sandbox: Sandbox, start: () => Promise<Daemon>, daemon: Daemon) {
    this.sandbox = sandbox;
    this.start = start;
    this.daemon = daemon;
    this.client = csiClient(sandbox.socket);
  }

  /** A csimux that `start` starts on a sandbox; the sandbox is removed when it does not start, and with the world. */
  static async on(sandbox: Sandbox, start: () => Promise<Daemon>): Promise<World> {
    try {
      return new World(sandbox, start, await start());
    } catch (error) {
      await sandbox.remove();
      throw error;
    }
  }

  static async start(
    topology: Topology = "off",
    names?: readonly string[],
    prepare?: (sandbox: Sandbox) => Promise<void>,
  ): Promise<World> {
    const sandbox = await makeSandbox(topology, names);
    try {
      await prepare?.(sandbox);
    } catch (error) {
      await sandbox.remove();
      throw error;
    }
    return World.on(sandbox, () => spawn(sandbox));
  }

  async restart(): Promise<void> {
    this.client.close();
    this.daemon = await this.start();
    this.client = csiClient(this.sandbox.socket);
  }

  /** Ends everything; answers what was left mounted. */
  async end(): Promise<readonly string[]> {
    this.client.close();
    await this.daemon.stop();
    return this.sandbox.remove();
  }

  base(name: string): string {
    return join(this.sandbox.folder, "storage", name);
  }

  /** Every path below the base folder of a connection, except the folders that stay there. */
  stored(name: string): Promise<readonly string[]> {
    return leftBelow(this.base(name));
  }

  controller<K extends keyof ControllerMethods>(
    method: K,
    request: MessageInitShape<ControllerMethods[K]["input"]>,
    timeoutMs?: number,
  ): Promise<MessageShape<ControllerMethods[K]["output"]>> {
    return this.client.call(ControllerService.method[method] as DescMethodUnary, request as never, timeoutMs) as never;
  }

  node<K extends keyof NodeMethods>(
    method: K,
    request: MessageInitShape<NodeMethods[K]["input"]>,
    timeoutMs?: number,
  ): Promise<MessageShape<NodeMethods[K]["output"]>> {
    return this.client.call(NodeService.method[method] as DescMethodUnary, request as never, timeoutMs) as never;
  }

  probe() {
    return this.client.call(Identity.method.probe, {});
  }

  create(
    name: string,
    connection = "one",
    more: MessageInitShape<ControllerMethods["createVolume"]["input"]> = {},
    timeoutMs?: number,
  ) {
    return this.controller(
      "createVolume",
      {
        name,
        volumeCapabilities: [mountCapability],
        capacityRange: mebibytes(1),
        parameters: { connection },
        ...more,
      } as never,
      timeoutMs,
    );
  }
}

const spawn = async (sandbox: Sandbox): Promise<Daemon> => startDaemon({ command: [await build()], sandbox });

/** The gRPC status that a call failed with; "ok" when it did not. */
export async function codeOf(call: Promise<unknown>): Promise<number | "ok"> {
  try {
    await call;
    return "ok";
  } catch (error) {
    return (error as { code: number }).code;
  }
}

/** The failure of a call; throws when there is none. */
export async function failureOf(call: Promise<unknown>): Promise<{ readonly code: number; readonly details: string }> {
  try {
    await call;
  } catch (error) {
    return error as { code: number; details: string };
  }
  throw new Error("the call did not fail");
}

/** Repeats a call as a sidecar does until it succeeds or fails for good; `limitMs` milliseconds at most. */
export async function untilDone<T>(attempt: () => Promise<T>, limitMs = 60_000): Promise<T> {
  const pending: readonly number[] = [1, status.deadlineExceeded, status.aborted, status.unavailable];
  const until = Date.now() + limitMs;
  for (;;) {
    try {
      return await attempt();
    } catch (error) {
      if (!pending.includes((error as { code: number }).code) || Date.now() > until) throw error;
      await pause(20);
    }
  }
}
