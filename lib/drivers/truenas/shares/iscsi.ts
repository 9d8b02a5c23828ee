import type { Call } from "../../../core/call.ts";
import type { VolumeSpec } from "../../driver.ts";
import { inUse } from "../../failure.ts";
import type { Notes } from "../../store.ts";
import { rendered } from "../../template.ts";
import type { ZfsVolume } from "../../zfs/volume.ts";
import { ApiError, errnos } from "../api-error.ts";
import {
  type ChoiceOptions,
  chosen,
  type DiskProtocol,
  deviceOf,
  idsOf,
  isProved,
  type ObjectChoice,
} from "./disk-share.ts";
import {
  checkService,
  createdOrFound,
  noteKeys,
  type ShareContext,
  type ShareNaming,
  type TableRow,
  tableOf,
  taken,
  templateValues,
  unreachable,
} from "./share.ts";

/** A portal of the targets, and who may log in there. */
interface TargetGroup {
  readonly targetGroupPortalGroup: ObjectChoice;
  readonly targetGroupInitiatorGroup?: ObjectChoice | undefined;
  readonly targetGroupAuthType: string;
  readonly targetGroupAuthGroup?: number | undefined;
}

/** `iscsi:` of a connection file. */
interface IscsiSettings extends ShareNaming {
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

/** The first version that can delete a target together with its extents (api/v25_04_0/iscsi_target.py). */
const withExtents = 2504;
const [targetNote, extentNote, linkNote, nameNote] = noteKeys.iscsi;
const lun = 0;

/** Volumes as iSCSI targets, each with one extent as LUN 0. The extent has the name of its target. */
export class Iscsi implements DiskProtocol {
  readonly protocol = "iscsi";
  readonly nameNote = nameNote;
  readonly naming: ShareNaming;
  /** Targets can have longer names than extents. */
  readonly rule = { foreign: /[^-a-z0-9.:]/g, maxLength: 64 };
  readonly contextKeys = ["portal", "portals", "interface", "iqn", "lun"];
  readonly reach;
  readonly #context: ShareContext;
  readonly #settings: IscsiSettings;

  constructor(context: ShareContext, settings: IscsiSettings) {
    this.#context = context;
    this.#settings = settings;
    this.naming = settings;
    const { targetPortal, targetPortals } = settings;
    this.reach = { portal: targetPortal, portals: targetPortals.join(","), interface: settings.interface };
  }

  async publish(volume: ZfsVolume, name: string, spec: VolumeSpec, call: Call): Promise<Notes> {
    const [extent, basename] = await Promise.all([this.#extent(volume, name, spec, call), this.#basename(call)]);
    const target = await this.#target(volume, name, extent, call);
    return this.#notes(name, basename, target, extent, await this.#link(target, extent, call));
  }

  async existing(volume: ZfsVolume, call: Call): Promise<Notes> {
    const [extent] = await this.#table("extent", call).find(["disk", "=", deviceOf(volume)]);
    const [link] = extent ? await this.#table("targetextent", call).find(["extent", "=", extent.id]) : [];
    const [target] = link ? await this.#table("target", call).find(["id", "=", link["target"]]) : [];
    if (!extent || !link || !target) throw unreachable(this.#context, `no iSCSI target with ${deviceOf(volume)}`);
    const name = String(target["name"]);
    if ((await this.#extentsOf(target, call)).length > 1)
      throw taken(this.#context, `the iSCSI target "${name}"`, "several extents");
    const notes = this.#notes(name, await this.#basename(call), target, extent, link);
    return { ...notes, [nameNote]: name };
  }

  #notes(name: string, basename: string, target: TableRow, extent: TableRow, link: TableRow): Notes {
    return {
      [targetNote]: String(target.id),
      [extentNote]: String(extent.id),
      [linkNote]: String(link.id),
      ...this.reach,
      iqn: /^(?:iqn\.|naa\.|eui\.)/.test(name) ? name : `${basename}:${name}`,
      lun: String(Number(link["lunid"] ?? lun)),
    };
  }

  async withdraw(volume: ZfsVolume, name: string | undefined, call: Call): Promise<void> {
    const extents = this.#table("extent", call);
    const [own, [target]] = await Promise.all([
      extents.find(["disk", "=", deviceOf(volume)]),
      name === undefined ? [] : this.#table("target", call).find(["name", "=", name]),
    ]);
    const deleted = target ? await this.#deleteTarget(volume, target, own, call) : [];
    for (const { id } of own) if (!deleted.includes(id)) await unlessInUse(() => extents.delete(id));
  }

  async exported(call: Call): Promise<(volume: ZfsVolume) => boolean> {
    const names = new Set((await this.#table("target", call).find()).map(each => String(each["name"])));
    return ({ notes: { iqn = "" } }) => names.has(iqn) || names.has(iqn.slice(iqn.indexOf(":") + 1));
  }

  async check(call: Call): Promise<void> {
    await checkService(this.#context, "iscsitarget", call);
    const portals = await this.#portals(call);
    for (const each of this.#settings.targetGroups) chosen(this.#context, portals, each.targetGroupPortalGroup);
    const wanted = this.#wantedInitiators();
    if (wanted.length === 0) return;
    const initiators = await this.#initiators(call);
    for (const choice of wanted) chosen(this.#context, initiators, choice);
  }

  #table(name: string, call: Call) {
    return tableOf(this.#context, `iscsi.${name}`, call);
  }

  #wantedInitiators(): readonly ObjectChoice[] {
    return this.#settings.targetGroups.flatMap(group => group.targetGroupInitiatorGroup ?? []);
  }

  /** Portals are identified by their comment, and by the addresses that they listen on, with or without the port. */
  async #portals(call: Call): Promise<ChoiceOptions> {
    const wordsOf = (row: TableRow): readonly string[] => {
      const listens = row["listen"] as readonly { readonly ip: string; readonly port?: number }[];
      const addresses = listens.flatMap(({ ip, port = 3260 }) => [ip, `${ip.includes(":") ? `[${ip}]` : ip}:${port}`]);
      return [String(row["comment"]), ...addresses].filter(word => word !== "");
    };
    return { kind: "iSCSI portal", rows: await this.#table("portal", call).find(), wordsOf };
  }

  /** Groups of initiators are identified by their comment, and by the names of their members. */
  async #initiators(call: Call): Promise<ChoiceOptions> {
    const wordsOf = (row: TableRow): readonly string[] =>
      [String(row["comment"]), ...(row["initiators"] as readonly string[])].filter(word => word !== "");
    return { kind: "iSCSI initiator group", rows: await this.#table("initiator", call).find(), wordsOf };
  }

  async #extent(volume: ZfsVolume, name: string, spec: VolumeSpec, call: Call): Promise<TableRow> {
    const extents = this.#table("extent", call);
    const find = async () => (await extents.find(["disk", "=", deviceOf(volume)]))[0];
    const clash = async () => {
      const [other] = await extents.find(["name", "=", name]);
      if (other) throw taken(this.#context, `the iSCSI extent "${name}"`, String(other["disk"] ?? other["path"]));
    };
    return (await createdOrFound(() => extents.create(this.#extentRequest(volume, name, spec)), find, clash)).row;
  }

  #extentRequest(volume: ZfsVolume, name: string, { parameters }: VolumeSpec): object {
    const settings = this.#settings;
    return {
      name,
      type: "DISK",
      disk: deviceOf(volume),
      comment: rendered(settings.extentCommentTemplate ?? "", templateValues(volume, parameters)),
      insecure_tpc: settings.extentInsecureTpc,
      xen: settings.extentXenCompat,
      avail_threshold: settings.extentAvailThreshold > 0 ? settings.extentAvailThreshold : null,
      blocksize: settings.extentBlocksize,
      pblocksize: settings.extentDisablePhysicalBlocksize,
      rpm: settings.extentRpm === "" ? "SSD" : settings.extentRpm.toUpperCase(),
      ro: false,
    };
  }

  /** The volume's target, with the access that the file says. Throws for a target of this name that is not proved to be the volume's. */
  async #target(volume: ZfsVolume, name: string, extent: TableRow, call: Call): Promise<TableRow> {
    const targets = this.#table("target", call);
    const groups = await this.#groups(call);
    // An empty alias clashes with every other empty one.
    const create = () => targets.create({ name, alias: null, mode: "ISCSI", groups });
    const { row, fresh } = await createdOrFound(create, async () => (await targets.find(["name", "=", name]))[0]);
    if (fresh) return row;
    const extents = await this.#extentsOf(row, call);
    if (extents.some(id => id !== extent.id))
      throw taken(this.#context, `the iSCSI target "${name}"`, "another extent");
    if (extents.length === 0 && !isProved(volume, row, targetNote))
      throw taken(this.#context, `the iSCSI target "${name}"`, "no extent");
    if (isSameAccess(row["groups"] as readonly object[], groups)) return row;
    const { api } = this.#context;
    return (await api.call("iscsi.target.update", [row.id, { groups }], call.signal)) as TableRow;
  }

  async #groups(call: Call): Promise<readonly object[]> {
    const { targetGroups } = this.#settings;
    const portals = targetGroups.map(group => group.targetGroupPortalGroup);
    const initiators = this.#wantedInitiators();
    const [portalIds, initiatorIds] = await Promise.all([
      idsOf(this.#context, portals, () => this.#portals(call)),
      idsOf(this.#context, initiators, () => this.#initiators(call)),
    ]);
    const idOf = new Map(initiators.map((choice, at) => [choice, initiatorIds[at]]));
    return targetGroups.map((group, at) => ({
      portal: portalIds[at],
      initiator: idOf.get(group.targetGroupInitiatorGroup ?? "") ?? null,
      authmethod: group.targetGroupAuthType === "" ? "NONE" : group.targetGroupAuthType.toUpperCase().replace(" ", "_"),
      auth: group.targetGroupAuthGroup ? group.targetGroupAuthGroup : null,
    }));
  }

  async #link(target: TableRow, extent: TableRow, call: Call): Promise<TableRow> {
    const links = this.#table("targetextent", call);
    const find = async () => (await links.find(["target", "=", target.id], ["extent", "=", extent.id]))[0];
    const create = () => links.create({ target: target.id, extent: extent.id, lunid: lun });
    return (await createdOrFound(create, find)).row;
  }

  /** The ids of the extents of a target. */
  async #extentsOf(target: TableRow, call: Call): Promise<readonly number[]> {
    const links = await this.#table("targetextent", call).find(["target", "=", target.id]);
    return links.map(link => Number(link["extent"]));
  }

  /** What the qualified names of the system's targets begin with. */
  async #basename(call: Call): Promise<string> {
    const { basename } = (await this.#context.api.call("iscsi.global.config", [], call.signal)) as { basename: string };
    return basename;
  }

  /**
   * Deletes the target with the volume's name if it has only the volume's extent, or none and is proved to be the volume's. Answers the
   * ids of the extents that were deleted with it: the server reloads its whole configuration with each change, so one is better than two.
   */
  async #deleteTarget(
    volume: ZfsVolume,
    target: TableRow,
    own: readonly TableRow[],
    call: Call,
  ): Promise<readonly number[]> {
    const extents = await this.#extentsOf(target, call);
    if (extents.some(extent => !own.some(({ id }) => id === extent))) return [];
    if (extents.length === 0 && !isProved(volume, target, targetNote)) return [];
    const together = (await this.#context.api.version(call.signal)).number >= withExtents;
    // Never by force: a node may be logged in.
    const options = together ? [false, true] : [];
    await unlessInUse(() => this.#table("target", call).delete(target.id, ...options));
    return together ? extents : [];
  }
}

/** Whether targets admit the same initiators through the same portals, with the same authentication. */
function isSameAccess(theirs: readonly object[], ours: readonly object[]): boolean {
  const keys = ["portal", "initiator", "authmethod", "auth"] as const;
  const textsOf = (groups: readonly object[]): string =>
    JSON.stringify(groups.map(group => keys.map(key => (group as TableRow)[key] ?? null).join()).toSorted());
  return textsOf(theirs) === textsOf(ours);
}

/** Runs a deletion. Throws inUse() if an initiator is logged in: the server answers EFAULT and no field then. */
async function unlessInUse(deletion: () => Promise<void>): Promise<void> {
  try {
    await deletion();
  } catch (error) {
    // "Target … is in use.", "Associated target(s) … are in use." (middleware, plugins/iscsi_/targets.py and extents.py)
    if (!(error instanceof ApiError && error.errno === errnos.fault && /\bin use\b/.test(error.message))) throw error;
    throw inUse(error.message.replace(/^.*?: |\W*(?:is|are)? in use\W*$/g, ""), []);
  }
}
