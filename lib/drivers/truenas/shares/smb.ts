import { protocols } from "../../../core/access.ts";
import type { Call } from "../../../core/call.ts";
import type { VolumeFindings } from "../../../health/finding.ts";
import type { Context, VolumeSpec } from "../../driver.ts";
import type { Notes, ShareProtocol } from "../../store.ts";
import { rendered } from "../../template.ts";
import { apiErrorMapping } from "../meaning.ts";
import {
  assetName,
  checkService,
  ensured,
  noted,
  noteKeys,
  otherAccess,
  type Row,
  refuseOtherAccess,
  type ShareContext,
  type SharedDataset,
  type ShareNaming,
  tableOf,
  taken,
  templateValues,
  unshared,
} from "./share.ts";

/** `smb:` of a connection file; what is undefined is not sent. */
export interface SmbSettings extends ShareNaming {
  readonly shareHost: string;
  readonly shareAuxiliaryConfigurationTemplate?: string | undefined;
  readonly shareHome?: boolean | undefined;
  readonly shareAllowedHosts?: readonly string[] | undefined;
  readonly shareDeniedHosts?: readonly string[] | undefined;
  readonly shareGuestOk?: boolean | undefined;
  readonly shareRecycleBin?: boolean | undefined;
  readonly shareBrowsable?: boolean | undefined;
  readonly shareAccessBasedEnumeration?: boolean | undefined;
  readonly shareTimeMachine?: boolean | undefined;
}

/** From here on a share has a purpose, and what belongs to one stands in its options. */
const purposes = 2510;

/** Fields that say who may do what. */
const access = ["hostsallow", "hostsdeny", "guestok"];

const rule = { foreign: /[%<>*?|/\\+=;:",[\]\s]/g, most: 80 };

const mountpoint = ({ dataset, mountpoint: place }: SharedDataset): string => place ?? `/mnt/${dataset}`;
const given = (fields: object): object =>
  Object.fromEntries(Object.entries(fields).filter(([, value]) => value !== undefined));

/** Volumes as SMB shares. */
export class SmbShare implements ShareProtocol<SharedDataset> {
  readonly protocol = "smb";
  readonly access = protocols.smb;
  readonly growsOnNode = false;
  readonly reach: Context;
  readonly #site: ShareContext;
  readonly #settings: SmbSettings;

  constructor(site: ShareContext, settings: SmbSettings) {
    this.#site = site;
    this.#settings = settings;
    this.reach = { server: settings.shareHost };
  }

  /** As ShareProtocol.publish. A share of the volume's path is the volume's, whatever its name; one of its name for another path is not. */
  async publish(asset: SharedDataset, spec: VolumeSpec, _keep: unknown, call: Call): Promise<Notes> {
    const { api } = this.#site;
    // A volume that is complete keeps the name that nodes know.
    const name = asset.notes["share"] ?? assetName(asset, spec.parameters, this.#settings, rule);
    const shares = tableOf(this.#site, "sharing.smb", call);
    const { number } = await api.version(call.signal);
    const request = this.#request(asset, name, spec, number);
    const find = async () => {
      const all = await this.#shares(asset, call);
      // Who may mount a finished volume is its administrator's matter.
      for (const row of asset.finished ? [] : all)
        refuseOtherAccess(this.#site, `the SMB share "${row["name"]}"`, otherAccess(request, row, access));
      return all[0];
    };
    const clash = async () => {
      const other = (await shares.find(["name", "C=", name]))[0];
      if (other) throw taken(this.#site, `the SMB share "${name}"`, String(other["path"]));
    };
    const row = await ensured(() => shares.make(request), find, clash);
    const context = { server: this.#settings.shareHost, share: String(row["name"]), ...this.context(asset) };
    return { [noteKeys.smb[0]]: String(row.id), ...context };
  }

  context(asset: SharedDataset) {
    return noted(asset, ["server", "share"]);
  }

  explain(error: unknown) {
    return apiErrorMapping(error);
  }

  /** As ShareProtocol.withdraw. By path and never by a noted id alone: the server gives ids away again. */
  async withdraw(asset: SharedDataset, call: Call): Promise<void> {
    for (const { id } of await this.#shares(asset, call)) await tableOf(this.#site, "sharing.smb", call).drop(id);
  }

  /** One listing of all shares. */
  async look(assets: readonly SharedDataset[], call: Call): Promise<VolumeFindings> {
    const all = await tableOf(this.#site, "sharing.smb", call).find();
    const paths = new Set(all.filter(each => each["enabled"] !== false).map(each => each["path"]));
    return unshared(assets, asset => paths.has(mountpoint(asset)), "ShareMissing");
  }

  check(call: Call): Promise<void> {
    return checkService(this.#site, "cifs", call);
  }

  async #shares(asset: SharedDataset, call: Call): Promise<readonly Row[]> {
    const found = await tableOf(this.#site, "sharing.smb", call).find(["path", "=", mountpoint(asset)]);
    return [...found].sort((a, b) => a.id - b.id);
  }

  #request(asset: SharedDataset, name: string, { parameters }: VolumeSpec, version: number): object {
    const settings = this.#settings;
    const { shareAuxiliaryConfigurationTemplate: template } = settings;
    const options = given({
      auxsmbconf: template === undefined ? undefined : rendered(template, templateValues(asset, parameters)),
      home: settings.shareHome,
      hostsallow: settings.shareAllowedHosts,
      hostsdeny: settings.shareDeniedHosts,
      guestok: settings.shareGuestOk,
      recyclebin: settings.shareRecycleBin,
      timemachine: settings.shareTimeMachine,
    });
    const base = { name, path: mountpoint(asset), ...given({ browsable: settings.shareBrowsable }) };
    const listed = settings.shareAccessBasedEnumeration;
    if (version >= purposes) {
      const legacy = { purpose: "LEGACY_SHARE", options: { purpose: "LEGACY_SHARE", ...options } };
      return { ...base, ...given({ access_based_share_enumeration: listed }), ...legacy };
    }
    return { ...base, ...options, ...given({ abe: listed }) };
  }
}
