import { digest, idWithin, plain } from "./names.ts";

/** The longest name of a shared folder. */
const longestShare = 32;

/** The state of a folder: being created, finished, being removed. */
export type FolderState = "new" | "ok" | "del";

/** The content of a folder's description, of which DSM keeps 64 characters. */
export interface FolderMark {
  readonly state: FolderState;
  readonly owner: string;
  /** A digest of its source. */
  readonly source: string | undefined;
}

const markShape = /^csimux (new|ok|del) ([0-9a-f]{10})(?: ([0-9a-f]{12}))?$/;

/** Names and descriptions of the shared folders of one connection. */
export class FolderNames {
  readonly #prefix: string;
  readonly #owners: readonly string[];
  readonly #room: number;

  /** `prefix`: lower case, at most 8 characters. `owners` as in LunNames. */
  constructor(prefix: string, owners: readonly string[], maxIdBytes: number) {
    this.#prefix = prefix;
    this.#owners = owners.map(owner => digest(owner, 10));
    this.#room = Math.min(maxIdBytes, longestShare - prefix.length);
  }

  /** The id of a volume of this name. */
  idOf(name: string): string {
    return idWithin(name, this.#room);
  }

  isId(text: string): boolean {
    return plain.test(text) && text.length <= this.#room;
  }

  /** The name of the folder. */
  share(id: string): string {
    return `${this.#prefix}${id}`;
  }

  /** The volume id in the name of a folder; undefined for any other name. */
  idIn(share: string): string | undefined {
    const id = share.startsWith(this.#prefix) ? share.slice(this.#prefix.length) : "";
    return this.isId(id) ? id : undefined;
  }

  /** The description of a folder of this connection. */
  mark(state: FolderState, source: string | undefined): string {
    return `csimux ${state} ${this.#owners[0]}${source === undefined ? "" : ` ${source}`}`;
  }

  /** Parses a description; undefined unless this connection wrote it. */
  parse(description: string): FolderMark | undefined {
    const [, state, owner, source] = markShape.exec(description) ?? [];
    if (owner === undefined || !this.#owners.includes(owner)) return undefined;
    return { state: state as FolderState, owner, source };
  }
}
