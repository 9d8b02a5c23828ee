import { protocols } from "../../core/access.ts";
import type { Call } from "../../core/call.ts";
import type { Context, VolumeSpec } from "../driver.ts";
import type { Notes, ShareProtocol } from "../store.ts";
import type { LunContext, LunVolume } from "./contexts.ts";
import { errors, isAnswer } from "./dsm-error.ts";
import { parseMark } from "./names.ts";
import { markRemoved } from "./removal.ts";
import type { SanTarget } from "./san.ts";
import { type TemplateSources, targetFields } from "./templates.ts";

/** The portals of the connection file. */
export interface Portals {
  readonly portal: string;
  readonly portals: readonly string[];
  readonly interface: string;
}

/** Shares each LUN through a target of its own. */
export class LunTargets implements ShareProtocol<LunVolume> {
  readonly protocol = "iscsi";
  readonly access = protocols.iscsi;
  readonly growsOnNode = true;
  readonly #context: LunContext;
  readonly #templates: TemplateSources;
  readonly #portals: Portals;

  constructor(context: LunContext, templates: TemplateSources, portals: Portals) {
    this.#context = context;
    this.#templates = templates;
    this.#portals = portals;
  }

  async publish(
    { id, lun }: LunVolume,
    spec: VolumeSpec,
    _keep: (notes: Notes) => Promise<LunVolume>,
    call: Call,
  ): Promise<Notes> {
    const existing = await this.#target(id, lun.uuid, call);
    this.#refuseOther(id, lun.uuid, existing);
    const index = existing && indexOf(existing, lun.uuid);
    if (existing && index !== undefined) return { iqn: existing.iqn, lun: index };
    const fields = targetFields(this.#templates, spec.parameters, call);
    // A target without a LUN was left by an interrupted call, perhaps with old credentials.
    if (existing) await this.#context.san.deleteTarget(existing.id, call.signal);
    await this.#context.san.mapLun(lun.uuid, await this.#made(id, lun.uuid, fields, call), call.signal);
    const mapped = await this.#target(id, lun.uuid, call);
    this.#refuseOther(id, lun.uuid, mapped);
    const made = mapped && indexOf(mapped, lun.uuid);
    if (mapped && made !== undefined) return { iqn: mapped.iqn, lun: made };
    throw this.#context.error("aborted", `DSM has not mapped the LUN of volume "${id}" to its target yet; retrying`);
  }

  context({ notes }: LunVolume): Context {
    const { portal, portals, interface: iface } = this.#portals;
    return { portal, portals: portals.join(","), interface: iface, iqn: notes["iqn"] ?? "", lun: notes["lun"] ?? "" };
  }

  /** Throws "failed-precondition" while a node is logged in. */
  async withdraw(asset: LunVolume, call: Call): Promise<void> {
    const { id, lun } = asset;
    const target = await this.#target(id, lun.uuid, call);
    if (!target) return;
    this.#refuseOther(id, lun.uuid, target);
    if (target.sessions.length > 0) {
      const text = `volume "${id}" is in use by ${target.sessions.join(", ").slice(0, 200)}; it can be deleted once no node is logged in`;
      throw this.#context.error("failed-precondition", text);
    }
    // Without a mark, the target alone proves the owner of the LUN, so the LUN is renamed before the target is deleted.
    if (asset.finished && !parseMark(lun.description) && !this.#context.names.parse(lun.name)?.tag)
      await markRemoved(this.#context, asset, call);
    await this.#context.san.deleteTarget(target.id, call.signal);
  }

  async #target(id: string, lun: string, call: Call): Promise<SanTarget | undefined> {
    return this.#context.targetOf(id, lun, await this.#context.san.targets(call.signal));
  }

  /** Returns the id of the new target. Throws "aborted" if another controller has just created it. */
  async #made(id: string, lun: string, fields: object, call: Call): Promise<string> {
    const { names, san } = this.#context;
    try {
      return await san.createTarget({ ...fields }, names.base(id), names.taggedIqn(id, lun), call.signal);
    } catch (error) {
      if (!isAnswer(error, errors.targetExists)) throw error;
      throw this.#context.error("aborted", `another controller is creating the target of volume "${id}"; retrying`);
    }
  }

  /** Throws "failed-precondition" for a target with another LUN. */
  #refuseOther(id: string, lun: string, target: SanTarget | undefined): void {
    const other = target?.mapped.find(each => each.lun !== lun);
    if (!other) return;
    const text = `the target "${target?.iqn}" of volume "${id}" is mapped to another LUN, too, and is kept; remove that mapping in SAN Manager`;
    throw this.#context.error("failed-precondition", text);
  }
}

const indexOf = (target: SanTarget, lun: string): string | undefined =>
  target.mapped.find(each => each.lun === lun)?.index;
