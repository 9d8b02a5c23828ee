import { createHash, randomBytes } from "node:crypto";
import { CsiError } from "../../core/errors.ts";
import { isPlainName } from "../../core/name.ts";

/** The two kinds of trees: volumes below `v`, snapshots below `s`, as in democratic-csi. */
export type TreeKind = "v" | "s";

/** The paths below the base folder; no other file joins paths. */
export class Layout {
  readonly base: string;

  /** Throws "failed-precondition" if the path is not absolute. */
  constructor(base: string) {
    this.base = base.replace(/\/+$/, "");
    if (this.base.startsWith("/")) return;
    throw new CsiError("failed-precondition", `controllerBasePath "${base}" must be an absolute path below "/"`);
  }

  /** The folder of all trees of one kind. */
  root(kind: TreeKind): string {
    return `${this.base}/${kind}`;
  }

  /** The finished tree: if it exists, it is complete. */
  tree(kind: TreeKind, name: string): string {
    return `${this.base}/${kind}/${name}`;
  }

  /** csimux's own folder. */
  get own(): string {
    return `${this.base}/.csimux`;
  }

  /** The file with the record of a tree. */
  record(kind: TreeKind, key: string): string {
    return `${this.own}/${kind}.${key}.json`;
  }

  /** Trees that are being built or being removed. */
  get work(): string {
    return `${this.own}/work`;
  }

  /** The records of copies from other connections, by volume id. */
  get copies(): string {
    return `${this.own}/copies`;
  }

  /** What is protected for copies to other connections, by the key of the copy. */
  get copiedSources(): string {
    return `${this.own}/moments`;
  }

  /** The name in the work folder of a volume's target: always the same, so that a repeat continues. */
  copyTarget(id: string): string {
    return `c~${id}`;
  }

  /** The prefix of the names of a target in the work folder while one call makes it the volume; none is ever swept. */
  finishingPrefix(id: string): string {
    return `f~${id}~`;
  }

  /** A new path for making a target the volume, which only the call that does it knows. */
  finishing(id: string): string {
    return `${this.work}/${this.finishingPrefix(id)}${randomBytes(6).toString("hex")}`;
  }

  /** A new path for removing a target. */
  copyTargetAside(id: string): string {
    return `${this.work}/${this.copyTarget(id)}~${randomBytes(6).toString("hex")}`;
  }

  /** The prefix of the names of all work trees of one tree; unique because no tree name contains "~". */
  workPrefix(kind: TreeKind, name: string): string {
    return `${kind}~${name}~`;
  }

  /** The prefix of the names of trees of one name that were moved out of their place, perhaps instead of another one; none is ever swept. */
  takenPrefix(kind: TreeKind, name: string): string {
    return `t~${this.workPrefix(kind, name)}`;
  }

  /** A new path for a tree that is moved out of its place before it is known whether it is the one to remove, with this identity. */
  taken(kind: TreeKind, name: string, mark: string): string {
    return `${this.work}/${this.takenPrefix(kind, name)}${tagOf(mark)}~${randomBytes(6).toString("hex")}`;
  }

  /** Whether `path` is the one that `taken` gives a tree with this identity. */
  isTaken(path: string, kind: TreeKind, name: string, mark: string): boolean {
    return path.startsWith(`${this.work}/${this.takenPrefix(kind, name)}${tagOf(mark)}~`);
  }

  /** Like `taken`, for a tree that cannot move to the work folder: always the same, so that it is found without a listing of all trees. */
  takenBeside(kind: TreeKind, name: string): string {
    return `${this.root(kind)}/${this.takenPrefix(kind, name)}`;
  }

  /** A new path for building or removing a tree. */
  workTree(kind: TreeKind, name: string): string {
    return `${this.work}/${this.workPrefix(kind, name)}${randomBytes(6).toString("hex")}`;
  }

  /** The path for removing a tree that cannot move to the work folder. No listing shows it, because no tree name contains "~". */
  beside(kind: TreeKind, name: string): string {
    return `${this.root(kind)}/${this.workPrefix(kind, name)}`;
  }
}

/** Tells a tree by its identity in names of files. Without the number of its device, which is another one after a new mount. */
const tagOf = (mark: string): string =>
  createHash("sha256")
    .update(mark.slice(mark.indexOf(":") + 1))
    .digest("hex")
    .slice(0, 16);

/** Whether a text is a valid volume id: a plain folder name, never a path, an option or a hidden file. */
export const isVolumeId = (id: string): boolean => isPlainName(id);
