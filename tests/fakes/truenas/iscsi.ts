import { completed } from "./facts/complete.ts";
import { CallError, Invalid } from "./failure.ts";
import { rowOf } from "./sharing.ts";
import { inserted, type Nas, placeOf, type Row, removed } from "./state.ts";

/**
 * iscsi.*: plugins/iscsi.py of TN-12.0-U8.1 to TS-22.02.4; plugins/iscsi_/targets.py, extents.py, target_to_extent.py and
 * global_linux.py of TS-22.12.4.2 to TS-25.10.6. assumed: udev has made the link to a zvol (which clean_type_and_path in extents.py looks for
 * in /dev) by the time that its creation is answered.
 */

interface Group {
  readonly portal: number;
  readonly initiator: number | null;
  readonly authmethod?: string;
  readonly auth?: number | null;
}

export const globalConfig = ({ number }: Nas): unknown => ({
  ...(number >= 2504 ? { iser: false } : {}),
  ...(number >= 2600 ? { direct_config: null, mode: 0 } : {}),
  id: 1,
  basename: "iqn.2005-10.org.freenas.ctl",
  isns_servers: [],
  listen_port: 3260,
  pool_avail_threshold: null,
  alua: false,
});

/** Groups name rows of portals and initiators by their id, each portal once (__validate in plugins/iscsi_/targets.py of TS-24.10.2.4). */
function checkGroups(nas: Nas, groups: readonly Group[], method: string): void {
  for (const [index, { portal, initiator, authmethod = "NONE", auth = null }] of groups.entries()) {
    const at = `${method}.groups.${index}`;
    if (groups.findIndex(each => each.portal === portal) < index)
      throw new Invalid([`${at}.portal`, `Portal ${portal} cannot be duplicated on a target`, 22]);
    if (!nas.state.tables.portal.some(({ id }) => id === portal))
      throw new Invalid([`${at}.portal`, `Portal ${portal} not found in database`, 2]);
    if (initiator !== null && !nas.state.tables.initiator.some(({ id }) => id === initiator))
      throw new Invalid([`${at}.initiator`, `Initiator ${initiator} not found in database`, 2]);
    if (authmethod.startsWith("CHAP")) checkAuth(nas, `${at}.auth`, authmethod, auth);
  }
}

/** The credentials of a group are those with its tag; mutual ones are read (the same place, of TS-25.10.6). */
function checkAuth(nas: Nas, at: string, method: string, auth: number | null): void {
  if (!auth) throw new Invalid([at, "Authentication group is required for CHAP and CHAP Mutual", 22]);
  if (method !== "CHAP_MUTUAL") return;
  const row = nas.state.tables.iscsiAuth.find(each => each["tag"] === auth);
  if (!row) throw new Invalid([at, "Authentication group not found", 2]);
  if (!row["peeruser"]) throw new Invalid([at, `Authentication group ${auth} does not support CHAP Mutual`, 22]);
}

export function createTarget(nas: Nas, [data]: readonly unknown[]): unknown {
  const fields = completed<{ readonly name: string; readonly groups: readonly Group[] }>(
    nas,
    "iscsi.target.create",
    data,
  );
  if (nas.state.tables.target.some(each => each["name"] === fields.name))
    throw new Invalid(["iscsi_target_create.name", "Target with this name already exists", 22]);
  checkGroups(nas, fields.groups, "iscsi_target_create");
  return inserted(nas, "target", { ...fields, rel_tgt_id: nas.state.tables.target.length + 1 });
}

export function updateTarget(nas: Nas, [id, data]: readonly unknown[]): unknown {
  const fields = completed<{ readonly groups?: readonly Group[] }>(nas, "iscsi.target.update", data, 1);
  checkGroups(nas, fields.groups ?? [], "iscsi_target_update");
  return Object.assign(rowOf(nas, "target", "iSCSITarget", id), fields);
}

export function deleteTarget(nas: Nas, [id, force, withExtents]: readonly unknown[]): unknown {
  const row = rowOf(nas, "target", "iSCSITarget", id);
  if (nas.sessions.has(String(row["name"])) && force !== true)
    throw new CallError("EFAULT", `Target ${row["name"]} is in use.`);
  const held = nas.state.tables.targetextent.filter(each => each["target"] === row.id).map(each => each["extent"]);
  removed(nas, "targetextent", each => each["target"] === row.id);
  if (withExtents === true) withoutExtents(nas, each => held.includes(each.id));
  removed(nas, "target", each => each.id === row.id);
  return true;
}

/** How SCST names a device (sanitize_extent() in plugins/iscsi_/utils.py; compared from TS-25.04.2.6 on, extents.py, clean_name). */
const flattened = (name: string): string => name.replaceAll(".", "_").replaceAll("/", "-");

/** What the rules for extents read. */
interface Extent {
  readonly name: string;
  readonly disk: string | null;
  readonly serial: string | null;
  readonly filesize: number | string | null;
  readonly ro: boolean;
}

/**
 * What an extent sets on its zvol (do_create and do_delete in plugins/iscsi_/extents.py: "volthreading" in TS-24.04.2.5 to TS-26.0.0-BETA.3,
 * and on again once the extent is gone; "readonly" in TS-24.10.2.4 to TS-26.0.0-BETA.3).
 */
function setOnZvol(nas: Nas, disk: unknown, values: Readonly<Record<string, string>>): void {
  const zvol = nas.state.datasets[String(disk).replace(/^zvol\//, "")];
  if (zvol?.type === "VOLUME") Object.assign(zvol.native, values);
}

const readOnly = ({ number }: Nas, { ro }: Extent): Readonly<Record<string, string>> =>
  number >= 2410 ? { readonly: ro ? "on" : "off" } : {};

/** A zvol without an extent has threads of its own again. */
function withoutExtents(nas: Nas, fits: (row: Row) => boolean): void {
  const gone = nas.state.tables.extent.filter(fits);
  removed(nas, "extent", fits);
  for (const { disk } of nas.number >= 2404 ? gone : []) setOnZvol(nas, disk, { volthreading: "on" });
}

export function createExtent(nas: Nas, [data]: readonly unknown[]): unknown {
  const fields = completed<Extent>(nas, "iscsi.extent.create", data);
  const { name, disk } = fields;
  if (nas.state.tables.extent.some(each => each["name"] === name))
    throw new Invalid(["iscsi_extent_create.name", "Extent name must be unique", 22]);
  const clash = nas.state.tables.extent.find(each => flattened(String(each["name"])) === flattened(name));
  if (clash && nas.number >= 2504)
    throw new Invalid(["iscsi_extent_create.name", `Extent name must be unique when flattened (${clash["name"]})`, 22]);
  // Up to 25.04 a disk may have several extents (plugins/iscsi_/extents.py of TS-25.04.2.6 and TS-25.10.6).
  const other = nas.number >= 2510 && nas.state.tables.extent.find(each => each["disk"] === disk);
  if (other) throw new Invalid(["iscsi_extent_create.disk", `Disk currently in use by extent ${other["name"]}`, 22]);
  checkZvol(nas, disk, "iscsi_extent_create.disk");
  if (nas.state.tables.nvmetNamespace.some(each => each["device_path"] === disk))
    throw new Invalid(["iscsi_extent_create.disk", "Disk currently in use by an NVMe-oF namespace", 22]);
  setOnZvol(nas, disk, { ...(nas.number >= 2404 && { volthreading: "off" }), ...readOnly(nas, fields) });
  const serial = fields.serial ?? String(10_000 + nas.state.tables.extent.length);
  const row = inserted(nas, "extent", {
    ...fields,
    serial,
    naa: `0x6589cfc000000${nas.state.txg}`,
    vendor: "TrueNAS",
    locked: false,
    filesize: fields.filesize ?? "0",
    ...placeOf(nas, String(disk).replace(/^zvol\//, "")),
  });
  return row;
}

/** The block device of a zvol is named "zvol/<dataset>". */
export function checkZvol(nas: Nas, device: string | null, attribute: string): void {
  const name = device?.startsWith("zvol/") ? device.slice("zvol/".length) : "";
  if (!(nas.elsewhere?.has(name) ?? nas.state.datasets[name]?.type === "VOLUME"))
    throw new Invalid([attribute, `Device '/dev/${device}' for volume '${name}' does not exist`, 22]);
}

const links = (nas: Nas, extent: number): readonly Row[] =>
  nas.state.tables.targetextent.filter(each => each["extent"] === extent);

export function deleteExtent(nas: Nas, [id, , force]: readonly unknown[]): unknown {
  const row = rowOf(nas, "extent", "iSCSITargetExtent", id);
  const targets = links(nas, row.id).map(link => nas.state.tables.target.find(each => each.id === link["target"]));
  const used = targets.find(target => nas.sessions.has(String(target?.["name"])));
  if (used && force !== true) throw new CallError("EFAULT", `Associated target(s) ${used["name"]} in use.`);
  removed(nas, "targetextent", each => each["extent"] === row.id);
  withoutExtents(nas, each => each.id === row.id);
  return true;
}

/** What the rules for links of a target and an extent read. */
interface Link {
  readonly target: number;
  readonly extent: number;
  readonly lunid: number | null;
}

export function createLink(nas: Nas, [data]: readonly unknown[]): unknown {
  const fields = completed<Link>(nas, "iscsi.targetextent.create", data);
  const { tables } = nas.state;
  const at = "iscsi_targetextent_create";
  if (!tables.target.some(({ id }) => id === fields.target))
    throw new Invalid([`${at}.target`, `Target ${fields.target} does not exist`, 22]);
  if (!tables.extent.some(({ id }) => id === fields.extent))
    throw new Invalid([`${at}.extent`, `Extent ${fields.extent} does not exist`, 22]);
  if (tables.targetextent.some(each => each["target"] === fields.target && each["lunid"] === (fields.lunid ?? 0)))
    throw new Invalid([`${at}.lunid`, "LUN ID is already being used for this target.", 22]);
  if (links(nas, fields.extent).length > 0) throw new Invalid([`${at}.extent`, "Extent is already in use.", 22]);
  return inserted(nas, "targetextent", { ...fields, lunid: fields.lunid ?? 0 });
}
