import type { Call } from "../../core/call.ts";
import { CsiError } from "../../core/errors.ts";
import type { Semaphores } from "../../core/semaphore.ts";
import { iscsi } from "../iscsi/attacher.ts";
import { nvmeof } from "../nvme/attacher.ts";
import type { VolumeContext } from "../requests.ts";
import type { Attacher, AttacherPorts } from "./attacher.ts";
import { hostpath } from "./hostpath.ts";
import { lustre } from "./lustre.ts";
import { nfs } from "./nfs.ts";
import { objectivefs } from "./objectivefs.ts";
import { oneclient } from "./oneclient.ts";
import { smb } from "./smb.ts";
import { zfsLocal } from "./zfs-local.ts";

/** The key of `volume_context` that names the protocol. */
export const protocolKey = "node_attach_driver";

/** The protocols that this node can attach, by their value of `node_attach_driver`. */
export type Attachers = ReadonlyMap<string, Attacher>;

/** The protocols of shares. */
export const shareAttachers = (ports: Pick<AttacherPorts, "hostMounts">): Attachers =>
  new Map([
    ["nfs", nfs(ports)],
    ["smb", smb(ports)],
    ["lustre", lustre()],
  ]);

/** All protocols of csimux. */
export const attachers = (ports: AttacherPorts): Attachers =>
  new Map<string, Attacher>([
    ["hostpath", hostpath(ports)],
    ...shareAttachers(ports),
    ["iscsi", iscsi(ports)],
    ["nvmeof", nvmeof(ports)],
    ["zfs-local", zfsLocal(ports)],
    ["objectivefs", objectivefs(ports)],
    ["oneclient", oneclient(ports)],
  ]);

/** Throws "invalid-argument" for a protocol that is missing or unknown. */
export function attacherOf(known: Attachers, protocol: string | undefined, volumeId: string): Attacher {
  if (!protocol) throw new CsiError("invalid-argument", `volume_context of "${volumeId}" has no ${protocolKey}`);
  const attacher = known.get(protocol);
  if (attacher) return attacher;
  const names = [...known.keys()].join(", ");
  const text = `volume "${volumeId}": ${protocolKey} "${protocol.slice(0, 100)}" is not one of ${names}`;
  throw new CsiError("invalid-argument", text);
}

/** Runs `work` under the lock that the volume shares with others, if any. */
export function withTargetLock<T>(
  turns: Semaphores,
  attacher: Attacher,
  context: VolumeContext,
  call: Call,
  work: () => Promise<T>,
): Promise<T> {
  const name = attacher.lockOf?.(context);
  return name === undefined ? work() : turns(name).run(work, call.signal);
}
