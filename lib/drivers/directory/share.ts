import type { Access, Protocol } from "../../core/access.ts";
import type { Context } from "../driver.ts";
import type { ShareProtocol } from "../store.ts";
import type { DirectoryDriver } from "./kinds.ts";
import type { DirectorySettings } from "./settings.ts";
import type { VolumeFolder } from "./store.ts";

/** The base folder is shared already, so a folder in it is reachable as soon as it is there. */
export class BaseShare implements ShareProtocol<VolumeFolder> {
  readonly protocol: Protocol;
  readonly access: Access;
  readonly growsOnNode = false;
  readonly #kind: DirectoryDriver;
  readonly #settings: DirectorySettings;

  constructor(kind: DirectoryDriver, settings: DirectorySettings) {
    this.protocol = kind.protocol;
    this.access = kind.access;
    this.#kind = kind;
    this.#settings = settings;
  }

  context({ id }: VolumeFolder): Context {
    const { shareHost, shareBasePath } = this.#settings;
    return this.#kind.context(shareHost ?? "", `${shareBasePath.replace(/\/+$/, "")}/v/${id}`);
  }
}
