import { join } from "node:path";
import type { Call } from "../../core/call.ts";
import { CsiError } from "../../core/errors.ts";
import { RepeatedLines } from "../../core/log.ts";
import type { AttacherPorts } from "../attach/attacher.ts";
import { isHeld } from "../disks/in-use.ts";
import type { Multipath } from "../disks/multipath.ts";
import { filtered, lostPaths, OpeningPaths, openPaths, pollUntil, type Sysfs } from "../disks/sysfs.ts";
import type { MountTable } from "../mount/mount-table.ts";
import type { OpenIscsi } from "./open-iscsi.ts";
import {
  type Attributes,
  disksIn,
  identityOf,
  isRunning,
  type Portal,
  portalText,
  rescan,
  type Session,
  scan,
  type Target,
  type Unit,
  unitOf,
} from "./target.ts";

/** Time limit for a LUN to appear in a session, and interval between scans, in milliseconds. */
const unitMs = 20_000;
const scanMs = 3_000;

type Ports = Pick<AttacherPorts, "answers" | "graceMs" | "devices">;

/** The paths of this node to a LUN: sessions with its target, and the disks that the kernel shows in them. */
export class PortalSessions {
  readonly #login: OpenIscsi;
  readonly #sysfs: Sysfs;
  readonly #multipath: Multipath;
  readonly #ports: Ports;
  readonly #opening = new OpeningPaths();
  readonly #repeated = new RepeatedLines();

  constructor(login: OpenIscsi, sysfs: Sysfs, multipath: Multipath, ports: Ports) {
    this.#login = login;
    this.#sysfs = sysfs;
    this.#multipath = multipath;
    this.#ports = ports;
  }

  /** Opens sessions with all portals that answer, or with the first one unless `all` is set. Throws as openPaths. */
  async sessions(target: Target, attributes: Attributes, all: boolean, call: Call): Promise<readonly Session[]> {
    return await openPaths(
      await this.#usablePortals(target, all, call),
      all,
      portal => this.#opening.run(target.iqn, () => this.#login.open(target, portal, attributes, call)),
      (portal, reason) => {
        const seen = { iqn: target.iqn, portal: portalText(portal), reason };
        call.log.warn("cannot open a session with a portal", seen);
      },
      call.signal,
      this.#ports.graceMs,
    );
  }

  /** As OpeningPaths.ended. */
  openingEnded({ iqn }: Target, call: Call): Promise<void> {
    return this.#opening.ended(iqn, call.signal);
  }

  /**
   * Portals with a working session and portals that answer: open-iscsi takes half a minute to give up on a dead one.
   * All portals if none answers, because this process may run in another network namespace than iscsid.
   */
  async #usablePortals(target: Target, all: boolean, call: Call): Promise<readonly Portal[]> {
    const isOpen = async (portal: Portal) => (await this.#login.find(target, portal, call))?.isLoggedIn ?? false;
    const known = await filtered(target.portals, isOpen);
    if (!all && known.length > 0) return known;
    const rest = target.portals.filter(portal => !known.includes(portal));
    const usable = [...known, ...(await filtered(rest, portal => this.#answering(portal, call)))];
    if (usable.length === 0) return target.portals;
    const silent = target.portals.filter(portal => !usable.includes(portal)).map(portalText);
    if (silent.length > 0) call.log.warn("portals of a target do not answer", { iqn: target.iqn, portals: silent });
    return usable;
  }

  /**
   * Logs in again to portals that answer and have lost their session, with the attributes of the earlier login. One
   * session is enough without multipath; open-iscsi itself recovers a session that exists but is not logged in, unless it is stuck. Returns
   * the new sessions.
   */
  async restored(target: Target, all: boolean, call: Call): Promise<readonly Session[]> {
    await this.endStuck(target, undefined, call);
    const find = (portal: Portal) => this.#login.find(target, portal, call);
    const portals = await lostPaths(target.portals, all, find, portal => this.#answering(portal, call));
    const attributes = portals.length > 0 ? await this.#login.known(target) : undefined;
    return attributes ? await this.sessions({ ...target, portals }, attributes, all, call) : [];
  }

  /**
   * Logs out of csimux's sessions whose portals answer and that have not come back within their recovery time, so that they are opened again:
   * iscsid may retry in vain. A session stays, and is named in the log, while a disk that is in use is seen through it and has no other
   * path, because a mounted file system survives only if this very session comes back. Without a mount table, every disk counts as in use. One
   * without disks may be logging in for the first time.
   */
  async endStuck(target: Target, table: MountTable | undefined, call: Call): Promise<void> {
    for (const portal of target.portals) {
      const session = await this.#login.find(target, portal, call);
      const disks = session?.isFree ? await disksIn(session, this.#sysfs) : [];
      if (!session || disks.length === 0 || !(await this.#answering(portal, call))) continue;
      const needed = await filtered(disks, async disk => {
        if (disk !== "" && (await this.#multipath.hasOther(disk))) return false;
        return table === undefined || (await this.#isUsed(disk, table, call));
      });
      const name = `the session ${session.id} with ${target.iqn} does not come back although ${portalText(portal)} answers`;
      if (needed.length === 0 && (await this.#login.end(target, portal, session, call)))
        call.log.info(`ended: ${name}`);
      else if (this.#repeated.due(name) !== undefined)
        call.log.warn(`${name}; it stays, because its disks may be in use or csimux has not opened it`);
    }
  }

  async #isUsed(disk: string, table: MountTable, call: Call): Promise<boolean> {
    const device = (await this.#multipath.mapOf([disk]))?.device ?? disk;
    return disk === "" || table.showsDevice(device) || (await isHeld(join(this.#ports.devices, device), call.signal));
  }

  #answering({ host, port }: Portal, call: Call): Promise<boolean> {
    return this.#ports.answers(host, port, call.signal);
  }

  /**
   * The disks of a LUN in these sessions. Calls `adding` before scanning for one that the kernel does not have. Throws
   * "unavailable" when the target shows no such LUN, "failed-precondition" when the sessions show different disks.
   */
  async units(
    sessions: readonly Session[],
    target: Target,
    adding: () => Promise<void>,
    call: Call,
  ): Promise<readonly Unit[]> {
    const known = await Promise.all(sessions.map(session => unitOf(session, target.lun, this.#sysfs)));
    if (known.includes(undefined)) await adding();
    const asked = await Promise.all(sessions.map(session => this.#unit(session, target, call)));
    const units = asked.filter(unit => unit !== undefined);
    if (units.length === 0)
      throw new CsiError("unavailable", `${target.iqn} shows no LUN ${target.lun}; check that the target has it`);
    const identities = new Set(await Promise.all(units.map(unit => identityOf(unit, this.#sysfs))));
    if (identities.size === 1) return units;
    const names = units.map(({ name }) => name).join(", ");
    const text = `the portals of ${target.iqn} show different disks (${names}); none of them is used`;
    throw new CsiError("failed-precondition", text);
  }

  async #unit(session: Session, { iqn, lun }: Target, call: Call): Promise<Unit | undefined> {
    const known = await unitOf(session, lun, this.#sysfs);
    // The target may have given the LUN to another disk since.
    if (known) await rescan(known, this.#sysfs, call.signal);
    let next = 0;
    const ask = async () => {
      if (!(await unitOf(session, lun, this.#sysfs)) && performance.now() >= next) {
        await scan(session, lun, this.#sysfs, call.signal);
        next = performance.now() + scanMs;
      }
      const unit = await unitOf(session, lun, this.#sysfs);
      return unit && (await isRunning(unit, this.#sysfs)) ? unit : undefined;
    };
    return await pollUntil(unitMs, ask, `looking for LUN ${lun} of ${iqn}`, call.signal);
  }
}
