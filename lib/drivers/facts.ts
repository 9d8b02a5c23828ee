import { type Access, type Protocol, protocols } from "../core/access.ts";

/** Keys that lead to a value in a connection file. */
type KeyPath = readonly string[];

/** The trees in which a connection lists, adopts and deletes volumes; no other connection may have an overlapping one. */
export interface StorageRoots {
  /**
   * Equal hosts are the same system if this text is equal, too. Drivers with trees that can overlap use one text: "zfs" for datasets,
   * "folders" for folders of nodes. Any other driver uses its own name.
   */
  readonly system: string;
  /** The keys of the host's name or address; the first that is present counts. Without one, each node has its own trees. */
  readonly hosts: readonly KeyPath[];
  /** The keys of the roots of the trees, absolute paths of folders or names of datasets; parts of a root are separated by "/". */
  readonly trees: readonly KeyPath[];
  /** Names below a root with finished and unfinished volumes; nothing else below the root is touched. */
  readonly inside?: readonly string[];
  /**
   * Volumes record their driver and `instance_id`, so that two connections with one tree distinguish them if these differ. "all": every
   * volume does. "some": one without an `instance_id` belongs to both, so both connections need one.
   */
  readonly marked?: "all" | "some";
}

/** The properties of a module's drivers, known without opening one. */
export interface DriverFacts {
  /** Undefined if volumes name their own protocol. */
  readonly protocol: Protocol | undefined;
  readonly access: Access;
  /** Drivers of equal families can serve each other's volumes. */
  readonly family: string;
  /** Volumes exist only on the node that created them; topology type "node" pins them there. */
  readonly local: boolean;
  /** A controller creates volumes; otherwise people or pods describe them and only nodes are involved. */
  readonly provisions: boolean;
  readonly expands: boolean;
  /** Parameters of classes that this driver reads, besides those of templates. */
  readonly parameters: { readonly volume: readonly string[]; readonly snapshot: readonly string[] };
  readonly territory: StorageRoots | undefined;
  /**
   * A controller without rights on its machine is enough: "always", or "over-ssh", if the connection has an `sshConnection`. Absent: csimux
   * mounts there, or works on the machine's own storage.
   */
  readonly unprivileged?: "always" | "over-ssh";
  /**
   * "keeps": a class can have its volumes given up instead of deleted; "adopts": their claim can have them again, too, because the storage tells who
   * uses one. Absent: neither.
   */
  readonly claims?: "keeps" | "adopts";
  /** Copies between connections use `copies.sshConnection`; every other driver has a login of its own, or needs none. */
  readonly copySsh?: true;
}

/** The facts of a driver that provisions volumes for one protocol; `more` overrides the defaults. */
export const factsOf = (protocol: Protocol, family: string, more: Partial<DriverFacts> = {}): DriverFacts => ({
  protocol,
  access: protocols[protocol],
  family,
  local: false,
  provisions: true,
  expands: true,
  parameters: { volume: [], snapshot: [] },
  territory: undefined,
  ...more,
});
