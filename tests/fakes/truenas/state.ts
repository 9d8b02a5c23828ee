import type { Version } from "./versions.ts";

/** Everything a TrueNAS keeps, as plain JSON, so that another version can continue from it. */

export interface Dataset {
  name: string;
  type: "FILESYSTEM" | "VOLUME";
  /** Native properties that are set here, by their names in ZFS, as ZFS prints them with -p. */
  native: Record<string, string>;
  user: Record<string, string>;
  origin?: string;
  guid: string;
  createtxg: number;
  /** Seconds since 1970. */
  creation: number;
  mode: number;
  uid: number;
  gid: number;
  /** A list that is more than permission bits. */
  acl?: unknown;
  /** What the volume holds. */
  content?: string;
  /** It has received a part of this snapshot: its guid and name, as in receive_resume_token. */
  partOf?: { readonly guid: string; readonly snapshot: string };
  /** Its encryption key is not loaded. */
  locked?: true;
  /** The database has no key under its name. */
  keyLost?: true;
  /** Made, and not mounted, because the server was ended or has failed in between. */
  unmounted?: true;
}

export interface Snapshot {
  dataset: string;
  name: string;
  user: Record<string, string>;
  guid: string;
  createtxg: number;
  creation: number;
  volsize?: string;
  content?: string;
  holds: number;
  deferred: boolean;
}

export interface Row {
  id: number;
  [field: string]: unknown;
}

export const tableNames = [
  "nfs",
  "smb",
  "portal",
  "initiator",
  "iscsiAuth",
  "target",
  "extent",
  "targetextent",
  "nvmetPort",
  "nvmetHost",
  "nvmetSubsys",
  "nvmetNamespace",
  "nvmetPortSubsys",
  "nvmetHostSubsys",
] as const;

export type TableName = (typeof tableNames)[number];

export interface State {
  /** Bytes of each pool. */
  pools: Record<string, number>;
  datasets: Record<string, Dataset>;
  snapshots: Record<string, Snapshot>;
  tables: Record<TableName, Row[]>;
  services: Record<string, "RUNNING" | "STOPPED">;
  /** What is on in the settings of the network and of SMB. */
  settings: { mdns: boolean; aapl_extensions: boolean };
  /** With what the names of new NVMe subsystems begin. */
  basenqn: string;
  txg: number;
}

/** A stream that was received to its end: from its beginning, or only what an earlier one has not sent. */
export interface SentStream {
  readonly target: string;
  readonly part: "all" | "rest";
}

/** Datasets that another program knows: the double has the shares, and asks here what they share. */
export interface Elsewhere {
  has(name: string): boolean;
  grow(name: string, volsize: number): void;
}

/** What the methods work on. */
export interface Nas {
  readonly elsewhere?: Elsewhere | undefined;
  readonly version: Version;
  /** 2510 for 25.10. */
  readonly number: number;
  /** It is 26.0.0-BETA.3. */
  readonly beta?: boolean;
  readonly state: State;
  /** Datasets that something holds open: destroying them fails. */
  readonly busy: Pick<ReadonlySet<string>, "has">;
  /** Datasets that a replication writes to. */
  readonly receiving: Set<string>;
  /** Whether the stream of a replication that has sent a part breaks off now. */
  breaks(): boolean;
  /** Counts a stream of a replication that was received to its end. */
  sent(stream: SentStream): void;
  /** Names of targets that an initiator is logged in to. */
  readonly sessions: Set<string>;
  /** Whether the account that asks has FULL_ADMIN. */
  readonly fullAdmin: boolean;
  /** Seconds since 1970. */
  now(): number;
  /** Counts snapshots that were read with all their properties. */
  readRows(count: number): void;
}

const pool = (name: string): Dataset => ({
  name,
  type: "FILESYSTEM",
  native: {},
  user: {},
  guid: "1",
  createtxg: 1,
  creation: 1_700_000_000,
  mode: 0o755,
  uid: 0,
  gid: 0,
});

/** A system with one empty pool "tank" of 1 TiB, a portal, an initiator group, an NVMe-oF port, all services running. */
export function freshState(): State {
  const tables = Object.fromEntries(tableNames.map(name => [name, []])) as unknown as State["tables"];
  tables.portal.push({ id: 1, tag: 1, comment: "main", listen: [{ ip: "0.0.0.0", port: 3260 }] });
  tables.initiator.push({ id: 1, initiators: [], comment: "all" });
  tables.iscsiAuth.push({ id: 1, tag: 1, user: "u", secret: "********", peeruser: "", peersecret: "" });
  tables.nvmetPort.push({
    id: 1,
    index: 1,
    addr_trtype: "TCP",
    addr_traddr: "127.0.0.1",
    addr_trsvcid: 4420,
    addr_adrfam: "IPV4",
    ...{ inline_data_size: null, max_queue_size: null, pi_enable: null },
    enabled: true,
  });
  const services = ["nfs", "cifs", "iscsitarget", "nvmet", "ssh"].map(name => [name, "RUNNING"]);
  return {
    pools: { tank: 1024 ** 4 },
    datasets: { tank: pool("tank") },
    snapshots: {},
    tables,
    services: Object.fromEntries(services),
    settings: { mdns: true, aapl_extensions: false },
    basenqn: "nqn.2011-06.com.truenas:uuid:68bf9433-63ef-49f5-a921-4c0f8190fd94",
    txg: 100,
  };
}

/** The fields of a share that name its dataset and the path in it, from 26 on. */
export const placeOf = ({ number }: Nas, dataset: string): object =>
  number >= 2600 ? { dataset, relative_path: "" } : {};

/** The next transaction group, which shows the order of creations. */
export const nextTxg = (nas: Nas): number => ++nas.state.txg;

/** The id after the highest: ids are used again once the highest row is gone. */
export function inserted<R extends object>(nas: Nas, table: TableName, fields: R): R & Row {
  const rows = nas.state.tables[table];
  const row = { id: Math.max(0, ...rows.map(({ id }) => id)) + 1, ...fields };
  rows.push(row);
  return row;
}

export function removed(nas: Nas, table: TableName, fits: (row: Row) => boolean): void {
  nas.state.tables[table] = nas.state.tables[table].filter(row => !fits(row));
}
