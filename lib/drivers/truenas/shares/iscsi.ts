import { protocols } from "../../../core/access.ts";
import type { Call } from "../../../core/call.ts";
import type { VolumeFindings } from "../../../health/finding.ts";
import type { Context, VolumeSpec } from "../../driver.ts";
import { inUse } from "../../failure.ts";
import type { Notes, ShareProtocol } from "../../store.ts";
import { rendered } from "../../template.ts";
import { ApiError, errnos } from "../api-error.ts";
import { apiErrorMapping } from "../meaning.ts";
import { type ChoiceOptions, chosen, idsOf, type ObjectChoice } from "./chosen.ts";
import {
  checkService,
  type ExistingRow,
  isProved,
  kept,
  nameNote,
  noted,
  noteKeys,
  type Row,
  type ShareContext,
  type SharedDataset,
  type ShareNaming,
  type Table,
  tableOf,
  taken,
  targetName,
  templateValues,
  unique,
  unshared,
} from "./share.ts";

/** One way to the targets. */
export interface TargetGroup {
  readonly targetGroupPortalGroup: ObjectChoice;
  readonly targetGroupInitiatorGroup?: ObjectChoice | undefined;
  readonly targetGroupAuthType: string;
  readonly targetGroupAuthGroup?: number | undefined;
}

/** `iscsi:` of a connection file. */
export interface IscsiSettings extends ShareNaming {
  readonly targetPortal: string;
  readonly targetPortals: readonly string[];
  readonly interface: string;
  readonly targetGroups: readonly TargetGroup[];
  readonly extentCommentTemplate?: string | undefined;
  readonly extentInsecureTpc: boolean;
  readonly extentXenCompat: boolean;
  readonly extentDisablePhysicalBlocksize: boolean;
  readonly extentBlocksize: number;
  readonly extentRpm: string;
  readonly extentAvailThreshold: number;
}

/** Targets and extents have the same name; an extent's may be shorter. */
const rule = { foreign: /[^-a-z0-9.:]/g, most: 64 };
/** From here on a target can be deleted with its extents. */
const withExtents = 2504;
/** Each volume has a target of its own. */
const lun = 0;

const deviceOf = ({ dataset }: SharedDataset): string => `zvol/${dataset}`;

/** Volumes as iSCSI targets. */
export class IscsiShare implements ShareProtocol<SharedDataset> {
  readonly protocol = "iscsi";
  readonly access = protocols.iscsi;
  readonly growsOnNode = true;
  readonly reach: Context;
  readonly #site: ShareContext;
  readonly #settings: IscsiSettings;

  constructor(site: ShareContext, settings: IscsiSettings) {
    this.#site = site;
    this.#settings = settings;
    this.reach = {
      portal: settings.targetPortal,
      portals: settings.targetPortals.join(","),
      interface: settings.interface,
    };
  }

  /**
   * As ShareProtocol.publish. The name is kept before anything of it is made: a template may use parameters that nobody tells when the
   * volume is deleted.
   */
  async publish(
    asset: SharedDataset,
    spec: VolumeSpec,
    keep: (notes: Notes) => Promise<SharedDataset>,
    call: Call,
  ): Promise<Notes> {
    const name = targetName(asset, asset.notes[nameNote.iscsi], spec.parameters, this.#settings, rule);
    await kept(asset, { [nameNote.iscsi]: name }, keep);
    const [extent, basename] = await Promise.all([this.#extent(asset, name, spec, call), this.#basename(call)]);
    const target = await this.#target(asset, name, extent.row, call);
    const link = await this.#link(target, extent.row, call);
    const ids = [target, extent.row, link].map(({ id }) => String(id));
    const notes = Object.fromEntries(ids.map((id, at) => [noteKeys.iscsi[at] ?? "", id]));
    return { ...notes, ...this.#fresh(name, basename, Number(link["lunid"] ?? lun)), ...this.context(asset) };
  }

  context(asset: SharedDataset) {
    return noted(asset, ["portal", "portals", "interface", "iqn", "lun"]);
  }

  explain(error: unknown) {
    return apiErrorMapping(error);
  }

  /** As ShareProtocol.withdraw: by the disk, which is the volume's alone, and by the name that was kept; never by a noted id alone. */
  async withdraw(asset: SharedDataset, call: Call): Promise<void> {
    const name = asset.notes[nameNote.iscsi];
    const extents = tableOf(this.#site, "iscsi.extent", call);
    const targets = tableOf(this.#site, "iscsi.target", call);
    const [own, [target]] = await Promise.all([
      extents.find(["disk", "=", deviceOf(asset)]),
      name === undefined ? [] : targets.find(["name", "=", name]),
    ]);
    const gone = target ? await this.#withdrawTarget(asset, target, own, targets, call) : [];
    for (const { id } of own) if (!gone.includes(id)) await busyAware(() => extents.drop(id));
  }

  /** One listing of all targets. */
  async look(assets: readonly SharedDataset[], call: Call): Promise<VolumeFindings> {
    const names = new Set((await tableOf(this.#site, "iscsi.target", call).find()).map(each => String(each["name"])));
    const leads = ({ notes: { iqn = "" } }: SharedDataset) =>
      names.has(iqn) || names.has(iqn.slice(iqn.indexOf(":") + 1));
    return unshared(assets, leads, "TargetMissing");
  }

  async check(call: Call): Promise<void> {
    await checkService(this.#site, "iscsitarget", call);
    const { targetGroups } = this.#settings;
    const portals = await this.#portals(call);
    for (const { targetGroupPortalGroup: choice } of targetGroups) chosen(this.#site, portals, choice);
    const initiators = targetGroups.flatMap(group => group.targetGroupInitiatorGroup ?? []);
    if (initiators.length === 0) return;
    const known = await this.#initiators(call);
    for (const choice of initiators) chosen(this.#site, known, choice);
  }

  /** Portals are known by their comment, and by the addresses that they listen on, with or without the port. */
  async #portals(call: Call): Promise<ChoiceOptions> {
    const wordsOf = (row: Row): readonly string[] => {
      const listens = row["listen"] as readonly { readonly ip: string; readonly port?: number }[];
      const places = listens.flatMap(({ ip, port = 3260 }) => [ip, `${ip.includes(":") ? `[${ip}]` : ip}:${port}`]);
      return [String(row["comment"]), ...places].filter(word => word !== "");
    };
    return { kind: "iSCSI portal", rows: await tableOf(this.#site, "iscsi.portal", call).find(), wordsOf };
  }

  /** Groups of initiators are known by their comment, and by the names of those in them. */
  async #initiators(call: Call): Promise<ChoiceOptions> {
    const wordsOf = (row: Row): readonly string[] =>
      [String(row["comment"]), ...(row["initiators"] as readonly string[])].filter(word => word !== "");
    const rows = await tableOf(this.#site, "iscsi.initiator", call).find();
    return { kind: "iSCSI initiator group", rows, wordsOf };
  }

  async #extent(asset: SharedDataset, name: string, spec: VolumeSpec, call: Call): Promise<ExistingRow> {
    const extents = tableOf(this.#site, "iscsi.extent", call);
    const find = async () => (await extents.find(["disk", "=", deviceOf(asset)]))[0];
    const clash = async () => {
      const other = (await extents.find(["name", "=", name]))[0];
      if (other) throw taken(this.#site, `the iSCSI extent "${name}"`, String(other["disk"] ?? other["path"]));
    };
    return unique(() => extents.make(this.#extentRequest(asset, name, spec)), find, clash);
  }

  #extentRequest(asset: SharedDataset, name: string, { parameters }: VolumeSpec): object {
    const settings = this.#settings;
    const comment = rendered(settings.extentCommentTemplate ?? "", templateValues(asset, parameters));
    return {
      name,
      type: "DISK",
      disk: deviceOf(asset),
      comment,
      insecure_tpc: settings.extentInsecureTpc,
      xen: settings.extentXenCompat,
      avail_threshold: settings.extentAvailThreshold > 0 ? settings.extentAvailThreshold : null,
      blocksize: settings.extentBlocksize,
      pblocksize: settings.extentDisablePhysicalBlocksize,
      rpm: settings.extentRpm === "" ? "SSD" : settings.extentRpm.toUpperCase(),
      ro: false,
    };
  }

  /**
   * A target of the name that holds another volume's extent, or none and is not proved to be this volume's, is somebody else's. Who
   * may log in is as the file says.
   */
  async #target(asset: SharedDataset, name: string, extent: Row, call: Call): Promise<Row> {
    const targets = tableOf(this.#site, "iscsi.target", call);
    const groups = await this.#groups(call);
    // An empty alias clashes with every other empty one.
    const make = () => targets.make({ name, alias: null, mode: "ISCSI", groups });
    const { row, fresh } = await unique(make, async () => (await targets.find(["name", "=", name]))[0]);
    if (fresh) return row;
    const links = await tableOf(this.#site, "iscsi.targetextent", call).find(["target", "=", row.id]);
    if (links.some(link => link["extent"] !== extent.id))
      throw taken(this.#site, `the iSCSI target "${name}"`, "another extent");
    if (links.length === 0 && !isProved(asset, name, noteKeys.iscsi[0], row))
      throw taken(this.#site, `the iSCSI target "${name}"`, "no extent");
    if (sameGroups(row["groups"] as readonly object[], groups)) return row;
    return (await this.#site.api.call("iscsi.target.update", [row.id, { groups }], call.signal)) as Row;
  }

  async #groups(call: Call): Promise<readonly object[]> {
    const { targetGroups } = this.#settings;
    const initiators = targetGroups.flatMap(group => group.targetGroupInitiatorGroup ?? []);
    const [portalIds, initiatorIds] = await Promise.all([
      idsOf(
        this.#site,
        targetGroups.map(group => group.targetGroupPortalGroup),
        () => this.#portals(call),
      ),
      idsOf(this.#site, initiators, () => this.#initiators(call)),
    ]);
    const idOf = new Map(initiators.map((choice, at) => [choice, initiatorIds[at]]));
    return targetGroups.map((group, at) => ({
      portal: portalIds[at],
      initiator: idOf.get(group.targetGroupInitiatorGroup ?? "") ?? null,
      authmethod: group.targetGroupAuthType === "" ? "NONE" : group.targetGroupAuthType.toUpperCase().replace(" ", "_"),
      auth: group.targetGroupAuthGroup ? group.targetGroupAuthGroup : null,
    }));
  }

  async #link(target: Row, extent: Row, call: Call): Promise<Row> {
    const links = tableOf(this.#site, "iscsi.targetextent", call);
    const find = async () => (await links.find(["target", "=", target.id], ["extent", "=", extent.id]))[0];
    return (await unique(() => links.make({ target: target.id, extent: extent.id, lunid: lun }), find)).row;
  }

  async #basename(call: Call): Promise<string> {
    const { basename } = (await this.#site.api.call("iscsi.global.config", [], call.signal)) as { basename: string };
    return basename;
  }

  #fresh(name: string, basename: string, lunid: number) {
    return {
      ...this.reach,
      iqn: /^(?:iqn\.|naa\.|eui\.)/.test(name) ? name : `${basename}:${name}`,
      lun: String(lunid),
    };
  }

  /**
   * Only a target that holds nothing but this volume's extent, or nothing and is proved, is this volume's. Answers the ids of the extents that
   * went with it: each change of a target makes the server read all of its configuration again, so one is better than two.
   */
  async #withdrawTarget(
    asset: SharedDataset,
    target: Row,
    own: readonly Row[],
    targets: Table,
    call: Call,
  ): Promise<readonly number[]> {
    const links = await tableOf(this.#site, "iscsi.targetextent", call).find(["target", "=", target.id]);
    const linked = links.map(link => Number(link["extent"]));
    if (linked.some(extent => !own.some(({ id }) => id === extent))) return [];
    if (linked.length === 0 && !isProved(asset, String(target["name"]), noteKeys.iscsi[0], target)) return [];
    const together = (await this.#site.api.version(call.signal)).number >= withExtents;
    // Never by force: a node may be logged in.
    await busyAware(() => (together ? targets.drop(target.id, false, true) : targets.drop(target.id)));
    return together ? linked : [];
  }
}

/** Whether targets let in the same initiators through the same portals, by the same proof. */
function sameGroups(theirs: readonly object[], ours: readonly object[]): boolean {
  const keys = ["portal", "initiator", "authmethod", "auth"] as const;
  const textsOf = (groups: readonly object[]): string =>
    JSON.stringify(groups.map(group => keys.map(key => (group as Row)[key] ?? null).join()).toSorted());
  return textsOf(theirs) === textsOf(ours);
}

/** A target that an initiator is logged in to, and its extent, are refused with EFAULT and without a field at fault. */
async function busyAware(work: () => Promise<void>): Promise<void> {
  try {
    await work();
  } catch (error) {
    // "Target … is in use.", "Associated target(s) … are in use." (middleware, plugins/iscsi_/targets.py and extents.py)
    if (!(error instanceof ApiError && error.errno === errnos.fault && /\bin use\b/.test(error.message))) throw error;
    throw inUse(error.message.replace(/^.*?: |\W*(?:is|are)? in use\W*$/g, ""), []);
  }
}
