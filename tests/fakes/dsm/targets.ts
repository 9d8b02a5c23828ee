import { DsmFailure, type Params, text } from "./params.ts";
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

/** The methods by name. */
export const targetMethods: Readonly<Record<string, (state: State, params: Params) => unknown>> = {
  list(state, params) {
    const additional = Array.isArray(params["additional"]) ? params["additional"] : [];
    const targets = [...state.targets.values()];
    if (targets.length === 0 && state.habits.version === 6) return {};
    return { targets: targets.map(each => shown(each, additional)) };
  },
  create(state, params) {
    const iqn = text(params, "iqn");
    if (iqn.length > 223 || !/^iqn\.[A-Za-z0-9.:-]+$/.test(iqn)) throw new DsmFailure(18990503);
    // N4S4/synology-api error_codes.py: 18990744 duplicated name, 18990745 duplicated IQN.
    if ([...state.targets.values()].some(each => each.name === text(params, "name"))) throw new DsmFailure(18990744);
    if ([...state.targets.values()].some(each => each.iqn === iqn)) throw new DsmFailure(18990745);
    if (state.targets.size >= state.habits.maxTargets) throw new DsmFailure(18990542);
    checkAuth(params);
    return { target_id: state.addTarget({ name: text(params, "name"), iqn, options: params }).id };
  },
  delete(state, params) {
    if (!state.targets.delete(Number(text(params, "target_id")))) throw new DsmFailure(18990710);
    return {};
  },
};

/** SYNO.Core.Storage.Volume. */
export const storageMethods: Readonly<Record<string, (state: State, params: Params) => unknown>> = {
  get(state, params) {
    const path = text(params, "volume_path");
    const free = String(state.freeOn(path));
    return { volume: { volume_path: path, size_free_byte: free, fs_type: state.habits.filesystem } };
  },
};
