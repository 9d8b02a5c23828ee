import type { Access } from "../../core/access.ts";
import type { Protocol } from "../../core/protocols.ts";
import type { Context } from "../driver.ts";
import type { Share } from "../store.ts";
import type { Kind } from "./kinds.ts";
import type { DirectorySettings } from "./settings.ts";
import type { Folder } from "./store.ts";

/** The base folder is shared already, so a folder in it is reachable as soon as it is there. */
export class BaseShare implements Share<Folder> {
  readonly protocol: Protocol;
  readonly access: Access;
  readonly growsOnNode = false;
  readonly #kind: Kind;
  readonly #settings: DirectorySettings;

  constructor(kind: Kind, settings: DirectorySettings) {
    this.protocol = kind.protocol;
    this.access = kind.access;
    this.#kind = kind;
    this.#settings = settings;
  }

  context({ id }: Folder): Context {
    const { shareHost, shareBasePath } = this.#settings;
    return this.#kind.context(shareHost ?? "", `${shareBasePath.replace(/\/+$/, "")}/v/${id}`);
  }
}
