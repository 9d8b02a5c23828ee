import { DsmFailure, type Params, text, whole } from "./params.ts";
import type { State, Target } from "./state.ts";

/** SYNO.Core.ISCSI.Target, with its own error numbers. */

function checkAuth(params: Params): void {
  const half = (a: string, b: string) => Boolean(params[a]) !== Boolean(params[b]);
  const type = Number(params["auth_type"] ?? 0);
  const wrong =
    half("user", "password") ||
    half("mutual_user", "mutual_password") ||
    (type >= 1 && !params["user"]) ||
    (type === 2 && !params["mutual_user"]);
  if (wrong) throw new DsmFailure(18990708);
}

const shown = (target: Target, additional: readonly unknown[]) => ({
  target_id: target.id,
  name: target.name,
  iqn: target.iqn,
  auth_type: target.options["auth_type"] ?? 0,
  max_sessions: target.options["max_sessions"] ?? 1,
  ...(additional.includes("mapped_lun") && { mapped_luns: target.mapped }),
  ...(additional.includes("connected_sessions") && { connected_sessions: target.sessions }),
});

/** "target_id" is a number or a name (SynologyOpenSource/synology-csi 2807900, pkg/dsm/service/dsm.go). */
function known(state: State, params: Params): Target {
  // A number without quotes is a bad id (jasoncheng7115/jt-pve-storage-synology 9a96fa3, Target.pm).
  if (typeof params["target_id"] === "number") throw new DsmFailure(18990710);
  const id = text(params, "target_id");
  const target = state.targets.get(Number(id)) ?? [...state.targets.values()].find(({ name }) => name === id);
  if (!target) throw new DsmFailure(18990710);
  return target;
}

/** The methods by name. `get` and `set`: SynologyOpenSource/synology-csi 2807900, pkg/dsm/webapi/iscsi.go. */
export const targetMethods: Readonly<Record<string, (state: State, params: Params) => unknown>> = {
  list(state, params) {
    const additional = Array.isArray(params["additional"]) ? params["additional"] : [];
    const targets = [...state.targets.values()];
    if (targets.length === 0 && state.habits.version === 6) return {};
    return { targets: targets.map(each => shown(each, additional)) };
  },
  create(state, params) {
    const iqn = text(params, "iqn");
    // 223 bytes: RFC 3720. assumed: the code.
    if (iqn.length > 223 || !/^iqn\.[A-Za-z0-9.:-]+$/.test(iqn)) throw new DsmFailure(18990503);
    // N4S4/synology-api error_codes.py: 18990744 duplicated name, 18990745 duplicated IQN.
    if ([...state.targets.values()].some(each => each.name === text(params, "name"))) throw new DsmFailure(18990744);
    if ([...state.targets.values()].some(each => each.iqn === iqn)) throw new DsmFailure(18990745);
    if (state.targets.size >= state.habits.maxTargets) throw new DsmFailure(18990542);
    checkAuth(params);
    return { target_id: state.addTarget({ name: text(params, "name"), iqn, options: params }).id };
  },
  get: (state, params) => ({ target: shown(known(state, params), ["mapped_lun", "connected_sessions"]) }),
  set(state, params) {
    const target = known(state, params);
    if (params["max_sessions"] !== undefined)
      target.options = { ...target.options, max_sessions: whole(params, "max_sessions") };
    return {};
  },
  delete(state, params) {
    state.targets.delete(known(state, params).id);
    return {};
  },
};

/** SYNO.Core.System: SynologyOpenSource/synology-csi 2807900, pkg/dsm/webapi/systeminfo.go. */
export const systemMethods: Readonly<Record<string, (state: State, params: Params) => unknown>> = {
  info: (state, params) =>
    params["type"] === "network"
      ? { hostname: "nas" }
      : { model: "DS925+", firmware_ver: `DSM ${state.habits.version}`, serial: "0000" },
};

const volume = (state: State, path: string) => ({
  ...{ display_name: path.replace("/volume", "Volume "), volume_path: path, fs_type: state.habits.filesystem },
  ...{ size_free_byte: String(state.freeOn(path)), size_total_byte: String(2 ** 44), status: "normal" },
  ...{ container: "internal", location: "internal" },
});

/** SYNO.Core.Storage.Volume; `list`: SynologyOpenSource/synology-csi 2807900, pkg/dsm/webapi/storage.go. */
export const storageMethods: Readonly<Record<string, (state: State, params: Params) => unknown>> = {
  get: (state, params) => ({ volume: volume(state, text(params, "volume_path")) }),
  list: state => ({ volumes: ["/volume1", ...state.others.keys()].map(path => volume(state, path)) }),
};
