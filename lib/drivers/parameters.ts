import { keyPrefix } from "../core/name.ts";
import type { Context } from "./driver.ts";
import type { ConnectionIdentity } from "./module.ts";

/** Prefixes of a parameter, in order of precedence: this instance, this driver, every driver, no prefix. */
const forms = ({ instanceId, driver }: ConnectionIdentity, key: string): readonly string[] => [
  ...(instanceId === undefined ? [] : [`${keyPrefix}${instanceId}/${key}`]),
  `${keyPrefix}${driver}/${key}`,
  `${keyPrefix}${key}`,
  key,
];

/** The value of a parameter in any of its spellings; undefined when it is not given. */
export function parameter(parameters: Context, identity: ConnectionIdentity, key: string): string | undefined {
  const form = forms(identity, key).find(each => parameters[each] !== undefined);
  return form === undefined ? undefined : parameters[form];
}
