import { isIPv6 } from "node:net";
import type { Secrets } from "../../core/call.ts";
import { CsiError } from "../../core/errors.ts";
import { contextReader, hostForm } from "../attach/context.ts";
import { bytesOf, type Sysfs } from "../disks/sysfs.ts";
import type { VolumeContext } from "../requests.ts";

/** The network address of a target. */
export interface Portal {
  /** A name or an address; IPv6 without brackets. */
  readonly host: string;
  readonly port: number;
}

/** A LUN of a target and its portals. */
export interface Target {
  readonly iqn: string;
  readonly lun: bigint;
  readonly portals: readonly Portal[];
  /** The open-iscsi interface of the sessions; with "default", the kernel chooses the route. */
  readonly iface: string;
}

const defaultPort = 3260;

/** RFC 3720, 3.2.6.3; other characters that open-iscsi accepts are excluded, because the name is used in paths. */
const iqnForm = /^(?:iqn\.[0-9]{4}-[0-9]{2}\.[A-Za-z0-9._:-]{1,210}|eui\.[0-9A-Fa-f]{16}|naa\.[0-9A-Fa-f]{16,32})$/;
const ifaceForm = /^[A-Za-z0-9][A-Za-z0-9._:-]{0,63}$/;

/** A portal group: iscsiadm(8) prints and accepts "address:port,group". No host has such a name. */
const groupForm = /^[0-9]{1,5}$/;

/** The form of a portal for iscsiadm(8), -p. */
export const portalText = ({ host, port }: Portal): string => `${isIPv6(host) ? `[${host}]` : host}:${port}`;

/** The target of a volume context, with the keys of democratic-csi. Throws "invalid-argument". */
export function targetOf(context: VolumeContext, volumeId: string): Target {
  const { invalid, value, addresses } = contextReader(context, volumeId);
  const iqn = value("iqn", iqnForm, "a target name");
  const lun = value("lun", /^[0-9]{1,5}$/, "a LUN");
  const iface = value("interface", ifaceForm, "an interface name", "default");
  const portals = new Map<string, Portal>();
  for (const text of addresses("portal", "portals").filter(each => !groupForm.test(each))) {
    const portal = portalOf(text);
    if (!portal) throw invalid(`the portal ${JSON.stringify(text.slice(0, 250))} is not of the form host:port`);
    portals.set(portalText(portal), portal);
  }
  if (portals.size === 0) throw invalid("neither portal nor portals is given");
  return { iqn, lun: BigInt(lun), iface, portals: [...portals.values()] };
}

function portalOf(text: string): Portal | undefined {
  const [, bracketed, plain, digits] = /^(?:\[([^\]]+)\]|([^:]+))(?::([0-9]{1,5}))?$/.exec(text) ?? [];
  const bare = isIPv6(text) ? text : bracketed;
  const host = (bare ?? plain ?? "").toLowerCase();
  const port = Number(digits ?? defaultPort);
  const isFit = bare === undefined ? hostForm.test(host) : isIPv6(host);
  return isFit && port > 0 && port < 65_536 ? { host, port } : undefined;
}

/** A session of this node with a target, as the kernel shows it. */
export interface Session {
  /** The session id used by iscsiadm(8). */
  readonly id: string;
  readonly iqn: string;
  readonly iface: string;
  /** The portal of its connection: as requested, and the address that was reached. */
  readonly portals: readonly Portal[];
  readonly isLoggedIn: boolean;
  /** Its recovery time-out has passed, or its first login has not ended (Linux 6.1, scsi_transport_iscsi.c, session_recovery_timedout). */
  readonly isFree: boolean;
  /** The number of its SCSI host, and its target number there. */
  readonly host: string;
  readonly number: string;
}

const sessionForm = /^session([0-9]+)$/;

/** All sessions with a target, in the order of their ids. */
export async function sessionsOf(iqn: string, sysfs: Sysfs): Promise<readonly Session[]> {
  const names = await sysfs.names("class/iscsi_session");
  const found = await Promise.all(names.map(name => sessionOf(name, iqn, sysfs)));
  return found.filter(session => session !== undefined).sort((a, b) => Number(a.id) - Number(b.id));
}

async function sessionOf(name: string, iqn: string, sysfs: Sysfs): Promise<Session | undefined> {
  const id = sessionForm.exec(name)?.[1];
  const folder = `class/iscsi_session/${name}`;
  if (id === undefined || (await sysfs.text(folder, "targetname")) !== iqn) return undefined;
  const host = /(?:^|\/)host([0-9]+)\//.exec((await sysfs.target(folder)) ?? "")?.[1];
  if (host === undefined) return undefined;
  const connection = `class/iscsi_connection/connection${id}:0`;
  const asked = await portalIn(connection, "persistent_", sysfs);
  const reached = await portalIn(connection, "", sysfs);
  const state = await sysfs.text(folder, "state");
  return {
    id,
    iqn,
    host,
    iface: (await sysfs.text(folder, "ifacename")) || "default",
    portals: [asked, reached].filter(portal => portal !== undefined),
    isLoggedIn: state === "LOGGED_IN",
    isFree: state === "FREE",
    number: (await sysfs.text(folder, "target_id")) || "0",
  };
}

async function portalIn(connection: string, prefix: string, sysfs: Sysfs): Promise<Portal | undefined> {
  const host = (await sysfs.text(connection, `${prefix}address`)).replaceAll(/[[\]]/g, "").toLowerCase();
  const port = Number(await sysfs.text(connection, `${prefix}port`));
  return host && port > 0 ? { host, port } : undefined;
}

/** Whether a session is connected to one of these portals. */
export const goesTo = (session: Session, portals: readonly Portal[]): boolean =>
  session.portals.some(({ host, port }) => portals.some(portal => portal.host === host && portal.port === port));

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

/** The LUNs that the kernel has in a session, each with the name of its disk; empty if it is not a disk. */
export async function disksIn(session: Session, sysfs: Sysfs): Promise<readonly string[]> {
  const { host, number } = session;
  const folder = `${folderOf(session)}/target${host}:0:${number}`;
  const units = (await sysfs.names(folder)).filter(name => name.startsWith(address(session, "")));
  return await Promise.all(units.map(async unit => (await sysfs.names(folder, unit, "block"))[0] ?? ""));
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

/** Attributes of a node record by their names (iscsiadm(8), "node.session.auth.username"). */
export type Attributes = Readonly<Record<string, string>>;

const prefix = "node-db.";
const nameForm = /^(?:node|discovery|iface)\.[A-Za-z0-9_.[\]]{1,100}$/;

const auth = "node.session.auth";

/** What to add to a login that the target has refused: secrets of other names, as those of Kubernetes' own iSCSI volumes, have no effect. */
export const chapAdvice = (attributes: Attributes): string =>
  [`${auth}.username`, `${auth}.password`].every(name => attributes[name])
    ? ""
    : `; if the target asks for CHAP: the node-stage secret has no key that csimux uses for it, which are ${prefix}${auth}.username and ${prefix}${auth}.password`;

/**
 * The attributes for the node record of a session. csimux opens sessions itself and scans only for the requested LUN.
 * With multipath, a failed path must be reported soon. Secrets `node-db.<attribute>` override the defaults, as in
 * democratic-csi; a user name enables CHAP. Throws "invalid-argument" for an attribute that no record can hold.
 */
export function attributesOf(secrets: Secrets, isMultipath: boolean): Attributes {
  const given = Object.entries(secrets).filter(([key]) => key.startsWith(prefix));
  for (const [key, value] of given) {
    if (!nameForm.test(key.slice(prefix.length)) || /[\n\r\0]/.test(value)) {
      const text = `the secret ${JSON.stringify(key.slice(0, 100))} does not name an attribute of a node record`;
      throw new CsiError("invalid-argument", text);
    }
  }
  const own = Object.fromEntries(given.map(([key, value]) => [key.slice(prefix.length), value]));
  return {
    "node.session.timeo.replacement_timeout": isMultipath ? "5" : "120",
    "node.session.initial_login_retry_max": "2",
    "node.conn[0].timeo.login_timeout": "10",
    ...(own[`${auth}.username`] && { [`${auth}.authmethod`]: "CHAP" }),
    ...own,
    "node.startup": "manual",
    "node.session.scan": "manual",
  };
}
