import { CsiError } from "../../core/errors.ts";
import type { Context } from "../driver.ts";
import type { ConnectionIdentity } from "../module.ts";
import { parameter } from "../parameters.ts";

export { parameter };

/** A parameter that switches something on. Throws "invalid-argument" for what is neither "true" nor "false". */
export function switched(parameters: Context, identity: ConnectionIdentity, key: string): boolean {
  const value = parameter(parameters, identity, key);
  if (value === undefined || value === "" || value === "false") return false;
  if (value === "true") return true;
  throw new CsiError("invalid-argument", `the parameter ${key} must be "true" or "false", not "${value.slice(0, 40)}"`);
}

/** Native properties that a class may choose for its volumes; each changes how data is kept, none who may reach it or where it lies. */
export const choosable = [
  ...["aclinherit", "aclmode", "acltype", "atime", "casesensitivity", "checksum", "compression", "copies", "dedup"],
  ...[
    "devices",
    "dnodesize",
    "encryption",
    "exec",
    "logbias",
    "normalization",
    "prefetch",
    "primarycache",
    "recordsize",
    "relatime",
  ],
  ...["redundant_metadata", "secondarycache", "setuid", "snapdir", "special_small_blocks", "sync", "utf8only"],
  ...["volblocksize", "volmode", "xattr"],
];

const mark = "zfs.";

/**
 * The properties that a class chooses with parameters such as `zfs.compression: lz4`. Throws "invalid-argument" for one that
 * classes may not choose.
 */
export function chosen(parameters: Context): Readonly<Record<string, string>> {
  const pairs = Object.entries(parameters).filter(([key]) => key.startsWith(mark));
  return Object.fromEntries(
    pairs.map(([key, value]) => {
      const name = key.slice(mark.length);
      if (choosable.includes(name)) return [name, value];
      throw new CsiError("invalid-argument", `a class cannot choose the ZFS property "${name.slice(0, 80)}"`);
    }),
  );
}
