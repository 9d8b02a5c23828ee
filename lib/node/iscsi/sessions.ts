import type { Sysfs } from "../disks/sysfs.ts";
import type { Portal } from "./target.ts";

/** A session of this node with a target, as the kernel shows it. */
export interface Session {
  /** The session id used by iscsiadm(8). */
  readonly id: string;
  readonly iqn: string;
  readonly iface: string;
  /** The portal of its connection: as requested, and the address that was reached. */
  readonly portals: readonly Portal[];
  readonly isLoggedIn: boolean;
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
  return {
    id,
    iqn,
    host,
    iface: (await sysfs.text(folder, "ifacename")) || "default",
    portals: [asked, reached].filter(portal => portal !== undefined),
    isLoggedIn: (await sysfs.text(folder, "state")) === "LOGGED_IN",
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
