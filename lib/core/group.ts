import type { Selector } from "./selector.ts";

/** Several connections behind one name that a class may use. */
export interface Group {
  readonly from:
    | { readonly kind: "members"; readonly members: readonly string[] }
    | { readonly kind: "selector"; readonly selector: Selector };
  /** ordered: the first that fits; spread: by the volume's name, evenly; most-free: the emptiest. */
  readonly policy: "ordered" | "spread" | "most-free";
}
