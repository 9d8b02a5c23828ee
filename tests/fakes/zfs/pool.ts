import {
  cpSync,
  existsSync,
  mkdirSync,
  readFileSync,
  renameSync,
  rmSync,
  statSync,
  truncateSync,
  writeFileSync,
} from "node:fs";
import { dirname, join } from "node:path";
import { listOf, unlessGone } from "../vanishing.ts";
import { holdsExport } from "./nfsd.ts";
import { natives } from "./properties.ts";

/** A dataset or snapshot of the model. */
export interface Thing {
  name: string;
  type: "filesystem" | "volume" | "snapshot";
  guid: string;
  txg: number;
  creation: number;
  own: Record<string, { value: string; source: "local" | "received" }>;
  /** Guid of the snapshot that it is a clone of. */
  origin?: string;
  defer?: boolean;
  holds?: string[];
  mounted?: boolean;
  /** Exported over NFS, or a usershare of Samba. */
  shared?: boolean;
  /** Encrypted, without its key. */
  locked?: boolean;
  /** The guid of the snapshot that was received as this one. */
  sent?: string;
  /** Its first stream has not ended. */
  inconsistent?: boolean;
  /** The token with which a send continues an interrupted receive. */
  token?: string;
}

/** What tests make go wrong. */
export interface Faults {
  /** How often a dataset is still busy: a mounted one because a process on its host uses it. */
  busy?: Record<string, number>;
  /** How often a dataset cannot be destroyed although it is not mounted: it is being sent, for example (EBUSY, dsl_destroy_head_check). */
  owned?: Record<string, number>;
  /** Whether no new file system can be shared. */
  unshared?: boolean;
  /** Whether Samba does not answer: then no usershare is made, and zfs succeeds (zfs-2.1.11, lib/libshare/os/linux/smb.c, smb_enable_share_one). */
  silentSamba?: boolean;
  /** How long a send pauses in the middle, in milliseconds. */
  sendMs?: number;
  /** After how many bytes a receive ends as if its connection were cut. */
  cutReceive?: number;
  /** Datasets into which another program receives. */
  receiving?: string[];
  /** Whether the pool lacks the features of streams with large or compressed blocks. */
  oldPool?: boolean;
  /** The version of the kernel's ZFS. */
  version?: string;
  /** Every command waits so long, in milliseconds. */
  delayMs?: number;
}

interface State {
  things: Record<string, Thing>;
  pools: Record<string, { bytes: number; imported: boolean; suspended?: boolean; health?: string }>;
  next: number;
  faults: Faults;
  /** Zvols that have a device, and its size in bytes. */
  devices: Record<string, number>;
  /** Every command that ran, as one line each. */
  log: string[];
  /** File systems whose share was gone for a moment, because they could not be unmounted. */
  disturbed: string[];
}

/** A failure in zfs's own words, on stderr. */
export class Failure extends Error {}

/** One that zfs takes for a mistake of its caller; it ends with 2. */
export class UsageFailure extends Failure {}

const empty: State = { things: {}, pools: {}, next: 1, faults: {}, devices: {}, log: [], disturbed: [] };

/** The pools that live in a folder; each process that opens it sees the same. */
export class Pools {
  readonly folder: string;
  state: State;

  constructor(folder: string) {
    this.folder = folder;
    const path = join(folder, "state.json");
    this.state = existsSync(path) ? JSON.parse(readFileSync(path, "utf8")) : structuredClone(empty);
  }

  save(): void {
    const path = join(this.folder, "state.json");
    this.#devices();
    writeFileSync(`${path}.new`, JSON.stringify(this.state));
    renameSync(`${path}.new`, path);
  }

  /** A file of its size for each zvol, as udev makes links below /dev/zvol; only those that are not as they were. */
  #devices(): void {
    const dev = join(this.folder, "dev");
    const wanted = new Map(
      this.all()
        .filter(({ type }) => type === "volume")
        .map(({ name, own }) => [name, Number(own["volsize"]?.value ?? 0)] as const),
    );
    const before = this.state.devices;
    for (const name of Object.keys(before)) if (!wanted.has(name)) rmSync(join(dev, name), { force: true });
    for (const [name, size] of wanted) {
      if (before[name] === size) continue;
      mkdirSync(dirname(join(dev, name)), { recursive: true });
      writeFileSync(join(dev, name), "");
      // No file system takes a file of every size that a zvol can have.
      truncateSync(join(dev, name), Math.min(size, 2 ** 42));
    }
    this.state.devices = Object.fromEntries(wanted);
  }

  addPool(name: string, bytes: number): void {
    this.state.pools[name] = { bytes, imported: true };
    const pool = this.add(name, "filesystem");
    pool.own["mountpoint"] = { value: join(this.folder, "mnt", name), source: "local" };
    this.mount(pool);
  }

  add(name: string, type: Thing["type"]): Thing {
    const number = this.state.next++;
    const thing: Thing = {
      name,
      type,
      guid: String(1_000_000 + number),
      txg: number,
      creation: Math.floor(Date.now() / 1000),
      own: {},
    };
    this.state.things[name] = thing;
    return thing;
  }

  /** Undefined for what does not exist, or whose pool is not imported. */
  find(name: string): Thing | undefined {
    const pool = this.state.pools[name.split(/[/@]/)[0] ?? ""];
    return pool?.imported ? this.state.things[name] : undefined;
  }

  all(): Thing[] {
    return Object.values(this.state.things)
      .filter(({ name }) => this.find(name) !== undefined)
      .sort((a, b) => (a.name < b.name ? -1 : 1));
  }

  /** Datasets and snapshots below a dataset, at any depth. */
  below(name: string): Thing[] {
    return this.all().filter(each => each.name.startsWith(`${name}/`) || each.name.startsWith(`${name}@`));
  }

  byGuid(guid: string | undefined): Thing | undefined {
    return this.all().find(each => each.guid === guid);
  }

  clonesOf(snapshot: Thing): Thing[] {
    return this.all().filter(({ origin }) => origin === snapshot.guid);
  }

  /** A property that may come from above, with where it comes from. */
  value(thing: Thing, property: string): { value: string; source: string } {
    const own = thing.own[property];
    const native = natives[property];
    const isOwn = own && (native?.inherited !== false || thing.type !== "snapshot" || property === "volsize");
    if (own && isOwn) return { value: own.value, source: own.source };
    if (native && !native.inherited) return { value: native.default, source: native.default === "-" ? "-" : "default" };
    const parent = this.parent(thing);
    if (!parent) return { value: native?.default ?? "-", source: native ? "default" : "-" };
    const { value, source } = this.value(parent, property);
    const path =
      property === "mountpoint" && value.startsWith("/") ? `${value}/${thing.name.split("/").at(-1)}` : value;
    if (value === "-" || source === "default") return { value: path, source };
    return { value: path, source: source.startsWith("inherited") ? source : `inherited from ${parent.name}` };
  }

  parent(thing: Thing): Thing | undefined {
    const cut = Math.max(thing.name.lastIndexOf("/"), thing.name.lastIndexOf("@"));
    return cut < 0 ? undefined : this.state.things[thing.name.slice(0, cut)];
  }

  /** Where the content lies: at the mountpoint while it is mounted. */
  place(thing: Thing): string {
    if (thing.type === "filesystem" && thing.mounted) return this.value(thing, "mountpoint").value;
    return join(this.folder, "data", thing.guid);
  }

  mount(thing: Thing): void {
    const { value } = this.value(thing, "mountpoint");
    if (thing.type !== "filesystem" || thing.mounted || !value.startsWith("/")) return;
    const hidden = this.place(thing);
    mkdirSync(dirname(value), { recursive: true });
    if (existsSync(hidden)) renameSync(hidden, value);
    else mkdirSync(value, { recursive: true });
    thing.mounted = true;
  }

  /** The protocols over which ZFS shares a file system. */
  protocols(thing: Thing): readonly string[] {
    if (thing.type !== "filesystem") return [];
    return ["sharenfs", "sharesmb"].filter(key => !["off", "-", ""].includes(this.value(thing, key).value));
  }

  /** zfs share: mounts first (share_mount_one). */
  share(thing: Thing): void {
    this.mount(thing);
    thing.shared = thing.mounted === true && this.protocols(thing).length > 0;
    this.usershare(thing, thing.shared);
  }

  /** The usershares of Samba are files, with names in small letters; zfs unmount removes one, zfs destroy does not (zfs-2.1.11, samba 4.17.12). */
  usershare(thing: Thing, on: boolean): void {
    const folder = join(this.folder, "usershares");
    const path = join(folder, thing.name.replaceAll(/[-/: ]/g, "_").toLowerCase());
    if (!on) rmSync(path, { force: true });
    if (!on || this.state.faults.silentSamba || !this.protocols(thing).includes("sharesmb")) return;
    writeFileSync(path, "");
  }

  /**
   * What zfs does to what it unmounts (libzfs_mount.c, zfs_unmount): it is unshared, unmounted, and shared again where that fails.
   * Throws as zfs does.
   */
  release(thing: Thing, verb: "unmount" | "destroy"): void {
    if (!thing.mounted) return;
    if (inUse(this, thing)) {
      if (thing.shared) this.state.disturbed.push(thing.name);
      throw new Failure(`cannot unmount '${this.place(thing)}': pool or dataset is busy`);
    }
    thing.shared = false;
    if (verb === "unmount") this.usershare(thing, false);
    this.unmount(thing);
  }

  unmount(thing: Thing): void {
    if (!thing.mounted) return;
    const [shown, hidden] = [this.place(thing), join(this.folder, "data", thing.guid)];
    thing.mounted = false;
    mkdirSync(dirname(hidden), { recursive: true });
    if (existsSync(shown)) renameSync(shown, hidden);
  }

  /** Copies what `from` holds, without what is mounted in it. */
  copyContent(from: Thing, to: Thing): void {
    const source = this.place(from);
    const target = this.place(to);
    const mounted = new Set(
      this.all()
        .filter(each => each.mounted && each !== from)
        .map(each => this.place(each)),
    );
    rmSync(target, { recursive: true, force: true });
    mkdirSync(dirname(target), { recursive: true });
    if (!existsSync(source)) return void mkdirSync(target, { recursive: true });
    cpSync(source, target, { recursive: true, filter: path => !mounted.has(path) });
  }

  remove(thing: Thing): void {
    rmSync(this.place(thing), { recursive: true, force: true });
    delete this.state.things[thing.name];
    const origin = this.byGuid(thing.origin);
    if (origin) this.reap(origin);
  }

  /** A snapshot that was to be destroyed goes when nothing needs it. */
  reap(snapshot: Thing): void {
    if (snapshot.defer && this.clonesOf(snapshot).length === 0 && (snapshot.holds ?? []).length === 0)
      this.remove(snapshot);
  }

  bytes(thing: Thing): number {
    return weigh(this.place(thing));
  }
}

/** Whether a mounted file system cannot be unmounted: a process uses it, or the NFS server holds on to it. */
function inUse(pools: Pools, thing: Thing): boolean {
  const { busy } = pools.state.faults;
  const left = busy?.[thing.name] ?? 0;
  if (busy && left > 0) busy[thing.name] = left - 1;
  return left > 0 || holdsExport(pools.folder, pools.place(thing));
}

function weigh(path: string): number {
  const stat = unlessGone(() => statSync(path), undefined);
  if (!stat?.isDirectory()) return stat?.size ?? 0;
  return listOf(path).reduce((sum, name) => sum + weigh(join(path, name)), 0);
}
