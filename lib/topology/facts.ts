import { CsiError } from "../core/errors.ts";

/** Facts about a node. Undefined: it does not have this one. */
export interface NodeFacts {
  /** Name of the node in the cluster. */
  readonly nodeName: string | undefined;
  /** Of the operating system. */
  readonly hostname: string | undefined;
  env(name: string): string | undefined;
  /** The content of a file; rejects with a CsiError if it exists and cannot be used. */
  file(path: string): Promise<string | undefined>;
  /** A label of the Node object; rejects with a CsiError if the cluster does not answer. */
  label(name: string): Promise<string | undefined>;
}

/** The node's name. Throws "failed-precondition" if it is unknown. */
export function nodeNameOf({ nodeName }: Pick<NodeFacts, "nodeName">): string {
  if (nodeName) return nodeName;
  const text =
    'the name of this node is unknown: set CSI_NODE_ID, in Kubernetes from the field spec.nodeName, in Nomad to "${node.unique.name}"';
  throw new CsiError("failed-precondition", text);
}
