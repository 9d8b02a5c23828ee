import { randomUUID } from "node:crypto";
import { completed, wholeRow } from "./facts/complete.ts";
import { Invalid, type Triple } from "./failure.ts";
import { checkZvol } from "./iscsi.ts";
import { type QueryOptions, queried } from "./query.ts";
import { rowOf } from "./sharing.ts";
import { inserted, type Nas, placeOf, type Row, removed, type TableName } from "./state.ts";

/**
 * nvmet.*, from 25.10 on: plugins/nvmet/subsys.py, namespace.py, port_subsys.py and host_subsys.py of TS-25.10.6; names are compared by
 * service/crud_service.py, _ensure_unique.
 */

export const globalConfig = ({ state }: Nas): unknown => ({
  id: 1,
  basenqn: state.basenqn,
  kernel: true,
  ana: false,
  rdma: false,
  xport_referral: true,
});

/** What the rules for subsystems read. */
interface Subsystem {
  readonly name: string;
  readonly subnqn: string | null;
  readonly ana?: boolean | null;
}

export function createSubsys(nas: Nas, [data]: readonly unknown[]): unknown {
  const fields = completed<Subsystem>(nas, "nvmet.subsys.create", data);
  const subnqn = fields.subnqn ?? `${nas.state.basenqn}:${fields.name}`.slice(0, 223);
  const taken = nas.state.tables.nvmetSubsys.some(each => each["name"] === fields.name || each["subnqn"] === subnqn);
  if (taken) throw new Invalid(["nvmet_subsys_create.name", "Object with this name already exists", 22]);
  // Without a licence for two controllers (__validate in plugins/nvmet/subsys.py of TS-25.10.6).
  const noAna = "This platform does not support Asymmetric Namespace Access(ANA).";
  if ((fields.ana ?? null) !== null) throw new Invalid(["nvmet_subsys_create.ana", noAna, 22]);
  const joined = { hosts: null, namespaces: null, ports: null };
  return inserted(nas, "nvmetSubsys", { ...fields, subnqn, serial: String(1000 + nas.state.txg), ...joined });
}

/**
 * Hosts that are connected, by the subsystem's id (middleware 25.10.1, plugins/nvmet/global.py, sessions and local_sessions). Deleting
 * a subsystem does not ask for them (plugins/nvmet/subsys.py, do_delete). Up to TS-25.10.6 they are looked for under the present basenqn.
 */
export const sessions = (nas: Nas, [filters, options]: readonly unknown[]): unknown =>
  queried(
    nas.state.tables.nvmetSubsys
      .filter(each => nas.sessions.has(String(each["name"])))
      .filter(each => nas.number >= 2600 || each["subnqn"] === `${nas.state.basenqn}:${each["name"]}`)
      .map(({ id }) => ({
        subsys_id: id,
        hostnqn: "nqn.2014-08.org:node-1",
        host_traddr: "10.0.0.9",
        port_id: 1,
        ctrl: 1,
      })),
    filters,
    (options ?? {}) as QueryOptions,
  );

export function deleteSubsys(nas: Nas, [id, options]: readonly unknown[]): unknown {
  const { force } = completed<{ readonly force: boolean }>(nas, "nvmet.subsys.delete", options, 1);
  const row = rowOf(nas, "nvmetSubsys", "NVMetSubsys", id);
  const of = (table: TableName) => nas.state.tables[table].filter(each => each["subsys_id"] === row.id);
  const [nsids, ports] = [of("nvmetNamespace").map(each => each["nsid"]), of("nvmetPortSubsys")];
  const kept = [
    ...(nsids.length > 0
      ? [`contains ${nsids.length} namespace${nsids.length > 1 ? "s" : ""}: ${nsids.join(",")}`]
      : []),
    ...(ports.length > 0 ? [`visible on ${ports.length} port${ports.length > 1 ? "s" : ""}`] : []),
  ];
  const refused = kept.map((why): Triple => ["nvmet_subsys_delete.id", `Subsystem ${row["name"]} ${why}`, 22]);
  if (refused.length > 0 && !force) throw new Invalid(...refused);
  for (const table of ["nvmetNamespace", "nvmetPortSubsys", "nvmetHostSubsys"] as const)
    removed(nas, table, each => each["subsys_id"] === row.id);
  removed(nas, "nvmetSubsys", each => each.id === row.id);
  return true;
}

/** What the rules for namespaces read. */
interface Namespace {
  readonly subsys_id: number;
  readonly device_path: string;
  readonly nsid: number | null;
}

export function createNamespace(nas: Nas, [data]: readonly unknown[]): unknown {
  const fields = completed<Namespace>(nas, "nvmet.namespace.create", data);
  const subsys = rowOf(nas, "nvmetSubsys", "NVMetSubsys", fields.subsys_id);
  const { nvmetNamespace } = nas.state.tables;
  const at = "nvmet_namespace_create.device_path";
  const other = nvmetNamespace.find(each => each["device_path"] === fields.device_path);
  if (other) {
    const owner = nas.state.tables.nvmetSubsys.find(each => each.id === other["subsys_id"]);
    throw new Invalid([at, `This device_path already used by subsystem: ${owner?.["name"]}`, 22]);
  }
  checkZvol(nas, fields.device_path, at);
  if (nas.state.tables.extent.some(each => each["disk"] === fields.device_path))
    throw new Invalid([at, "This device_path already used by an iSCSI extent", 22]);
  const taken = nvmetNamespace.filter(each => each["subsys_id"] === subsys.id).map(each => Number(each["nsid"]));
  let free = 1;
  while (taken.includes(free)) free++;
  const device = { device_uuid: randomUUID(), device_nguid: randomUUID() };
  const place = placeOf(nas, fields.device_path.replace(/^zvol\//, ""));
  const row = { ...fields, ...device, ...place, nsid: fields.nsid ?? free, locked: false };
  return shownNamespace(nas, inserted(nas, "nvmetNamespace", row));
}

/** The queries that show the rows which others embed. */
const queries: Readonly<Partial<Record<TableName, string>>> = {
  nvmetPort: "nvmet.port.query",
  nvmetHost: "nvmet.host.query",
  nvmetSubsys: "nvmet.subsys.query",
};

/** Entries show the objects that they join, not only their ids. */
const embedded = (nas: Nas, row: Row, parts: Readonly<Record<string, TableName>>): Row => {
  const shown: Row = { ...row };
  for (const [key, table] of Object.entries(parts)) {
    const part = nas.state.tables[table].find(each => each.id === row[`${key}_id`]);
    shown[key] = part && wholeRow(nas, queries[table] ?? "", part);
    delete shown[`${key}_id`];
  }
  return shown;
};

const shownNamespace = (nas: Nas, row: Row): Row => embedded(nas, row, { subsys: "nvmetSubsys" });

const embedding =
  (table: TableName, method: string, parts: Readonly<Record<string, TableName>>) =>
  (nas: Nas, [filters, options]: readonly unknown[]): unknown =>
    queried(
      nas.state.tables[table].map(row => wholeRow(nas, method, embedded(nas, row, parts))),
      filters,
      (options ?? {}) as QueryOptions,
    );

const portParts = { port: "nvmetPort", subsys: "nvmetSubsys" } as const;
const hostParts = { host: "nvmetHost", subsys: "nvmetSubsys" } as const;

export const queryNamespaces = embedding("nvmetNamespace", "nvmet.namespace.query", { subsys: "nvmetSubsys" });
export const queryPortLinks = embedding("nvmetPortSubsys", "nvmet.port_subsys.query", portParts);
export const queryHostLinks = embedding("nvmetHostSubsys", "nvmet.host_subsys.query", hostParts);

export function createPortLink(nas: Nas, [data]: readonly unknown[]): unknown {
  const fields = completed<Readonly<Record<string, number>>>(nas, "nvmet.port_subsys.create", data);
  return linked(nas, "nvmetPortSubsys", "port_id", fields, portParts);
}

export function createHostLink(nas: Nas, [data]: readonly unknown[]): unknown {
  const fields = completed<Readonly<Record<string, number>>>(nas, "nvmet.host_subsys.create", data);
  return linked(nas, "nvmetHostSubsys", "host_id", fields, hostParts);
}

function linked(
  nas: Nas,
  table: "nvmetPortSubsys" | "nvmetHostSubsys",
  key: "port_id" | "host_id",
  fields: Readonly<Record<string, number>>,
  parts: Readonly<Record<string, TableName>>,
): unknown {
  const method = table === "nvmetPortSubsys" ? "nvmet_port_subsys_create" : "nvmet_host_subsys_create";
  rowOf(nas, key === "port_id" ? "nvmetPort" : "nvmetHost", key, fields[key]);
  rowOf(nas, "nvmetSubsys", "NVMetSubsys", fields["subsys_id"]);
  const same = (row: Row): boolean => row[key] === fields[key] && row["subsys_id"] === fields["subsys_id"];
  if (nas.state.tables[table].some(same))
    throw new Invalid([
      `${method}.${key}`,
      `This record already exists (Host ID: ${fields[key]}/Subsystem ID: ${fields["subsys_id"]})`,
      22,
    ]);
  return embedded(nas, inserted(nas, table, fields), parts);
}

export function createPort(nas: Nas, [data]: readonly unknown[]): unknown {
  const fields = completed<object>(nas, "nvmet.port.create", data);
  return inserted(nas, "nvmetPort", { ...fields, index: nas.state.tables.nvmetPort.length + 1, addr_adrfam: "IPV4" });
}

export function createHost(nas: Nas, [data]: readonly unknown[]): unknown {
  const fields = completed<{ readonly hostnqn: string }>(nas, "nvmet.host.create", data);
  if (nas.state.tables.nvmetHost.some(each => each["hostnqn"] === fields.hostnqn))
    throw new Invalid(["nvmet_host_create.hostnqn", "Object with this name already exists", 22]);
  return inserted(nas, "nvmetHost", fields);
}
