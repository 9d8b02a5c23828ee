import { resolve } from "node:path";
import type { Log } from "../../lib/core/call.ts";
import { CsiError } from "../../lib/core/errors.ts";
import { parseEndpoint } from "../../lib/csi/endpoint.ts";
import { probe } from "../../lib/csi/probe.ts";
import { Registration } from "../../lib/csi/registration.ts";
import { type Page, servePages } from "../../lib/observe/page-server.ts";
import type { ServeOptions } from "./options.ts";

/** How long csimux may take to answer itself, in milliseconds. */
const probeMs = 5_000;

/** How a process shows kubelet that it is there: the registration of a node plugin, and probes over HTTP. */
export interface Presence {
  /** Once CSI calls are answered. Throws "failed-precondition" when a socket or an address cannot be used. */
  begin(): Promise<void>;
  end(): Promise<void>;
}

/** Each only where it was asked for. */
export function openPresence(options: ServeOptions, log: Log): Presence {
  const registration = registrationOf(options, log);
  let close = (): void => {};
  return {
    async begin() {
      if (options.healthAddress) {
        const pages = healthPages(options, registration);
        const { host } = options.healthAddress;
        const served = await servePages("health", options.healthAddress, pages);
        close = served.close;
        log.info("health is served", { address: `${host}:${served.port}` });
      }
      await registration?.begin();
    },
    async end() {
      close();
      await registration?.end();
    },
  };
}

function registrationOf({ name, endpoints, registration }: ServeOptions, log: Log): Registration | undefined {
  if (!registration) return undefined;
  const [own] = endpoints.map(parseEndpoint).flatMap(each => (each.kind === "unix" ? [each.path] : []));
  const csiSocket = registration.csiSocket ?? (own && resolve(own));
  if (csiSocket === undefined)
    throw new CsiError(
      "failed-precondition",
      "kubelet reaches drivers on a Unix socket alone: give --endpoint unix:///...",
    );
  return new Registration({ name, socket: registration.socket, csiSocket }, log);
}

/** Alive: csimux answers on its own socket. Ready: kubelet has taken the driver, too, where csimux sees to that. */
function healthPages({ endpoints: [endpoint = ""] }: ServeOptions, registration: Registration | undefined) {
  const alive = async (): Promise<Page> => {
    try {
      return (await probe(endpoint, probeMs)) ? { status: 200, text: "ok\n" } : { status: 503, text: "not ready\n" };
    } catch (error) {
      return { status: 503, text: `${error instanceof Error ? error.message : String(error)}\n` };
    }
  };
  const ready = async (): Promise<Page> =>
    registration?.registered === false ? { status: 503, text: "kubelet has not taken the driver yet\n" } : alive();
  return { "/healthz": alive, "/readyz": ready };
}
