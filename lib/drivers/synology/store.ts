import type { Call } from "../../core/call.ts";
import { type Finding, findingsOf } from "../../health/finding.ts";
import type { Source } from "../driver.ts";
import { pageOf } from "../pages.ts";
import type { VolumeStore } from "../store.ts";
import { type LunContext, type LunVolume, type NamedLun, unknownSource } from "./contexts.ts";
import { errors, explainDsm, isAnswer, isNoLun } from "./dsm-error.ts";
import { makeLun, readyLun } from "./making.ts";
import { isVolumeId } from "./names.ts";
import { removable, removeLuns } from "./removal.ts";
import { type DsmVolume, dsmFindings, dsmVolume } from "./rows.ts";
import type { Lun, SanTarget } from "./san.ts";
import { lunSnapshots } from "./snapshots.ts";
import type { TemplateSources } from "./templates.ts";

/** Volumes as LUNs of a DSM. The name of a LUN shows whether it is finished, see LunNames. */
export function lunStore(context: LunContext, templates: TemplateSources): VolumeStore<LunVolume> {
  const { names, san, location } = context;
  const volumeOfDsm = (call: Call): Promise<DsmVolume> => dsmVolume(san.dsm, location, call.signal);

  /** Whether a LUN is the volume of this id. Only ids of democratic-csi have capital letters. */
  function isVolume(named: NamedLun, id: string, targets: readonly SanTarget[]): boolean {
    const maker = context.maker(named, targets);
    return maker === "democratic-csi" || (maker === "this connection" && id === named.id);
  }

  function among(id: string, luns: readonly Lun[], targets: readonly SanTarget[]): LunVolume | undefined {
    const mine = context
      .named(luns)
      .filter(each => each.id === id.toLowerCase() && each.state !== "being removed")
      .filter(each => isVolume(each, id, targets));
    const found = mine.find(({ state }) => state === "whole") ?? mine[0];
    return found && context.asset(found, id, targets);
  }

  async function find(id: string, call: Call): Promise<LunVolume | undefined> {
    if (!isVolumeId(id)) return undefined;
    const { luns, targets } = await context.look(call);
    return among(id, luns, targets);
  }

  async function refuseRemoval(asset: LunVolume, call: Call): Promise<void> {
    const all = await context.snapshots(asset.lun, call);
    const held = all.filter(each => context.isCsi(each));
    if (held.length === 0) {
      if (all.length > 0)
        call.log.warn("snapshots that DSM or a person took are deleted with the volume's LUN", {
          volumeId: asset.id,
          snapshots: all.length,
        });
      return;
    }
    const [first] = held;
    const text = `volume "${asset.id}" has ${held.length} snapshot(s), which DSM would delete with it; delete "${first?.description}" and all others first`;
    throw context.error("failed-precondition", text);
  }

  async function finishedOnes(call: Call): Promise<readonly LunVolume[]> {
    const { luns, targets } = await context.look(call);
    const whole = context.named(luns).filter(each => each.state === "whole" && isVolume(each, each.id, targets));
    return whole.map(each => context.asset(each, each.id, targets));
  }

  /** DSM does not keep every source; the tag in the name shows whether it is the requested one. */
  function withSource(asset: LunVolume, wanted: Source | undefined): LunVolume {
    const tag = names.parse(asset.lun.name)?.tag?.source;
    if (tag === undefined) return asset;
    return { ...asset, source: wanted && names.sourceTag(wanted) === tag ? wanted : unknownSource };
  }

  return {
    ...{ find, explain: explainDsm, clonesFrom: ["volume", "snapshot"] },
    get snapshots() {
      return lunSnapshots(context, templates);
    },
    idOf: name => names.idOf(name),
    /** A LUN that is mapped to the target of its name needs no mark, because democratic-csi made such LUNs. */
    idOfObject: object => names.parse(object)?.id ?? object,
    async create(spec, call) {
      const id = names.idOf(spec.name);
      const { luns, targets } = await context.look(call);
      const existing = among(id, luns, targets);
      const name = names.lun(id, spec.source);
      if (!existing && luns.some(each => each.name.toLowerCase() === name))
        throw context.error("already-exists", `a LUN "${name}" exists that is not a volume of this connection`);
      if (existing?.finished) return withSource(existing, spec.source);
      if (!existing) await makeLun(context, templates, id, spec, call);
      else if (withSource(existing, spec.source).source === unknownSource)
        return { ...existing, source: unknownSource };
      const lun = await readyLun(context, id, spec, call);
      // A LUN just created has no target yet.
      const made = { id, lun, name: undefined, bytes: lun.bytes, source: undefined, finished: false };
      return withSource({ ...made, notes: existing?.notes ?? {} }, spec.source);
    },
    async finish(asset, notes, call) {
      const name = asset.lun.name.replace(/\.new$/, "");
      if (!asset.finished)
        await san.renameLun(asset.lun.uuid, name, call.signal).catch((error: unknown) => {
          if (!isAnswer(error, errors.lunExists) && !isNoLun(error)) throw error;
          const text = `another controller finished or removed volume "${asset.id}" meanwhile; retrying`;
          throw context.error("aborted", text);
        });
      return { ...asset, lun: { ...asset.lun, name }, notes: { ...asset.notes, ...notes }, finished: true };
    },
    async remove(id, before, call) {
      if (!isVolumeId(id)) return;
      const { luns, targets } = await context.look(call);
      const seen = removable(context, id, luns, targets);
      if (seen.length === 0) context.refuseOtherwise(id, luns);
      const asset = among(id, luns, targets);
      if (asset) await refuseRemoval(asset, call);
      if (asset) await before({ ...asset, targets });
      // That of a finished volume is withdrawn by now.
      const withdrawn = asset?.finished ? context.targetOf(id, asset.lun.uuid, targets) : undefined;
      await removeLuns(
        context,
        id,
        seen,
        targets.filter(each => each !== withdrawn),
        call,
      );
    },
    sameSource: (a, b) => a.kind === b.kind && names.sourceTag(a) === names.sourceTag(b),
    async resize({ id, lun }, bytes, _limit, call) {
      await san.resizeLun(lun.uuid, bytes, call.signal);
      const asset = await find(id, call);
      if (asset) return asset;
      throw context.error("aborted", `the LUN of volume "${id}" has disappeared; retrying`);
    },
    available: async (_parameters, call) => (await volumeOfDsm(call)).free,
    async list(page, call) {
      const byId = new Map((await finishedOnes(call)).map(each => [each.id, each]));
      return pageOf([...byId.keys()], isVolumeId, page, async id => byId.get(id));
    },
    /** Reads the volume of DSM and, in one request each, all LUNs and targets. No node can reach a LUN without a target. */
    async look(call) {
      const [volume, assets] = await Promise.all([volumeOfDsm(call), finishedOnes(call)]);
      const unmapped = assets.map(
        ({ id, notes }) => [id, notes["iqn"] === undefined ? [targetMissing(id)] : []] as const,
      );
      return { storage: dsmFindings(location, volume), volumes: findingsOf(unmapped), assets };
    },
    async check(call) {
      await context.look(call);
      await volumeOfDsm(call);
    },
    close: () => san.dsm.release(),
  };
}

const targetMissing = (id: string): Finding => ({
  reason: "TargetMissing",
  message: `DSM has no target for the LUN of volume "${id}"`,
});
