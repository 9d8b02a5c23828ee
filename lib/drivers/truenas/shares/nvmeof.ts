import type { Call } from "../../../core/call.ts";
import { CsiError } from "../../../core/errors.ts";
import type { VolumeSpec } from "../../driver.ts";
import { inUse } from "../../failure.ts";
import type { Notes } from "../../store.ts";
import type { ZfsVolume } from "../../zfs/volume.ts";
import { listOf } from "../api-error.ts";
import {
  type ChoiceOptions,
  chosen,
  type DiskProtocol,
  deviceOf,
  idsOf,
  isProved,
  type ObjectChoice,
} from "./disk-share.ts";
import {
  checkService,
  createdOrFound,
  noteKeys,
  refuseOtherAccess,
  type ShareContext,
  type ShareNaming,
  type TableRow,
  tableOf,
  taken,
  unreachable,
} from "./share.ts";

/** A host of a connection file, with its keys (NVMe Base Specification, DH-HMAC-CHAP). */
interface NvmeHost {
  readonly hostnqn: string;
  readonly dhchapKey?: string | undefined;
  readonly dhchapCtrlKey?: string | undefined;
}

/** `nvmeof:` of a connection file. */
interface NvmeofSettings extends ShareNaming {
  readonly transport: string;
  readonly transports: readonly string[];
  /** By id or address; if empty, the ports that listen on the addresses in the transports. */
  readonly ports: readonly ObjectChoice[];
  /** The only hosts that may connect; none: any may. */
  readonly hosts: readonly NvmeHost[];
  readonly subsystemTemplate?: Readonly<Record<string, unknown>> | undefined;
  readonly namespaceTemplate?: Readonly<Record<string, unknown>> | undefined;
}

const [subsystemNote, namespaceNote, nameNote] = noteKeys.nvmeof;
const idIn = (row: TableRow, key: string): number | undefined => (row[key] as TableRow | null | undefined)?.id;

/** Volumes as NVMe subsystems, each with one namespace. */
export class Nvmeof implements DiskProtocol {
  readonly protocol = "nvmeof";
  readonly nameNote = nameNote;
  readonly naming: ShareNaming;
  /** A qualified name has at most 223 bytes (NVMe Base Specification, 4.7), of which the server's own part takes some 70. */
  readonly rule = { foreign: /[^-a-z0-9._:]/g, maxLength: 120 };
  readonly contextKeys = ["transport", "transports", "nqn", "nsid"];
  readonly reach;
  readonly #context: ShareContext;
  readonly #settings: NvmeofSettings;

  constructor(context: ShareContext, settings: NvmeofSettings) {
    this.#context = context;
    this.#settings = settings;
    this.naming = settings;
    this.reach = { transport: settings.transport, transports: settings.transports.join(",") };
  }

  async publish(volume: ZfsVolume, name: string, _spec: VolumeSpec, call: Call): Promise<Notes> {
    const subsystem = await this.#subsystem(volume, name, call);
    const namespace = await this.#namespace(volume, subsystem, call);
    for (const port of await idsOf(this.#context, this.#wantedPorts(), () => this.#ports(call)))
      await this.#link(port, subsystem, call);
    return this.#notes(subsystem, namespace);
  }

  async existing(volume: ZfsVolume, call: Call): Promise<Notes> {
    const [namespace] = await this.#table("namespace", call).find(["device_path", "=", deviceOf(volume)]);
    const id = namespace && idIn(namespace, "subsys");
    const [subsystem] = id === undefined ? [] : await this.#table("subsys", call).find(["id", "=", id]);
    if (!namespace || !subsystem)
      throw unreachable(this.#context, `no NVMe subsystem with a namespace on ${deviceOf(volume)}`);
    const name = String(subsystem["name"]);
    if (!(await this.#isMine(volume, subsystem, call)))
      throw taken(this.#context, `the NVMe subsystem "${name}"`, "several namespaces");
    return { ...this.#notes(subsystem, namespace), [nameNote]: name };
  }

  #notes(subsystem: TableRow, namespace: TableRow): Notes {
    return {
      [subsystemNote]: String(subsystem.id),
      [namespaceNote]: String(namespace.id),
      ...this.reach,
      nqn: String(subsystem["subnqn"]),
      nsid: String(namespace["nsid"]),
    };
  }

  async withdraw(volume: ZfsVolume, name: string | undefined, call: Call): Promise<void> {
    const namespaces = this.#table("namespace", call);
    const subsystems = this.#table("subsys", call);
    const [own, [subsystem]] = await Promise.all([
      namespaces.find(["device_path", "=", deviceOf(volume)]),
      name === undefined ? [] : subsystems.find(["name", "=", name]),
    ]);
    const mine = subsystem && (await this.#isMine(volume, subsystem, call)) ? subsystem : undefined;
    const used = new Set([mine?.id, ...own.map(each => idIn(each, "subsys"))]);
    for (const id of used) if (id !== undefined) await this.#refuseSessions(id, call);
    // With force a subsystem is deleted with its namespaces, and sessions are ignored (middleware, plugins/nvmet/subsys.py).
    if (mine) await subsystems.delete(mine.id, { force: true });
    for (const each of own) if (idIn(each, "subsys") !== mine?.id) await namespaces.delete(each.id, { remove: false });
  }

  async exported(call: Call): Promise<(volume: ZfsVolume) => boolean> {
    const names = new Set((await this.#table("subsys", call).find()).map(each => String(each["subnqn"])));
    return ({ notes }) => names.has(notes["nqn"] ?? "");
  }

  async check(call: Call): Promise<void> {
    await checkService(this.#context, "nvmet", call);
    const ports = await this.#ports(call);
    for (const choice of this.#wantedPorts()) chosen(this.#context, ports, choice);
    await checkHosts(this.#context, this.#settings.hosts, call);
  }

  #table(name: string, call: Call) {
    return tableOf(this.#context, `nvmet.${name}`, call);
  }

  /** Throws "failed-precondition" while a host is connected to a subsystem (middleware, plugins/nvmet/global.py, sessions, since 25.10). */
  async #refuseSessions(subsystem: number, call: Call): Promise<void> {
    const { api } = this.#context;
    const method = "nvmet.global.sessions";
    const found = listOf(method, await api.call(method, [[["subsys_id", "=", subsystem]]], call.signal));
    if (found.length === 0) return;
    const hosts = new Set(found.map(each => String(each["hostnqn"])));
    throw inUse(`the NVMe subsystem ${subsystem} of ${api.where}`, [...hosts]);
  }

  /** Whether a subsystem has the volume's namespace alone, or none and is proved to be the volume's. */
  async #isMine(volume: ZfsVolume, subsystem: TableRow, call: Call): Promise<boolean> {
    const held = await this.#table("namespace", call).find(["subsys.id", "=", subsystem.id]);
    if (held.length > 0) return held.every(each => each["device_path"] === deviceOf(volume));
    return isProved(volume, subsystem, subsystemNote);
  }

  /** The ports of the file, or the addresses in its transports. */
  #wantedPorts(): readonly ObjectChoice[] {
    const { ports, transport, transports } = this.#settings;
    if (ports.length > 0) return ports.map(each => (typeof each === "number" ? each : addressOf(each)));
    return [...new Set([transport, ...transports].filter(each => each !== "").map(addressOf))];
  }

  /** Ports are identified by their address; one that listens on every address serves for those that no other port has. */
  async #ports(call: Call): Promise<ChoiceOptions> {
    const rows = await this.#table("port", call).find();
    const ownAddress = (row: TableRow): string => addressOf(`${row["addr_traddr"]}:${row["addr_trsvcid"]}`);
    const all = new Set(rows.map(ownAddress));
    const wordsOf = (row: TableRow): readonly string[] => {
      const own = ownAddress(row);
      const [, ip = "", service = ""] = /^(.*):(\d+)$/.exec(own) ?? [];
      if (!/^(?:0\.0\.0\.0|\[::\])$/.test(ip)) return [own];
      const wanted = this.#wantedPorts().map(String);
      return [own, ...wanted.filter(each => each.endsWith(`:${service}`) && !all.has(each))];
    };
    return { kind: "NVMe-oF port", rows, wordsOf };
  }

  /** The volume's subsystem. Throws for one of this name that is not proved to be the volume's, or that admits other hosts. */
  async #subsystem(volume: ZfsVolume, name: string, call: Call): Promise<TableRow> {
    const subsystems = this.#table("subsys", call);
    const { subsystemTemplate, hosts } = this.#settings;
    const open = { name, allow_any_host: hosts.length === 0, ...subsystemTemplate };
    const request = hosts.length === 0 ? open : { ...open, allow_any_host: false };
    const find = async () => (await subsystems.find(["name", "=", name]))[0];
    const { row, fresh } = await createdOrFound(() => subsystems.create(request), find);
    const what = `the NVMe subsystem "${name}"`;
    if (!fresh && !(await this.#isMine(volume, row, call)))
      throw taken(this.#context, what, "something else than this volume");
    if (!fresh) refuseOtherAccess(this.#context, volume, what, request, row, ["allow_any_host"]);
    await linkHosts(this.#context, hosts, row, call);
    return row;
  }

  async #namespace(volume: ZfsVolume, subsystem: TableRow, call: Call): Promise<TableRow> {
    const namespaces = this.#table("namespace", call);
    const device_path = deviceOf(volume);
    const request = { device_type: "ZVOL", device_path, subsys_id: subsystem.id, ...this.#settings.namespaceTemplate };
    const find = async () => (await namespaces.find(["device_path", "=", device_path]))[0];
    const { row } = await createdOrFound(() => namespaces.create(request), find);
    if (idIn(row, "subsys") === subsystem.id) return row;
    throw taken(this.#context, `a namespace of ${device_path}`, "another subsystem");
  }

  async #link(port: number, subsystem: TableRow, call: Call): Promise<void> {
    const links = this.#table("port_subsys", call);
    const find = async () => (await links.find(["port.id", "=", port], ["subsys.id", "=", subsystem.id]))[0];
    await createdOrFound(() => links.create({ port_id: port, subsys_id: subsystem.id }), find);
  }
}

/** "tcp://10.0.0.1?host-iface=eth0", "fe80::1:4420" or "10.0.0.1" as "10.0.0.1:4420", with brackets around an address of IPv6. */
function addressOf(text: string): string {
  const plain = text.replace(/^[a-z]+:\/\//, "").replace(/\?.*$/, "");
  const [, host = plain, service = "4420"] = /^(\[.*\]|[^:]+|.*:.*:.*)(?::(\d+))?$/.exec(plain) ?? [];
  return host.includes(":") && !host.startsWith("[") ? addressOfIpv6(plain) : `${host}:${service}`;
}

const addressOfIpv6 = (text: string): string => {
  const at = text.lastIndexOf(":");
  return `[${text.slice(0, at)}]:${text.slice(at + 1)}`;
};

/** Lets the hosts connect to a subsystem. A host that TrueNAS knows already stays unchanged: others use it too. */
async function linkHosts(
  context: ShareContext,
  hosts: readonly NvmeHost[],
  subsystem: TableRow,
  call: Call,
): Promise<void> {
  const links = tableOf(context, "nvmet.host_subsys", call);
  for (const each of hosts) {
    const host = await known(context, each, call);
    const find = async () => (await links.find(["host.id", "=", host.id], ["subsys.id", "=", subsystem.id]))[0];
    await createdOrFound(() => links.create({ host_id: host.id, subsys_id: subsystem.id }), find);
  }
}

/** Throws "failed-precondition" if TrueNAS knows a host with other keys than the file. */
async function checkHosts(context: ShareContext, hosts: readonly NvmeHost[], call: Call): Promise<void> {
  if (hosts.length === 0) return;
  const rows = await tableOf(context, "nvmet.host", call).find();
  for (const host of hosts) {
    const row = rows.find(each => each["hostnqn"] === host.hostnqn);
    if (row) refuseOtherKeys(context, host, row);
  }
}

async function known(context: ShareContext, host: NvmeHost, call: Call): Promise<TableRow> {
  const hosts = tableOf(context, "nvmet.host", call);
  const find = async () => (await hosts.find(["hostnqn", "=", host.hostnqn]))[0];
  const { hostnqn, dhchapKey, dhchapCtrlKey } = host;
  const keys = {
    ...(dhchapKey && { dhchap_key: dhchapKey }),
    ...(dhchapCtrlKey && { dhchap_ctrl_key: dhchapCtrlKey }),
  };
  const row = (await find()) ?? (await createdOrFound(() => hosts.create({ hostnqn, ...keys }), find)).row;
  refuseOtherKeys(context, host, row);
  return row;
}

/** An account that may not change keys gets stars instead, which cannot be compared. */
function refuseOtherKeys(context: ShareContext, { hostnqn, dhchapKey, dhchapCtrlKey }: NvmeHost, row: TableRow): void {
  const differs = (mine: string | undefined, theirs: unknown): boolean =>
    (mine ?? "") !== (theirs ?? "") && !/^\*+$/.test(String(theirs));
  if (!differs(dhchapKey, row["dhchap_key"]) && !differs(dhchapCtrlKey, row["dhchap_ctrl_key"])) return;
  throw new CsiError(
    "failed-precondition",
    `connection "${context.connection}": TrueNAS knows the host ${hostnqn} with other keys than the connection file: change one of them`,
  );
}
