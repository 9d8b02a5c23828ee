import type { Access } from "../core/access.ts";
import type { Driver } from "../drivers/driver.ts";
import type { AccessibleTopology } from "../topology/accessible-topology.ts";

/** One connection file, opened. */
export interface Connection {
  readonly name: string;
  /** The value of `driver:`. */
  readonly driverName: string;
  /** Drivers of one family understand each other's volumes; a file may not change family while its volumes exist. */
  readonly family: string;
  readonly driver: Driver;
  /** What its volumes can be used for: the driver's access, less what the file takes away. */
  readonly access: Access;
  /** The places it is reachable from; empty means everywhere. */
  readonly accessibleTopology: readonly AccessibleTopology[];
  readonly labels: Readonly<Record<string, string>>;
  /** No new volumes; everything else goes on. */
  readonly suspended: boolean;
  /** DeleteVolume leaves the volume where it is and succeeds (`deleteStrategy: retain`). */
  readonly retain: boolean;
}
