import type { Call } from "../../core/call.ts";
import type { Finding } from "../../health/finding.ts";
import type { Source, VolumeSpec } from "../driver.ts";
import type { ConnectionIdentity } from "../module.ts";
import type { Notes } from "../store.ts";
import { errors, isAnswer, isNoLun, unless } from "./dsm-error.ts";
import { type LunName, LunNames, type LunNaming, markOf, parseMark, sourceTag } from "./names.ts";
import { type Lun, San, type SanTarget } from "./san.ts";
import { lunFields, type TemplateSources } from "./templates.ts";
import { type DsmUnit, type Kind, type Origin, ownersOf, type UnitPlace } from "./unit.ts";

/** The LUNs and targets of a system. */
export interface LunsAndTargets {
  readonly luns: readonly Lun[];
  readonly targets: readonly SanTarget[];
}

/** A LUN that is a volume or is becoming one. */
export interface LunVolume extends DsmUnit<LunsAndTargets> {
  readonly lun: Lun;
}

/** A LUN with a name in the form of this connection's volumes. */
interface NamedLun extends LunName {
  readonly lun: Lun;
}

/** Who created a LUN. */
type Maker = "this connection" | "democratic-csi" | "unknown";

/** The LUNs of one connection. The name of a LUN shows whether it is finished, see LunNames. */
export class Luns implements Kind<LunVolume, LunsAndTargets> {
  readonly place: UnitPlace;
  readonly san: San;
  readonly names: LunNames;
  readonly templates: TemplateSources;
  readonly sizeUnit = 1n;
  readonly shrinks = false;
  readonly existsCode = errors.lunExists;
  readonly isGone = isNoLun;
  /** The first is recorded on new volumes. */
  readonly #owners: readonly [string, ...string[]];

  constructor(identity: ConnectionIdentity, place: UnitPlace, naming: LunNaming, templates: TemplateSources) {
    this.#owners = ownersOf(identity);
    this.place = place;
    this.san = new San(place.dsm);
    this.names = new LunNames(naming, this.#owners, identity.maxIdBytes);
    this.templates = templates;
  }

  async read({ signal }: Pick<Call, "signal">, withSnapshots = false): Promise<LunsAndTargets> {
    const [luns, targets] = await Promise.all([this.san.luns(signal, withSnapshots), this.san.targets(signal)]);
    return { luns, targets };
  }

  find(id: string, { luns, targets }: LunsAndTargets): LunVolume | undefined {
    const mine = this.named(luns)
      .filter(each => each.id === id.toLowerCase() && each.state !== "being removed")
      .filter(each => this.#isVolume(each, id, targets));
    const found = mine.find(({ state }) => state === "whole") ?? mine[0];
    return found && this.#volume(found, id, targets);
  }

  finished({ luns, targets }: LunsAndTargets): readonly LunVolume[] {
    const whole = this.named(luns).filter(each => each.state === "whole" && this.#isVolume(each, each.id, targets));
    return whole.map(each => this.#volume(each, each.id, targets));
  }

  async prepare(id: string, source: Source | undefined, { luns }: LunsAndTargets): Promise<void> {
    const name = this.names.lun(id, source);
    if (luns.some(each => each.name.toLowerCase() === name))
      throw this.place.error("already-exists", `a LUN "${name}" exists that is not a volume of this connection`);
  }

  async make(id: string, spec: VolumeSpec, bytes: bigint, origin: Origin<LunVolume> | undefined, call: Call) {
    const { location } = this.place;
    const name = this.names.building(id, spec.source);
    const [owner] = this.#owners;
    const mark = markOf(owner, spec.source, "");
    if (origin?.name !== undefined) {
      await this.san.cloneSnapshot({ lun: origin.unit.lun.uuid, uuid: origin.name }, name, mark, call.signal);
    } else if (origin) {
      await this.san.cloneLun(origin.unit.lun.uuid, name, location, mark, call.signal);
    } else {
      const { description, ...fields } = lunFields(this.templates, spec.name, spec.parameters, call);
      const marked = { ...fields, description: markOf(owner, undefined, String(description)) };
      await this.san.createLun(marked, name, location, bytes, call.signal);
    }
  }

  /** One that has just been created has no target yet. */
  async made(id: string, source: Source | undefined, call: Call): Promise<LunVolume | undefined> {
    const name = this.names.building(id, source);
    const found = this.named(await this.san.luns(call.signal)).find(({ lun }) => lun.name === name && !lun.locked);
    return found && this.#volume(found, id, []);
  }

  async finish(unit: LunVolume, notes: Notes, call: Call): Promise<LunVolume> {
    const name = unit.lun.name.replace(/\.new$/, "");
    await this.san.renameLun(unit.lun.uuid, name, call.signal);
    return { ...unit, lun: { ...unit.lun, name }, notes: { ...unit.notes, ...notes }, finished: true };
  }

  resize({ lun }: LunVolume, bytes: bigint, call: Call): Promise<void> {
    return this.san.resizeLun(lun.uuid, bytes, call.signal);
  }

  isThere(id: string, all: LunsAndTargets): boolean {
    return this.#removable(id, all).length > 0;
  }

  otherwise(id: string, { luns }: LunsAndTargets): string | undefined {
    const isMarked = ({ description }: Lun) => this.#owners.includes(parseMark(description)?.owner ?? "");
    return luns.find(lun => this.names.isOtherwise(id, lun.name, isMarked(lun)))?.name;
  }

  /**
   * The LUNs, whatever their state, and then the targets that lead nowhere. Renames each LUN first, because DSM lists it for a while after its
   * deletion. Throws "aborted" while one still exists, and for one that has been finished.
   */
  async remove(id: string, all: LunsAndTargets, call: Call): Promise<void> {
    const { san, names } = this;
    const seen = this.#removable(id, all);
    for (const each of seen) await this.#removeOne(each, call);
    const withoutSeen = async () => {
      const luns = await san.luns(call.signal);
      return luns.some(({ uuid }) => seen.some(({ lun }) => lun.uuid === uuid)) ? undefined : luns;
    };
    const luns = await this.place.awaited(withoutSeen, "removing", id, call);
    const unit = this.find(id, all);
    // That of a finished volume is withdrawn by now.
    const withdrawn = unit?.finished ? this.targetOf(id, unit.lun.uuid, all.targets) : undefined;
    // The targets were read first, so each of them has a LUN in this listing, unless that is gone.
    const others = luns.map(({ uuid }) => names.taggedIqn(id, uuid).toLowerCase());
    const isLeft = ({ iqn }: SanTarget) => names.isTarget(id, iqn) && !others.includes(iqn.toLowerCase());
    const left = all.targets.filter(each => each !== withdrawn && isLeft(each));
    if (left.length === 0) return;
    for (const { id: target, iqn, mapped, sessions } of await san.targets(call.signal))
      if (mapped.length === 0 && sessions.length === 0 && left.some(each => each.id === target && each.iqn === iqn))
        await san.deleteTarget(target, call.signal);
  }

  /** Throws "aborted" for a LUN that another controller has finished since it was read. */
  async refuseFinished({ uuid, name }: Lun, call: Call): Promise<void> {
    const now = (await this.san.luns(call.signal)).find(each => each.uuid === uuid);
    if (now && this.names.parse(now.name)?.state === "whole")
      throw this.place.error("aborted", `the LUN "${name}" was finished by another controller meanwhile; it stays`);
  }

  /**
   * Renames a LUN to mark it as being removed. Another controller may have done so already: the name contains the beginning of
   * the LUN's own UUID, so it cannot belong to another LUN.
   */
  async markRemoved({ uuid, name }: Lun, call: Call): Promise<void> {
    const isFine = (error: unknown) => isAnswer(error, errors.lunExists) || isNoLun(error);
    await this.san.renameLun(uuid, this.names.removed(name, uuid), call.signal).catch(unless(isFine, undefined));
  }

  /** No node can reach a LUN without a target. */
  findings({ id, notes }: LunVolume): readonly Finding[] {
    if (notes["iqn"] !== undefined) return [];
    return [{ reason: "TargetMissing", message: `DSM has no target for the LUN of volume "${id}"` }];
  }

  /** A LUN that is mapped to the target of its name needs no mark, because democratic-csi made such LUNs. */
  idOfObject(object: string): string {
    return this.names.parse(object)?.id ?? object;
  }

  /** The LUNs with names in the form of volumes of this connection. */
  named(luns: readonly Lun[]): readonly NamedLun[] {
    return luns.flatMap(lun => {
      const parts = this.names.parse(lun.name);
      return parts ? [{ ...parts, lun }] : [];
    });
  }

  /**
   * The target of a volume's LUN: the one that it is mapped to, also with the IQN that an earlier file has given it, else the one with the name that
   * only this LUN can have.
   */
  targetOf(id: string, lun: string, targets: readonly SanTarget[]): SanTarget | undefined {
    const named = targets.filter(({ iqn }) => this.names.isTarget(id, iqn));
    const own = this.names.taggedIqn(id, lun).toLowerCase();
    const leads = ({ mapped }: SanTarget) => mapped.some(each => each.lun === lun);
    return (
      named.find(leads) ??
      targets.find(each => each.name === this.names.taggedName(id, lun) && leads(each)) ??
      named.find(({ iqn }) => iqn.toLowerCase() === own)
    );
  }

  /** democratic-csi leaves no mark: an unmarked LUN is its work only if it is mapped to the target of the same name. */
  maker({ lun, tag, id }: NamedLun, targets: readonly SanTarget[]): Maker {
    if (tag) return this.names.isOwn(tag) ? "this connection" : "unknown";
    const mark = parseMark(lun.description);
    if (mark) return this.#owners.includes(mark.owner) ? "this connection" : "unknown";
    const named = targets.filter(({ iqn }) => this.names.isTarget(id, iqn));
    const target = this.targetOf(id, lun.uuid, named);
    return target?.mapped.some(each => each.lun === lun.uuid) ? "democratic-csi" : "unknown";
  }

  async #removeOne({ lun, state }: NamedLun, call: Call): Promise<void> {
    if (state === "being removed" && lun.locked) return;
    if (state === "being made") await this.refuseFinished(lun, call);
    if (state !== "being removed") await this.markRemoved(lun, call);
    await this.san.deleteLun(lun.uuid, call.signal);
  }

  /** The LUNs of a volume that may be removed. Throws "failed-precondition" for a foreign one. */
  #removable(id: string, { luns, targets }: LunsAndTargets): readonly NamedLun[] {
    const mayRemove = (named: NamedLun): boolean => {
      const { lun, state } = named;
      // Only csimux appends the beginning of the UUID to the name.
      if (state === "being removed")
        return lun.name === this.names.removed(lun.name.replace(/\.[^.]+\.del$/, ""), lun.uuid);
      const maker = this.maker(named, targets);
      if (maker === "democratic-csi") return true;
      if (maker === "this connection") return id === named.id;
      if (state === "being made") return false;
      throw this.place.kept(`the LUN "${lun.name}"`);
    };
    return this.named(luns).filter(each => each.id === id.toLowerCase() && mayRemove(each));
  }

  /** Whether a LUN is the volume of this id. Only ids of democratic-csi have capital letters. */
  #isVolume(named: NamedLun, id: string, targets: readonly SanTarget[]): boolean {
    const maker = this.maker(named, targets);
    return maker === "democratic-csi" || (maker === "this connection" && id === named.id);
  }

  /** The volume of a LUN; `id` in the spelling of the caller. */
  #volume({ lun, state, tag }: NamedLun, id: string, targets: readonly SanTarget[]): LunVolume {
    const target = this.targetOf(id, lun.uuid, targets);
    const mapped = target?.mapped.find(each => each.lun === lun.uuid);
    const source = parseMark(lun.description)?.source;
    return {
      ...{ id, lun, name: undefined, bytes: lun.bytes, tag: tag?.source, finished: state === "whole" },
      source: source && tag?.source === sourceTag(source) ? source : undefined,
      notes: target && mapped ? { iqn: target.iqn, lun: mapped.index } : {},
    };
  }
}
