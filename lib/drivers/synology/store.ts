import type { Call } from "../../core/call.ts";
import { type Finding, findingsOf } from "../../health/finding.ts";
import type { Context, Page, PageRequest, Source, VolumeSpec } from "../driver.ts";
import { pageOf } from "../pages.ts";
import type { HealthInspection, Notes, VolumeStore } from "../store.ts";
import { type LunContext, type LunVolume, type NamedLun, unknownSource } from "./contexts.ts";
import { errors, explainDsm, isAnswer } from "./dsm-error.ts";
import { makeLun, readyLun } from "./making.ts";
import { isVolumeId } from "./names.ts";
import { removeLuns } from "./removal.ts";
import { type DsmVolume, dsmFindings, dsmVolume } from "./rows.ts";
import type { Lun, SanTarget } from "./san.ts";
import { LunSnapshots } from "./snapshots.ts";
import type { TemplateSources } from "./templates.ts";

/** Volumes as LUNs of a DSM. The name of a LUN shows whether it is finished, see LunNames. */
export class LunStore implements VolumeStore<LunVolume> {
  readonly explain = explainDsm;
  readonly clonesFrom = ["volume", "snapshot"] as const;
  readonly snapshots: LunSnapshots;
  readonly #context: LunContext;
  readonly #templates: TemplateSources;

  constructor(context: LunContext, templates: TemplateSources) {
    this.#context = context;
    this.#templates = templates;
    this.snapshots = new LunSnapshots(context, templates);
  }

  idOf(name: string): string {
    return this.#context.names.idOf(name);
  }

  /** A LUN that is mapped to the target of its name needs no mark, because democratic-csi made such LUNs. */
  idOfObject(object: string): string {
    return this.#context.names.parse(object)?.id ?? object;
  }

  async create(spec: VolumeSpec, call: Call): Promise<LunVolume> {
    const id = this.idOf(spec.name);
    const { luns, targets } = await this.#context.look(call);
    const existing = this.#among(id, luns, targets);
    const name = this.#context.names.lun(id, spec.source);
    if (!existing && luns.some(each => each.name.toLowerCase() === name))
      throw this.#context.error("already-exists", `a LUN "${name}" exists that is not a volume of this connection`);
    if (existing?.finished) return this.#withSource(existing, spec.source);
    if (!existing) await makeLun(this.#context, this.#templates, id, spec, call);
    else if (this.#withSource(existing, spec.source).source === unknownSource)
      return { ...existing, source: unknownSource };
    const lun = await readyLun(this.#context, id, spec, call);
    return this.#withSource({ ...this.#created(id, lun), notes: existing?.notes ?? {} }, spec.source);
  }

  async find(id: string, call: Call): Promise<LunVolume | undefined> {
    if (!isVolumeId(id)) return undefined;
    const { luns, targets } = await this.#context.look(call);
    return this.#among(id, luns, targets);
  }

  #among(id: string, luns: readonly Lun[], targets: readonly SanTarget[]): LunVolume | undefined {
    const mine = this.#context
      .named(luns)
      .filter(each => each.id === id.toLowerCase() && each.state !== "being removed")
      .filter(each => this.#isVolume(each, id, targets));
    const found = mine.find(({ state }) => state === "whole") ?? mine[0];
    return found && this.#context.asset(found, id, targets);
  }

  async finish(asset: LunVolume, notes: Notes, call: Call): Promise<LunVolume> {
    const name = asset.lun.name.replace(/\.new$/, "");
    if (!asset.finished)
      await this.#context.san.renameLun(asset.lun.uuid, name, call.signal).catch((error: unknown) => {
        if (!isAnswer(error, errors.lunExists) && !isAnswer(error, errors.noLun)) throw error;
        const text = `another controller finished or removed volume "${asset.id}" meanwhile; retrying`;
        throw this.#context.error("aborted", text);
      });
    const lun = { ...asset.lun, name };
    return { ...asset, lun, notes: { ...asset.notes, ...notes }, finished: true };
  }

  async #refuseRemoval(asset: LunVolume, call: Call): Promise<void> {
    const held = (await this.#context.snapshots(asset.lun, call)).filter(each => this.#context.isCsi(each));
    if (held.length === 0) return;
    const [first] = held;
    const text = `volume "${asset.id}" has ${held.length} snapshot(s), which DSM would delete with it; delete "${first?.description}" and all others first`;
    throw this.#context.error("failed-precondition", text);
  }

  async remove(id: string, before: (asset: LunVolume) => Promise<void>, call: Call): Promise<void> {
    if (!isVolumeId(id)) return;
    const asset = await this.find(id, call);
    if (asset) await this.#refuseRemoval(asset, call);
    if (asset) await before(asset);
    await removeLuns(this.#context, id, call);
  }

  sameSource(a: Source, b: Source): boolean {
    return a.kind === b.kind && this.#context.names.sourceTag(a) === this.#context.names.sourceTag(b);
  }

  async resize(asset: LunVolume, bytes: bigint, _limit: bigint | undefined, call: Call): Promise<LunVolume> {
    await this.#context.san.resizeLun(asset.lun.uuid, bytes, call.signal);
    return this.#known(asset.id, call);
  }

  async available(_parameters: Context, call: Call): Promise<bigint> {
    return (await this.#volume(call)).free;
  }

  async list(page: PageRequest, call: Call): Promise<Page<LunVolume>> {
    const byId = new Map((await this.#whole(call)).map(each => [each.id, each]));
    return pageOf([...byId.keys()], isVolumeId, page, async id => byId.get(id));
  }

  /** Reads the volume of DSM and, in one request each, all LUNs and targets. No node can reach a LUN without a target. */
  async look(call: Call): Promise<HealthInspection<LunVolume>> {
    const [volume, assets] = await Promise.all([this.#volume(call), this.#whole(call)]);
    const unmapped = assets.map(
      ({ id, notes }) => [id, notes["iqn"] === undefined ? [targetMissing(id)] : []] as const,
    );
    return { storage: dsmFindings(this.#context.location, volume), volumes: findingsOf(unmapped), assets };
  }

  async check(call: Call): Promise<void> {
    await this.#context.look(call);
    await this.#volume(call);
  }

  close(): Promise<void> {
    return this.#context.san.dsm.release();
  }

  #volume(call: Call): Promise<DsmVolume> {
    return dsmVolume(this.#context.san.dsm, this.#context.location, call.signal);
  }

  async #whole(call: Call): Promise<readonly LunVolume[]> {
    const { luns, targets } = await this.#context.look(call);
    const whole = this.#context
      .named(luns)
      .filter(each => each.state === "whole" && this.#isVolume(each, each.id, targets));
    return whole.map(each => this.#context.asset(each, each.id, targets));
  }

  /** Whether a LUN is the volume of this id. Only ids of democratic-csi have capital letters. */
  #isVolume(named: NamedLun, id: string, targets: readonly SanTarget[]): boolean {
    const maker = this.#context.maker(named, targets);
    return maker === "democratic-csi" || (maker === "this connection" && id === named.id);
  }

  /** A LUN just created, which has no target yet. */
  #created(id: string, lun: Lun): LunVolume {
    return { id, lun, name: undefined, bytes: lun.bytes, source: undefined, notes: {}, finished: false };
  }

  /** DSM does not keep every source; the tag in the name shows whether it is the requested one. */
  #withSource(asset: LunVolume, wanted: Source | undefined): LunVolume {
    const tag = this.#context.names.parse(asset.lun.name)?.tag?.source;
    if (tag === undefined) return asset;
    return { ...asset, source: wanted && this.#context.names.sourceTag(wanted) === tag ? wanted : unknownSource };
  }

  async #known(id: string, call: Call): Promise<LunVolume> {
    const asset = await this.find(id, call);
    if (asset) return asset;
    throw this.#context.error("aborted", `the LUN of volume "${id}" has disappeared; retrying`);
  }
}

const targetMissing = (id: string): Finding => ({
  reason: "TargetMissing",
  message: `DSM has no target for the LUN of volume "${id}"`,
});
