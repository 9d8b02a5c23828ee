import { type Code, CsiError } from "../../core/errors.ts";
import type { Meaning, Subject } from "../failure.ts";
import type { Identity } from "../module.ts";
import { zfsMeaning } from "./meanings.ts";
import type { Names } from "./names.ts";
import type { StoreSettings } from "./settings.ts";
import type { Zfs } from "./zfs.ts";

/** The storage of one connection, and how its failures are told. */
export class Space implements Subject {
  readonly connection: string;
  readonly identity: Identity;
  readonly settings: StoreSettings;
  readonly names: Names;
  readonly zfs: Zfs;

  constructor(identity: Identity, settings: StoreSettings, names: Names, zfs: Zfs) {
    this.connection = identity.connection;
    this.identity = identity;
    this.settings = settings;
    this.names = names;
    this.zfs = zfs;
  }

  explain(error: unknown): Meaning | undefined {
    return zfsMeaning(error);
  }

  /** An error that names the connection. */
  error(code: Code, text: string): CsiError {
    return new CsiError(code, `connection "${this.connection}": ${text}`);
  }
}
