import { readFile } from "node:fs/promises";
import { posix } from "node:path";
import { CsiError } from "../../core/errors.ts";
import { type Mount, parseMountinfo } from "../../core/mountinfo.ts";

/** Which folder of which file system: two folders of one file system differ in `root`. */
export interface Identity {
  readonly device: string;
  readonly root: string;
}

/** What the kernel appends to the root of a mount whose folder was removed. */
const removed = "//deleted";

/** The kernel names some types otherwise than mount(8) is told: "nfs" becomes "nfs4", "smb3" is "cifs". */
const families: Readonly<Record<string, string>> = {
  nfs4: "nfs",
  smb3: "cifs",
  "fuse.objectivefs": "objectivefs",
  "fuse.oneclient": "oneclient",
};

const familyOf = (fsType: string): string => families[fsType] ?? fsType;

/** Whether two places show the same folder of the same file system. */
export const sameFolder = (a: Identity, b: Identity): boolean => a.device === b.device && a.root === b.root;

/** Whether `path` is `folder` or lies below it. Both absolute and normalised. */
export const isWithin = (folder: string, path: string): boolean =>
  folder === "/" || path === folder || path.startsWith(`${folder}/`);

/** The mounts of one moment. */
export class MountTable {
  readonly #mounts: readonly Mount[];
  readonly #root: Mount | undefined;
  readonly #children = new Map<number, Mount[]>();

  constructor(mounts: readonly Mount[]) {
    const ids = new Set(mounts.map(mount => mount.id));
    this.#mounts = mounts;
    this.#root = mounts.find(mount => mount.at === "/" && (!ids.has(mount.parent) || mount.parent === mount.id));
    for (const mount of mounts) {
      const siblings = this.#children.get(mount.parent);
      if (siblings) siblings.push(mount);
      else this.#children.set(mount.parent, [mount]);
    }
  }

  /** Every mount point, once. */
  points(): readonly string[] {
    return [...new Set(this.#mounts.map(mount => mount.at))];
  }

  /** How many mounts lie on top of each other at this mount point. */
  layers(path: string): number {
    return this.#mounts.filter(mount => mount.at === path).length;
  }

  /** Whether what is seen at this mount point is this file system: the same source, by a type of the same family ("nfs", "nfs4"). */
  isOf(path: string, { fsType, source }: { readonly fsType: string; readonly source: string }): boolean {
    const top = this.top(path);
    return top !== undefined && top.source === source && familyOf(top.fsType) === familyOf(fsType);
  }

  /** Whether what is seen at this mount point is a file system of this type's family. */
  isOfType(path: string, fsType: string): boolean {
    const top = this.top(path);
    return top !== undefined && familyOf(top.fsType) === familyOf(fsType);
  }

  /** Whether one of the mounts at this mount point shows this folder, be it removed meanwhile. */
  shows(path: string, wanted: Identity): boolean {
    const kept = (root: string): string => (root.endsWith(removed) ? root.slice(0, -removed.length) : root);
    const here = this.#mounts.filter(mount => mount.at === path && mount.device === wanted.device);
    return here.some(mount => kept(mount.root) === kept(wanted.root));
  }

  /** The mount that is seen at this mount point, or undefined when the path is none. */
  top(path: string): Mount | undefined {
    const mount = this.covering(path);
    return mount?.at === path ? mount : undefined;
  }

  /**
   * The mount that a path lies on: from the root mount downwards, so that mounts hidden below others do not count.
   * Undefined when the table has no root mount.
   */
  covering(path: string): Mount | undefined {
    let next = this.#root;
    let mount = next;
    while (next) {
      mount = next;
      next = this.#childOn(mount, path);
    }
    return mount;
  }

  /** What a bind mount of this folder will show: its file system, and its path inside it. Throws "unavailable". */
  identity(path: string): Identity {
    const mount = this.covering(path);
    if (!mount) throw new CsiError("unavailable", "the mount table of this node has no root; is /proc mounted?");
    if (mount.at === path) return mount;
    return { device: mount.device, root: posix.join(mount.root, path.slice(mount.at === "/" ? 0 : mount.at.length)) };
  }

  /** The first mount point that the way from `mount` to `path` meets. */
  #childOn(mount: Mount, path: string): Mount | undefined {
    const met = (this.#children.get(mount.id) ?? []).filter(child => child.id !== mount.id && isWithin(child.at, path));
    return met.reduce<Mount | undefined>(
      (best, child) => (best && best.at.length <= child.at.length ? best : child),
      undefined,
    );
  }
}

const attempts = 20;

/** A table that is shorter than a page comes out in one piece, so one reading of it is of one moment (fs/seq_file.c). */
const onePiece = 4096;

/**
 * The mounts of this process. The kernel hands the table out in pieces, and a mount that comes or goes in between can hide
 * another one, so it is read until two readings agree. Throws "unavailable" when they never do or the file is unreadable.
 */
export async function readMountTable(file: string): Promise<MountTable> {
  try {
    let before = await readFile(file, "utf8");
    if (Buffer.byteLength(before) < onePiece) return new MountTable(parseMountinfo(before));
    for (let attempt = 1; attempt < attempts; attempt++) {
      const now = await readFile(file, "utf8");
      if (now === before) return new MountTable(parseMountinfo(now));
      before = now;
    }
  } catch (cause) {
    throw new CsiError("unavailable", `the mount table ${file} cannot be read`, { cause });
  }
  throw new CsiError("unavailable", "the mount table of this node keeps changing; repeat the call");
}
