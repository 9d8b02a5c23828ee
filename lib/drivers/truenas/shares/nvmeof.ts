import type { Call } from "../../../core/call.ts";
import { CsiError } from "../../../core/errors.ts";
import { inUse } from "../../failure.ts";
import type { Notes } from "../../store.ts";
import type { ZfsVolume } from "../../zfs/volume.ts";
import { type ApiRow, listOf } from "../api-error.ts";
import type { NvmeofSection } from "../sections.ts";
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
  type TableRow,
  tableOf,
  taken,
  unreachable,
} from "./share.ts";

/** A host of a connection file, with its keys (NVMe Base Specification, DH-HMAC-CHAP). */
type NvmeHost = NvmeofSection["hosts"][number];

const [subsystemNote, namespaceNote, nameNote] = noteKeys.nvmeof;
const idIn = (row: TableRow, key: string): number | undefined => (row[key] as TableRow | null | undefined)?.id;

/** The first version that looks for the hosts of a subsystem under its own NQN. */
const withStoredNqn = 2600;

/** Volumes as NVMe subsystems, each with one namespace. */
export function nvmeof(context: ShareContext, settings: NvmeofSection): DiskProtocol {
  const { api } = context;
  const { hosts, subsystemTemplate, namespaceTemplate } = settings;
  const reach = { transport: settings.transport, transports: settings.transports.join(",") };
  const wantedPorts = portsOf(settings);
  const table = (name: string, call: Call) => tableOf(context, `nvmet.${name}`, call);

  /**
   * Throws "failed-precondition" while a host is connected to a subsystem, and where the server cannot know: up to 25.10 it looks for hosts under
   * its present base NQN, and finds none of a subsystem from before a change of that (plugins/nvmet/global.py of TS-25.10.6, local_sessions).
   */
  async function refuseSessions({ id, name, subnqn }: TableRow, call: Call): Promise<void> {
    const method = "nvmet.global.sessions";
    const isKnown = async () => {
      if ((await api.version(call.signal)).number >= withStoredNqn) return true;
      const { basenqn } = (await api.call("nvmet.global.config", [], call.signal)) as ApiRow;
      return subnqn === `${basenqn}:${name}`;
    };
    const [known, sessions] = await Promise.all([isKnown(), api.call(method, [[["subsys_id", "=", id]]], call.signal)]);
    const hosts = new Set(listOf(method, sessions).map(each => String(each["hostnqn"])));
    const what = `the NVMe subsystem "${name}" of ${api.where}`;
    if (hosts.size > 0) throw inUse(what, [...hosts]);
    if (known) return;
    const text = `before version 26, TrueNAS does not report which hosts use ${what}, because its NQN ${subnqn} is not the present base NQN with its name; set the base NQN back, update TrueNAS, or delete the subsystem yourself`;
    throw new CsiError("failed-precondition", text);
  }

  /** Whether a subsystem has the volume's namespace alone, or none and is proved to be the volume's. */
  async function isMine(volume: ZfsVolume, subsystem: TableRow, call: Call): Promise<boolean> {
    const held = await table("namespace", call).find(["subsys.id", "=", subsystem.id]);
    if (held.length > 0) return held.every(each => each["device_path"] === deviceOf(volume));
    return isProved(volume, subsystem, subsystemNote);
  }

  /** Ports are identified by their address; one that listens on every address serves for those that no other port has. */
  async function ports(call: Call): Promise<ChoiceOptions> {
    const rows = await table("port", call).find();
    const ownAddress = (row: TableRow): string => addressOf(`${row["addr_traddr"]}:${row["addr_trsvcid"]}`);
    const all = new Set(rows.map(ownAddress));
    const wordsOf = (row: TableRow): readonly string[] => {
      const own = ownAddress(row);
      const [, ip = "", service = ""] = /^(.*):(\d+)$/.exec(own) ?? [];
      if (!/^(?:0\.0\.0\.0|\[::\])$/.test(ip)) return [own];
      return [own, ...wantedPorts.map(String).filter(each => each.endsWith(`:${service}`) && !all.has(each))];
    };
    return { kind: "NVMe-oF port", rows, wordsOf };
  }

  /** The volume's subsystem. Throws for one of this name that is not proved to be the volume's, or that admits other hosts. */
  async function subsystemFor(volume: ZfsVolume, name: string, call: Call): Promise<TableRow> {
    const subsystems = table("subsys", call);
    const open = { name, allow_any_host: hosts.length === 0, ...subsystemTemplate };
    const request = hosts.length === 0 ? open : { ...open, allow_any_host: false };
    const find = async () => (await subsystems.find(["name", "=", name]))[0];
    const { row, fresh } = await createdOrFound(() => subsystems.create(request), find);
    const what = `the NVMe subsystem "${name}"`;
    if (!fresh && !(await isMine(volume, row, call))) throw taken(context, what, "something other than this volume");
    if (!fresh) refuseOtherAccess(context, volume, what, request, row, ["allow_any_host"]);
    for (const each of hosts)
      await linked("host_subsys", { host: (await known(context, each, call)).id, subsys: row.id }, call);
    return row;
  }

  async function namespaceFor(volume: ZfsVolume, subsystem: TableRow, call: Call): Promise<TableRow> {
    const namespaces = table("namespace", call);
    const device_path = deviceOf(volume);
    const request = { device_type: "ZVOL", device_path, subsys_id: subsystem.id, ...namespaceTemplate };
    const find = async () => (await namespaces.find(["device_path", "=", device_path]))[0];
    const { row } = await createdOrFound(() => namespaces.create(request), find);
    if (idIn(row, "subsys") === subsystem.id) return row;
    throw taken(context, `a namespace of ${device_path}`, "another subsystem");
  }

  /** Links two objects, each by its id, in a table of links such as `port_subsys`. */
  async function linked(name: string, ids: Readonly<Record<string, number>>, call: Call): Promise<void> {
    const links = table(name, call);
    const all = Object.entries(ids);
    const find = async () => (await links.find(...all.map(([key, id]) => [`${key}.id`, "=", id] as const)))[0];
    const create = () => links.create(Object.fromEntries(all.map(([key, id]) => [`${key}_id`, id])));
    await createdOrFound(create, find);
  }

  const notesOf = (subsystem: TableRow, namespace: TableRow): Notes => {
    const ids = { [subsystemNote]: String(subsystem.id), [namespaceNote]: String(namespace.id) };
    return { ...ids, ...reach, nqn: String(subsystem["subnqn"]), nsid: String(namespace["nsid"]) };
  };

  return {
    ...{ protocol: "nvmeof", nameNote, naming: settings, reach },
    // A qualified name has at most 223 bytes (NVMe Base Specification, 4.7), of which the server's own part takes some 70.
    rule: { foreign: /[^-a-z0-9._:]/g, maxLength: 120 },
    contextKeys: ["transport", "transports", "nqn", "nsid"],
    async publish(volume, name, _spec, call) {
      const subsystem = await subsystemFor(volume, name, call);
      const namespace = await namespaceFor(volume, subsystem, call);
      for (const port of await idsOf(context, wantedPorts, () => ports(call)))
        await linked("port_subsys", { port, subsys: subsystem.id }, call);
      return notesOf(subsystem, namespace);
    },
    async existing(volume, call) {
      const [namespace] = await table("namespace", call).find(["device_path", "=", deviceOf(volume)]);
      const id = namespace && idIn(namespace, "subsys");
      const [subsystem] = id === undefined ? [] : await table("subsys", call).find(["id", "=", id]);
      if (!namespace || !subsystem)
        throw unreachable(context, `no NVMe subsystem with a namespace on ${deviceOf(volume)}`);
      const name = String(subsystem["name"]);
      if (!(await isMine(volume, subsystem, call)))
        throw taken(context, `the NVMe subsystem "${name}"`, "several namespaces");
      return { ...notesOf(subsystem, namespace), [nameNote]: name };
    },
    async withdraw(volume, name, call) {
      const namespaces = table("namespace", call);
      const subsystems = table("subsys", call);
      const [own, [subsystem]] = await Promise.all([
        namespaces.find(["device_path", "=", deviceOf(volume)]),
        name === undefined ? [] : subsystems.find(["name", "=", name]),
      ]);
      const mine = subsystem && (await isMine(volume, subsystem, call)) ? subsystem : undefined;
      const all = [mine, ...own.map(each => each["subsys"] as TableRow | null)];
      const used = new Map(all.flatMap(each => (each ? [[each.id, each]] : [])));
      for (const each of used.values()) await refuseSessions(each, call);
      // With force a subsystem is deleted with its namespaces, and sessions are ignored (middleware, plugins/nvmet/subsys.py).
      if (mine) await subsystems.delete(mine.id, { force: true });
      for (const each of own)
        if (idIn(each, "subsys") !== mine?.id) await namespaces.delete(each.id, { remove: false });
    },
    async exported(call) {
      const [rows, links] = await Promise.all([table("namespace", call).find(), table("port_subsys", call).find()]);
      const shown = new Set(links.map(each => idIn(each, "subsys")));
      const keyOf = (nqn: unknown, nsid: unknown, device: unknown) => JSON.stringify([nqn, String(nsid), device]);
      const served = new Set(
        rows
          .filter(each => each["enabled"] !== false && shown.has(idIn(each, "subsys")))
          .map(each => keyOf((each["subsys"] as TableRow | null)?.["subnqn"], each["nsid"], each["device_path"])),
      );
      return volume => served.has(keyOf(volume.notes["nqn"], volume.notes["nsid"], deviceOf(volume)));
    },
    async check(call) {
      await checkService(context, "nvmet", call);
      const all = await ports(call);
      for (const choice of wantedPorts) chosen(context, all, choice);
      if (hosts.length === 0) return;
      const rows = await table("host", call).find();
      for (const host of hosts) {
        const row = rows.find(each => each["hostnqn"] === host.hostnqn);
        if (row) refuseOtherKeys(context, host, row);
      }
    },
  };
}

/** The ports of the file, or the addresses in its transports. */
function portsOf({ ports, transport, transports }: NvmeofSection): readonly ObjectChoice[] {
  if (ports.length > 0) return ports.map(each => (typeof each === "number" ? each : addressOf(each)));
  return [...new Set([transport, ...transports].filter(each => each !== "").map(addressOf))];
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

/** The row of a host. One that TrueNAS knows already stays unchanged: others use it too. */
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
