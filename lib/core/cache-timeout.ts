/**
 * How long an idle connection stays open (`proxy.cacheTimeoutMinutes`: minutes after the last call; 0: none; -1: for
 * ever).
 */
export type CacheTimeout =
  | { readonly kind: "idle"; readonly ms: number }
  | { readonly kind: "forever" }
  | { readonly kind: "none" };
