/** The source of a rule's input. */
export type RuleSource =
  | { readonly kind: "nodeName" | "hostname" }
  | { readonly kind: "env" | "file" | "nodeLabel"; readonly name: string };

/** One rule that derives a topology value of a node. */
export interface RuleConfig {
  /** Without prefix. */
  readonly key: string;
  readonly source: RuleSource;
  /** A regular expression of JavaScript; must match the whole input. */
  readonly pattern: string;
  /** `{match:N}` and `${match:N}` stand for groups of the pattern. */
  readonly template: string;
  /** The value if no rule for the key matches, so that all nodes report the same keys. */
  readonly fallback: string | undefined;
}

/** What nodes report as their topology. */
export type TopologyConfig =
  | { readonly kind: "cluster" | "node"; readonly prefix: string }
  | { readonly kind: "rules"; readonly prefix: string; readonly rules: readonly RuleConfig[] };

/** Prefixes of a name, each with the short name that replaces it in node ids. */
export type Prefixes = readonly { readonly shortName: string; readonly prefix: string }[];

/** The settings for node ids. */
export interface NodeIdConfig {
  readonly parts: Readonly<Record<"nodeName" | "hostname" | "iqn" | "nqn", boolean>>;
  readonly iqnPrefixes: Prefixes;
  readonly nqnPrefixes: Prefixes;
  /** Use the host name if the node's name in the cluster is unknown. */
  readonly allowHostnameFallback: boolean;
}
