import { protocols } from "../../../core/access.ts";
import type { Call } from "../../../core/call.ts";
import type { VolumeFindings } from "../../../health/finding.ts";
import type { Context, VolumeSpec } from "../../driver.ts";
import { inUse } from "../../failure.ts";
import type { Notes, ShareProtocol } from "../../store.ts";
import { apiErrorMapping } from "../meaning.ts";
import { listOf } from "../rows.ts";
import { type ChoiceOptions, chosen, idsOf, type ObjectChoice } from "./chosen.ts";
import { checkHosts, linkHosts, type NvmeHost } from "./nvme-hosts.ts";
import {
  checkService,
  isProved,
  kept,
  nameNote,
  noted,
  noteKeys,
  otherAccess,
  type Row,
  refuseOtherAccess,
  type ShareContext,
  type SharedDataset,
  type ShareNaming,
  tableOf,
  taken,
  targetName,
  unique,
  unshared,
} from "./share.ts";

/** `nvmeof:` of a connection file. */
export interface NvmeofSettings extends ShareNaming {
  readonly transport: string;
  readonly transports: readonly string[];
  /** By id or address; none: those that listen where the transports say. */
  readonly ports: readonly ObjectChoice[];
  /** The only hosts that may connect; none: any may. */
  readonly hosts: readonly NvmeHost[];
  readonly subsystemTemplate?: Readonly<Record<string, unknown>> | undefined;
  readonly namespaceTemplate?: Readonly<Record<string, unknown>> | undefined;
}

/** A qualified name holds 223 bytes (NVMe Base Specification, 4.7), of which the server's own part takes some 70. */
const rule = { foreign: /[^-a-z0-9._:]/g, most: 120 };

const deviceOf = ({ dataset }: SharedDataset): string => `zvol/${dataset}`;
const inside = (row: Row, key: string): number | undefined => (row[key] as Row | null | undefined)?.id;

/** Volumes as NVMe subsystems with one namespace. */
export class NvmeofShare implements ShareProtocol<SharedDataset> {
  readonly protocol = "nvmeof";
  readonly access = protocols.nvmeof;
  readonly growsOnNode = true;
  readonly reach: Context;
  readonly #site: ShareContext;
  readonly #settings: NvmeofSettings;

  constructor(site: ShareContext, settings: NvmeofSettings) {
    this.#site = site;
    this.#settings = settings;
    this.reach = { transport: settings.transport, transports: settings.transports.join(",") };
  }

  /** As ShareProtocol.publish; the name is kept before anything of it is made, as templates may use what deletion does not know. */
  async publish(
    asset: SharedDataset,
    spec: VolumeSpec,
    keep: (notes: Notes) => Promise<SharedDataset>,
    call: Call,
  ): Promise<Notes> {
    const name = targetName(asset, asset.notes[nameNote.nvmeof], spec.parameters, this.#settings, rule);
    await kept(asset, { [nameNote.nvmeof]: name }, keep);
    const subsystem = await this.#subsystem(asset, name, call);
    const namespace = await this.#namespace(asset, subsystem, call);
    for (const port of await idsOf(this.#site, this.#wanted(), () => this.#ports(call)))
      await this.#link(port, subsystem, call);
    const ids = [subsystem, namespace].map(({ id }) => String(id));
    return {
      ...Object.fromEntries(ids.map((id, at) => [noteKeys.nvmeof[at] ?? "", id])),
      transport: this.#settings.transport,
      transports: this.#settings.transports.join(","),
      nqn: String(subsystem["subnqn"]),
      nsid: String(namespace["nsid"]),
      ...this.context(asset),
    };
  }

  context(asset: SharedDataset) {
    return noted(asset, ["transport", "transports", "nqn", "nsid"]);
  }

  explain(error: unknown) {
    return apiErrorMapping(error);
  }

  /** As ShareProtocol.withdraw: by the device, which is the volume's alone, and by the name that was kept; never by a noted id alone. */
  async withdraw(asset: SharedDataset, call: Call): Promise<void> {
    const namespaces = tableOf(this.#site, "nvmet.namespace", call);
    const subsystems = tableOf(this.#site, "nvmet.subsys", call);
    const name = asset.notes[nameNote.nvmeof];
    const [own, [subsystem]] = await Promise.all([
      namespaces.find(["device_path", "=", deviceOf(asset)]),
      name === undefined ? [] : subsystems.find(["name", "=", name]),
    ]);
    const mine = subsystem && (await this.#isMine(asset, subsystem, call)) ? subsystem : undefined;
    for (const id of new Set([mine?.id, ...own.map(each => inside(each, "subsys"))])) await this.#refuseHosts(id, call);
    // With force a subsystem takes its namespaces along, and asks for no sessions (middleware, plugins/nvmet/subsys.py).
    if (mine) await subsystems.drop(mine.id, { force: true });
    for (const each of own) if (inside(each, "subsys") !== mine?.id) await namespaces.drop(each.id, { remove: false });
  }

  /** Throws "failed-precondition" while a host is connected to a subsystem (middleware, plugins/nvmet/global.py, sessions, since 25.10). */
  async #refuseHosts(subsystem: number | undefined, call: Call): Promise<void> {
    if (subsystem === undefined) return;
    const method = "nvmet.global.sessions";
    const found = listOf(method, await this.#site.api.call(method, [[["subsys_id", "=", subsystem]]], call.signal));
    if (found.length === 0) return;
    throw inUse(`the NVMe subsystem ${subsystem} of ${this.#site.api.where}`, [
      ...new Set(found.map(each => String(each["hostnqn"]))),
    ]);
  }

  /** A subsystem with this volume's namespace alone, or with none and proved to be the volume's. */
  async #isMine(asset: SharedDataset, subsystem: Row, call: Call): Promise<boolean> {
    const held = await this.#held(subsystem, call);
    if (held.length > 0) return held.every(each => each["device_path"] === deviceOf(asset));
    return isProved(asset, String(subsystem["name"]), noteKeys.nvmeof[0], subsystem);
  }

  /** One listing of all subsystems. */
  async look(assets: readonly SharedDataset[], call: Call): Promise<VolumeFindings> {
    const names = new Set((await tableOf(this.#site, "nvmet.subsys", call).find()).map(each => String(each["subnqn"])));
    return unshared(assets, ({ notes }) => names.has(notes["nqn"] ?? ""), "TargetMissing");
  }

  async check(call: Call): Promise<void> {
    await checkService(this.#site, "nvmet", call);
    const ports = await this.#ports(call);
    for (const choice of this.#wanted()) chosen(this.#site, ports, choice);
    await checkHosts(this.#site, this.#settings.hosts, call);
  }

  /** The ports of the file, or where its transports say that they listen. */
  #wanted(): readonly ObjectChoice[] {
    const { ports, transport, transports } = this.#settings;
    if (ports.length > 0) return ports.map(each => (typeof each === "number" ? each : addressOf(each)));
    return [...new Set([transport, ...transports].filter(each => each !== "").map(addressOf))];
  }

  /** Ports are known by where they listen; one that listens everywhere is meant where no other is. */
  async #ports(call: Call): Promise<ChoiceOptions> {
    const rows = await tableOf(this.#site, "nvmet.port", call).find();
    const placeOf = (row: Row): string => addressOf(`${String(row["addr_traddr"])}:${String(row["addr_trsvcid"])}`);
    const places = new Set(rows.map(placeOf));
    const wordsOf = (row: Row): readonly string[] => {
      const [, ip = "", service = ""] = /^(.*):(\d+)$/.exec(placeOf(row)) ?? [];
      if (!/^(?:0\.0\.0\.0|\[::\])$/.test(ip)) return [placeOf(row)];
      const others = this.#wanted()
        .map(String)
        .filter(each => each.endsWith(`:${service}`) && !places.has(each));
      return [placeOf(row), ...others];
    };
    return { kind: "NVMe-oF port", rows, wordsOf };
  }

  #held(subsystem: Row, call: Call): Promise<readonly Row[]> {
    return tableOf(this.#site, "nvmet.namespace", call).find(["subsys.id", "=", subsystem.id]);
  }

  async #subsystem(asset: SharedDataset, name: string, call: Call): Promise<Row> {
    const subsystems = tableOf(this.#site, "nvmet.subsys", call);
    const { subsystemTemplate, hosts } = this.#settings;
    const open = { name, allow_any_host: hosts.length === 0, ...subsystemTemplate };
    const request = hosts.length === 0 ? open : { ...open, allow_any_host: false };
    const make = () => subsystems.make(request);
    const { row, fresh } = await unique(make, async () => (await subsystems.find(["name", "=", name]))[0]);
    if (!fresh && !(await this.#isMine(asset, row, call)))
      throw taken(this.#site, `the NVMe subsystem "${name}"`, "something else than this volume");
    if (!fresh && !asset.finished)
      refuseOtherAccess(this.#site, `the NVMe subsystem "${name}"`, otherAccess(request, row, ["allow_any_host"]));
    await linkHosts(this.#site, hosts, row, call);
    return row;
  }

  async #namespace(asset: SharedDataset, subsystem: Row, call: Call): Promise<Row> {
    const namespaces = tableOf(this.#site, "nvmet.namespace", call);
    const device_path = deviceOf(asset);
    const request = { device_type: "ZVOL", device_path, subsys_id: subsystem.id, ...this.#settings.namespaceTemplate };
    const find = async () => (await namespaces.find(["device_path", "=", device_path]))[0];
    const { row } = await unique(() => namespaces.make(request), find);
    if (inside(row, "subsys") !== subsystem.id)
      throw taken(this.#site, `a namespace of ${device_path}`, "another subsystem");
    return row;
  }

  async #link(port: number, subsystem: Row, call: Call): Promise<void> {
    const links = tableOf(this.#site, "nvmet.port_subsys", call);
    const find = async () => (await links.find(["port.id", "=", port], ["subsys.id", "=", subsystem.id]))[0];
    await unique(() => links.make({ port_id: port, subsys_id: subsystem.id }), find);
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
