// lib/node/iscsi: iSCSI disks. target.ts describes a target, its sessions and LUNs as the context and the kernel give
// them, open-iscsi.ts logs in and out with the host's iscsiadm, portal-sessions.ts handles several portals, attacher.ts
// is the protocol's Attacher.

import { protocols } from "../../core/access.ts";
import type { Call } from "../../core/call.ts";
import { CsiError } from "../../core/errors.ts";
import { allEnded } from "../../core/semaphore.ts";
import type { Finding } from "../../health/finding.ts";
import type {
  AttachedDevice,
  Attacher,
  AttacherPorts,
  Attachment,
  AttachRequest,
  SaveNotes,
  StorageAddresses,
} from "../attach/attacher.ts";
import { ownSecrets } from "../attach/context.ts";
import { Multipath } from "../disks/multipath.ts";
import { filtered, pollUntil, Sysfs } from "../disks/sysfs.ts";
import { pathFindings } from "../health/findings.ts";
import type { VolumeContext } from "../requests.ts";
import { OpenedSessions } from "../state/record-folder.ts";
import { OpenIscsi } from "./open-iscsi.ts";
import { PortalSessions } from "./portal-sessions.ts";
import {
  attributesOf,
  disksIn,
  identityOf,
  isRunning,
  portalText,
  remove,
  rescan,
  type Session,
  scan,
  sessionsOf,
  type Target,
  targetOf,
  type Unit,
  unitOf,
} from "./target.ts";

/** Time limit for a disk to disappear, in milliseconds. */
const goneMs = 10_000;

type Ports = Omit<AttacherPorts, "hostMounts" | "hostFolders" | "hostDatasets">;

/** Disks of iSCSI targets, attached with the host's open-iscsi and, if its daemon runs, dm-multipath. */
class Iscsi implements Attacher {
  readonly access = protocols.iscsi;
  readonly #sysfs: Sysfs;
  readonly #multipath: Multipath;
  readonly #login: OpenIscsi;
  readonly #portalSessions: PortalSessions;

  constructor(ports: Ports) {
    this.#sysfs = new Sysfs(ports.sys, ports.runner);
    this.#multipath = new Multipath(ports, this.#sysfs);
    this.#login = new OpenIscsi({ ...ports, sysfs: this.#sysfs, opened: new OpenedSessions(ports) });
    this.#portalSessions = new PortalSessions(this.#login, this.#sysfs, this.#multipath, ports);
  }

  /** Volumes of one target share its sessions. */
  readonly lockOf = (context: VolumeContext): string | undefined => context["iqn"];

  readonly check = (context: VolumeContext, volumeId: string): void => void targetOf(context, volumeId);

  /** See Attacher. Also throws "unauthenticated" for refused credentials and "unavailable" when no portal answers. */
  async attach(wanted: AttachRequest, note: SaveNotes, call: Call): Promise<AttachedDevice> {
    const { volumeId, context } = wanted;
    const target = targetOf(context, volumeId);
    const isMultipath = await this.#multipath.runs();
    const all = isMultipath ? await wanted.others?.() : undefined;
    const namesakes = (all ?? []).filter(other => other.context["iqn"] === target.iqn);
    await this.#refuseJoined(target, namesakes, call);
    const attributes = attributesOf(ownSecrets(call.secrets, context), isMultipath);
    await this.#portalSessions.endStuck(target, wanted.table, call);
    const sessions = await this.#portalSessions.sessions(target, attributes, isMultipath, call);
    const added = () => note({ added: "yes" });
    // Its sessions show no disk that csimux did not scan for (node.session.scan = manual), also if a record of that was lost.
    if (await this.#login.hasOpened(target)) await added();
    const units = await this.#portalSessions.units(sessions, target, added, call);
    const names = units.map(({ name }) => name);
    const map = await this.#multipath.waitForMap(names, target.portals.length > 1, call);
    if (map) await note({ map: map.uuid });
    await this.#refuseJoined(target, map ? namesakes : [], call);
    const others = map ? [] : (await this.#ownUnits(target, call)).map(({ name }) => name);
    const paths = map ? names : await this.#multipath.inUseFirst(names, others, "device/wwid", call);
    return await this.#multipath.device(paths, map, "device/wwid", `${target.iqn} LUN ${target.lun}`);
  }

  /** See Attacher. Throws "unavailable" while the disk is in use. */
  readonly detach = async (attachment: Attachment, others: readonly Attachment[], call: Call): Promise<void> => {
    const target = targetOf(attachment.context, attachment.volumeId);
    await this.#portalSessions.openingEnded(target, call);
    const siblings = others.filter(({ context }) => context["iqn"] === target.iqn);
    const used = siblings.map(({ context, volumeId }) => targetOf(context, volumeId));
    const sharing = await filtered(siblings, other => this.#sharesDisk(target, other, call));
    if (sharing.length === 0 && (attachment.notes["added"] || (await this.#login.hasOpened(target))))
      await this.#release(target, attachment.notes["map"], call);
    const unused = target.portals.filter(portal => !used.some(other => sharesSession(other, target.iface, portal)));
    await allEnded(unused.map(portal => this.#leave(target, portal, call)));
  };

  /** Names the storage by its portals. */
  readonly storageOf = (context: VolumeContext): StorageAddresses => {
    const { portals } = targetOf(context, "");
    return { name: `iscsi ${portals.map(portalText).join(",")}`, addresses: portals };
  };

  readonly health = async ({ volumeId, context }: Attachment): Promise<readonly Finding[]> => {
    const target = targetOf(context, volumeId);
    const sessions = await sessionsOf(target.iqn, this.#sysfs);
    const units = await this.#units(target);
    const running = await Promise.all(units.map(unit => isRunning(unit, this.#sysfs)));
    const wanted = (await this.#multipath.runs()) ? target.portals.length : 1;
    return pathFindings({
      target: target.iqn,
      up: sessions.filter(({ isLoggedIn }) => isLoggedIn).length,
      wanted: Math.max(wanted, sessions.length),
      disks: units.length,
      running: running.filter(Boolean).length,
    });
  };

  readonly grow = async ({ volumeId, context }: Attachment, least: bigint | undefined, call: Call): Promise<bigint> => {
    const units = await this.#pathsTo(targetOf(context, volumeId), call);
    if (units.length === 0)
      throw new CsiError("unavailable", `volume "${volumeId}": its disk is no longer attached to this node`);
    await Promise.all(units.map(unit => rescan(unit, this.#sysfs, call.signal)));
    const names = units.map(({ name }) => name);
    return await this.#multipath.grow(async () => names, least, `growing volume "${volumeId}"`, call);
  };

  /** See Attacher. Does not touch a disk that was attached before csimux staged the volume. */
  readonly restore = async ({ volumeId, context, notes }: Attachment, call: Call): Promise<readonly string[]> => {
    if (!notes["added"]) return [];
    const target = targetOf(context, volumeId);
    const isMultipath = await this.#multipath.runs();
    const sessions = await this.#portalSessions.restored(target, isMultipath, call);
    const known = await this.#ownUnits(target, call);
    // A session that another volume of the target opened shows this volume's disk only after a scan.
    const disks = isMultipath || known.length === 0 ? await this.#missing(target, call) : [];
    if (isMultipath && disks.length > 0) await this.#multipath.waitForMap(disks, target.portals.length > 1, call);
    return [...sessions.map(({ id }) => `session ${id}`), ...disks];
  };

  /** Scans for the LUN in sessions with its portals that do not show it. Returns the names of the new disks. */
  async #missing(target: Target, call: Call): Promise<readonly string[]> {
    const { iface, lun } = target;
    const found = (await this.#sessions(target, call)).map(async session => {
      if (session.iface !== iface || !session.isLoggedIn || (await unitOf(session, lun, this.#sysfs))) return undefined;
      await scan(session, lun, this.#sysfs, call.signal);
      return (await unitOf(session, lun, this.#sysfs))?.name;
    });
    return (await Promise.all(found)).filter(name => name !== undefined);
  }

  async #units({ iqn, lun }: Target): Promise<readonly Unit[]> {
    return await this.#unitsIn(await sessionsOf(iqn, this.#sysfs), lun);
  }

  async #unitsIn(sessions: readonly Session[], lun: bigint): Promise<readonly Unit[]> {
    const units = await Promise.all(sessions.map(session => unitOf(session, lun, this.#sysfs)));
    return units.filter(unit => unit !== undefined);
  }

  /** The disks seen through the volume's portals; the host may have opened others to the same LUN. */
  async #ownUnits(target: Target, call: Call): Promise<readonly Unit[]> {
    return await this.#unitsIn(await this.#sessions(target, call), target.lun);
  }

  /** All paths to the volume's disk. Another storage system may have a target of the same name with another disk. */
  async #pathsTo(target: Target, call: Call): Promise<readonly Unit[]> {
    const identities = async (units: readonly Unit[]) => Promise.all(units.map(unit => identityOf(unit, this.#sysfs)));
    const own = await identities(await this.#ownUnits(target, call));
    const all = await this.#units(target);
    const known = await identities(all);
    return own.length === 0 ? all : all.filter((_, index) => own.includes(known[index] ?? ""));
  }

  async #sessions(target: Target, call: Call): Promise<readonly Session[]> {
    const sessions = (await Promise.all(target.portals.map(portal => this.#login.all(target, portal, call)))).flat();
    return [...new Map(sessions.map(session => [session.id, session])).values()];
  }

  /**
   * Whether another volume has the disk of this one, so also a session; one that has none counts, as its name may not be resolved now, unless
   * its staging was refused before it had one.
   */
  async #sharesDisk(target: Target, { attached, notes, ...volume }: Attachment, call: Call): Promise<boolean> {
    const other = targetOf(volume.context, volume.volumeId);
    if (other.lun !== target.lun) return false;
    const [own, its] = [await this.#sessions(target, call), await this.#sessions(other, call)];
    if (its.length === 0) return !!attached || !!notes["added"] || (await this.#login.hasOpened(other));
    return its.some(({ id }) => own.some(session => session.id === id));
  }

  /**
   * Throws "unavailable", without any disk of the volume, while one of the same target name on another storage system is in a map of multipathd:
   * that takes disks for one that report the same identity, as those of a system that was set up with the configuration of another do, and would
   * write some blocks of a file system to the one and some to the other.
   */
  async #refuseJoined(target: Target, namesakes: readonly Attachment[], call: Call): Promise<void> {
    for (const namesake of namesakes) {
      const other = targetOf(namesake.context, namesake.volumeId);
      if (other.lun !== target.lun || (await this.#sharesDisk(target, namesake, call))) continue;
      const map = await this.#multipath.mapOf((await this.#ownUnits(other, call)).map(({ name }) => name));
      if (!map) continue;
      const units = await this.#ownUnits(target, call);
      await allEnded(units.map(unit => remove(unit, this.#sysfs, call.signal)));
      const [here, there] = [target, other].map(({ portals }) => portals.map(portalText).join(", "));
      const text = `${target.iqn} at ${here} is not used while the map ${map.name} of multipathd leads to the target of the same name at ${there}, because multipathd may take both disks for one; unstage that volume on this node first`;
      throw new CsiError("unavailable", text);
    }
  }

  /** Flushes and removes the disk, and its map, also one that has lost all paths. Throws "unavailable" if it is in use. */
  async #release(target: Target, uuid: string | undefined, call: Call): Promise<void> {
    const units = await this.#ownUnits(target, call);
    const names = units.map(({ name }) => name);
    await this.#multipath.release(names, uuid, call);
    if (units.length === 0) return;
    if (target.portals.length > 1) await this.#multipath.forget(names, call);
    for (const name of names) await this.#multipath.refuseHeld(name, call);
    await allEnded(units.map(unit => remove(unit, this.#sysfs, call.signal)));
    const gone = async () => ((await this.#ownUnits(target, call)).length === 0 ? true : undefined);
    if (!(await pollUntil(goneMs, gone, `removing ${names.join(", ")}`, call.signal)))
      throw new CsiError("unavailable", `${names.join(", ")} of ${target.iqn} did not disappear; retrying`);
  }

  /** Closes a session that csimux opened, unless other disks are still seen through it. */
  async #leave(target: Target, portal: Target["portals"][number], call: Call): Promise<void> {
    const session = await this.#login.find(target, portal, call);
    if (session && (await disksIn(session, this.#sysfs)).length > 0) {
      call.log.info("keeping a session: other disks are seen through it", { iqn: target.iqn, session: session.id });
      return;
    }
    await this.#login.close(target, portal, call);
  }
}

/** Whether a target is used over this interface and portal. */
const sharesSession = ({ iface, portals }: Target, over: string, portal: Target["portals"][number]): boolean =>
  iface === over && portals.some(each => portalText(each) === portalText(portal));

/** The attacher of `node_attach_driver: iscsi`. */
export const iscsi = (ports: Ports): Attacher => new Iscsi(ports);
