import { randomBytes } from "node:crypto";
import { CsiError } from "../../core/errors.ts";

/** The two sorts of trees: volumes below `v`, snapshots below `s`, as democratic-csi lays them out. */
export type TreeKind = "v" | "s";

/** Where things stand below the base folder. Nobody else joins paths. */
export class Layout {
  readonly base: string;

  /** Throws "failed-precondition" when the path is not absolute. */
  constructor(base: string) {
    this.base = base.replace(/\/+$/, "");
    if (this.base.startsWith("/")) return;
    throw new CsiError("failed-precondition", `controllerBasePath "${base}" must be an absolute path below "/"`);
  }

  /** The folder of all trees of one sort. */
  root(sort: TreeKind): string {
    return `${this.base}/${sort}`;
  }

  /** The finished tree. Its existence is the one sign that it is complete. */
  tree(sort: TreeKind, name: string): string {
    return `${this.base}/${sort}/${name}`;
  }

  /** csimux's own folder. */
  get own(): string {
    return `${this.base}/.csimux`;
  }

  /** The file that tells of a tree; no list is ever made of these, so one folder holds them all. */
  record(sort: TreeKind, key: string): string {
    return `${this.own}/${sort}.${key}.json`;
  }

  /** Trees that are being built or being removed. */
  get work(): string {
    return `${this.own}/work`;
  }

  /** What the names of all work trees of one tree begin with; "~" occurs in no tree name, so none is taken for another's. */
  workPrefix(sort: TreeKind, name: string): string {
    return `${sort}~${name}~`;
  }

  /** A new place to build or remove a tree. */
  workTree(sort: TreeKind, name: string): string {
    return `${this.work}/${this.workPrefix(sort, name)}${randomBytes(6).toString("hex")}`;
  }
}

const volumeShape = /^[A-Za-z0-9][A-Za-z0-9_-]{0,127}$/;

/** Whether a text can be a volume id here: one plain folder name, never a path, an option or a hidden file. */
export const isVolumeId = (id: string): boolean => volumeShape.test(id);
