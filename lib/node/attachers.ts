import { CsiError } from "../core/errors.ts";
import { hostpath } from "./attach/hostpath.ts";
import { iscsi } from "./attach/iscsi.ts";
import { lustre } from "./attach/lustre.ts";
import { nfs } from "./attach/nfs.ts";
import { nvmeof } from "./attach/nvmeof.ts";
import { objectivefs } from "./attach/objectivefs.ts";
import { oneclient } from "./attach/oneclient.ts";
import { smb } from "./attach/smb.ts";
import { zfsLocal } from "./attach/zfs-local.ts";
import type { Attacher, AttacherPorts } from "./attacher.ts";

/** The key of `volume_context` that names the protocol. */
export const protocolKey = "node_attach_driver";

/** The protocols that this node can attach, by the value of `node_attach_driver`. */
export type Attachers = ReadonlyMap<string, Attacher>;

/** The protocols of shares. */
export const shareAttachers = (ports: Pick<AttacherPorts, "hostMounts">): Attachers =>
  new Map([
    ["nfs", nfs(ports)],
    ["smb", smb(ports)],
    ["lustre", lustre()],
  ]);

/** Every protocol that csimux has. */
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
  if (!protocol) throw new CsiError("invalid-argument", `volume_context of "${volumeId}" does not hold ${protocolKey}`);
  const attacher = known.get(protocol);
  if (attacher) return attacher;
  const names = [...known.keys()].join(", ");
  throw new CsiError(
    "invalid-argument",
    `volume "${volumeId}": ${protocolKey} "${protocol.slice(0, 100)}" is not one of ${names}`,
  );
}
