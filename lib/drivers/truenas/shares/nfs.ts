import { protocols } from "../../../core/access.ts";
import type { Call } from "../../../core/call.ts";
import type { VolumeFindings } from "../../../health/finding.ts";
import type { Context, VolumeSpec } from "../../driver.ts";
import type { Notes, ShareProtocol } from "../../store.ts";
import { rendered } from "../../template.ts";
import { apiErrorMapping } from "../meaning.ts";
import {
  checkService,
  ensured,
  noted,
  noteKeys,
  otherAccess,
  type Row,
  refuseOtherAccess,
  type ShareContext,
  type SharedDataset,
  tableOf,
  templateValues,
  unshared,
} from "./share.ts";

/** `nfs:` of a connection file. */
export interface NfsSettings {
  readonly shareHost: string;
  readonly shareCommentTemplate?: string | undefined;
  readonly shareAlldirs?: boolean | undefined;
  readonly shareAllowedHosts: readonly string[];
  readonly shareAllowedNetworks: readonly string[];
  readonly shareMaprootUser: string;
  readonly shareMaprootGroup: string;
  readonly shareMapallUser: string;
  readonly shareMapallGroup: string;
}

/** Until 22.02 a share has several paths. */
const onePath = 2212;
/** Until 22.12 a share may be quiet. */
const noQuiet = 2310;

/** Fields that say who may do what. */
const access = ["hosts", "networks", "maproot_user", "maproot_group", "mapall_user", "mapall_group", "security"];

const mountpoint = ({ dataset, mountpoint: place }: SharedDataset): string => place ?? `/mnt/${dataset}`;

const pathOf = (row: Row): unknown => row["path"] ?? (row["paths"] as readonly unknown[] | undefined)?.[0];

/** Volumes as NFS exports. */
export class NfsShare implements ShareProtocol<SharedDataset> {
  readonly protocol = "nfs";
  readonly access = protocols.nfs;
  readonly growsOnNode = false;
  readonly reach: Context;
  readonly #site: ShareContext;
  readonly #settings: NfsSettings;

  constructor(site: ShareContext, settings: NfsSettings) {
    this.#site = site;
    this.#settings = settings;
    this.reach = { server: settings.shareHost };
  }

  /** As ShareProtocol.publish. An export of the same path is this volume's: nobody else's data is behind it. */
  async publish(asset: SharedDataset, spec: VolumeSpec, _keep: unknown, call: Call): Promise<Notes> {
    const { api } = this.#site;
    const { number } = await api.version(call.signal);
    const request = this.#request(asset, spec, number);
    const find = async () => {
      const all = await this.#exports(asset, call);
      // Who may mount a finished volume is its administrator's matter.
      for (const row of asset.finished ? [] : all)
        refuseOtherAccess(
          this.#site,
          `the NFS share ${row.id} of ${mountpoint(asset)}`,
          otherAccess(request, row, access),
        );
      return all[0];
    };
    const { id } = await ensured(() => tableOf(this.#site, "sharing.nfs", call).make(request), find);
    // What was said of a volume holds for its whole life.
    return { [noteKeys.nfs[0]]: String(id), ...this.#fresh(asset), ...this.context(asset) };
  }

  context(asset: SharedDataset) {
    return noted(asset, ["server", "share"]);
  }

  explain(error: unknown) {
    return apiErrorMapping(error);
  }

  /** As ShareProtocol.withdraw. By path and never by a noted id alone: the server gives ids away again. */
  async withdraw(asset: SharedDataset, call: Call): Promise<void> {
    for (const { id } of await this.#exports(asset, call)) await tableOf(this.#site, "sharing.nfs", call).drop(id);
  }

  /** One listing of all shares. */
  async look(assets: readonly SharedDataset[], call: Call): Promise<VolumeFindings> {
    const all = await tableOf(this.#site, "sharing.nfs", call).find();
    const paths = new Set(all.filter(each => each["enabled"] !== false).map(each => pathOf(each)));
    return unshared(assets, asset => paths.has(mountpoint(asset)), "ShareMissing");
  }

  check(call: Call): Promise<void> {
    return checkService(this.#site, "nfs", call);
  }

  #fresh(asset: SharedDataset) {
    return { server: this.#settings.shareHost, share: mountpoint(asset) };
  }

  async #exports(asset: SharedDataset, call: Call): Promise<readonly Row[]> {
    const { number } = await this.#site.api.version(call.signal);
    const path = mountpoint(asset);
    const exports = tableOf(this.#site, "sharing.nfs", call);
    const found = await (number < onePath ? exports.find() : exports.find(["path", "=", path]));
    return found.filter(row => pathOf(row) === path).sort((a, b) => a.id - b.id);
  }

  #request(asset: SharedDataset, { parameters }: VolumeSpec, version: number): object {
    const settings = this.#settings;
    const template = settings.shareCommentTemplate ?? "democratic-csi ({{ csi.name }}): {{ zfs.datasetName }}";
    const path = mountpoint(asset);
    return {
      ...(version < onePath ? { paths: [path], alldirs: settings.shareAlldirs ?? false } : { path }),
      ...(version < noQuiet ? { quiet: false } : {}),
      comment: rendered(template, { ...templateValues(asset, parameters), csi: { name: this.#site.driver } }),
      networks: settings.shareAllowedNetworks,
      hosts: settings.shareAllowedHosts,
      ro: false,
      maproot_user: settings.shareMaprootUser,
      maproot_group: settings.shareMaprootGroup,
      mapall_user: settings.shareMapallUser,
      mapall_group: settings.shareMapallGroup,
      security: [],
    };
  }
}
