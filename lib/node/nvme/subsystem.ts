import { isIPv6 } from "node:net";
import { contextReader, hostForm } from "../attach/context.ts";
import type { Sysfs } from "../disks/sysfs.ts";
import type { VolumeContext } from "../requests.ts";

/** The address of one path to a subsystem. */
export interface Transport {
  readonly type: "tcp" | "rdma" | "fc";
  /** A name or an address; IPv6 without brackets. */
  readonly address: string;
  /** The port; empty for Fibre Channel. */
  readonly service: string;
  /** Connection options by their kernel names. */
  readonly options: Readonly<Record<string, string>>;
}

/** A namespace of a subsystem and the paths to it. */
export interface Namespace {
  readonly nqn: string;
  readonly nsid: string;
  readonly transports: readonly Transport[];
}

const defaultPort = "4420";

/** NVMe Base Specification, 4.7: at most 223 bytes; characters that separate connection options are excluded. */
const nqnForm = /^nqn\.[0-9]{4}-[0-9]{2}\.[A-Za-z0-9._:-]{1,208}$/;
const fibreForm = /^nn-0x[0-9a-f]{16}:pn-0x[0-9a-f]{16}$/i;
const valueForm = /^[A-Za-z0-9._:%-]{0,256}$/;

/** Kernel options of a connection (drivers/nvme/host/fabrics.c, opt_tokens) that have no field of their own. */
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

/** The URL form of a transport, as users write it. */
export const transportText = ({ type, address, service }: Transport): string =>
  `${type}://${isIPv6(address) ? `[${address}]` : address}${service && `:${service}`}`;

/** The namespace of a volume context, with the keys of democratic-csi. Throws "invalid-argument". */
export function namespaceOf(context: VolumeContext, volumeId: string): Namespace {
  const { invalid, value, addresses } = contextReader(context, volumeId);
  const nqn = value("nqn", nqnForm, "a subsystem name");
  const nsid = value("nsid", /^[1-9][0-9]{0,9}$/, "a namespace id");
  const transports = new Map<string, Transport>();
  for (const text of addresses("transport", "transports")) {
    const transport = transportOf(text);
    if (typeof transport === "string")
      throw invalid(`the transport ${JSON.stringify(text.slice(0, 250))} ${transport}`);
    if (!transports.has(transportText(transport))) transports.set(transportText(transport), transport);
  }
  if (transports.size === 0) throw invalid("neither transport nor transports is given");
  return { nqn, nsid, transports: [...transports.values()] };
}

/** Parses a transport; returns a message for an invalid one. */
function transportOf(text: string): Transport | string {
  const [, scheme, bracketed, plain, digits, query] =
    /^(tcp|rdma|fc):\/\/(?:\[([^\]]+)\]|([^:/?[\]]+))(?::([0-9]{1,5}))?\/?(?:\?(.*))?$/.exec(text) ?? [];
  const address = (bracketed ?? plain ?? "").toLowerCase();
  const options = optionsOf(query ?? "");
  if (typeof options === "string") return options;
  if (scheme === "fc")
    return fibreForm.test(address)
      ? { type: scheme, address, service: "", options }
      : "has no port name (nn-0x…:pn-0x…)";
  const isFit = bracketed === undefined ? hostForm.test(address) : isIPv6(address);
  if ((scheme !== "tcp" && scheme !== "rdma") || !isFit) return "is not of the form tcp://host:port";
  return { type: scheme, address, service: digits ?? defaultPort, options };
}

/** Parses the options of a query, named as in nvme-connect(1). */
function optionsOf(query: string): Readonly<Record<string, string>> | string {
  const options: Record<string, string> = {};
  for (const [key, value] of new URLSearchParams(query)) {
    const name = key.replaceAll("-", "_");
    if (!known.has(name)) return `has the unknown option "${key.slice(0, 40)}"`;
    if (!valueForm.test(value)) return `has an invalid value for "${key}"`;
    options[name] = value;
  }
  return options;
}

/** A connection of this node to a subsystem, as the kernel shows it. */
export interface Controller {
  /** The kernel's name: "nvme1". */
  readonly name: string;
  readonly type: string;
  readonly address: string;
  readonly service: string;
  readonly isLive: boolean;
}

/** All connections to a subsystem. */
export async function controllersOf(nqn: string, sysfs: Sysfs): Promise<readonly Controller[]> {
  const names = await sysfs.names("class/nvme");
  const found = await Promise.all(
    names.map(async name =>
      (await sysfs.text("class/nvme", name, "subsysnqn")) === nqn ? read(name, sysfs) : undefined,
    ),
  );
  return found.filter(controller => controller !== undefined);
}

/** Reads a controller; its address has the form "traddr=10.0.0.1,trsvcid=4420,src_addr=…". */
async function read(name: string, sysfs: Sysfs): Promise<Controller> {
  const parts = (await sysfs.text("class/nvme", name, "address")).split(/[, ]/);
  const value = (key: string) => parts.find(part => part.startsWith(`${key}=`))?.slice(key.length + 1) ?? "";
  return {
    name,
    type: await sysfs.text("class/nvme", name, "transport"),
    address: value("traddr").toLowerCase(),
    service: value("trsvcid").replace(/^none$/, ""),
    isLive: (await sysfs.text("class/nvme", name, "state")) === "live",
  };
}

/** Whether a connection uses one of these transports. */
export const goesBy = (controller: Controller, transports: readonly Transport[]): boolean =>
  transports.some(
    ({ type, address, service }) =>
      controller.type === type && controller.address === address && controller.service === service,
  );

const diskForm = /^nvme[0-9]+n[0-9]+$/;

/**
 * The disks of a subsystem with their namespace ids: with native multipath one for all paths, which belongs to the
 * subsystem; otherwise one per path, which belongs to its controller.
 */
export async function disksOf(
  nqn: string,
  sysfs: Sysfs,
): Promise<readonly { readonly name: string; readonly nsid: string }[]> {
  const folders: string[] = (await controllersOf(nqn, sysfs)).map(({ name }) => `class/nvme/${name}`);
  for (const subsystem of await sysfs.names("class/nvme-subsystem")) {
    const folder = `class/nvme-subsystem/${subsystem}`;
    if ((await sysfs.text(folder, "subsysnqn")) === nqn) folders.push(folder);
  }
  const names = new Set<string>();
  for (const folder of folders) for (const name of await sysfs.names(folder)) if (diskForm.test(name)) names.add(name);
  return await Promise.all(
    [...names].sort().map(async name => ({ name, nsid: await sysfs.text("class/block", name, "nsid") })),
  );
}

/** A disk, or with native multipath the hidden path of one controller to it (Linux 6.1, drivers/nvme/host/core.c, nvme_alloc_ns). */
const pathForm = /^(nvme[0-9]+)(?:c[0-9]+)?(n[0-9]+)$/;

/**
 * The names of the disks to which these connections lead. The kernel takes all subsystems of one name for one, also those of two storage
 * systems, and refuses a second namespace of an id that is not the first one: that connection is live and leads to no disk
 * (drivers/nvme/host/core.c, nvme_init_ns_head).
 */
export async function disksBehind(controllers: readonly Controller[], sysfs: Sysfs): Promise<ReadonlySet<string>> {
  const names = await Promise.all(controllers.map(({ name }) => sysfs.names("class/nvme", name)));
  const paths = names.flat().map(name => pathForm.exec(name));
  return new Set(paths.flatMap(path => (path ? [`${path[1]}${path[2]}`] : [])));
}
