import type { Call } from "../../../core/call.ts";
import { CsiError } from "../../../core/errors.ts";
import { rendered } from "../../../core/template.ts";
import type { VolumeSpec } from "../../driver.ts";
import { inUse } from "../../failure.ts";
import type { Notes } from "../../store.ts";
import type { ZfsVolume } from "../../zfs/volume.ts";
import type { Api } from "../api.ts";
import { ApiError, errnos } from "../api-error.ts";
import type { IscsiSection } from "../sections.ts";
import { type DiskProtocol, deviceOf, isProved } from "./disk-share.ts";
import { iscsiAccess, isSameAccess } from "./iscsi-access.ts";
import {
  checkService,
  createdOrFound,
  noteKeys,
  type ShareContext,
  type TableRow,
  tableOf,
  taken,
  templateValues,
  unreachable,
} from "./share.ts";

/** The first version that can delete a target together with its extents (api/v25_04_0/iscsi_target.py). */
const withExtents = 2504;
/** From here on a dataset shows its guid, which is compared before the volume is finished. */
const withGuid = 2510;
const [targetNote, extentNote, linkNote, nameNote] = noteKeys.iscsi;
const lun = 0;

/** How long the basename of a system is assumed not to change, in milliseconds: all of its targets would be called otherwise then. */
const recentMs = 3000;
const basenames = new WeakMap<Api, { readonly basename: string; readonly until: number }>();

/** Volumes as iSCSI targets, each with one extent as LUN 0. The extent has the name of its target. */
export function iscsi(context: ShareContext, settings: IscsiSection): DiskProtocol {
  const { api } = context;
  const { targetPortal: portal, targetPortals } = settings;
  const reach = { portal, portals: targetPortals.join(","), interface: settings.interface };
  const access = iscsiAccess(context, settings);
  const table = (name: string, call: Call) => tableOf(context, `iscsi.${name}`, call);

  const extentRequest = (volume: ZfsVolume, name: string, { parameters }: VolumeSpec): object => ({
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
  });

  async function extentFor(volume: ZfsVolume, name: string, spec: VolumeSpec, call: Call): Promise<TableRow> {
    const extents = table("extent", call);
    const find = async () => (await extents.find(["disk", "=", deviceOf(volume)]))[0];
    const clash = async () => {
      const [other] = await extents.find(["name", "=", name]);
      if (other) throw taken(context, `the iSCSI extent "${name}"`, String(other["disk"] ?? other["path"]));
    };
    return (await createdOrFound(() => extents.create(extentRequest(volume, name, spec)), find, clash)).row;
  }

  /** The ids of the extents of a target. */
  const extentsOf = async (target: TableRow, call: Call): Promise<readonly number[]> =>
    (await table("targetextent", call).find(["target", "=", target.id])).map(link => Number(link["extent"]));

  /**
   * The volume's target; for an unfinished volume, with the access that the file says. That of a finished one is up to its administrator.
   * Throws for a target of this name that is not proved to be the volume's.
   */
  async function targetFor(volume: ZfsVolume, name: string, extent: TableRow, call: Call): Promise<TableRow> {
    const targets = table("target", call);
    const groups = await access.groups(call);
    // An empty alias clashes with every other empty one.
    const create = () => targets.create({ name, alias: null, mode: "ISCSI", groups });
    const { row, fresh } = await createdOrFound(create, async () => (await targets.find(["name", "=", name]))[0]);
    if (fresh) return row;
    const extents = await extentsOf(row, call);
    const what = `the iSCSI target "${name}"`;
    if (extents.some(id => id !== extent.id)) throw taken(context, what, "another extent");
    if (extents.length === 0 && !isProved(volume, row, targetNote)) throw taken(context, what, "no extent");
    if (volume.finished || isSameAccess(row["groups"] as readonly object[], groups)) return row;
    return (await api.call("iscsi.target.update", [row.id, { groups }], call.signal)) as TableRow;
  }

  /**
   * Throws "aborted" unless the target and the extent are still those that were read. Before 25.10 nothing else tells a volume from one that
   * another controller has made again: datasets show no guid, and the numbers of deleted rows are given again.
   */
  async function expectSame(target: TableRow, extent: TableRow, call: Call): Promise<void> {
    if ((await api.version(call.signal)).number >= withGuid) return;
    const ofId = async (name: string, { id }: TableRow) => (await table(name, call).find(["id", "=", id]))[0];
    const [now, disk] = await Promise.all([ofId("target", target), ofId("extent", extent)]);
    const isSame = ["disk", "naa", "serial"].every(field => disk?.[field] === extent[field]);
    if (isSame && now?.["name"] === target["name"]) return;
    const text = `the iSCSI target "${target["name"]}" or its extent was deleted while it was shared; retrying`;
    throw new CsiError("aborted", `connection "${context.connection}": ${text}`);
  }

  async function linkOf(target: TableRow, extent: TableRow, call: Call): Promise<TableRow> {
    const links = table("targetextent", call);
    const find = async () => (await links.find(["target", "=", target.id], ["extent", "=", extent.id]))[0];
    await expectSame(target, extent, call);
    const create = () => links.create({ target: target.id, extent: extent.id, lunid: lun });
    const { row } = await createdOrFound(create, find);
    // A link that was made of other rows by now is not removed: its number may be another one's, too.
    await expectSame(target, extent, call);
    return row;
  }

  /**
   * Deletes the target with the volume's name if it has only the volume's extent, or none and is proved to be the volume's. Answers the
   * ids of the extents that were deleted with it: the server reloads its whole configuration with each change, so one is better than two.
   */
  async function deleteTarget(volume: ZfsVolume, target: TableRow, own: readonly TableRow[], call: Call) {
    const extents = await extentsOf(target, call);
    if (extents.some(extent => !own.some(({ id }) => id === extent))) return [];
    if (extents.length === 0 && !isProved(volume, target, targetNote)) return [];
    const together = (await api.version(call.signal)).number >= withExtents;
    // Never by force: a node may be logged in.
    await unlessInUse(() => table("target", call).delete(target.id, ...(together ? [false, true] : [])));
    return together ? extents : [];
  }

  async function basenameOf(call: Call): Promise<string> {
    const known = basenames.get(api);
    if (known && performance.now() < known.until) return known.basename;
    const { basename } = (await api.call("iscsi.global.config", [], call.signal)) as { readonly basename: string };
    basenames.set(api, { basename, until: performance.now() + recentMs });
    return basename;
  }

  const notesOf = (name: string, basename: string, target: TableRow, extent: TableRow, link: TableRow): Notes => ({
    ...{ [targetNote]: String(target.id), [extentNote]: String(extent.id), [linkNote]: String(link.id) },
    ...reach,
    iqn: /^(?:iqn\.|naa\.|eui\.)/.test(name) ? name : `${basename}:${name}`,
    lun: String(Number(link["lunid"] ?? lun)),
  });

  return {
    ...{ protocol: "iscsi", nameNote, naming: settings, reach },
    // Targets can have longer names than extents.
    rule: { foreign: /[^-a-z0-9.:]/g, maxLength: 64 },
    contextKeys: ["portal", "portals", "interface", "iqn", "lun"],
    async publish(volume, name, spec, call) {
      const [extent, basename] = await Promise.all([extentFor(volume, name, spec, call), basenameOf(call)]);
      const target = await targetFor(volume, name, extent, call);
      return notesOf(name, basename, target, extent, await linkOf(target, extent, call));
    },
    async existing(volume, call) {
      const [extent] = await table("extent", call).find(["disk", "=", deviceOf(volume)]);
      const [link] = extent ? await table("targetextent", call).find(["extent", "=", extent.id]) : [];
      const [target] = link ? await table("target", call).find(["id", "=", link["target"]]) : [];
      if (!extent || !link || !target) throw unreachable(context, `no iSCSI target with ${deviceOf(volume)}`);
      const name = String(target["name"]);
      if ((await extentsOf(target, call)).length > 1)
        throw taken(context, `the iSCSI target "${name}"`, "several extents");
      return { ...notesOf(name, await basenameOf(call), target, extent, link), [nameNote]: name };
    },
    async withdraw(volume, name, call) {
      const extents = table("extent", call);
      const [own, [target]] = await Promise.all([
        extents.find(["disk", "=", deviceOf(volume)]),
        name === undefined ? [] : table("target", call).find(["name", "=", name]),
      ]);
      const deleted = target ? await deleteTarget(volume, target, own, call) : [];
      for (const { id } of own) if (!deleted.includes(id)) await unlessInUse(() => extents.delete(id));
    },
    async exported(call) {
      const [targets, extents, links] = await Promise.all(
        ["target", "extent", "targetextent"].map(name => table(name, call).find()),
      );
      const enabled = (extents ?? []).filter(each => each["enabled"] !== false);
      const disks = new Map(enabled.map(each => [each.id, String(each["disk"])]));
      const names = new Map((targets ?? []).map(each => [each.id, String(each["name"])]));
      const keyOf = (target: string, number: unknown, disk: string) => JSON.stringify([target, String(number), disk]);
      const keyOfLink = ({ target, lunid, extent }: TableRow) =>
        keyOf(names.get(Number(target)) ?? "", lunid ?? lun, disks.get(Number(extent)) ?? "");
      const served = new Set((links ?? []).map(keyOfLink));
      return volume => {
        const { iqn = "", lun: number = String(lun) } = volume.notes;
        return [iqn, iqn.slice(iqn.indexOf(":") + 1)].some(name => served.has(keyOf(name, number, deviceOf(volume))));
      };
    },
    async check(call) {
      await checkService(context, "iscsitarget", call);
      await access.check(call);
    },
  };
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
