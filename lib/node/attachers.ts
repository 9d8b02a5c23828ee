import { CsiError } from "../core/errors.ts";
import type { CommandRunner } from "../io/runner.ts";
import { hostpath } from "./attach/hostpath.ts";
import { lustre } from "./attach/lustre.ts";
import { nfs } from "./attach/nfs.ts";
import { smb } from "./attach/smb.ts";
import { zfsLocal } from "./attach/zfs-local.ts";
import type { Attacher } from "./attacher.ts";

/** The key of `volume_context` that names the protocol. */
export const protocolKey = "node_attach_driver";

/** The protocols that this node can attach, by the value of `node_attach_driver`. */
export type Attachers = ReadonlyMap<string, Attacher>;

/** What attachers work with. */
export interface AttacherPorts {
  /** Programs of csimux's own container. */
  readonly runner: CommandRunner;
  /** The same programs where the host's own are needed, because their daemon's state is the host's; paths are the host's. */
  readonly host: CommandRunner;
  /** Shares are mounted by the host's mount(8), whose helpers live on with the host, such as rpc.statd(8) of NFS 3. */
  readonly hostMounts: boolean;
  /** The folder of device files, `/dev` outside tests. */
  readonly devices: string;
}

/** Every protocol that csimux has. */
export const attachers = (ports: AttacherPorts): Attachers =>
  new Map([
    ["hostpath", hostpath(ports.runner)],
    ["nfs", nfs(ports)],
    ["smb", smb(ports)],
    ["lustre", lustre()],
    ["zfs-local", zfsLocal(ports)],
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
