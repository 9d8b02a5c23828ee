import { randomUUID } from "node:crypto";
import { DsmFailure } from "./params.ts";

/** A LUN as DSM keeps it; `content` is what a node wrote. */
export interface Lun {
  readonly uuid: string;
  readonly lunId: number;
  name: string;
  size: number;
  readonly location: string;
  readonly type: string;
  description: string;
  readonly attributes: readonly { readonly dev_attrib: string; readonly enable: number }[];
  content: string | undefined;
  /** Answers during which it is locked still. */
  locked: number;
  /** Listings that do not show it yet. */
  hidden: number;
  /** Listings that show it still after its deletion; undefined while it lives. */
  dying: number | undefined;
}

/** A snapshot of a LUN. */
export interface Snapshot {
  readonly uuid: string;
  readonly lun: string;
  readonly name: string;
  readonly description: string;
  readonly takenBy: string;
  readonly size: number;
  readonly time: number;
  readonly locked: boolean;
  /** A package of DSM needs it, such as Snapshot Replication ("locked_app_keys": N4S4/synology-api 50b4343, snapshot.py). */
  kept?: true;
  readonly content: string | undefined;
}

/** An iSCSI target. */
export interface Target {
  readonly id: number;
  readonly name: string;
  readonly iqn: string;
  options: Readonly<Record<string, unknown>>;
  mapped: readonly { readonly lun_uuid: string; readonly mapping_index: number }[];
  sessions: readonly { readonly iqn: string; readonly ip: string }[];
}

/** A shared folder. */
export interface Share {
  readonly name: string;
  readonly uuid: string;
  readonly location: string;
  description: string;
  /** In MiB. */
  quota: number;
  content: string | undefined;
  /** Listings that do not show it yet. */
  hidden: number;
  /** Listings that show it still after its deletion; undefined while it lives. */
  dying: number | undefined;
  rules: readonly { readonly client: string; readonly root_squash?: string }[];
  permissions: readonly string[];
  snapshots: readonly {
    readonly time: string;
    readonly description: string;
    readonly content: string | undefined;
  }[];
  /** The second of its last snapshot, since 1970. */
  moment: number;
}

/** What goes differently on another system, and how long things take. */
export interface Habits {
  /**
   * The major version of DSM. Clients read the time of a LUN's snapshot from "time" (democratic-csi/democratic-csi 8a4a28a) or "create_time"
   * (SynologyOpenSource/synology-csi 2807900). assumed: "time" is that of 6, which leaves empty lists out.
   */
  readonly version: 6 | 7;
  /** Answers for which a clone is locked. */
  cloneLocked: number;
  /**
   * Listings in which a new clone does not appear. The official driver finds one at once (SynologyOpenSource/synology-csi 2807900, dsm.go);
   * this is slower on purpose, since nothing promises it.
   */
  cloneHidden: number;
  /** Listings in which a new LUN does not appear. */
  createHidden: number;
  /** Listings in which a deleted LUN still appears. */
  deletion: number;
  filesystem: "btrfs" | "ext4";
  maxShares: number;
  maxTargets: number;
  /** What DSM answers of a LUN that does not exist: 18990531, or 18990505 (openstack/cinder synology_common.py takes both so). */
  noLun: 18990531 | 18990505;
  /** The words of root_squash that DSM takes. */
  squash: readonly string[];
  /** Whether the NFS service is on. */
  nfs: boolean;
  /** Milliseconds that a change of a shared folder takes. */
  changeMs: number;
  /** Milliseconds after a change of a shared folder in which no other one is taken. */
  settleMs: number;
  maxSnapshots: number;
  /** Whether a clone gets the description it was asked for. assumed: that DSM 6 drops it. */
  describesClones: boolean;
}

/** The words of DSM 7.3.2 (ychiu1211/dsmctl WI-024, from share_privilege.cpp; SynologyOpenSource/synology-csi 2807900, nodeserver.go sends "root"). */
export const squashWords: readonly string[] = ["root", "admin", "guest", "all_admin", "all_guest"];
/** Those that an Ansible filter of May 2026 has, of another patch of 7.3.2. */
export const otherSquashWords: readonly string[] = ["no_map", "root_admin", "root_guest", "all_admin", "all_guest"];

/** Everything that a DSM keeps over a restart. */
export class State {
  readonly luns = new Map<string, Lun>();
  readonly snapshots = new Map<string, Snapshot>();
  readonly targets = new Map<number, Target>();
  /** By name in small letters: names of shared folders are case insensitive (DSM Help, Control Panel, Shared Folder). */
  readonly shares = new Map<string, Share>();
  free = 2 ** 43;
  /** Free bytes of the volumes other than /volume1. */
  readonly others = new Map<string, number>();
  readonly habits: Habits;
  /** SMB sessions, as SYNO.Core.CurrentConnection shows them. */
  connections: readonly {
    readonly who: string;
    readonly from: string;
    readonly type: string;
    readonly descr: string;
  }[] = [];
  #lunId = 0;
  #targetId = 0;

  constructor(version: 6 | 7) {
    this.habits = {
      version,
      cloneLocked: 1,
      cloneHidden: 1,
      createHidden: 0,
      deletion: 1,
      filesystem: "btrfs",
      maxShares: 512,
      // Models with 256 LUNs publish so many (jasoncheng7115/jt-pve-storage-synology 9a96fa3, LIMITS.md).
      maxTargets: 128,
      noLun: 18990531,
      squash: squashWords,
      nfs: true,
      changeMs: 1,
      settleMs: 0,
      maxSnapshots: 256,
      describesClones: version === 7,
    };
  }

  add(lun: Omit<Lun, "uuid" | "lunId" | "dying">): Lun {
    const made: Lun = { ...lun, uuid: randomUUID(), lunId: ++this.#lunId, dying: undefined };
    this.luns.set(made.uuid, made);
    return made;
  }

  addTarget(target: Omit<Target, "id" | "mapped" | "sessions">): Target {
    const made: Target = { ...target, id: ++this.#targetId, mapped: [], sessions: [] };
    this.targets.set(made.id, made);
    return made;
  }

  hasVolume(location: string): boolean {
    return location === "/volume1" || this.others.has(location);
  }

  /** A node logs in. A target admits as many sessions as max_sessions says, 1 by default (jasoncheng7115/jt-pve-storage-synology 9a96fa3, TESTING.md). */
  logIn(target: Target, iqn: string, ip: string): boolean {
    const most = Number(target.options["max_sessions"] ?? 1);
    if (most !== 0 && target.sessions.length >= most) return false;
    target.sessions = [...target.sessions, { iqn, ip }];
    return true;
  }

  /** The bytes that are free on a volume. 117: jasoncheng7115/jt-pve-storage-synology 9a96fa3, API.pm, on 7.1.1 and 7.3.2. */
  freeOn(location: string): number {
    const free = location === "/volume1" ? this.free : this.others.get(location);
    if (free === undefined) throw new DsmFailure(117);
    return free;
  }

  byName(name: string): Lun | undefined {
    return [...this.luns.values()].find(lun => lun.name === name);
  }

  /** What is left, in words. The name of what is being made or removed is shown without its ending. */
  remains(): readonly string[] {
    const luns = [...this.luns.values()].filter(({ dying }) => dying === undefined);
    const shares = [...this.shares.values()].filter(({ dying }) => dying === undefined);
    return [
      ...shares.map(({ name }) => `share ${name}`),
      ...shares.flatMap(({ name, rules }) => rules.map(({ client }) => `rule ${name} ${client}`)),
      ...shares.flatMap(({ snapshots }) => snapshots.map(({ description }) => `snapshot ${description}`)),
      ...luns.map(({ name }) => `lun ${name.replace(/\.new$|\.[0-9a-f]{8}\.del$/, "")}`),
      ...[...this.snapshots.values()].map(({ description }) => `snapshot ${description}`),
      ...[...this.targets.values()].map(({ iqn }) => `target ${iqn}`),
    ].sort();
  }
}
