import type { Secrets } from "../../core/call.ts";
import type { Context } from "../requests.ts";

const prefix = "democratic-csi.org/";

/**
 * The secrets for a volume under their bare keys. As in democratic-csi, a key may apply to one instance, one driver or
 * all: `democratic-csi.org/<instance or driver>/<key>`, `democratic-csi.org/<key>`. The narrower scope wins, in any
 * order.
 */
export function ownSecrets(secrets: Secrets, context: Context): Secrets {
  const names = [context["provisioner_driver_instance_id"], context["provisioner_driver"]];
  const scopes = [...names.flatMap(name => (name ? [`${prefix}${name}/`] : [])), prefix];
  const found = new Map<string, string>();
  for (const scope of scopes) {
    for (const [key, value] of Object.entries(secrets)) {
      const bare = key.startsWith(scope) ? key.slice(scope.length) : "";
      if (bare && !bare.includes("/") && !found.has(bare)) found.set(bare, value);
    }
  }
  const plain = Object.entries(secrets).filter(([key]) => !key.startsWith(prefix) && !found.has(key));
  return Object.fromEntries([...plain, ...found]);
}
