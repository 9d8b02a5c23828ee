import { CsiError } from "../../core/errors.ts";
import type { Context } from "../driver.ts";
import type { StoreSettings } from "./settings.ts";

const size = /^(?:512|(?:1|2|4|8|16|32|64|128|256|512)K|1M)$/i;
const cache = /^(?:all|none|metadata)$/;
const onOff = /^(?:on|off)$/;

/** Properties that may change while a volume is in use, what each may be, and of which kind of volume (zfsprops(7)). */
const changeable: Readonly<Record<string, { readonly values: RegExp; readonly only?: "filesystem" }>> = {
  compression: {
    values: /^(?:on|off|lz4|lzjb|zle|gzip(?:-[1-9])?|zstd(?:-(?:[1-9]|1[0-9]))?|zstd-fast(?:-[0-9]{1,4})?)$/,
  },
  sync: { values: /^(?:standard|always|disabled)$/ },
  logbias: { values: /^(?:latency|throughput)$/ },
  primarycache: { values: cache },
  secondarycache: { values: cache },
  copies: { values: /^[123]$/ },
  atime: { values: onOff, only: "filesystem" },
  relatime: { values: onOff, only: "filesystem" },
  recordsize: { values: size, only: "filesystem" },
};

/**
 * The ZFS properties that mutable parameters ask for (CSI ControllerModifyVolume, VolumeAttributesClass), `compression` or
 * `zfs.compression` alike. Throws "invalid-argument" for one that may not be changed, or not to this.
 */
export function changes(
  parameters: Context,
  { volumes: { type }, fixed }: Pick<StoreSettings, "volumes" | "fixed">,
): Readonly<Record<string, string>> {
  const offered = Object.keys(changeable).filter(name => !fixed.has(name));
  return Object.fromEntries(
    Object.entries(parameters).map(([key, value]) => {
      const name = key.replace(/^zfs\./, "");
      const known = changeable[name];
      if (!known || fixed.has(name) || (known.only !== undefined && known.only !== type))
        throw new CsiError(
          "invalid-argument",
          `"${key.slice(0, 80)}" cannot be changed; what can: ${offered.join(", ")}`,
        );
      if (known.values.test(value)) return [name, value];
      throw new CsiError("invalid-argument", `${key} cannot be "${value.slice(0, 80)}" (zfsprops(7))`);
    }),
  );
}
