import { isIPv6 } from "node:net";
import { CsiError } from "../../core/errors.ts";
import type { Context } from "../requests.ts";

/** A way to a subsystem. */
export interface Transport {
  readonly type: "tcp" | "rdma" | "fc";
  /** A name or an address; IPv6 without brackets. */
  readonly address: string;
  /** The port; empty for Fibre Channel. */
  readonly service: string;
  /** Options of the kernel's connection, by their names there. */
  readonly options: Readonly<Record<string, string>>;
}

/** One namespace of a subsystem and the ways to it. */
export interface Namespace {
  readonly nqn: string;
  readonly nsid: string;
  readonly transports: readonly Transport[];
}

const defaultPort = "4420";

/** NVMe Base Specification, 4.7: at most 223 bytes; what separates options in a connection is left out. */
const nqnForm = /^nqn\.[0-9]{4}-[0-9]{2}\.[A-Za-z0-9._:-]{1,208}$/;
const hostForm = /^[A-Za-z0-9][A-Za-z0-9._-]{0,252}$/;
const fibreForm = /^nn-0x[0-9a-f]{16}:pn-0x[0-9a-f]{16}$/i;
const valueForm = /^[A-Za-z0-9._:%-]{0,256}$/;

/** Options of a connection that the kernel knows (drivers/nvme/host/fabrics.c, opt_tokens) and that do not stand elsewhere. */
const known: ReadonlySet<string> = new Set([
  "host_traddr",
  "host_iface",
  "hostnqn",
  "hostid",
  "nr_io_queues",
  "nr_write_queues",
  "nr_poll_queues",
  "queue_size",
  "keep_alive_tmo",
  "reconnect_delay",
  "ctrl_loss_tmo",
  "fast_io_fail_tmo",
  "tos",
  "hdr_digest",
  "data_digest",
  "disable_sqflow",
]);

/** As people write it. */
export const transportText = ({ type, address, service }: Transport): string =>
  `${type}://${isIPv6(address) ? `[${address}]` : address}${service && `:${service}`}`;

/** The namespace of a volume context, with the keys of democratic-csi. Throws "invalid-argument". */
export function namespaceOf(context: Context, volumeId: string): Namespace {
  const invalid = (what: string) => new CsiError("invalid-argument", `volume "${volumeId}": ${what}`);
  const shown = (key: string) => `${key} ${JSON.stringify((context[key] ?? "").slice(0, 250))}`;
  const nqn = context["nqn"] ?? "";
  if (!nqnForm.test(nqn)) throw invalid(`${shown("nqn")} is no name of a subsystem`);
  const nsid = context["nsid"] ?? "";
  if (!/^[1-9][0-9]{0,9}$/.test(nsid)) throw invalid(`${shown("nsid")} is no number of a namespace`);
  const texts = `${context["transport"] ?? ""},${context["transports"] ?? ""}`.split(",").map(text => text.trim());
  const transports = new Map<string, Transport>();
  for (const text of texts.filter(each => each !== "")) {
    const transport = transportOf(text);
    if (typeof transport === "string")
      throw invalid(`the transport ${JSON.stringify(text.slice(0, 250))} ${transport}`);
    if (!transports.has(transportText(transport))) transports.set(transportText(transport), transport);
  }
  if (transports.size === 0) throw invalid("neither transport nor transports is given");
  return { nqn, nsid, transports: [...transports.values()] };
}

/** A transport, or what is wrong with the text. */
function transportOf(text: string): Transport | string {
  const [, scheme, bracketed, plain, digits, query] =
    /^(tcp|rdma|fc):\/\/(?:\[([^\]]+)\]|([^:/?[\]]+))(?::([0-9]{1,5}))?\/?(?:\?(.*))?$/.exec(text) ?? [];
  const address = (bracketed ?? plain ?? "").toLowerCase();
  const options = optionsOf(query ?? "");
  if (typeof options === "string") return options;
  if (scheme === "fc") {
    return fibreForm.test(address) ? { type: scheme, address, service: "", options } : "names no port (nn-0x…:pn-0x…)";
  }
  const isFit = bracketed === undefined ? hostForm.test(address) : isIPv6(address);
  if ((scheme !== "tcp" && scheme !== "rdma") || !isFit) return "is not of the form tcp://host:port";
  return { type: scheme, address, service: digits ?? defaultPort, options };
}

/** The options of a query, which are written as nvme-connect(1) has them. */
function optionsOf(query: string): Readonly<Record<string, string>> | string {
  const options: Record<string, string> = {};
  for (const [key, value] of new URLSearchParams(query)) {
    const name = key.replaceAll("-", "_");
    if (!known.has(name)) return `has the unknown option "${key.slice(0, 40)}"`;
    if (!valueForm.test(value)) return `has a value of "${key}" that cannot be used`;
    options[name] = value;
  }
  return options;
}
