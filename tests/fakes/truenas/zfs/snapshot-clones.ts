import { completed } from "../facts/complete.ts";
import { CallError } from "../failure.ts";
import type { Nas } from "../state.ts";
import { existing, made } from "./datasets.ts";

/** Clones of snapshots, over all generations of the API. */

interface Cloning {
  readonly snapshot: string;
  readonly dataset_dst: string;
  readonly dataset_properties?: Readonly<Record<string, string>>;
}

export function clone(nas: Nas, [data]: readonly unknown[]): unknown {
  const method = nas.number < 2510 ? "zfs.snapshot.clone" : "pool.snapshot.clone";
  const { snapshot, dataset_dst, dataset_properties } = completed<Cloning>(nas, method, data);
  cloned(nas, snapshot, dataset_dst, dataset_properties ?? {});
  return true;
}

/**
 * Why ZFS makes no clone. Up to 25.10 all of it is EFAULT and words (clone() in plugins/zfs_/snapshot_actions.py of TS-24.10.2.4 to
 * TS-25.10.6); 26 hands on what no one has caught as EINVAL (clone_impl() in plugins/zfs/rename_promote_clone_impl.py and
 * api/base/server/ws_handler/rpc.py of TS-26.0.0-BETA.3). The words are those of libzfs: zfs_clone and check_parents in libzfs_dataset.c,
 * zfs_standard_error_fmt in libzfs_util.c of OpenZFS 2.3; get_snapshot of py-libzfs, without "cannot open".
 */
function notCloned(nas: Nas, id: string, target: string): Error | undefined {
  const parent = target.slice(0, target.lastIndexOf("/"));
  const on26 = (words: string, trace?: string) => new CallError("EINVAL", words, trace);
  const before = (words: string) => new CallError("EFAULT", `Failed to clone snapshot: ${words}`);
  const is26 = nas.number >= 2600;
  if (!nas.state.snapshots[id])
    return is26
      ? on26(`'${id}' not found`, "ZFSPathNotFoundException")
      : before(`cannot open '${id}': dataset does not exist`);
  if (nas.state.datasets[target])
    return is26
      ? on26(`'${target}' already exists`, "ZFSPathAlreadyExistsException")
      : before(`cannot create '${target}': dataset already exists`);
  if (nas.state.datasets[parent]) return undefined;
  const words = `cannot create '${target}': parent does not exist`;
  return is26 ? on26(`[EZFS_NOENT]: ${words}`, "ZFSException") : before(words);
}

export function cloned(nas: Nas, id: string, target: string, properties: Readonly<Record<string, string>>): void {
  const why = notCloned(nas, id, target);
  const snapshot = nas.state.snapshots[id];
  if (why || !snapshot) throw why;
  const user: Record<string, string> = {};
  const native: Record<string, string> = {};
  for (const [key, value] of Object.entries(properties)) {
    if (!key.includes(":")) native[key] = String(value).toLowerCase();
    else if (nas.number >= 2600) throw new CallError("EINVAL", `${key}: not a valid ZFS property.`);
    else user[key] = String(value);
  }
  const source = existing(nas, snapshot.dataset);
  const { volblocksize: block, encryption } = source.native;
  made(nas, target, source.type, {
    origin: id,
    user,
    native: {
      ...(snapshot.volsize === undefined ? {} : { volsize: snapshot.volsize }),
      ...(block === undefined ? {} : { volblocksize: block }),
      ...(encryption === undefined ? {} : { encryption }),
      ...native,
    },
    mode: source.mode,
    uid: source.uid,
    gid: source.gid,
    ...(source.acl === undefined ? {} : { acl: source.acl }),
    ...(snapshot.content === undefined ? {} : { content: snapshot.content }),
  });
}
