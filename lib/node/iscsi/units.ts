import { bytesOf } from "../disks/block-size.ts";
import type { Sysfs } from "../disks/sysfs.ts";
import type { Session } from "./sessions.ts";

/** A disk of this node: a LUN seen through one session. */
export interface Unit {
  /** The kernel's name: "sdb". */
  readonly name: string;
  readonly session: Session;
}

const folderOf = ({ id }: Session): string => `class/iscsi_session/session${id}/device`;

const address = ({ host, number }: Session, lun: bigint | string): string => `${host}:0:${number}:${lun}`;

/** The disk of a LUN in a session, or undefined if the kernel has none. */
export async function unitOf(session: Session, lun: bigint, sysfs: Sysfs): Promise<Unit | undefined> {
  const { host, number } = session;
  const folder = `${folderOf(session)}/target${host}:0:${number}/${address(session, lun)}/block`;
  const [name] = await sysfs.names(folder);
  return name === undefined ? undefined : { name, session };
}

/** The number of LUNs that the kernel has in a session. */
export async function unitCount(session: Session, sysfs: Sysfs): Promise<number> {
  const { host, number } = session;
  const prefix = address(session, "");
  return (await sysfs.names(folderOf(session), `target${host}:0:${number}`)).filter(name => name.startsWith(prefix))
    .length;
}

/** Scans a session for one LUN only (scsi_host, attribute scan). */
export const scan = ({ host, number }: Session, lun: bigint, sysfs: Sysfs, signal: AbortSignal): Promise<void> =>
  sysfs.write(["class/scsi_host", `host${host}`, "scan"], `0 ${number} ${lun}`, signal);

/** Makes the kernel re-read the size and the identity of a disk. */
export const rescan = ({ name }: Unit, sysfs: Sysfs, signal: AbortSignal): Promise<void> =>
  sysfs.write(["block", name, "device/rescan"], "1", signal);

/** Removes a disk from the kernel; succeeds if it is already gone. */
export const remove = ({ name }: Unit, sysfs: Sysfs, signal: AbortSignal): Promise<void> =>
  sysfs.write(["block", name, "device/delete"], "1", signal, true);

/** The identity that a disk reports on every path (SPC-4, Device Identification VPD page); empty if it reports none. */
export const identityOf = ({ name }: Unit, sysfs: Sysfs): Promise<string> => sysfs.text("block", name, "device/wwid");

/** Whether the kernel can use a disk. */
export const isRunning = async ({ name }: Unit, sysfs: Sysfs): Promise<boolean> =>
  (await sysfs.text("block", name, "device/state")) === "running" && (await bytesOf(name, sysfs)) > 0n;
