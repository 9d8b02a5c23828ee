import { CsiError } from "../core/errors.ts";

/** What is known about a node. Undefined means: not there. */
export interface NodeFacts {
  /** Name of the node in the cluster. */
  readonly nodeName: string | undefined;
  /** Of the operating system. */
  readonly hostname: string | undefined;
  env(name: string): string | undefined;
  /** Content of a file; rejects with a CsiError when it is there and cannot be used. */
  file(path: string): Promise<string | undefined>;
  /** A label of the node object; rejects with a CsiError when the cluster does not answer. */
  label(name: string): Promise<string | undefined>;
}

/** The node's name. Throws "failed-precondition" where it is not set. */
export function nodeNameOf({ nodeName }: Pick<NodeFacts, "nodeName">): string {
  if (nodeName) return nodeName;
  throw new CsiError(
    "failed-precondition",
    "the name of this node is not known: set CSI_NODE_ID, in Kubernetes from the field spec.nodeName",
  );
}
