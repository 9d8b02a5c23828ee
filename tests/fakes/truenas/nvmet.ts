import { randomUUID } from "node:crypto";
import * as v from "valibot";
import { CallError, Invalid } from "./failure.ts";
import { checkZvol } from "./iscsi.ts";
import { flag, maybe, modelled, or, text, whole } from "./models.ts";
import { type QueryOptions, queried } from "./query.ts";
import { rowOf } from "./sharing.ts";
import { inserted, type Nas, placeOf, type Row, removed, type TableName } from "./state.ts";

/**
 * nvmet.*, from 25.10 on: plugins/nvmet/subsys.py, namespace.py, port_subsys.py and host_subsys.py of TS-25.10.6; names are compared by
 * service/crud_service.py, _ensure_unique. assumed: what deleting a subsystem in use says without force.
 */

const baseNqn = "nqn.2011-06.com.truenas:uuid:68bf9433-63ef-49f5-a921-4c0f8190fd94";

export const globalConfig = (): unknown => ({
  id: 1,
  basenqn: baseNqn,
  kernel: true,
  ana: false,
  rdma: false,
  xport_referral: true,
});

const subsysModel = v.strictObject({
  name: v.pipe(text, v.minLength(1)),
  subnqn: maybe(text),
  allow_any_host: or(flag, false),
  pi_enable: maybe(flag),
  qid_max: maybe(whole),
  ieee_oui: maybe(text),
  ana: maybe(flag),
});

export function createSubsys(nas: Nas, [data]: readonly unknown[]): unknown {
  const fields = modelled(subsysModel, data, "nvmet_subsys_create");
  const subnqn = fields.subnqn ?? `${baseNqn}:${fields.name}`.slice(0, 223);
  const taken = nas.state.tables.nvmetSubsys.some(each => each["name"] === fields.name || each["subnqn"] === subnqn);
  if (taken) throw new Invalid(["nvmet_subsys_create.name", "Object with this name already exists", 22]);
  const joined = { hosts: null, namespaces: null, ports: null };
  return inserted(nas, "nvmetSubsys", { ...fields, subnqn, serial: String(1000 + nas.state.txg), ...joined });
}

/**
 * Hosts that are connected, by the subsystem's id (middleware 25.10.1, plugins/nvmet/global.py, sessions and local_sessions). Deleting
 * a subsystem does not ask for them (plugins/nvmet/subsys.py, do_delete).
 */
export const sessions = (nas: Nas, [filters, options]: readonly unknown[]): unknown =>
  queried(
    nas.state.tables.nvmetSubsys
      .filter(each => nas.sessions.has(String(each["name"])))
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
  const { force } = modelled(v.strictObject({ force: or(flag, false) }), options ?? {}, "options");
  const row = rowOf(nas, "nvmetSubsys", "NVMetSubsys", id);
  const inUse = (["nvmetNamespace", "nvmetPortSubsys"] as const).some(table =>
    nas.state.tables[table].some(each => each["subsys_id"] === row.id),
  );
  if (inUse && !force) throw new CallError("EBUSY", `Subsystem ${row["name"]} is in use`);
  for (const table of ["nvmetNamespace", "nvmetPortSubsys", "nvmetHostSubsys"] as const)
    removed(nas, table, each => each["subsys_id"] === row.id);
  removed(nas, "nvmetSubsys", each => each.id === row.id);
  return true;
}

const namespaceModel = v.strictObject({
  subsys_id: whole,
  nsid: maybe(whole),
  device_type: v.picklist(["ZVOL", "FILE"]),
  device_path: text,
  filesize: maybe(whole),
  enabled: or(flag, true),
});

export function createNamespace(nas: Nas, [data]: readonly unknown[]): unknown {
  const fields = modelled(namespaceModel, data, "nvmet_namespace_create");
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

/** What a port has that a person has made with few fields. */
const ofPorts = { inline_data_size: null, max_queue_size: null, pi_enable: null };

/** Entries show the objects that they join, not only their ids. */
const embedded = (nas: Nas, row: Row, parts: Readonly<Record<string, TableName>>): Row => {
  const shown: Row = { ...row };
  for (const [key, table] of Object.entries(parts)) {
    const part = nas.state.tables[table].find(each => each.id === row[`${key}_id`]);
    shown[key] = part && table === "nvmetPort" ? { ...ofPorts, ...part } : part;
    delete shown[`${key}_id`];
  }
  return shown;
};

const shownNamespace = (nas: Nas, row: Row): Row => embedded(nas, row, { subsys: "nvmetSubsys" });

const embedding =
  (table: TableName, parts: Readonly<Record<string, TableName>>) =>
  (nas: Nas, [filters, options]: readonly unknown[]): unknown =>
    queried(
      nas.state.tables[table].map(row => embedded(nas, row, parts)),
      filters,
      (options ?? {}) as QueryOptions,
    );

const portParts = { port: "nvmetPort", subsys: "nvmetSubsys" } as const;
const hostParts = { host: "nvmetHost", subsys: "nvmetSubsys" } as const;

export const queryNamespaces = embedding("nvmetNamespace", { subsys: "nvmetSubsys" });
export const queryPortLinks = embedding("nvmetPortSubsys", portParts);
export const queryHostLinks = embedding("nvmetHostSubsys", hostParts);

export function createPortLink(nas: Nas, [data]: readonly unknown[]): unknown {
  const fields = modelled(v.strictObject({ port_id: whole, subsys_id: whole }), data, "nvmet_port_subsys_create");
  return linked(nas, "nvmetPortSubsys", "port_id", fields, portParts);
}

export function createHostLink(nas: Nas, [data]: readonly unknown[]): unknown {
  const fields = modelled(v.strictObject({ host_id: whole, subsys_id: whole }), data, "nvmet_host_subsys_create");
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

const portModel = v.strictObject({
  addr_trtype: v.picklist(["TCP", "RDMA"]),
  addr_traddr: text,
  addr_trsvcid: or(whole, 4420),
  inline_data_size: maybe(whole),
  max_queue_size: maybe(whole),
  pi_enable: maybe(flag),
  enabled: or(flag, true),
});

export function createPort(nas: Nas, [data]: readonly unknown[]): unknown {
  const fields = modelled(portModel, data, "nvmet_port_create");
  return inserted(nas, "nvmetPort", { ...fields, index: nas.state.tables.nvmetPort.length + 1, addr_adrfam: "IPV4" });
}

/** api/base/types/nvmet.py of TS-25.10.6. */
const nqn = v.pipe(text, v.minLength(11, "String should have at least 11 characters"), v.maxLength(223));

const hostModel = v.strictObject({
  hostnqn: nqn,
  dhchap_key: maybe(text),
  dhchap_ctrl_key: maybe(text),
  dhchap_dhgroup: maybe(text),
  dhchap_hash: or(v.picklist(["SHA-256", "SHA-384", "SHA-512"]), "SHA-256"),
});

export function createHost(nas: Nas, [data]: readonly unknown[]): unknown {
  const fields = modelled(hostModel, data, "nvmet_host_create");
  if (nas.state.tables.nvmetHost.some(each => each["hostnqn"] === fields.hostnqn))
    throw new Invalid(["nvmet_host_create.hostnqn", "Object with this name already exists", 22]);
  return inserted(nas, "nvmetHost", fields);
}
