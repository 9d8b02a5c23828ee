import { type Access, type Protocol, protocols } from "../core/access.ts";

/** Keys that lead to a value in a connection file. */
type KeyPath = readonly string[];

/**
 * Trees that a connection regards as its own: it lists, adopts and deletes what lies in them. Two connections whose territories
 * overlap take each other's volumes for theirs.
 */
export interface StorageRoots {
  /** Equal text means that equal hosts are the same system. */
  readonly system: string;
  /** Where the host's name or address stands; the first that is there counts. Without one it is each node's own. */
  readonly hosts: readonly KeyPath[];
  /** Where the roots of the trees stand; parts of a root are separated by "/". */
  readonly trees: readonly KeyPath[];
  /** Names below a root that hold the volumes and what is being made of them; what stands beside them is left alone. */
  readonly inside?: readonly string[];
  /**
   * Volumes carry their driver and `instance_id`, so that two connections with one tree tell them apart where these differ. "all": every
   * volume does. "some": one without an `instance_id` is of both, so that both connections need one.
   */
  readonly marked?: "all" | "some";
}

/** What is known of the drivers of a module without opening one. */
export interface DriverFacts {
  /** Undefined if volumes name their own protocol. */
  readonly protocol: Protocol | undefined;
  readonly access: Access;
  /** Who may serve whose volumes: drivers with equal text understand each other's. */
  readonly family: string;
  /** Volumes exist only on the node that created them; topology type "node" pins them there. */
  readonly local: boolean;
  /** A controller creates volumes; otherwise people or pods describe them and only nodes are involved. */
  readonly provisions: boolean;
  readonly expands: boolean;
  /** A snapshot's id holds that of its volume, so that both have to fit into one handle. */
  readonly snapshotsNameVolume: boolean;
  /** Parameters of classes that this driver reads, beside those of templates. */
  readonly parameters: { readonly volume: readonly string[]; readonly snapshot: readonly string[] };
  readonly territory: StorageRoots | undefined;
}

/** The facts of a driver that provisions volumes for one protocol, with what is different about it. */
export const factsOf = (protocol: Protocol, family: string, more: Partial<DriverFacts> = {}): DriverFacts => ({
  protocol,
  access: protocols[protocol],
  family,
  local: false,
  provisions: true,
  expands: true,
  snapshotsNameVolume: false,
  parameters: { volume: [], snapshot: [] },
  territory: undefined,
  ...more,
});
