import type { Call } from "../../../core/call.ts";
import { CsiError } from "../../../core/errors.ts";
import { protocols } from "../../../core/protocols.ts";
import type { VolumeSpec } from "../../driver.ts";
import type { Notes, Share } from "../../store.ts";
import { rendered } from "../../template.ts";
import { ApiError, errnos } from "../api-error.ts";
import { explainApi } from "../meaning.ts";
import {
  assetName,
  checkService,
  dropped,
  ensured,
  kept,
  type Naming,
  nameNote,
  noted,
  noteKeys,
  type Row,
  rows,
  type Shareable,
  type Site,
  taken,
  templateValues,
} from "./share.ts";

/** One way to the targets. */
export interface TargetGroup {
  readonly targetGroupPortalGroup: number;
  readonly targetGroupInitiatorGroup?: number | undefined;
  readonly targetGroupAuthType: string;
  readonly targetGroupAuthGroup?: number | undefined;
}

/** `iscsi:` of a connection file. */
export interface IscsiSettings extends Naming {
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
/** Each volume has a target of its own. */
const lun = 0;

const deviceOf = ({ dataset }: Shareable): string => `zvol/${dataset}`;

/** Volumes as iSCSI targets. */
export class IscsiShare implements Share<Shareable> {
  readonly protocol = "iscsi";
  readonly access = protocols.iscsi;
  readonly growsOnNode = true;
  readonly #site: Site;
  readonly #settings: IscsiSettings;

  constructor(site: Site, settings: IscsiSettings) {
    this.#site = site;
    this.#settings = settings;
  }

  /**
   * As Share.publish. The name is kept before anything of it is made: a template may use parameters that nobody tells when the
   * volume is deleted.
   */
  async publish(
    asset: Shareable,
    spec: VolumeSpec,
    keep: (notes: Notes) => Promise<Shareable>,
    call: Call,
  ): Promise<Notes> {
    const name = asset.notes[nameNote.iscsi] ?? assetName(asset, spec.parameters, this.#settings, rule);
    await kept(asset, { [nameNote.iscsi]: name }, keep);
    const extent = await this.#extent(asset, name, spec, call);
    const target = await this.#target(name, extent, call);
    const link = await this.#link(target, extent, call);
    const ids = [target, extent, link].map(({ id }) => String(id));
    const notes = Object.fromEntries(ids.map((id, at) => [noteKeys.iscsi[at] ?? "", id]));
    return { ...notes, ...(await this.#fresh(name, Number(link["lunid"] ?? lun), call)), ...this.context(asset) };
  }

  context(asset: Shareable) {
    return noted(asset, ["portal", "portals", "interface", "iqn", "lun"]);
  }

  explain(error: unknown) {
    return explainApi(error);
  }

  /** As Share.withdraw: by the disk, which is the volume's alone, and by the name that was kept; never by a noted id alone. */
  async withdraw(asset: Shareable, call: Call): Promise<void> {
    const { api } = this.#site;
    const extents = await rows(api, "iscsi.extent", [["disk", "=", deviceOf(asset)]], call);
    const name = asset.notes[nameNote.iscsi];
    if (name !== undefined) await this.#withdrawTarget(name, extents, call);
    for (const { id } of extents) await busyAware(() => dropped(api, "iscsi.extent.delete", [id], call));
  }

  check(call: Call): Promise<void> {
    return this.#check(call);
  }

  async #check(call: Call): Promise<void> {
    await checkService(this.#site, "iscsitarget", call);
    const portals = await rows(this.#site.api, "iscsi.portal", [], call);
    for (const { targetGroupPortalGroup: id } of this.#settings.targetGroups) {
      if (portals.some(portal => portal.id === id)) continue;
      const known = portals.map(portal => `${portal.id} (${String(portal["comment"])})`).join(", ");
      throw new CsiError(
        "failed-precondition",
        `connection "${this.#site.connection}": there is no iSCSI portal with id ${id}; there are: ${known || "none"}`,
      );
    }
  }

  async #extent(asset: Shareable, name: string, spec: VolumeSpec, call: Call): Promise<Row> {
    const { api } = this.#site;
    const disk = deviceOf(asset);
    const find = async () => {
      const own = (await rows(api, "iscsi.extent", [["disk", "=", disk]], call))[0];
      if (own) return own;
      const other = (await rows(api, "iscsi.extent", [["name", "=", name]], call))[0];
      if (other) throw taken(this.#site, `the iSCSI extent "${name}"`, String(other["disk"] ?? other["path"]));
      return undefined;
    };
    return ensured(
      find,
      async () => (await api.call("iscsi.extent.create", [this.#extentRequest(asset, name, spec)], call.signal)) as Row,
    );
  }

  #extentRequest(asset: Shareable, name: string, { parameters }: VolumeSpec): object {
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

  /** A target of the name that holds another volume's extent is somebody else's. */
  async #target(name: string, extent: Row, call: Call): Promise<Row> {
    const { api } = this.#site;
    const find = async () => (await rows(api, "iscsi.target", [["name", "=", name]], call))[0];
    const groups = this.#groups();
    // An empty alias clashes with every other empty one.
    const request = { name, alias: null, mode: "ISCSI", groups };
    const target = await ensured(
      find,
      async () => (await api.call("iscsi.target.create", [request], call.signal)) as Row,
    );
    const links = await rows(api, "iscsi.targetextent", [["target", "=", target.id]], call);
    if (links.some(link => link["extent"] !== extent.id))
      throw taken(this.#site, `the iSCSI target "${name}"`, "another extent");
    if ((target["groups"] as readonly unknown[]).length === groups.length) return target;
    return (await api.call("iscsi.target.update", [target.id, { groups }], call.signal)) as Row;
  }

  #groups(): readonly object[] {
    return this.#settings.targetGroups.map(group => ({
      portal: group.targetGroupPortalGroup,
      initiator: group.targetGroupInitiatorGroup ?? null,
      authmethod: group.targetGroupAuthType === "" ? "NONE" : group.targetGroupAuthType.toUpperCase().replace(" ", "_"),
      auth: group.targetGroupAuthGroup ? group.targetGroupAuthGroup : null,
    }));
  }

  async #link(target: Row, extent: Row, call: Call): Promise<Row> {
    const { api } = this.#site;
    const filters = [
      ["target", "=", target.id],
      ["extent", "=", extent.id],
    ];
    const find = async () => (await rows(api, "iscsi.targetextent", filters, call))[0];
    const request = { target: target.id, extent: extent.id, lunid: lun };
    return ensured(find, async () => (await api.call("iscsi.targetextent.create", [request], call.signal)) as Row);
  }

  async #fresh(name: string, lunid: number, call: Call) {
    const { targetPortal, targetPortals } = this.#settings;
    const { basename } = (await this.#site.api.call("iscsi.global.config", [], call.signal)) as {
      readonly basename: string;
    };
    return {
      portal: targetPortal,
      portals: targetPortals.join(","),
      interface: this.#settings.interface,
      iqn: /^(?:iqn\.|naa\.|eui\.)/.test(name) ? name : `${basename}:${name}`,
      lun: String(lunid),
    };
  }

  /** Only a target that holds nothing but this volume's extent, or nothing, is this volume's. */
  async #withdrawTarget(name: string, extents: readonly Row[], call: Call): Promise<void> {
    const { api } = this.#site;
    const target = (await rows(api, "iscsi.target", [["name", "=", name]], call))[0];
    if (!target) return;
    const links = await rows(api, "iscsi.targetextent", [["target", "=", target.id]], call);
    if (links.some(link => !extents.some(({ id }) => id === link["extent"]))) return;
    await busyAware(() => dropped(api, "iscsi.target.delete", [target.id], call));
  }
}

/** A target that an initiator is logged in to, and its extent, are refused with EFAULT and without a field at fault. */
async function busyAware(work: () => Promise<void>): Promise<void> {
  try {
    await work();
  } catch (error) {
    if (!(error instanceof ApiError && error.errno === errnos.fault)) throw error;
    throw new CsiError("aborted", `${error.message}; a node is still logged in, it will be tried again`, {
      cause: error,
    });
  }
}
