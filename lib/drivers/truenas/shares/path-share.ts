import { type Access, protocols } from "../../../core/access.ts";
import type { Call } from "../../../core/call.ts";
import type { VolumeFindings } from "../../../health/finding.ts";
import type { Context, VolumeSpec } from "../../driver.ts";
import type { ErrorMapping } from "../../failure.ts";
import type { Notes, ShareProtocol } from "../../store.ts";
import type { ZfsVolume } from "../../zfs/volume.ts";
import { apiErrorMapping } from "../api-error.ts";
import {
  checkService,
  createdOrFound,
  noted,
  noteKeys,
  refuseOtherAccess,
  restored,
  type ShareContext,
  type Table,
  type TableRow,
  tableOf,
  unreachable,
  unshared,
  unusable,
} from "./share.ts";

/** How a protocol shares file systems: NFS or SMB. */
export interface PathProtocol {
  readonly protocol: "nfs" | "smb";
  readonly table: string;
  readonly service: string;
  /** The host that nodes mount from. */
  readonly server: string;
  /** Fields of a share about access. */
  readonly access: readonly string[];
  /** The first version whose shares have one path, which a query can select. */
  readonly onePathSince: number;
  /** The request that creates the share of a path. */
  request(volume: ZfsVolume, path: string, spec: VolumeSpec, version: number): object;
  /** What nodes mount. */
  shareOf(row: TableRow, path: string): string;
  /** Names a share in a message. */
  describe(row: TableRow, path: string): string;
  /** Why a lost share cannot be made again as it was. Absent: it always can. */
  whyLost?(volume: ZfsVolume): string | undefined;
  /** Throws if a share of another path has the name that is requested. Absent if shares have no names. */
  refuseClash?(request: object, call: Call): Promise<void>;
}

/** The path of a volume on the server. */
const pathOf = ({ dataset, mountpoint }: ZfsVolume): string => mountpoint ?? `/mnt/${dataset}`;

const pathIn = (row: TableRow): unknown => row["path"] ?? (row["paths"] as readonly unknown[] | undefined)?.[0];

/**
 * Volumes as shares of file systems. A share belongs to the volume at its path, because it shares no other data. A process may have
 * thousands of such shares, so `kind` is called for each use.
 */
export class PathShare implements ShareProtocol<ZfsVolume> {
  readonly growsOnNode = false;
  readonly #on: ShareContext;
  readonly #kind: () => PathProtocol;

  constructor(on: ShareContext, kind: () => PathProtocol) {
    this.#on = on;
    this.#kind = kind;
  }

  get protocol(): PathProtocol["protocol"] {
    return this.#kind().protocol;
  }

  get access(): Access {
    return protocols[this.protocol];
  }

  get reach(): Context {
    return { server: this.#kind().server };
  }

  /** Looks first: the server would accept a second share of the same path. */
  async publish(
    volume: ZfsVolume,
    spec: VolumeSpec,
    _keep: (notes: Notes) => Promise<ZfsVolume>,
    call: Call,
  ): Promise<Notes> {
    const kind = this.#kind();
    const { number } = await this.#on.api.version(call.signal);
    const path = pathOf(volume);
    const request = kind.request(volume, path, spec, number);
    const find = async () => {
      const rows = await this.#rowsOf(path, call);
      const disabled = rows.find(row => row["enabled"] === false);
      if (disabled) throw unusable(this.#on, `${kind.describe(disabled, path)} is disabled; enable or remove it`);
      for (const row of rows) refuseOtherAccess(this.#on, volume, kind.describe(row, path), request, row, kind.access);
      return rows[0];
    };
    const create = () => this.#table(call).create(request);
    const clash = async () => kind.refuseClash?.(request, call);
    const row = (await find()) ?? (await createdOrFound(this.#remade(volume, spec, create), find, clash)).row;
    // The context of a finished volume never changes.
    const now = { ...this.reach, share: kind.shareOf(row, path), ...this.context(volume) };
    return { [noteKeys[kind.protocol][0]]: String(row.id), ...now };
  }

  /** A dataset that was received with its properties names the path of the one that it was sent from, which the same system may share. */
  context(volume: ZfsVolume): Context {
    const known = noted(volume, ["server", "share"]);
    const own = this.protocol === "nfs" && known["share"] !== undefined ? volume.mountpoint : undefined;
    return own === undefined ? known : { ...known, share: own };
  }

  async existing(volume: ZfsVolume, call: Call): Promise<Notes> {
    const { protocol, shareOf } = this.#kind();
    const path = pathOf(volume);
    const row = (await this.#rowsOf(path, call)).find(each => each["enabled"] !== false);
    if (!row) throw unreachable(this.#on, `no enabled ${protocol.toUpperCase()} share for ${path}`);
    return { [noteKeys[protocol][0]]: String(row.id), ...this.reach, share: shareOf(row, path) };
  }

  /** By path, never by a noted id: the server reuses ids. */
  async withdraw(volume: ZfsVolume, call: Call): Promise<void> {
    for (const { id } of await this.#rowsOf(pathOf(volume), call)) await this.#table(call).delete(id);
  }

  explain(error: unknown): ErrorMapping | undefined {
    return apiErrorMapping(error);
  }

  restore(volume: ZfsVolume, call: Call): Promise<void> {
    return restored(this.#on, this, volume, call);
  }

  async look(volumes: readonly ZfsVolume[], call: Call): Promise<VolumeFindings> {
    const rows = await this.#table(call).find();
    const paths = new Set(rows.filter(each => each["enabled"] !== false).map(pathIn));
    return unshared(volumes, each => paths.has(pathOf(each)), "ShareMissing");
  }

  check(call: Call): Promise<void> {
    return checkService(this.#on, this.#kind().service, call);
  }

  /** `create`, which throws for a share that was lost, or removed before a failed deletion, and would be another one without the parameters. */
  #remade(volume: ZfsVolume, { parameters }: VolumeSpec, create: () => Promise<TableRow>): () => Promise<TableRow> {
    const isRepeat = !volume.finished || Object.keys(parameters).length > 0;
    const why = isRepeat ? undefined : this.#kind().whyLost?.(volume);
    if (why === undefined) return create;
    throw unusable(this.#on, `the share of ${pathOf(volume)} cannot be made again: ${why}`);
  }

  #table(call: Call): Table {
    return tableOf(this.#on, this.#kind().table, call);
  }

  async #rowsOf(path: string, call: Call): Promise<readonly TableRow[]> {
    const { number } = await this.#on.api.version(call.signal);
    const filters = number < this.#kind().onePathSince ? [] : [["path", "=", path] as const];
    const rows = await this.#table(call).find(...filters);
    return rows.filter(row => pathIn(row) === path).sort((a, b) => a.id - b.id);
  }
}
