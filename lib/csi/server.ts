import { setTimeout as pause } from "node:timers/promises";
import type { DescService } from "@bufbuild/protobuf";
import type { ServiceImpl } from "@connectrpc/connect";
import { logVerbosity, Server, ServerCredentials, setLogVerbosity } from "@grpc/grpc-js";
import { CsiError } from "../core/errors.ts";
import { ActiveCalls } from "./context.ts";
import type { Endpoint } from "./endpoint.ts";
import { Http2Listener } from "./http2/http2-listener.ts";
import { mount } from "./mount.ts";
import { putSocketFile, type SocketFile } from "./socket-file.ts";

/**
 * Time in milliseconds for the last answers and the GOAWAY frame to be sent; only peers that do not react use it up.
 */
const farewellMs = 100;

/**
 * Shutdown starts after a quiet period, or after a grace period at the latest (milliseconds): calls that were already
 * under way when the socket file was removed are answered normally.
 */
const quietMs = 50;
const graceMs = 500;

/** How often each client is asked whether it is still there, and how long it has for its answer, in milliseconds. */
const usualPings = { everyMs: 300_000, withinMs: 60_000 };

/**
 * A gRPC server for Connect service objects, on Unix sockets and TCP.
 *
 * Lifecycle: `mount` every service, `listen`, `stop` once. Handler errors become a status and never end the process;
 * answers may have any size; requests above `maxRequestBytes` get RESOURCE_EXHAUSTED and the connection stays usable.
 */
export class GrpcServer {
  readonly #server: Server;
  readonly #calls = new ActiveCalls();
  readonly #listeners: Http2Listener[] = [];
  readonly #files: SocketFile[] = [];
  #stopped: Promise<{ cut: number }> | undefined;

  constructor(options: { readonly maxRequestBytes: number }, pings = usualPings) {
    // grpc-js writes plain text to stderr, and only about errors that it also returns.
    setLogVerbosity(logVerbosity.NONE);
    // channelz stays on: without it grpc-js does not keep the list of connections that forceShutdown closes.
    this.#server = new Server({
      "grpc.max_receive_message_length": options.maxRequestBytes,
      // Idle connections stay open, because sidecars end when theirs is closed (csi-lib-utils, ExitOnConnectionLoss).
      "grpc.keepalive_time_ms": pings.everyMs,
      "grpc.keepalive_timeout_ms": pings.withinMs,
    });
  }

  /** Adds a service; methods missing from the implementation answer UNIMPLEMENTED. */
  mount<S extends DescService>(service: S, implementation: Partial<ServiceImpl<S>>): void {
    mount(this.#server, service, implementation, this.#calls);
  }

  /** The number of calls with a running handler, streams included. */
  get inFlight(): number {
    return this.#calls.size;
  }

  /** Whether clients find all of its socket files, which others may remove while it listens. */
  get isThere(): boolean {
    return this.#files.every(file => file.isThere());
  }

  /**
   * Starts to listen and returns the address, with the real port if 0 was requested. `socketMode` is the permission of
   * a Unix socket file. Throws "failed-precondition" if the address cannot be used; the server is unusable afterwards.
   */
  async listen(endpoint: Endpoint, socketMode = 0o600): Promise<string> {
    try {
      if (endpoint.kind === "tcp") return `${endpoint.host}:${await this.#bindTcp(endpoint.host, endpoint.port)}`;
      await this.#bindUnix(endpoint.path, socketMode);
      return `unix:${endpoint.path}`;
    } catch (error) {
      this.#server.forceShutdown();
      for (const listener of this.#listeners) void listener.close();
      throw error;
    }
  }

  /**
   * Removes the socket files, answers the calls under way, refuses new ones, waits up to `limitMs` milliseconds for
   * running ones, aborts the signals of those left and closes all connections, even if the peer does not react. `cut`
   * is the number of calls still running at the limit. A second `stop` joins the first.
   */
  stop(limitMs: number): Promise<{ cut: number }> {
    this.#stopped ??= this.#stop(limitMs);
    return this.#stopped;
  }

  async #stop(limitMs: number): Promise<{ cut: number }> {
    for (const file of this.#files) file.release();
    await this.#lastCalls();
    this.#calls.close();
    // Calls back only when every peer has closed its connection, which a silent peer never does: hence the limits.
    const shutDown = new Promise<void>(resolve => this.#server.tryShutdown(() => resolve()));
    // Wait for both, because sessions count as closed before their last bytes are sent.
    const closed = Promise.all([shutDown, ...this.#listeners.map(listener => listener.close())]);
    await this.#calls.whenIdle(limitMs);
    const cut = this.#calls.size;
    this.#calls.abort(new CsiError("unavailable", "csimux is stopping"));
    await Promise.race([closed, pause(farewellMs)]);
    this.#server.forceShutdown();
    return { cut };
  }

  async #lastCalls(): Promise<void> {
    const from = performance.now();
    const quiet = () => Math.min(this.#calls.quietMs, performance.now() - from);
    while (quiet() < quietMs && performance.now() - from < graceMs) await pause(Math.max(1, quietMs - quiet()));
  }

  async #bindUnix(path: string, mode: number): Promise<void> {
    const injector = this.#server.createConnectionInjector(ServerCredentials.createInsecure());
    const listener = new Http2Listener(connection => injector.injectConnection(connection));
    this.#listeners.push(listener);
    this.#files.push(await putSocketFile(path, mode, own => listener.listen(own)));
  }

  #bindTcp(host: string, port: number): Promise<number> {
    const address = `${host}:${port}`;
    return new Promise((resolve, reject) => {
      this.#server.bindAsync(address, ServerCredentials.createInsecure(), (error, bound) => {
        if (error) reject(new CsiError("failed-precondition", `cannot listen on ${address}: ${error.message}`));
        else resolve(bound);
      });
    });
  }
}
