import type { Log } from "../../lib/core/call.ts";
import { CsiError, messageOf } from "../../lib/core/errors.ts";
import { probe } from "../../lib/csi/probe.ts";
import { Registration } from "../../lib/csi/registration.ts";
import { type HttpPage, servePages, shared } from "../../lib/observe/page-server.ts";
import { aliasRegistration, aliasSocket, ownSocket } from "./aliases.ts";
import type { ServeOptions } from "./options.ts";

/** The time limit of csimux's probe of itself, in milliseconds. */
const probeMs = 5_000;

/** Interfaces for kubelet: the registration of a node plugin, and probes over HTTP. */
export interface KubeletRegistration {
  /** Call it once CSI calls are answered. Throws "failed-precondition" if a socket or an address cannot be used. */
  begin(): Promise<void>;
  end(): Promise<void>;
}

/** Opens each interface only if enabled. */
export function openRegistration(options: ServeOptions, log: Log): KubeletRegistration {
  const registrations = registrationsOf(options, log);
  let close = (): void => {};
  return {
    async begin() {
      if (options.healthAddress) {
        const pages = healthPages(options, registrations);
        const { host } = options.healthAddress;
        const served = await servePages("health", options.healthAddress, pages, log);
        close = served.close;
        log.info("serving health probes", { address: `${host}:${served.port}` });
      }
      for (const each of registrations) await each.begin();
    },
    async end() {
      close();
      await Promise.all(registrations.map(each => each.end()));
    },
  };
}

/** One for the driver's own name and one for each alias: kubelet identifies a driver by its name. */
function registrationsOf({ name, aliases, endpoints, registration }: ServeOptions, log: Log): readonly Registration[] {
  if (!registration) return [];
  const { socket } = registration;
  const csiSocket = registration.csiSocket ?? ownSocket(endpoints);
  if (csiSocket === undefined) {
    const text = "kubelet reaches drivers only on a Unix socket: give --endpoint unix:///...";
    throw new CsiError("failed-precondition", text);
  }
  const others = aliases.map(alias => ({
    name: alias.name,
    socket: aliasRegistration(socket, alias),
    csiSocket: aliasSocket(csiSocket, alias),
  }));
  return [{ name, socket, csiSocket }, ...others].map(each => new Registration(each, log.with({ driver: each.name })));
}

/**
 * Alive: csimux answers on its own socket, and its registration socket is in place: once it was removed, kubelet has no driver until csimux
 * starts again. Ready: additionally, kubelet has accepted the registration if csimux registers itself.
 */
function healthPages({ endpoints: [endpoint = ""] }: ServeOptions, registrations: readonly Registration[]) {
  const alive = shared(async (): Promise<HttpPage> => {
    try {
      if (registrations.some(each => each.isLost))
        return { status: 503, text: "the registration socket was removed, so kubelet does not know the driver\n" };
      return (await probe(endpoint, probeMs)) ? { status: 200, text: "ok\n" } : { status: 503, text: "not ready\n" };
    } catch (error) {
      return { status: 503, text: `${messageOf(error)}\n` };
    }
  });
  const ready = async (): Promise<HttpPage> =>
    registrations.some(each => !each.registered)
      ? { status: 503, text: "kubelet has not registered the driver yet\n" }
      : alive();
  return { "/healthz": alive, "/readyz": ready };
}
