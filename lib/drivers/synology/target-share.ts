import { protocols } from "../../core/access.ts";
import type { Call } from "../../core/call.ts";
import type { Context, VolumeSpec } from "../driver.ts";
import type { Notes, ShareProtocol } from "../store.ts";
import { errors, isAnswer } from "./dsm-error.ts";
import type { LunContext, LunVolume } from "./lun-context.ts";
import { parseMark } from "./names.ts";
import { setAside } from "./removal.ts";
import type { SanTarget } from "./san.ts";
import { type TemplateSources, targetFields } from "./templates.ts";

/** How nodes reach the targets: portals as they stand in the file. */
export interface Portals {
  readonly portal: string;
  readonly portals: readonly string[];
  readonly interface: string;
}

/** A target for each LUN, with its name. */
export class LunTargets implements ShareProtocol<LunVolume> {
  readonly protocol = "iscsi";
  readonly access = protocols.iscsi;
  readonly growsOnNode = true;
  readonly #space: LunContext;
  readonly #templates: TemplateSources;
  readonly #portals: Portals;

  constructor(space: LunContext, templates: TemplateSources, portals: Portals) {
    this.#space = space;
    this.#templates = templates;
    this.#portals = portals;
  }

  async publish(
    { id, lun }: LunVolume,
    spec: VolumeSpec,
    _keep: (notes: Notes) => Promise<LunVolume>,
    call: Call,
  ): Promise<Notes> {
    const standing = await this.#target(id, lun.uuid, call);
    this.#refuseOther(id, lun.uuid, standing);
    const index = standing && indexOf(standing, lun.uuid);
    if (standing && index !== undefined) return { iqn: standing.iqn, lun: index };
    const fields = targetFields(this.#templates, spec.parameters, call);
    // One that leads nowhere was left by an interrupted call; its credentials may be others than those of now.
    if (standing) await this.#space.san.deleteTarget(standing.id, call.signal);
    await this.#space.san.mapLun(lun.uuid, await this.#made(id, lun.uuid, fields, call), call.signal);
    const mapped = await this.#target(id, lun.uuid, call);
    this.#refuseOther(id, lun.uuid, mapped);
    const made = mapped && indexOf(mapped, lun.uuid);
    if (mapped && made !== undefined) return { iqn: mapped.iqn, lun: made };
    throw this.#space.error("aborted", `DSM does not show the LUN of volume "${id}" at its target; repeat the call`);
  }

  context({ notes }: LunVolume): Context {
    const { portal, portals, interface: iface } = this.#portals;
    return { portal, portals: portals.join(","), interface: iface, iqn: notes["iqn"] ?? "", lun: notes["lun"] ?? "" };
  }

  /** Nothing of a volume is taken away under a node that is logged in. */
  async withdraw(asset: LunVolume, call: Call): Promise<void> {
    const { id, lun } = asset;
    const target = await this.#target(id, lun.uuid, call);
    if (!target) return;
    this.#refuseOther(id, lun.uuid, target);
    if (target.sessions.length > 0)
      throw this.#space.error(
        "failed-precondition",
        `volume "${id}" is in use by ${target.sessions.join(", ").slice(0, 200)}; it goes when no node is logged in any more`,
      );
    // Where no mark says whose the LUN is, the target is what proves it: it must not go before the LUN is set aside.
    if (asset.finished && !parseMark(lun.description) && !this.#space.names.parse(lun.name)?.tag)
      await setAside(this.#space, asset, call);
    await this.#space.san.deleteTarget(target.id, call.signal);
  }

  async #target(id: string, lun: string, call: Call): Promise<SanTarget | undefined> {
    return this.#space.targetOf(id, lun, await this.#space.san.targets(call.signal));
  }

  /** The id of the new target. Throws "aborted" when somebody else has just made one of this name. */
  async #made(id: string, lun: string, fields: object, call: Call): Promise<string> {
    const { names, san } = this.#space;
    try {
      return await san.createTarget({ ...fields }, names.base(id), names.taggedIqn(id, lun), call.signal);
    } catch (error) {
      if (!isAnswer(error, errors.targetExists)) throw error;
      throw this.#space.error("aborted", `somebody else is making the target of volume "${id}"; repeat the call`);
    }
  }

  /** A target that leads to something else as well is not ours to change. */
  #refuseOther(id: string, lun: string, target: SanTarget | undefined): void {
    const other = target?.mapped.find(each => each.lun !== lun);
    if (!other) return;
    const text = `the target "${target?.iqn}" of volume "${id}" leads to another LUN, too; somebody else uses it`;
    throw this.#space.error("failed-precondition", text);
  }
}

const indexOf = (target: SanTarget, lun: string): string | undefined =>
  target.mapped.find(each => each.lun === lun)?.index;
