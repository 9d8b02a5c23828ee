import { randomUUID } from "node:crypto";
import { DsmFailure, type Params, text, whole } from "./params.ts";
import type { Lun, Snapshot, State } from "./state.ts";

/** SYNO.Core.ISCSI.LUN, with its own error numbers. */

const types = new Set(["BLUN", "BLUN_THICK", "THIN", "ADV", "FILE"]);
const onBtrfs = (type: string) => type.startsWith("BLUN");

const known = (state: State, uuid: unknown): Lun => {
  const lun = state.luns.get(String(uuid));
  if (!lun || lun.dying !== undefined) throw new DsmFailure(18990531);
  return lun;
};

function checkName(state: State, name: string): void {
  if (!/^[A-Za-z0-9][A-Za-z0-9.:-]*$/.test(name) || name.length > 255) throw new DsmFailure(18990503);
  if (state.byName(name)) throw new DsmFailure(18990538);
}

function checkRoom(state: State, size: number, location: string): void {
  if (state.luns.size >= state.habits.maxLuns) throw new DsmFailure(18990541);
  if (size > state.freeOn(location)) throw new DsmFailure(18990002);
}

const shownSnapshot = (state: State, snapshot: Snapshot) => ({
  uuid: snapshot.uuid,
  ...(state.habits.version === 7 ? { name: snapshot.name, create_time: snapshot.time } : { time: snapshot.time }),
  description: snapshot.description,
  parent_uuid: snapshot.lun,
  taken_by: snapshot.takenBy,
  total_size: snapshot.size,
  is_user_locked: snapshot.locked,
  status: { type: "Healthy", progress: { percent: -1, step: "waiting" } },
});

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
    ...(additional.includes("snapshots") &&
      state.habits.version === 7 && {
        snapshots: snapshotsOf(state, lun.uuid).map(each => shownSnapshot(state, each)),
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

/** The methods by name. */
export const lunMethods: Readonly<Record<string, (state: State, params: Params) => unknown>> = {
  list(state, params) {
    const additional = Array.isArray(params["additional"]) ? params["additional"] : [];
    const luns = [...state.luns.values()].filter(lun => shows(state, lun));
    if (luns.length === 0 && state.habits.version === 6) return {};
    return { luns: luns.map(lun => shownLun(state, lun, additional)) };
  },
  create(state, params) {
    const [name, type, size] = [text(params, "name"), text(params, "type"), whole(params, "size")];
    if (!types.has(type)) throw new DsmFailure(18990500);
    if (onBtrfs(type) !== (state.habits.filesystem === "btrfs")) throw new DsmFailure(18990318);
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
      // assumed: DSM refuses it as it does a LUN that is busy; no source says with which number.
      const used = [...state.targets.values()].filter(each => each.mapped.some(one => one.lun_uuid === lun.uuid));
      if (used.some(({ sessions }) => sessions.length > 0)) throw new DsmFailure(117);
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
    if (!lun.attributes.some(each => each.dev_attrib === "can_snapshot" && each.enable === 1))
      throw new DsmFailure(18990502);
    if (snapshotsOf(state, lun.uuid).length >= state.habits.maxSnapshots) throw new DsmFailure(18990543);
    const snapshot: Snapshot = {
      uuid: randomUUID(),
      lun: lun.uuid,
      name: String(params["snapshot_name"] ?? ""),
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
    return found.length === 0 ? {} : { snapshots: found.map(each => shownSnapshot(state, each)) };
  },
  delete_snapshot(state, params) {
    if (!state.snapshots.delete(text(params, "snapshot_uuid"))) throw new DsmFailure(18990532);
    return {};
  },
};
