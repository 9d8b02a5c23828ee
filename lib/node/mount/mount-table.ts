import { readFile } from "node:fs/promises";
import { posix } from "node:path";
import { CsiError } from "../../core/errors.ts";
import { type Mount, parseMountinfo } from "../../core/mountinfo.ts";

/** Identifies a folder: two folders of one file system differ in `root`. */
export interface Identity {
  readonly device: string;
  readonly root: string;
}

/** The kernel's suffix of the root of a mount whose folder or file was removed. */
export const removedSuffix = "//deleted";

/** Types whose name in the kernel differs from that given to mount(8): "nfs" becomes "nfs4", "smb3" is "cifs". */
const families: Readonly<Record<string, string>> = {
  nfs4: "nfs",
  smb3: "cifs",
  "fuse.objectivefs": "objectivefs",
  "fuse.oneclient": "oneclient",
};

const familyOf = (fsType: string): string => families[fsType] ?? fsType;

/** Whether two mounts show the same folder of the same file system. */
export const sameFolder = (a: Identity, b: Identity): boolean => a.device === b.device && a.root === b.root;

/** Whether `path` is `folder` or below it. Both absolute and normalised. */
export const isWithin = (folder: string, path: string): boolean =>
  folder === "/" || path === folder || path.startsWith(`${folder}/`);

/** A snapshot of the mounts. */
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

  /** All mount points, without duplicates. */
  points(): readonly string[] {
    return [...new Set(this.#mounts.map(mount => mount.at))];
  }

  /** The number of mounts on top of each other at this mount point. */
  layers(path: string): number {
    return this.#mounts.filter(mount => mount.at === path).length;
  }

  /** Whether the top mount here has this source and a type of the same family ("nfs", "nfs4"). */
  isOf(path: string, { fsType, source }: { readonly fsType: string; readonly source: string }): boolean {
    const top = this.top(path);
    return top !== undefined && top.source === source && familyOf(top.fsType) === familyOf(fsType);
  }

  /** Whether the top mount at this path has a type of this family. */
  isOfType(path: string, fsType: string): boolean {
    const top = this.top(path);
    return top !== undefined && familyOf(top.fsType) === familyOf(fsType);
  }

  /** Whether another mount point shows the file system of a mount. */
  isElsewhere({ device, at }: Mount): boolean {
    return this.#mounts.some(mount => mount.device === device && mount.at !== at);
  }

  /** Whether the device file of this name is mounted anywhere, as that of a block volume. */
  showsDevice(name: string): boolean {
    return this.#mounts.some(({ root }) => posix.basename(root) === name);
  }

  /** Whether any mount at this path shows this folder, even if the folder has been removed since. */
  shows(path: string, wanted: Identity): boolean {
    const kept = (root: string): string => (root.endsWith(removedSuffix) ? root.slice(0, -removedSuffix.length) : root);
    const here = this.#mounts.filter(mount => mount.at === path && mount.device === wanted.device);
    return here.some(mount => kept(mount.root) === kept(wanted.root));
  }

  /** The visible mount at this mount point, or undefined if the path is not a mount point. */
  top(path: string): Mount | undefined {
    const mount = this.covering(path);
    return mount?.at === path ? mount : undefined;
  }

  /** The mount that a path is on, ignoring mounts hidden below others. Undefined without a root mount. */
  covering(path: string): Mount | undefined {
    let next = this.#root;
    let mount = next;
    while (next) {
      mount = next;
      next = this.#childOn(mount, path);
    }
    return mount;
  }

  /** The folder that a bind mount of this path will show. Throws "unavailable". */
  identity(path: string): Identity {
    const mount = this.covering(path);
    if (!mount) throw new CsiError("unavailable", "the mount table of this node has no root; is /proc mounted?");
    if (mount.at === path) return mount;
    return { device: mount.device, root: posix.join(mount.root, path.slice(mount.at === "/" ? 0 : mount.at.length)) };
  }

  /** The first mount point on the path from `mount` to `path`. */
  #childOn(mount: Mount, path: string): Mount | undefined {
    const met = (this.#children.get(mount.id) ?? []).filter(child => child.id !== mount.id && isWithin(child.at, path));
    return met.reduce<Mount | undefined>(
      (best, child) => (best && best.at.length <= child.at.length ? best : child),
      undefined,
    );
  }
}

/**
 * Throws "failed-precondition" if what is mounted below this folder stays in this mount namespace, so that a pod would get an empty folder of
 * the node (mount_namespaces(7)).
 */
export function refuseUnseen(folder: string, table: MountTable): void {
  const mount = table.covering(folder);
  if (!mount || mount.isShared) return;
  const text = `pods would not see volumes mounted in ${folder}: its mount ${mount.at} in the container of csimux is not shared with the host; give the kubelet's folder there mountPropagation: Bidirectional`;
  throw new CsiError("failed-precondition", text);
}

const attempts = 20;

/** A table shorter than a page is read in one piece, so it is consistent (fs/seq_file.c). */
const onePiece = 4096;

/**
 * Reads the mounts of this process. The kernel returns the table in pieces, and a concurrent mount or unmount can hide
 * another entry, so it is read until two readings are equal. Throws "unavailable" when they never are or the file is
 * unreadable.
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
  throw new CsiError("unavailable", "the mount table of this node keeps changing; retrying");
}
