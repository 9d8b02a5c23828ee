import { randomUUID } from "node:crypto";
import { DsmFailure, type Params, text, whole } from "./params.ts";
import type { Lun, Snapshot, State } from "./state.ts";

/** SYNO.Core.ISCSI.LUN, with its own error numbers. */

const types = new Set(["BLUN", "BLUN_THICK", "THIN", "ADV", "FILE"]);
/** 7.3.2 made BLUN, THIN, ADV and FILE on Btrfs (atom2ueki/mcp-server-synology, RS1221+); BLUN is a subvolume of Btrfs (18990318, N4S4/synology-api error_codes.py). */
const needsBtrfs = (type: string) => type.startsWith("BLUN");

const known = (state: State, uuid: unknown): Lun => {
  const lun = state.luns.get(String(uuid));
  if (!lun || lun.dying !== undefined) throw new DsmFailure(state.habits.noLun);
  return lun;
};

function checkName(state: State, name: string): void {
  // jasoncheng7115/jt-pve-storage-synology 9a96fa3, R-28, and its tests of lengths.
  if (!/^[A-Za-z0-9][A-Za-z0-9.:-]*$/.test(name) || name.length > 255) throw new DsmFailure(18990503);
  if (state.byName(name)) throw new DsmFailure(18990538);
}

function checkRoom(state: State, size: number, location: string): void {
  // "Bad LUN location" (N4S4/synology-api error_codes.py).
  if (!state.hasVolume(location)) throw new DsmFailure(18990501);
  if (size > state.freeOn(location)) throw new DsmFailure(18990002);
}

const shownSnapshot = (state: State, snapshot: Snapshot) => ({
  uuid: snapshot.uuid,
  ...(state.habits.version === 7 ? { name: snapshot.name, create_time: snapshot.time } : { time: snapshot.time }),
  description: snapshot.description,
  parent_uuid: snapshot.lun,
  // Its volume (SynologyOpenSource/synology-csi 2807900, SnapshotInfo.RootPath).
  root_path: state.luns.get(snapshot.lun)?.location ?? "",
  taken_by: snapshot.takenBy,
  total_size: snapshot.size,
  is_user_locked: snapshot.locked,
});

/** A listing of LUNs has the status of snapshots as a mapping, a listing of snapshots as text (SynologyOpenSource/synology-csi 2807900, SnapshotInfo.Status; N4S4/synology-api core_iscsi.py). */
const inLun = { status: { type: "Healthy", progress: { percent: -1, step: "waiting" } } };
const inList = { status: "Healthy" };

const snapshotsOf = (state: State, uuid: string) => [...state.snapshots.values()].filter(({ lun }) => lun === uuid);

function shownLun(state: State, lun: Lun, additional: readonly unknown[]) {
  const locked = lun.locked > 0;
  if (locked) lun.locked--;
  return {
    uuid: lun.uuid,
    lun_id: lun.lunId,
    name: lun.name,
    size: lun.size,
    location: lun.location,
    description: lun.description,
    type: 263,
    type_str: lun.type,
    dev_attribs: lun.attributes,
    ...(additional.includes("status") && { status: lun.dying === undefined ? "normal" : "deleting" }),
    ...(additional.includes("is_action_locked") && { is_action_locked: locked || lun.dying !== undefined }),
    // Asked for as "snapshot_info", answered as "snapshots"; fields that DSM does not know are ignored (N4S4/synology-api core_iscsi.py, snapshot.py).
    ...(additional.includes("snapshot_info") &&
      state.habits.version === 7 && {
        snapshots: snapshotsOf(state, lun.uuid).map(each => ({ ...shownSnapshot(state, each), ...inLun })),
      }),
  };
}

/** Whether a listing shows it; each listing advances what is slow. */
function shows(state: State, lun: Lun): boolean {
  if (lun.hidden > 0) {
    lun.hidden--;
    return false;
  }
  if (lun.dying === undefined) return true;
  if (lun.dying-- > 0) return true;
  state.luns.delete(lun.uuid);
  return false;
}

function cloned(
  state: State,
  source: Pick<Lun, "size" | "content" | "type" | "attributes">,
  params: Params,
  name: string,
) {
  checkName(state, name);
  checkRoom(state, 0, "/volume1");
  const { cloneLocked, cloneHidden, describesClones } = state.habits;
  return state.add({
    name,
    size: source.size,
    location: "/volume1",
    type: source.type,
    description: describesClones ? String(params["description"] ?? "") : "",
    attributes: source.attributes,
    content: source.content,
    locked: cloneLocked,
    hidden: cloneHidden,
  });
}

/** The methods by name. `get` and `get_snapshot`: SynologyOpenSource/synology-csi 2807900, pkg/dsm/webapi/iscsi.go; a LUN by UUID or name: openstack/cinder. */
export const lunMethods: Readonly<Record<string, (state: State, params: Params) => unknown>> = {
  list(state, params) {
    const additional = Array.isArray(params["additional"]) ? params["additional"] : [];
    const luns = [...state.luns.values()].filter(lun => shows(state, lun));
    if (luns.length === 0 && state.habits.version === 6) return {};
    return { luns: luns.map(lun => shownLun(state, lun, additional)) };
  },
  get(state, params) {
    const uuid = text(params, "uuid");
    const additional = Array.isArray(params["additional"]) ? params["additional"] : [];
    return { lun: shownLun(state, known(state, state.byName(uuid)?.uuid ?? uuid), additional) };
  },
  get_snapshot(state, params) {
    const snapshot = state.snapshots.get(text(params, "snapshot_uuid"));
    if (!snapshot) throw new DsmFailure(18990532);
    return { snapshot: { ...shownSnapshot(state, snapshot), ...inList } };
  },
  create(state, params) {
    const [name, type, size] = [text(params, "name"), text(params, "type"), whole(params, "size")];
    if (!types.has(type)) throw new DsmFailure(18990500);
    if (needsBtrfs(type) && state.habits.filesystem !== "btrfs") throw new DsmFailure(18990318);
    // democratic-csi 8a4a28a: "Invalid ioPolicy".
    if (params["direct_io_pattern"] === 3 && /^(?:BLUN|THIN|ADV)$/.test(type)) throw new DsmFailure(18990635);
    checkName(state, name);
    checkRoom(state, size, text(params, "location"));
    const lun = state.add({
      name,
      size,
      type,
      location: text(params, "location"),
      description: String(params["description"] ?? ""),
      attributes: (params["dev_attribs"] ?? []) as Lun["attributes"],
      content: undefined,
      locked: 0,
      hidden: state.habits.createHidden,
    });
    // A name of exactly this length is refused and taken anyway.
    if (name.length === 255) throw new DsmFailure(18990068);
    return { uuid: lun.uuid };
  },
  set(state, params) {
    const lun = known(state, params["uuid"]);
    if (params["new_name"] !== undefined) {
      const name = text(params, "new_name");
      checkName(state, name);
      lun.name = name;
    }
    if (params["new_size"] !== undefined) {
      const size = whole(params, "new_size");
      if (size < lun.size) throw new DsmFailure(18990502);
      if (size - lun.size > state.freeOn(lun.location)) throw new DsmFailure(18990002);
      lun.size = size;
    }
    return {};
  },
  delete(state, params) {
    const uuids = Array.isArray(params["uuids"]) ? params["uuids"] : [params["uuid"]];
    for (const uuid of uuids) {
      const lun = known(state, uuid);
      // DSM deletes a LUN that is mapped, also below a node that uses it (jasoncheng7115/jt-pve-storage-synology 9a96fa3, TESTING.md).
      lun.dying = state.habits.deletion;
      for (const snapshot of snapshotsOf(state, lun.uuid)) state.snapshots.delete(snapshot.uuid);
      for (const target of state.targets.values())
        target.mapped = target.mapped.filter(each => each.lun_uuid !== lun.uuid);
      if (lun.dying === 0) state.luns.delete(lun.uuid);
    }
    return {};
  },
  map_target(state, params) {
    const lun = known(state, params["uuid"]);
    for (const id of params["target_ids"] as readonly unknown[]) {
      const target = state.targets.get(Number(id));
      if (!target) throw new DsmFailure(18990710);
      if (target.mapped.some(each => each.lun_uuid === lun.uuid)) continue;
      const used = new Set(target.mapped.map(each => each.mapping_index));
      let index = 1;
      while (used.has(index)) index++;
      target.mapped = [...target.mapped, { lun_uuid: lun.uuid, mapping_index: index }];
    }
    return {};
  },
  clone(state, params) {
    const source = known(state, params["src_lun_uuid"]);
    return { dst_lun_uuid: cloned(state, source, params, text(params, "dst_lun_name")).uuid };
  },
  clone_snapshot(state, params) {
    const lun = known(state, params["src_lun_uuid"]);
    const snapshot = state.snapshots.get(text(params, "snapshot_uuid"));
    if (snapshot?.lun !== lun.uuid) throw new DsmFailure(18990532);
    const source = { ...lun, size: snapshot.size, content: snapshot.content };
    return { cloned_lun_uuid: cloned(state, source, params, text(params, "cloned_lun_name")).uuid };
  },
  take_snapshot(state, params) {
    const lun = known(state, params["src_lun_uuid"]);
    // Thin LUNs have snapshots unless they are switched off (SynologyOpenSource/synology-csi 2807900 never sends can_snapshot; its issue 83);
    // 18990500: aearnhardt's plugin for Proxmox VE. Thick ones have none (jasoncheng7115/jt-pve-storage-synology 9a96fa3, LIMITS.md).
    const allowed = lun.attributes.find(each => each.dev_attrib === "can_snapshot")?.enable ?? 1;
    if (allowed !== 1 || /^(?:BLUN_THICK|FILE)$/.test(lun.type)) throw new DsmFailure(18990500);
    // jasoncheng7115/jt-pve-storage-synology 9a96fa3, error table: duplicate snapshot name.
    const name = String(params["snapshot_name"] ?? "");
    if (name !== "" && snapshotsOf(state, lun.uuid).some(each => each.name === name)) throw new DsmFailure(18990513);
    if (snapshotsOf(state, lun.uuid).length >= state.habits.maxSnapshots) throw new DsmFailure(18990543);
    const snapshot: Snapshot = {
      uuid: randomUUID(),
      lun: lun.uuid,
      name,
      description: text(params, "description"),
      takenBy: String(params["taken_by"] || "webapi"),
      size: lun.size,
      time: Math.floor(Date.now() / 1000),
      locked: params["is_locked"] === true,
      content: lun.content,
    };
    state.snapshots.set(snapshot.uuid, snapshot);
    return { snapshot_uuid: snapshot.uuid };
  },
  list_snapshot(state, params) {
    const lun = known(state, params["src_lun_uuid"]);
    const found = snapshotsOf(state, lun.uuid);
    // DSM 6 omits empty lists; 7.4.1 answers with a count and the list (jasoncheng7115/jt-pve-storage-synology 9a96fa3, R-9).
    if (found.length === 0 && state.habits.version === 6) return {};
    return { count: found.length, snapshots: found.map(each => ({ ...shownSnapshot(state, each), ...inList })) };
  },
  /** What is not deleted is listed in an answer of success (N4S4/synology-api 50b4343, snapshot.py, delete_snapshots_lun). */
  delete_snapshot(state, params) {
    const uuid = text(params, "snapshot_uuid");
    const snapshot = state.snapshots.get(uuid);
    if (!snapshot) throw new DsmFailure(18990532);
    if (snapshot.kept) return [{ [uuid]: 18990540 }];
    state.snapshots.delete(uuid);
    return [];
  },
};
