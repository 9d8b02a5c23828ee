import { protocols } from "../../../core/access.ts";
import type { Call } from "../../../core/call.ts";
import type { Context, VolumeSpec } from "../../driver.ts";
import type { ShareProtocol } from "../../store.ts";
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
export function pathShare(on: ShareContext, kind: PathProtocol): ShareProtocol<ZfsVolume> {
  const { protocol, access, describe, shareOf, refuseClash, onePathSince } = kind;
  const reach = { server: kind.server };
  const context = (volume: ZfsVolume): Context => noted(volume, ["server", "share"]);
  const table = (call: Call) => tableOf(on, kind.table, call);
  const rowsOf = async (path: string, call: Call) => {
    const { number } = await on.api.version(call.signal);
    const rows = await table(call).find(...(number < onePathSince ? [] : [["path", "=", path] as const]));
    return rows.filter(row => pathIn(row) === path).sort((a, b) => a.id - b.id);
  };
  return {
    ...{ protocol, access: protocols[protocol], growsOnNode: false, reach, context, explain: apiErrorMapping },
    /** Looks first: the server would accept a second share of the same path. */
    async publish(volume, spec, _keep, call) {
      const { number } = await on.api.version(call.signal);
      const path = pathOf(volume);
      const request = kind.request(volume, path, spec, number);
      const find = async () => {
        const rows = await rowsOf(path, call);
        for (const row of rows) refuseOtherAccess(on, volume, describe(row, path), request, row, access);
        return rows[0];
      };
      const create = () => table(call).create(request);
      const row = (await find()) ?? (await createdOrFound(create, find, async () => refuseClash?.(request, call))).row;
      // The context of a finished volume never changes.
      const now = { ...reach, share: shareOf(row, path), ...context(volume) };
      return { [noteKeys[protocol][0]]: String(row.id), ...now };
    },
    async existing(volume, call) {
      const path = pathOf(volume);
      const row = (await rowsOf(path, call)).find(each => each["enabled"] !== false);
      if (!row) throw unreachable(on, `no enabled ${protocol.toUpperCase()} share for ${path}`);
      return { [noteKeys[protocol][0]]: String(row.id), ...reach, share: shareOf(row, path) };
    },
    /** By path, never by a noted id: the server reuses ids. */
    async withdraw(volume, call) {
      for (const { id } of await rowsOf(pathOf(volume), call)) await table(call).delete(id);
    },
    async look(volumes, call) {
      const rows = await table(call).find();
      const paths = new Set(rows.filter(each => each["enabled"] !== false).map(pathIn));
      return unshared(volumes, each => paths.has(pathOf(each)), "ShareMissing");
    },
    check: call => checkService(on, kind.service, call),
  };
}
