import type { Selector } from "./selector.ts";

/** A named set of connections from which a class may provision. */
export interface Group {
  readonly from:
    | { readonly kind: "members"; readonly members: readonly string[] }
    | { readonly kind: "selector"; readonly selector: Selector };
  /**
   * ordered: the first member that fits; spread: evenly, by hash of the volume's name; most-free: the member with most
   * free space.
   */
  readonly policy: "ordered" | "spread" | "most-free";
}
