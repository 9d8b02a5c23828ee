import { type Code, CsiError } from "../../core/errors.ts";
import type { ErrorMapping, FailureContext } from "../failure.ts";
import type { ConnectionIdentity } from "../module.ts";
import { zfsErrorMapping } from "./error-mapping.ts";
import type { DatasetNames } from "./names.ts";
import type { StoreSettings } from "./settings.ts";
import type { Zfs } from "./zfs.ts";

/** The storage of one connection, and how its failures are told. */
export class ConnectionContext implements FailureContext {
  readonly connection: string;
  readonly identity: ConnectionIdentity;
  readonly settings: StoreSettings;
  readonly names: DatasetNames;
  readonly zfs: Zfs;

  constructor(identity: ConnectionIdentity, settings: StoreSettings, names: DatasetNames, zfs: Zfs) {
    this.connection = identity.connection;
    this.identity = identity;
    this.settings = settings;
    this.names = names;
    this.zfs = zfs;
  }

  explain(error: unknown): ErrorMapping | undefined {
    return zfsErrorMapping(error);
  }

  /** An error that names the connection. */
  error(code: Code, text: string): CsiError {
    return new CsiError(code, `connection "${this.connection}": ${text}`);
  }
}
