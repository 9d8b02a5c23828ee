import { protocols } from "../../core/access.ts";
import type { Call } from "../../core/call.ts";
import type { ShareProtocol } from "../store.ts";
import { errors, isAnswer } from "./dsm-error.ts";
import type { Luns, LunVolume } from "./luns.ts";
import { parseMark } from "./names.ts";
import type { SanTarget } from "./san.ts";
import { targetFields } from "./templates.ts";

/** The portals of the connection file. */
export interface Portals {
  readonly portal: string;
  readonly portals: readonly string[];
  readonly interface: string;
}

/** Shares each LUN through a target of its own. */
export function lunTargets(on: Luns, { portal, portals, interface: iface }: Portals): ShareProtocol<LunVolume> {
  const { san, names, place } = on;
  const find = async (id: string, lun: string, call: Call): Promise<SanTarget | undefined> =>
    on.targetOf(id, lun, await san.targets(call.signal));

  /** Returns the id of the new target. Throws "aborted" if another controller has just created it, "failed-precondition" for a foreign one. */
  async function make(id: string, lun: string, fields: object, call: Call): Promise<string> {
    try {
      return await san.createTarget({ ...fields }, names.taggedName(id, lun), names.taggedIqn(id, lun), call.signal);
    } catch (error) {
      if (!isAnswer(error, errors.targetNameExists) && !isAnswer(error, errors.iqnExists)) throw error;
      const all = await san.targets(call.signal);
      const other = all.find(({ name, iqn }) => name === names.taggedName(id, lun) && !names.isTarget(id, iqn));
      if (other) {
        const text = `a target named "${other.name}" with the IQN "${other.iqn}" exists and is not that of volume "${id}"; rename or delete it in SAN Manager`;
        throw place.error("failed-precondition", text);
      }
      throw place.error("aborted", `another controller is creating the target of volume "${id}"; retrying`);
    }
  }

  /** Throws "failed-precondition" for a target with another LUN. */
  function refuseOther(id: string, lun: string, target: SanTarget | undefined): void {
    if (!target?.mapped.some(each => each.lun !== lun)) return;
    const text = `the target "${target.iqn}" of volume "${id}" is mapped to another LUN, too, and is kept; remove that mapping in SAN Manager`;
    throw place.error("failed-precondition", text);
  }

  return {
    ...{ protocol: "iscsi", access: protocols.iscsi, growsOnNode: true },
    async publish({ id, lun: { uuid } }, spec, _keep, call) {
      const existing = await find(id, uuid, call);
      refuseOther(id, uuid, existing);
      const index = existing && indexOf(existing, uuid);
      if (existing && index !== undefined) return { iqn: existing.iqn, lun: index };
      // DSM admits one session unless told otherwise, and a second path of multipath is one more.
      const paths = portals.length > 0 ? { max_sessions: 0 } : {};
      const fields = { ...paths, ...targetFields(on.templates, spec.parameters, call) };
      // A target without a LUN was left by an interrupted call, perhaps with old credentials.
      if (existing) await san.deleteTarget(existing.id, call.signal);
      await san.mapLun(uuid, await make(id, uuid, fields, call), call.signal);
      const mapped = await find(id, uuid, call);
      refuseOther(id, uuid, mapped);
      const made = mapped && indexOf(mapped, uuid);
      if (mapped && made !== undefined) return { iqn: mapped.iqn, lun: made };
      throw place.error("aborted", `DSM has not mapped the LUN of volume "${id}" to its target yet; retrying`);
    },
    context: ({ notes }) => ({
      ...{ portal, portals: portals.join(","), interface: iface },
      ...{ iqn: notes["iqn"] ?? "", lun: notes["lun"] ?? "" },
    }),
    /** Throws "failed-precondition" while a node is logged in. */
    async withdraw(asset, call) {
      const { id, lun } = asset;
      const all = asset.beside?.targets ?? (await san.targets(call.signal));
      const target = on.targetOf(id, lun.uuid, all);
      // A person may have mapped the LUN to another target, too.
      const leading = all.filter(each => each === target || each.mapped.some(mapped => mapped.lun === lun.uuid));
      const nodes = [...new Set(leading.flatMap(({ sessions }) => sessions))];
      refuseOther(id, lun.uuid, target);
      if (nodes.length > 0) {
        const text = `volume "${id}" is in use by ${nodes.join(", ").slice(0, 200)}; it can be deleted once no node is logged in`;
        throw place.error("failed-precondition", text);
      }
      if (!asset.finished) await on.refuseFinished(lun, call);
      if (!target) return;
      // Without a mark, the target alone proves the owner of the LUN, so the LUN is renamed before the target is deleted. After a failed deletion
      // nothing knows the passwords of CHAP any more, and a renamed LUN gets no target without them.
      const isMarked = parseMark(lun.description) || names.parse(lun.name)?.tag;
      if (asset.finished && !(isMarked && target.isOpen)) await on.markRemoved(lun, call);
      await san.deleteTarget(target.id, call.signal);
    },
  };
}

const indexOf = (target: SanTarget, lun: string): string | undefined =>
  target.mapped.find(each => each.lun === lun)?.index;
