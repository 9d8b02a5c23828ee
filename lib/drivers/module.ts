import type { GenericSchema, InferOutput } from "valibot";
import type { Lease } from "../io/lease.ts";
import type { StorageHost } from "../io/script.ts";
import type { SharePoint, ShareSettings } from "../io/share-point.ts";
import type { SshSettings } from "../io/ssh/settings.ts";
import type { Driver } from "./driver.ts";
import type { DriverFacts } from "./facts.ts";

/** The access of a driver to machines and shares. Tests pass fakes below this. */
export interface DriverPorts {
  /** The machine that csimux runs on. */
  readonly local: StorageHost;
  /** A machine over ssh, shared with other connections to it; connects at its first use. */
  ssh(settings: SshSettings): Lease<StorageHost>;
  /** A share that csimux mounts itself, shared with other connections to it. Absent if nothing can be mounted. */
  readonly share?: (settings: ShareSettings) => Lease<SharePoint>;
}

/** The connection of a driver, as far as the driver knows it. */
export interface ConnectionIdentity {
  readonly connection: string;
  /** The value of `driver:` in the connection file; goes into `provisioner_driver`. */
  readonly driver: string;
  /** `instance_id` of the connection file. */
  readonly instanceId: string | undefined;
  /** `node.mount.mount_flags` of the connection file, for what csimux mounts itself. */
  readonly mountFlags?: readonly string[];
  /** `copies.sshConnection` of the connection file: how zfs is called for streams on a system that is otherwise managed over its API. */
  readonly copySsh?: SshSettings | undefined;
  /** The longest volume or snapshot id in bytes that still fits a CSI handle of this connection. */
  readonly maxIdBytes: number;
}

/** A driver: the values of `driver:` that name it, its facts, its schema, and how it is opened. */
export interface DriverModule {
  readonly names: readonly string[];
  readonly facts: DriverFacts;
  /** The schema of the driver's own sections of a connection file. */
  readonly schema: GenericSchema;
  /** Opens a connection. Does no I/O. */
  readonly open: (identity: ConnectionIdentity, config: never, ports: DriverPorts) => Driver;
}

/** Typed inside one driver folder (schema and open agree), erased outside. */
export const driverModule = <S extends GenericSchema>(module: {
  readonly names: readonly string[];
  readonly facts: DriverFacts;
  readonly schema: S;
  readonly open: (identity: ConnectionIdentity, config: InferOutput<S>, ports: DriverPorts) => Driver;
}): DriverModule => module as DriverModule;
