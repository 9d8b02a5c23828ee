import { setTimeout as pause } from "node:timers/promises";
import type { DescService } from "@bufbuild/protobuf";
import type { ServiceImpl } from "@connectrpc/connect";
import { logVerbosity, Server, ServerCredentials, setLogVerbosity } from "@grpc/grpc-js";
import { CsiError } from "../core/errors.ts";
import { ActiveCalls } from "./active-calls.ts";
import { Doorway } from "./doorway.ts";
import type { Endpoint } from "./endpoint.ts";
import { mount } from "./mount.ts";
import { placeSocket, type SocketFile } from "./socket-file.ts";

/** Time in milliseconds for last answers and the GOAWAY frame to leave; only peers that do not react use it up. */
const farewellMs = 100;

/**
 * A stop begins when for so many milliseconds no call has come, or after the longer time: calls that were on their way when the
 * socket went are answered like any other.
 */
const quietMs = 50;
const graceMs = 500;

/**
 * A gRPC server for Connect service objects, on Unix sockets and TCP.
 *
 * Life: `mount` every service, `listen`, `stop` once. Errors of handlers become a status and never end the process;
 * answers may be of any size, requests above `maxRequestBytes` get RESOURCE_EXHAUSTED and the connection stays usable.
 */
export class GrpcServer {
  readonly #server: Server;
  readonly #calls = new ActiveCalls();
  readonly #doorways: Doorway[] = [];
  readonly #files: SocketFile[] = [];
  #stopped: Promise<{ cut: number }> | undefined;

  constructor(options: { readonly maxRequestBytes: number }) {
    // grpc-js writes plain lines to stderr, and only about errors that it also returns.
    setLogVerbosity(logVerbosity.NONE);
    // channelz stays on: without it grpc-js does not keep the list of connections that forceShutdown closes.
    this.#server = new Server({ "grpc.max_receive_message_length": options.maxRequestBytes });
  }

  /** Adds a service; methods that the implementation lacks answer UNIMPLEMENTED. */
  mount<S extends DescService>(service: S, implementation: Partial<ServiceImpl<S>>): void {
    mount(this.#server, service, implementation, this.#calls);
  }

  /** Number of calls whose handlers are running, streams included. */
  get inFlight(): number {
    return this.#calls.size;
  }

  /**
   * Starts to listen and returns the address, with the real port where 0 was asked for. `socketMode` is the permission of
   * a Unix socket file. Throws "failed-precondition" when the address cannot be used; the server is of no use then.
   */
  async listen(endpoint: Endpoint, socketMode = 0o600): Promise<string> {
    try {
      if (endpoint.kind === "tcp") return `${endpoint.host}:${await this.#bindTcp(endpoint.host, endpoint.port)}`;
      await this.#bindUnix(endpoint.path, socketMode);
      return `unix:${endpoint.path}`;
    } catch (error) {
      this.#server.forceShutdown();
      for (const doorway of this.#doorways) void doorway.close();
      throw error;
    }
  }

  /**
   * Stops: removes the socket files, answers the calls that are on their way, then takes no more, waits up to `limitMs`
   * milliseconds for running ones, aborts the signals of those left and closes all connections (also of peers that do not react).
   * `cut` is how many calls were still running at the limit. A second call joins the first.
   */
  stop(limitMs: number): Promise<{ cut: number }> {
    this.#stopped ??= this.#stop(limitMs);
    return this.#stopped;
  }

  async #stop(limitMs: number): Promise<{ cut: number }> {
    for (const file of this.#files) file.release();
    await this.#lastCalls();
    this.#calls.close();
    // Calls back only when every peer has closed its connection, which a mute one never does: hence the limits.
    const shutDown = new Promise<void>(resolve => this.#server.tryShutdown(() => resolve()));
    // Both, because sessions count as closed before their last bytes have left.
    const closed = Promise.all([shutDown, ...this.#doorways.map(doorway => doorway.close())]);
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
    const doorway = new Doorway(connection => injector.injectConnection(connection));
    this.#doorways.push(doorway);
    this.#files.push(await placeSocket(path, mode, own => doorway.listen(own)));
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
