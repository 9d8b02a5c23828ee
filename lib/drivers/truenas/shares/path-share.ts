import { protocols } from "../../../core/access.ts";
import type { Call } from "../../../core/call.ts";
import type { VolumeFindings } from "../../../health/finding.ts";
import type { Context, VolumeSpec } from "../../driver.ts";
import type { Notes, ShareProtocol } from "../../store.ts";
import type { ZfsVolume } from "../../zfs/volume.ts";
import { apiErrorMapping } from "../api-error.ts";
import {
  checkService,
  createdOrFound,
  noted,
  noteKeys,
  refuseOtherAccess,
  type ShareContext,
  type TableRow,
  tableOf,
  unreachable,
  unshared,
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
  /** Throws if a share of another path has the name that is requested. Absent if shares have no names. */
  refuseClash?(request: object, call: Call): Promise<void>;
}

/** The path of a volume on the server. */
const pathOf = ({ dataset, mountpoint }: ZfsVolume): string => mountpoint ?? `/mnt/${dataset}`;

const pathIn = (row: TableRow): unknown => row["path"] ?? (row["paths"] as readonly unknown[] | undefined)?.[0];

/** Volumes as shares of file systems. A share belongs to the volume at its path, because it shares no other data. */
export class PathShare implements ShareProtocol<ZfsVolume> {
  readonly protocol: PathProtocol["protocol"];
  readonly access;
  readonly growsOnNode = false;
  readonly reach: Context;
  readonly #context: ShareContext;
  readonly #kind: PathProtocol;

  constructor(context: ShareContext, kind: PathProtocol) {
    this.#context = context;
    this.#kind = kind;
    this.protocol = kind.protocol;
    this.access = protocols[kind.protocol];
    this.reach = { server: kind.server };
  }

  /** As ShareProtocol.publish. Looks first: the server would accept a second share of the same path. */
  async publish(volume: ZfsVolume, spec: VolumeSpec, _keep: unknown, call: Call): Promise<Notes> {
    const { protocol, table, access, describe, shareOf, refuseClash } = this.#kind;
    const { number } = await this.#context.api.version(call.signal);
    const path = pathOf(volume);
    const request = this.#kind.request(volume, path, spec, number);
    const find = async () => {
      const rows = await this.#rows(path, call);
      for (const row of rows) refuseOtherAccess(this.#context, volume, describe(row, path), request, row, access);
      return rows[0];
    };
    const create = () => tableOf(this.#context, table, call).create(request);
    const row = (await find()) ?? (await createdOrFound(create, find, async () => refuseClash?.(request, call))).row;
    // The context of a finished volume never changes.
    return {
      [noteKeys[protocol][0]]: String(row.id),
      ...{ ...this.reach, share: shareOf(row, path), ...this.context(volume) },
    };
  }

  async existing(volume: ZfsVolume, call: Call): Promise<Notes> {
    const { protocol, shareOf } = this.#kind;
    const path = pathOf(volume);
    const row = (await this.#rows(path, call)).find(each => each["enabled"] !== false);
    if (!row) throw unreachable(this.#context, `no enabled ${protocol.toUpperCase()} share for ${path}`);
    return { [noteKeys[protocol][0]]: String(row.id), ...this.reach, share: shareOf(row, path) };
  }

  context(volume: ZfsVolume) {
    return noted(volume, ["server", "share"]);
  }

  explain(error: unknown) {
    return apiErrorMapping(error);
  }

  /** As ShareProtocol.withdraw. By path, never by a noted id: the server reuses ids. */
  async withdraw(volume: ZfsVolume, call: Call): Promise<void> {
    const table = tableOf(this.#context, this.#kind.table, call);
    for (const { id } of await this.#rows(pathOf(volume), call)) await table.delete(id);
  }

  /** As ShareProtocol.look, with one listing of all shares. */
  async look(volumes: readonly ZfsVolume[], call: Call): Promise<VolumeFindings> {
    const rows = await tableOf(this.#context, this.#kind.table, call).find();
    const paths = new Set(rows.filter(each => each["enabled"] !== false).map(pathIn));
    return unshared(volumes, each => paths.has(pathOf(each)), "ShareMissing");
  }

  check(call: Call): Promise<void> {
    return checkService(this.#context, this.#kind.service, call);
  }

  async #rows(path: string, call: Call): Promise<readonly TableRow[]> {
    const { number } = await this.#context.api.version(call.signal);
    const table = tableOf(this.#context, this.#kind.table, call);
    const rows = await (number < this.#kind.onePathSince ? table.find() : table.find(["path", "=", path]));
    return rows.filter(row => pathIn(row) === path).sort((a, b) => a.id - b.id);
  }
}
