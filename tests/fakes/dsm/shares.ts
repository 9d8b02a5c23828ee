import { randomUUID } from "node:crypto";
import { DsmFailure, type Params, text } from "./params.ts";
import type { Share, State } from "./state.ts";

/** SYNO.Core.Share and what belongs to it, with their own error numbers. */

type Method = (state: State, params: Params) => unknown;

const info = (params: Params) => (params["shareinfo"] ?? {}) as Params;

function known(state: State, name: unknown): Share {
  const share = state.shares.get(String(name).toLowerCase());
  if (!share || share.dying !== undefined) throw new DsmFailure(402);
  return share;
}

/**
 * 1 to 32 characters without these, no minus sign or space at the beginning and no space at the end, and names for the system's own use (DSM Help,
 * Control Panel, Shared Folder); the codes: N4S4/synology-api 50b4343, error_codes.py.
 */
const goodName = /^(?![- ])[^!"#$%&'()*+,/:;<=>?@[\]\\^`{}|~]+(?<! )$/;
const reserved: ReadonlySet<string> = new Set([
  ...[".", "..", "global", "home", "homes", "printers", "surveillance", "usbbackup", "satashare", "usbshare"],
]);

function added(state: State, name: string, more: Partial<Share>): Share {
  if (!goodName.test(name) || name.length > 32) throw new DsmFailure(3305);
  if (reserved.has(name.toLowerCase())) throw new DsmFailure(3319);
  if (state.shares.has(name.toLowerCase())) throw new DsmFailure(3301);
  if (state.shares.size >= state.habits.maxShares) throw new DsmFailure(3309);
  const share: Share = {
    ...{ name, location: "/volume1", description: "", quota: 0, content: undefined },
    ...{
      uuid: randomUUID(),
      hidden: 0,
      dying: undefined,
      rules: [],
      permissions: [],
      snapshots: [],
      moment: 0,
      ...more,
    },
  };
  // batonogov/terraform-provider-synology-dsm 2462b21, live on 7.4.
  if (share.description.length > 64) throw new DsmFailure(3300);
  state.shares.set(name.toLowerCase(), share);
  return share;
}

/** DSM calls snapshots by the second (SynologyOpenSource/synology-csi 2807900, share.go). assumed: each has one of its own, also after a deletion. */
function freeMoment(share: Share): string {
  share.moment = Math.max(Math.floor(Date.now() / 1000), share.moment + 1);
  const [day = "", time = ""] = new Date((share.moment + 3600) * 1000).toISOString().slice(0, 19).split("T");
  return `GMT+01-${day.replaceAll("-", ".")}-${time.replaceAll(":", ".")}`;
}

function shows(state: State, share: Share): boolean {
  if (share.hidden > 0) {
    share.hidden--;
    return false;
  }
  if (share.dying === undefined || share.dying-- > 0) return true;
  state.shares.delete(share.name.toLowerCase());
  return false;
}

/** The fields that a request asks for besides those that every answer has. */
function asked(params: Params, fields: Readonly<Record<string, object>>): object {
  const wanted = Array.isArray(params["additional"]) ? params["additional"] : [];
  return Object.assign({}, ...wanted.map(name => fields[String(name)] ?? {}));
}

/** `get`: SynologyOpenSource/synology-csi 2807900, pkg/dsm/webapi/share.go; fields without "additional": N4S4/synology-api 50b4343, core_share.py. */
const shown = ({ name, location, description, quota, uuid }: Share, params: Params) => ({
  ...{ name, vol_path: location, desc: description, is_usb_share: false, uuid },
  ...asked(params, { share_quota: { quota_value: quota }, support_snapshot: { support_snapshot: true } }),
});

const shares: Readonly<Record<string, Method>> = {
  list: (state, params) => ({
    shares: [...state.shares.values()].filter(each => shows(state, each)).map(each => shown(each, params)),
    total: state.shares.size,
  }),
  get: (state, params) => shown(known(state, text(params, "name")), params),
  create(state, params) {
    const { vol_path, desc, share_quota } = info(params);
    const quota = Number(share_quota ?? 0);
    // "Not enough free space" (N4S4/synology-api error_codes.py).
    if (quota * 2 ** 20 > state.free) throw new DsmFailure(3320);
    added(state, text(params, "name"), { location: String(vol_path), description: String(desc ?? ""), quota });
    return {};
  },
  clone(state, params) {
    const { name_org, desc, vol_path } = info(params);
    const origin = state.shares.get(String(name_org).toLowerCase());
    const snapshot = origin?.snapshots.find(({ time }) => time === params["snapshot"]);
    if (!origin || (params["snapshot"] !== undefined && !snapshot)) throw new DsmFailure(3300);
    const { content } = snapshot ?? origin;
    const name = text(params, "name");
    const hidden = state.habits.cloneHidden;
    added(state, name, { location: String(vol_path), description: String(desc ?? ""), content, hidden });
    return { name };
  },
  set(state, params) {
    const share = known(state, params["name"]);
    const { desc, share_quota } = info(params);
    if (desc !== undefined) share.description = String(desc);
    if (share_quota !== undefined) share.quota = Number(share_quota);
    return {};
  },
  delete(state, params) {
    for (const name of params["name"] as readonly string[]) {
      const share = known(state, name);
      share.dying = state.habits.deletion;
      share.rules = [];
      share.snapshots = [];
    }
    return {};
  },
};

const snapshots: Readonly<Record<string, Method>> = {
  create(state, params) {
    const share = known(state, params["name"]);
    const { desc } = (params["snapinfo"] ?? {}) as Params;
    const time = freeMoment(share);
    share.snapshots = [...share.snapshots, { time, description: String(desc), content: share.content }];
    return time;
  },
  list(state, params) {
    const share = known(state, params["name"]);
    // The time alone without "additional" (N4S4/synology-api 50b4343, snapshot.py); "ruuid" and "snap_size": SynologyOpenSource/synology-csi
    // 2807900, ShareSnapshotInfo.
    const found = share.snapshots.map(({ time, description }) => ({
      time,
      ...asked(params, {
        ...{ desc: { desc: description }, lock: { lock: true }, schedule_snapshot: { schedule_snapshot: false } },
        ...{ ruuid: { ruuid: `${share.uuid}-${time}` }, snap_size: { snap_size: String(share.quota * 2 ** 20) } },
      }),
    }));
    return { snapshots: found, total: found.length };
  },
  delete(state, params) {
    const share = known(state, params["name"]);
    const gone = params["snapshots"] as readonly string[];
    share.snapshots = share.snapshots.filter(({ time }) => !gone.includes(time));
    return [];
  },
};

/** SynologyOpenSource/synology-csi 2807900, pkg/dsm/webapi/share.go, SYNO.Core.FileServ.NFS version 2. */
const nfs: Readonly<Record<string, Method>> = {
  get: state => ({
    ...{
      enable_nfs: state.habits.nfs,
      enable_nfs_v4: state.habits.nfs,
      nfs_v4_domain: "",
      read_size: 8192,
      write_size: 8192,
    },
    ...{ support_encrypt_share: 0, support_major_ver: 4, support_minor_ver: 1, unix_pri_enable: true },
  }),
  set(state, params) {
    state.habits.nfs = params["enable_nfs"] === true;
    return {};
  },
};

const privileges: Readonly<Record<string, Method>> = {
  load: (state, params) => {
    const { rules } = known(state, params["share_name"]);
    // An answer of 7.3.2 without rules, recorded in May 2026; DSM 6 omits empty lists.
    return rules.length === 0 && state.habits.version === 6 ? {} : { rule: rules };
  },
  save(state, params) {
    const share = known(state, params["share_name"]);
    const rules = params["rule"] as Share["rules"];
    // 2301 for any other word, and while the service is off (ychiu1211/dsmctl WI-024).
    if (!state.habits.nfs) throw new DsmFailure(2301);
    if (rules.some(({ root_squash }) => !state.habits.squash.includes(root_squash ?? ""))) throw new DsmFailure(2301);
    share.rules = rules;
    return {};
  },
};

/** Fields: SynologyOpenSource/synology-csi 2807900, share.go, SharePermission. assumed: administrators and accounts without rights are listed too. */
const permissions: Readonly<Record<string, Method>> = {
  list(state, params) {
    const kind = text(params, "user_group_type");
    const names = known(state, params["name"]).permissions.filter(each => each.startsWith(`${kind} `));
    const row = (name: string, is_writable: boolean, is_admin = false) => ({
      ...{ name, is_writable, is_admin, is_readonly: false, is_deny: false, is_custom: false },
    });
    const given = names.map(each => row(each.slice(kind.length + 1), true));
    return { items: [row("admin", true, true), row("guest", false), ...given] };
  },
  set(state, params) {
    const share = known(state, params["name"]);
    const kind = text(params, "user_group_type");
    // The whole list of a kind: what is not named goes (batonogov/terraform-provider-synology-dsm 2462b21, client.go, on 7.4).
    const given = (params["permissions"] as readonly { readonly name: string }[]).map(({ name }) => `${kind} ${name}`);
    const others = share.permissions.filter(each => !each.startsWith(`${kind} `));
    share.permissions = [...new Set([...others, ...given])].sort();
    return {};
  },
};

/** The form of an answer of 7.4 (July 2026): a session of SMB names its shared folders in "descr". */
const connections: Readonly<Record<string, Method>> = {
  list: state => ({
    total: state.connections.length,
    items: state.connections.map(each => ({ ...each, protocol: each.type, pid: 1, is_current_connected: false })),
  }),
};

/** The APIs by name. */
export const shareApis = {
  "SYNO.Core.CurrentConnection": connections,
  "SYNO.Core.Share": shares,
  "SYNO.Core.Share.Snapshot": snapshots,
  "SYNO.Core.Share.Permission": permissions,
  "SYNO.Core.FileServ.NFS": nfs,
  "SYNO.Core.FileServ.NFS.SharePrivilege": privileges,
};
