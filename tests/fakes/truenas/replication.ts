import { pause } from "../../waiting.ts";
import { completed } from "./facts/complete.ts";
import { CallError, Invalid } from "./failure.ts";
import { property, userProperties } from "./properties.ts";
import type { Dataset, Nas, Snapshot } from "./state.ts";
import { drop, snapshotsOf } from "./zfs/dataset-removal.ts";
import { existing, isLocked, made, parentOf } from "./zfs/datasets.ts";
import { taken } from "./zfs/snapshots.ts";

/**
 * replication.run_onetime: a copy of one snapshot within the system (plugins/replication.py and zettarepl.py of TS-24.10.2.4, TS-25.10.6
 * and TS-26.0.0-BETA.3; zettarepl/replication/run.py, "run.py" below, of TS-24.10.2.4, TS-25.04.2.6 and TS-25.10.2.2, which are alike in
 * what is here). It receives with `zfs recv -s -F` (zfs_recv in transport/zfscli/__init__.py): there is a token as soon as a stream has begun, and
 * newer snapshots of the target are destroyed at its end (dmu_recv_begin_sync and dmu_recv_end_sync in dmu_recv.c of OpenZFS 2.3).
 */

/** What the rules read. */
interface Fields {
  readonly source_datasets: readonly string[];
  readonly target_dataset: string;
  readonly name_regex: string | null;
  readonly properties_override: Readonly<Record<string, string>>;
  readonly encryption: boolean;
  readonly encryption_inherit: boolean | null;
  readonly allow_from_scratch: boolean;
  readonly only_from_scratch: boolean;
  readonly retries: number;
}

interface Task extends Fields {
  readonly source: Dataset;
}

/** What is sent: the snapshot, to the dataset that has a part of it or is made now; undefined when the target has everything. */
type Stream = { readonly wanted: Snapshot; readonly part: "all" | "rest" } | undefined;

const failed = (message: string): CallError => new CallError("EFAULT", message);

/** Starts a copy: the target is there at once, its content when the returned function is called. */
export function runOnetime(nas: Nas, [data]: readonly unknown[]): () => unknown {
  const fields = completed<Fields>(nas, "replication.run_onetime", data);
  // _validate() in plugins/replication.py; csimux has no keys to give.
  if (fields.encryption && !fields.encryption_inherit)
    throw new Invalid([
      "replication_run_onetime.encryption_key",
      "This property is required when remote dataset encryption is enabled",
      22,
    ]);
  return attempt(nas, { ...fields, source: existing(nas, fields.source_datasets[0] ?? "") }, fields.retries);
}

/** One attempt; a broken stream is followed by the next one (run_replication_tasks in run.py). */
function attempt(nas: Nas, task: Task, left: number): () => unknown {
  const target = task.target_dataset;
  // Two tasks with one target take turns (_replication_tasks_can_run_in_parallel in zettarepl.py of zettarepl).
  if (nas.receiving.has(target))
    return async () => {
      while (nas.receiving.has(target)) await pause(5);
      return attempt(nas, task, left)();
    };
  const stream = planned(nas, task);
  if (stream) nas.receiving.add(target);
  return () => {
    nas.receiving.delete(target);
    if (!stream) return null;
    if (!nas.breaks()) return received(nas, target, stream);
    // ZfsSendRecvExceptionHandler in transport/zfscli/exception.py, words of libzfs_sendrecv.c.
    if (left <= 1) throw failed("cannot receive new filesystem stream: checksum mismatch or incomplete stream.");
    return attempt(nas, task, left - 1)();
  };
}

function received(nas: Nas, name: string, { wanted, part }: NonNullable<Stream>): null {
  const copy = existing(nas, name);
  delete copy.partOf;
  const own = [...snapshotsOf(nas, name)].sort((a, b) => a.createtxg - b.createtxg);
  const base = own.findLastIndex(each => nas.state.snapshots[`${wanted.dataset}@${each.name}`] !== undefined);
  for (const each of own.slice(base + 1)) delete nas.state.snapshots[`${name}@${each.name}`];
  if (wanted.content !== undefined) copy.content = wanted.content;
  const snapshot = taken(nas, name, wanted.name, {});
  // A received snapshot has the guid of the sent one (zfsprops(7)).
  snapshot.guid = wanted.guid;
  nas.sent({ target: name, part });
  return null;
}

/** run_replication_task_part() in run.py: checks, resumption, then what is left to send. */
function planned(nas: Nas, task: Task): Stream {
  const { target_dataset: target, source } = task;
  checkExistence(task, nas.state.datasets[target]);
  checkEncryption(nas, task);
  return resumed(nas, task) ?? begun(nas, task, nas.state.datasets[target], source);
}

/** check_target_existence_and_type() in run.py. */
function checkExistence(task: Task, there: Dataset | undefined): void {
  if (!there) return;
  const { target_dataset: target, source } = task;
  if (task.only_from_scratch) throw failed(`Target dataset '${target}' already exists.`);
  if (source.type !== there.type)
    throw failed(
      `Source '${source.name}' is a ${source.type}, but target '${target}' already exists and is a ${there.type}.`,
    );
}

/** check_encrypted_target() in run.py, for tasks without properties; any dataset above counts (existing_parent_is_encrypted). */
function checkEncryption(nas: Nas, { target_dataset: target, encryption, source }: Task): void {
  const there = nas.state.datasets[target];
  if (there && encryption && property(nas, there, "encryption").raw === "off")
    throw failed(
      `Encryption requested for destination dataset '${target}', but it already exists and is not encrypted.`,
    );
  if (there) return;
  const isEncrypted = (name: string): boolean => {
    const above = nas.state.datasets[name];
    return name !== "" && ((above && property(nas, above, "encryption").raw !== "off") || isEncrypted(parentOf(name)));
  };
  const encrypted = isEncrypted(parentOf(target));
  if (encryption && !encrypted)
    throw failed(
      `Encryption inheritance requested for destination dataset '${target}', but its existing parent is not encrypted.`,
    );
  if (!encryption && encrypted)
    throw failed(
      `Destination dataset '${target}' must be encrypted (as one of its ancestors is encrypted). Refusing to transfer source dataset` +
        ` '${source.name}' without properties and without replication task encryption.`,
    );
}

/**
 * resume_replications() in run.py. A token whose snapshot does not exist is discarded with what was received; one whose snapshot was taken
 * again under its name is an error that stays (zfs_send_resume_impl_cb_impl() in libzfs_sendrecv.c of OpenZFS 2.4).
 */
function resumed(nas: Nas, { target_dataset: target, source }: Task): Stream {
  const { partOf } = nas.state.datasets[target] ?? {};
  if (!partOf) return undefined;
  const wanted = nas.state.snapshots[`${source.name}@${partOf.snapshot}`];
  if (!wanted) drop(nas, target);
  if (wanted && wanted.guid !== partOf.guid)
    throw failed(
      `cannot resume send: '${source.name}@${wanted.name}' is no longer the same snapshot used in the initial send.`,
    );
  if (wanted) checkKeys(nas, source, target);
  return wanted && { wanted, part: "rest" };
}

/**
 * run_replication_steps() in run.py and get_snapshots_to_send_with_name_pattern() in snapshots_to_send.py: what follows the newest snapshot
 * that both have by name; from the beginning only to a target without snapshots and data (ensure_has_no_data in dataset/data.py).
 */
function begun(nas: Nas, task: Task, there: Dataset | undefined, source: Dataset): Stream {
  const { target_dataset: target } = task;
  const pattern = new RegExp(`(${task.name_regex ?? ""})$`);
  const own = there ? snapshotsOf(nas, target).map(({ name }) => name) : [];
  const all = [...snapshotsOf(nas, source.name)].sort((a, b) => a.createtxg - b.createtxg);
  const base = all.findLastIndex(({ name }) => own.includes(name));
  const wanted = all.slice(base + 1).find(({ name }) => pattern.test(name));
  if (!wanted && base >= 0) return undefined;
  if (!wanted) throw failed(`Dataset '${source.name}' does not have any matching snapshots to replicate.`);
  if (own.length > 0 && !task.allow_from_scratch)
    throw failed(`No incremental base on dataset '${source.name}' and replication from scratch is not allowed.`);
  if (there?.content !== undefined && !task.allow_from_scratch)
    throw failed(
      `Target dataset '${target}' does not have matching snapshots but has data and replication from scratch is not allowed.` +
        " Refusing to overwrite existing data.",
    );
  checkKeys(nas, source, target);
  const copy = made(nas, target, source.type, { ...receivedProperties(nas, task, wanted), ...ownersOf(source) });
  copy.partOf = { guid: wanted.guid, snapshot: wanted.name };
  return { wanted, part: "all" };
}

const ownersOf = ({ mode, uid, gid }: Dataset) => ({ mode, uid, gid });

/** Only properties that the source has are overridden (calculate_replication_step_templates() in run.py). */
function receivedProperties(nas: Nas, { source, properties_override }: Task, { volsize }: Snapshot) {
  const block = source.native["volblocksize"];
  const known = userProperties(nas, source);
  return {
    native: { ...(volsize === undefined ? {} : { volsize }), ...(block === undefined ? {} : { volblocksize: block }) },
    user: Object.fromEntries(Object.entries(properties_override).filter(([key]) => key in known)),
  };
}

/** Words of libzfs_sendrecv.c of OpenZFS 2.4. */
function checkKeys(nas: Nas, source: Dataset, target: string): void {
  if (isLocked(nas, source)) throw failed(`warning: cannot send '${source.name}': source key must be loaded.`);
  const parent = nas.state.datasets[parentOf(target)];
  if (parent && isLocked(nas, parent))
    throw failed("cannot receive new filesystem stream: inherited key must be loaded.");
}
