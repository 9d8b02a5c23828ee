import { readFileSync } from "node:fs";
import { parse } from "yaml";
import type { NodeIdentity } from "../../lib/topology/node-id.ts";

type Labels = Readonly<Record<string, string>>;

/** A result of the right kind, or the name of a gRPC status; CONFIG: refused when the configuration is loaded. */
export type Expected<T> = T | { readonly error: string };

export interface NodeVector {
  readonly id: string;
  readonly note?: string;
  readonly config: Readonly<Record<string, unknown>>;
  readonly env?: Labels;
  readonly hostname?: string;
  readonly files?: Labels;
  readonly expect: Expected<{ readonly segments: Labels }>;
}

export interface ConnectionVector {
  readonly id: string;
  readonly note?: string;
  readonly topology: unknown;
  readonly options?: {
    readonly topologyMatch?: "strict" | "lenient";
    readonly reportTopology?: "all" | "requisite";
    readonly honourPreferred?: "off" | "first";
  };
  readonly requisite?: readonly Labels[] | null;
  readonly preferred?: readonly Labels[] | null;
  readonly expect: Expected<{ readonly accept: true; readonly accessible_topology: readonly Labels[] | null }>;
}

export interface Prefixed {
  readonly shortName: string;
  readonly prefix: string;
}

export interface SidecarVector {
  readonly id: string;
  readonly binding: "Immediate" | "WaitForFirstConsumer";
  readonly strict?: boolean;
  readonly immediate?: boolean;
  readonly selected?: string;
  readonly allowed?: string;
  readonly pvc?: string;
  readonly requisite?: readonly Labels[] | null;
  readonly preferred?: readonly Labels[] | null;
  readonly error?: string;
}

interface Handle {
  readonly id: string;
  readonly kind: "volume" | "snapshot";
}

/** A call with an id that csimux could not have made. */
export interface ForeignVector {
  readonly id: string;
  readonly rpc: string;
  readonly parameters?: Labels;
  readonly volume_id?: string;
  readonly snapshot_id?: string;
  readonly source_volume_id?: string;
  readonly source_snapshot_id?: string;
  readonly starting_token?: string;
  readonly expect: string;
}

/** The published cases that this project must satisfy. */
export interface Vectors {
  readonly node_topology: readonly NodeVector[];
  readonly connection_topology: readonly ConnectionVector[];
  readonly local_driver_topology: readonly {
    readonly id: string;
    readonly prefix: string;
    readonly expect: readonly Labels[];
  }[];
  readonly handles: {
    readonly decode: readonly (Handle & {
      readonly input: string;
      readonly options?: { readonly legacyConnection: string };
      readonly expect: { readonly connection: string; readonly handle: string } | { readonly malformed: true };
    })[];
    readonly encode: readonly (Handle & {
      readonly connection: string;
      readonly handle: string;
      readonly strictHandleLength?: boolean;
      readonly bytes?: number;
      readonly expect: string | { readonly error: string };
    })[];
    readonly foreign_ids: readonly ForeignVector[];
  };
  readonly connection_names: { readonly valid: readonly string[]; readonly invalid: readonly string[] };
  readonly node_ids: {
    readonly config: { readonly iqnPrefix: readonly Prefixed[]; readonly nqnPrefix: readonly Prefixed[] };
    readonly encode: readonly {
      readonly id: string;
      readonly parts: Readonly<Record<string, boolean>>;
      readonly node: NodeIdentity;
      readonly expect: string | { readonly error: string };
      readonly bytes?: number;
    }[];
    readonly decode: readonly {
      readonly id: string;
      readonly input: string;
      readonly expect: Expected<NodeIdentity>;
    }[];
  };
  readonly cache_timeouts: readonly {
    readonly id: string;
    readonly value: number | null;
    readonly expect: Expected<{ readonly mode: "idle" | "forever" | "none"; readonly minutes?: number }>;
  }[];
  readonly capacity_ranges: readonly {
    readonly id: string;
    readonly required: string | null;
    readonly limit: string | null;
    readonly expect: string;
  }[];
  readonly sidecar: {
    readonly nodes: Readonly<Record<string, Labels>>;
    readonly allowed_sets: Readonly<
      Record<string, readonly { readonly key: string; readonly values: readonly string[] }[]>
    >;
    readonly cases: readonly SidecarVector[];
    readonly connection_z1: Readonly<Record<string, string>>;
  };
}

/** Reads the published cases. */
export const vectors = (): Vectors =>
  parse(readFileSync(new URL("proxy-vectors.yaml", import.meta.url), "utf8")) as Vectors;

/** `resource-exhausted` as gRPC spells it. */
export const statusName = (code: string): string => code.toUpperCase().replaceAll("-", "_");
