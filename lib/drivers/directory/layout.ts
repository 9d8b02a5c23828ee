import { randomBytes } from "node:crypto";
import { CsiError } from "../../core/errors.ts";

/** The two sorts of trees: volumes below `v`, snapshots below `s`, as democratic-csi lays them out. */
export type Sort = "v" | "s";

/** Where things stand below the base folder. Nobody else joins paths. */
export interface Layout {
  readonly base: string;
  /** The folder of all trees of one sort. */
  root(sort: Sort): string;
  /** The finished tree. Its existence is the one sign that it is complete. */
  tree(sort: Sort, name: string): string;
  /** The file that tells of a tree; no list is ever made of these, so one folder holds them all. */
  record(sort: Sort, key: string): string;
  /** Trees that are being built or being removed. */
  readonly work: string;
  /** A new place to build or remove a tree. */
  workTree(sort: Sort, name: string): string;
  /** What the names of all work trees of one tree begin with. */
  workPrefix(sort: Sort, name: string): string;
  /** csimux's own folder. */
  readonly own: string;
}

/** "~" occurs in no tree name, so one tree's work is never taken for another's. */
const workPrefix = (sort: Sort, name: string) => `${sort}~${name}~`;

/** The layout below an absolute folder. Throws "failed-precondition" when the path is not absolute. */
export function layoutOf(base: string): Layout {
  const clean = base.replace(/\/+$/, "");
  if (!clean.startsWith("/")) {
    throw new CsiError("failed-precondition", `controllerBasePath "${base}" must be an absolute path below "/"`);
  }
  const own = `${clean}/.csimux`;
  return {
    base: clean,
    own,
    work: `${own}/work`,
    root: sort => `${clean}/${sort}`,
    tree: (sort, name) => `${clean}/${sort}/${name}`,
    record: (sort, key) => `${own}/${sort}.${key}.json`,
    workTree: (sort, name) => `${own}/work/${workPrefix(sort, name)}${randomBytes(6).toString("hex")}`,
    workPrefix,
  };
}

const volumeShape = /^[A-Za-z0-9][A-Za-z0-9_-]{0,127}$/;

/** Whether a text can be a volume id here: one plain folder name, never a path, an option or a hidden file. */
export const isVolumeId = (id: string): boolean => volumeShape.test(id);
