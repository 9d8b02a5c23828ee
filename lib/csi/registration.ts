import type { ServiceImpl } from "@connectrpc/connect";
import type { Log } from "../core/call.ts";
import { messageOf } from "../core/errors.ts";
import { Registration as Service } from "./gen/pluginregistration/v1/registration_pb.ts";
import { GrpcServer } from "./server.ts";

/** kubelet accepts a driver by its major CSI version (kubelet, csi_plugin.go). */
const versions = ["1.0.0"];

/**
 * The pause before the next registration after kubelet rejected one, in milliseconds: it doubles with each rejection.
 */
const usualPause = { first: 1_000, most: 60_000 } as const;

const maxRequestBytes = 1 << 20;

/** The driver to register and its sockets. */
export interface RegistrationSettings {
  /** The driver's name. */
  readonly name: string;
  /** Path of the registration socket, in the folder that kubelet watches (plugins_registry). */
  readonly socket: string;
  /** Path of the CSI socket as kubelet sees it: a path of the host. */
  readonly csiSocket: string;
  readonly pause?: { readonly first: number; readonly most: number };
}

/**
 * Registers the driver with kubelet's plugin watcher. kubelet reads a registration socket once, when it appears: after
 * a rejection, for example because the node does not know its topology yet, the socket is removed and created again.
 */
export class Registration {
  readonly #settings: RegistrationSettings;
  readonly #log: Log;
  #server: GrpcServer | undefined;
  #timer: ReturnType<typeof setTimeout> | undefined;
  #refusals = 0;
  #registered = false;
  #ended = false;

  constructor(settings: RegistrationSettings, log: Log) {
    this.#settings = settings;
    this.#log = log;
  }

  /** Whether kubelet has accepted the driver. */
  get registered(): boolean {
    return this.#registered;
  }

  /**
   * Whether its socket was removed, as by emptying kubelet's folder: kubelet then has no such driver, and does not tell csimux. Never true
   * while the socket is about to be created again.
   */
  get isLost(): boolean {
    return this.#server?.isThere === false;
  }

  /** Creates the socket. Throws "failed-precondition" if it cannot be created. */
  async begin(): Promise<void> {
    const server = new GrpcServer({ maxRequestBytes });
    server.mount(Service, this.#service());
    await server.listen({ kind: "unix", path: this.#settings.socket });
    this.#server = server;
  }

  /** Removes the socket, which makes kubelet deregister the driver. */
  async end(): Promise<void> {
    this.#ended = true;
    this.#registered = false;
    clearTimeout(this.#timer);
    await this.#close();
  }

  async #close(): Promise<void> {
    const server = this.#server;
    this.#server = undefined;
    await server?.stop(0);
  }

  #service(): Partial<ServiceImpl<typeof Service>> {
    const { name, csiSocket } = this.#settings;
    return {
      getInfo: async () => ({ type: "CSIPlugin", name, endpoint: csiSocket, supportedVersions: versions }),
      notifyRegistrationStatus: async ({ pluginRegistered, error }) => {
        this.#reported(pluginRegistered, error);
        return {};
      },
    };
  }

  #reported(registered: boolean, reason: string): void {
    this.#registered = registered;
    if (registered) {
      this.#refusals = 0;
      this.#log.info("kubelet registered the driver");
      return;
    }
    const { first, most } = this.#settings.pause ?? usualPause;
    const ms = Math.min(most, first * 2 ** this.#refusals++);
    this.#log.warn("kubelet rejected the registration; retrying", { reason: reason.slice(0, 1_000), ms });
    clearTimeout(this.#timer);
    this.#timer = setTimeout(() => void this.#again(), ms);
  }

  async #again(): Promise<void> {
    await this.#close();
    if (this.#ended) return;
    try {
      await this.begin();
      if (this.#ended) await this.#close();
    } catch (error) {
      this.#reported(false, messageOf(error));
    }
  }
}
