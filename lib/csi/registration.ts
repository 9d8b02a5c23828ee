import type { ServiceImpl } from "@connectrpc/connect";
import type { Log } from "../core/call.ts";
import { Registration as Service } from "./gen/pluginregistration/v1/registration_pb.ts";
import { GrpcServer } from "./server.ts";

/** kubelet takes a driver by the major version of CSI that it speaks (kubelet, csi_plugin.go). */
const versions = ["1.0.0"];

/** The pause before kubelet is told anew after it refused, in milliseconds: it doubles with each refusal. */
const usualPause = { first: 1_000, most: 60_000 } as const;

const maxRequestBytes = 1 << 20;

/** Who registers, and where. */
export interface RegistrationSettings {
  /** The driver's name. */
  readonly name: string;
  /** A socket in the folder that kubelet watches (plugins_registry). */
  readonly socket: string;
  /** The CSI socket as kubelet finds it: a path of the host. */
  readonly csiSocket: string;
  readonly pause?: { readonly first: number; readonly most: number };
}

/**
 * Makes the driver known to kubelet's plugin watcher. kubelet asks for a socket once when it appears: after a refusal, say because
 * the node cannot tell its place yet, the socket is taken away and put there again.
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

  /** Whether kubelet has taken the driver. */
  get registered(): boolean {
    return this.#registered;
  }

  /** Puts the socket there. Throws "failed-precondition" when it cannot be placed. */
  async begin(): Promise<void> {
    const server = new GrpcServer({ maxRequestBytes });
    server.mount(Service, this.#service());
    await server.listen({ kind: "unix", path: this.#settings.socket });
    this.#server = server;
  }

  /** Takes the socket away, on which kubelet forgets the driver. */
  async end(): Promise<void> {
    this.#ended = true;
    this.#registered = false;
    clearTimeout(this.#timer);
    await this.#server?.stop(0);
  }

  #service(): Partial<ServiceImpl<typeof Service>> {
    const { name, csiSocket } = this.#settings;
    return {
      getInfo: async () => ({ type: "CSIPlugin", name, endpoint: csiSocket, supportedVersions: versions }),
      notifyRegistrationStatus: async ({ pluginRegistered, error }) => {
        this.#told(pluginRegistered, error);
        return {};
      },
    };
  }

  #told(registered: boolean, reason: string): void {
    this.#registered = registered;
    if (registered) {
      this.#refusals = 0;
      this.#log.info("kubelet has taken the driver");
      return;
    }
    const { first, most } = this.#settings.pause ?? usualPause;
    const ms = Math.min(most, first * 2 ** this.#refusals++);
    this.#log.warn("kubelet has not taken the driver; it is told anew", { reason: reason.slice(0, 1_000), ms });
    clearTimeout(this.#timer);
    this.#timer = setTimeout(() => void this.#again(), ms);
  }

  async #again(): Promise<void> {
    await this.#server?.stop(0);
    if (this.#ended) return;
    try {
      await this.begin();
      if (this.#ended) await this.#server?.stop(0);
    } catch (error) {
      this.#told(false, error instanceof Error ? error.message : String(error));
    }
  }
}
